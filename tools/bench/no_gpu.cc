// Stands in for gpu_bench.cc and gpu_prefill.cc in builds without CUDA.
#include "bench/gpu_bench.h"
#include "bench/gpu_prefill.h"
#include "common/errors.h"

namespace mpfa::tools {
namespace {

[[noreturn]] void refuse() {
  throw IoError(
      "--backend cuda: this build has the CPU back end only, as nvcc was not found when it was "
      "configured");
}

}  // namespace

std::string gpu_name() { refuse(); }

struct GpuBench::Impl {};

GpuBench::GpuBench(const GpuBenchOptions& /*options*/) { refuse(); }
GpuBench::~GpuBench() = default;
const GpuReference& GpuBench::reference() const { refuse(); }
GpuDecodeTimes GpuBench::decode(const DecodeCase& /*decode*/) { refuse(); }

GpuPrefillTimes time_prefill(const PrefillCase& /*prefill*/, const GpuPrefillOptions& /*options*/) {
  refuse();
}

}  // namespace mpfa::tools
