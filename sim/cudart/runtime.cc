#include "sim/cudart/runtime.h"

#include <exception>
#include <optional>

#include "sim/cudart/api.h"
#include "sim/simrun/settings.h"

namespace mpfa::sim::cudart {
namespace {

// The options, or the error that they give, which is said once.
const GpuOptions& options() {
  static std::string problem;
  static const GpuOptions parsed = [] {
    try {
      return options_from_environment();
    } catch (const std::exception& error) {
      problem = error.what();
      say(problem);
      return GpuOptions{};
    }
  }();
  require(problem.empty(), cudaErrorInitializationError, problem);
  return parsed;
}

}  // namespace

// Neither is ever destroyed: programs free memory in destructors that run at exit.
Gpu& gpu() {
  static Gpu& device = *new Gpu(options());
  return device;
}

const DeviceModel& model() {
  static const DeviceModel& made = *new DeviceModel(device_model(options().arch));
  return made;
}

}  // namespace mpfa::sim::cudart
