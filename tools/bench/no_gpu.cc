// Stands in for gpu_bench.cc in builds without CUDA.
#include "bench/gpu_bench.h"
#include "common/errors.h"

namespace mpfa::tools {
namespace {

[[noreturn]] void refuse() {
  throw IoError(
      "--backend cuda: this build has the CPU back end only, as nvcc was not found when it was "
      "configured");
}

}  // namespace

struct GpuBench::Impl {};

GpuBench::GpuBench(const GpuBenchOptions& /*options*/) { refuse(); }
GpuBench::~GpuBench() = default;
const GpuReference& GpuBench::reference() const { refuse(); }
GpuDecodeTimes GpuBench::decode(const DecodeCase& /*decode*/) { refuse(); }

}  // namespace mpfa::tools
