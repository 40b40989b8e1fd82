// Floating-point operations a second (2 m n k a product) of simulated tensor core instructions, on
// one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {
namespace {

struct Shape {
  int m;
  int n;
  int k;
};

// Bytes of any value that are finite in every format.
std::vector<uint8_t> random_bytes(size_t count) {
  std::mt19937 rng(1);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(0x30 + rng() % 0x10);
  return bytes;
}

void multiply(benchmark::State& state, const DotAddModel& model, const Shape& shape) {
  const size_t element = container_bytes(model.a);
  const std::vector<uint8_t> a = random_bytes(element * shape.m * shape.k);
  const std::vector<uint8_t> b = random_bytes(element * shape.n * shape.k);
  const int blocks = model.scale_block != 0 ? shape.k / model.scale_block : 0;
  const std::vector<uint8_t> a_scales = random_bytes(static_cast<size_t>(shape.m) * blocks);
  const std::vector<uint8_t> b_scales = random_bytes(static_cast<size_t>(shape.n) * blocks);
  const std::vector<uint8_t> c = random_bytes(size_t{4} * shape.m * shape.n);
  std::vector<uint8_t> d(c.size());
  const MatrixMultiply op{.model = model, .m = shape.m, .n = shape.n, .k = shape.k};
  const MatrixOperands operands{.a = a.data(),
                                .a_stride = shape.k,
                                .b = b.data(),
                                .b_stride = shape.k,
                                .c = c.data(),
                                .c_stride = shape.n,
                                .d = d.data(),
                                .d_stride = shape.n,
                                .a_scales = a_scales.data(),
                                .a_scale_stride = blocks,
                                .b_scales = b_scales.data(),
                                .b_scale_stride = blocks};
  for (auto _ : state) {
    matrix_multiply(op, operands);
    benchmark::DoNotOptimize(d.data());
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * shape.m * shape.n * shape.k;
  state.counters["FLOP"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}

void wgmma(benchmark::State& state, ElementType type, const Shape& shape) {
  multiply(state,
           model_for(Architecture::kHopper, MmaKind::kWgmma, type, type, AccumulatorType::kF32),
           shape);
}

void tcgen05(benchmark::State& state, ElementType type, const Shape& shape) {
  multiply(
      state,
      model_for(Architecture::kBlackwell, MmaKind::kTcgen05, type, type, AccumulatorType::kF32),
      shape);
}

void mma_sync(benchmark::State& state, ElementType type, const Shape& shape) {
  multiply(state,
           model_for(Architecture::kHopper, MmaKind::kMmaSync, type, type, AccumulatorType::kF32),
           shape);
}

void nvfp4(benchmark::State& state, const Shape& shape) {
  multiply(state,
           block_scaled_model_for(Architecture::kBlackwell, MmaKind::kTcgen05,
                                  BlockScaledKind::kMxf4nvf4, ElementType::kE2m1,
                                  ElementType::kE2m1, ScaleType::kUe4m3, 16),
           shape);
}

BENCHMARK_CAPTURE(wgmma, bf16_m64n256k16, ElementType::kBf16, Shape{64, 256, 16});
BENCHMARK_CAPTURE(wgmma, bf16_m64n64k16, ElementType::kBf16, Shape{64, 64, 16});
BENCHMARK_CAPTURE(wgmma, tf32_m64n256k8, ElementType::kTf32, Shape{64, 256, 8});
BENCHMARK_CAPTURE(wgmma, e4m3_m64n256k32, ElementType::kE4m3, Shape{64, 256, 32});
BENCHMARK_CAPTURE(tcgen05, e4m3_m128n256k32, ElementType::kE4m3, Shape{128, 256, 32});
BENCHMARK_CAPTURE(nvfp4, m128n256k64, Shape{128, 256, 64});
BENCHMARK_CAPTURE(mma_sync, bf16_m16n8k16, ElementType::kBf16, Shape{16, 8, 16});
BENCHMARK_CAPTURE(mma_sync, e4m3_m16n8k32, ElementType::kE4m3, Shape{16, 8, 32});

}  // namespace
}  // namespace mpfa::sim

BENCHMARK_MAIN();
