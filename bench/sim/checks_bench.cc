// What the simulator's checks cost: warp instructions per second with and without them.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "sim/machine/gpu.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlocks = 8;
constexpr uint32_t kManyBlocks = 2048;

// A kernel of one loop of some turns around `body`, which may use %r1 to %r9 and the shared address
// of the thread's own word in %a.
std::string kernel_of(const std::string& body, int turns) {
  return R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry test() {
  .reg .b32 %r<12>; .reg .b32 %a, %i; .reg .f32 %f<8>; .reg .pred %p;
  .shared .align 16 .b8 tile[8192];
  mov.u32 %r0, %tid.x;
  shl.b32 %r1, %r0, 2;
  mov.u32 %a, tile;
  add.s32 %a, %a, %r1;
  mov.b32 %r2, 1; mov.b32 %r3, 2; mov.b32 %f1, 0f3F800000; mov.b32 %f2, 0f3F000000;
  st.shared.b32 [%a], %r2;
  st.shared.b32 [%a+1024], %r2;
  bar.sync 0;
  mov.u32 %i, )" +
         std::to_string(turns) + ";\nloop:\n" + body +
         R"(
  sub.s32 %i, %i, 1;
  setp.ne.s32 %p, %i, 0;
  @%p bra loop;
  ret;
}
)";
}

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// Integers and floats; one shared load and store in 64.
const std::string kArithmetic = repeat(R"(
  mad.lo.s32 %r4, %r2, %r3, %r4;
  fma.rn.f32 %f3, %f1, %f2, %f3;
  add.s32 %r5, %r5, %r4;
  xor.b32 %r6, %r6, %r5;
)",
                                       16) +
                                R"(
  st.shared.b32 [%a], %r6;
  ld.shared.b32 %r7, [%a];
)";

// A tile that the warps of a block exchange: every word is written by one and read by two.
const std::string kTiles = R"(
  st.shared.b32 [%a], %r6;
  st.shared.b32 [%a+1024], %r5;
  bar.sync 0;
  ld.shared.b32 %r7, [%a];
  xor.b32 %r8, %a, 128;
  ld.shared.b32 %r9, [%r8];
  ld.shared.b32 %r5, [%r8+1024];
  add.s32 %r6, %r6, %r9;
  bar.sync 0;
)";

// 16 bytes a thread, and words that all threads read.
const std::string kVectors = R"(
  shl.b32 %r8, %r0, 4;
  mov.u32 %r9, tile;
  add.s32 %r8, %r8, %r9;
  st.shared.v4.b32 [%r8], {%r6, %r5, %r6, %r5};
  bar.sync 0;
  xor.b32 %r9, %r8, 512;
  ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r9];
  ld.shared.b32 %r7, [tile+64];
  ld.shared.b32 %r7, [tile+68];
  bar.sync 0;
)";

void run(benchmark::State& state, const std::string& body, bool checked, uint32_t blocks = kBlocks,
         int turns = 200) {
  GpuOptions options;
  options.threads = 1;
  if (!checked) options.checks = Checks::none();
  Gpu gpu(options);
  const std::shared_ptr<Program> program = gpu.load(kernel_of(body, turns));
  Launch launch;
  launch.program = program.get();
  launch.kernel = program->find_kernel("test");
  launch.grid = {blocks, 1, 1};
  launch.block = {kThreads, 1, 1};
  launch.cluster = {1, 1, 1};
  for (auto unused : state) gpu.run(launch);
  state.SetItemsProcessed(static_cast<int64_t>(gpu.instructions()));
}

BENCHMARK_CAPTURE(run, arithmetic, kArithmetic, false);
BENCHMARK_CAPTURE(run, arithmetic_checked, kArithmetic, true);
BENCHMARK_CAPTURE(run, tiles, kTiles, false);
BENCHMARK_CAPTURE(run, tiles_checked, kTiles, true);
BENCHMARK_CAPTURE(run, vectors, kVectors, false);
BENCHMARK_CAPTURE(run, vectors_checked, kVectors, true);
// Blocks that end at once.
BENCHMARK_CAPTURE(run, short_blocks, kTiles, false, kManyBlocks, 1);
BENCHMARK_CAPTURE(run, short_blocks_checked, kTiles, true, kManyBlocks, 1);

}  // namespace
}  // namespace mpfa::sim

BENCHMARK_MAIN();
