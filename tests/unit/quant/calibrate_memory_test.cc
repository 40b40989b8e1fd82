// calibrate() computes everything before it writes anything: whichever allocation fails, its
// outputs are as they were. In a program of its own, as it replaces operator new.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "mpfa/quant.h"
#include "unit/quant/calibrate_util.h"

namespace {

// Allocations that still succeed; negative: all do.
std::atomic<int> allocations_left{-1};

}  // namespace

// Not inline, or GCC takes each call of free for one on memory of another allocator.
[[gnu::noinline]] void* operator new(std::size_t size) {
  int left = allocations_left.load();
  if (left == 0) throw std::bad_alloc();
  if (left > 0) allocations_left = left - 1;
  void* p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t /*size*/) noexcept { std::free(p); }

namespace mpfa {
namespace {

using testing::Calibration;
using testing::kBF16;
using testing::TestTensor;

TEST(CalibrateMemory, NothingIsWrittenWhereMemoryRunsOut) {
  // One thread, so that no other allocates meanwhile.
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  TestTensor q(kBF16, {20, 4, 64});
  TestTensor k(kBF16, {30, 2, 64});
  q.fill_normal(1);
  k.fill_normal(2);
  Calibration result(4, 2, 8, 64);
  const Calibration before = result;
  const CalibrationOut out = result.out();
  const DLTensor q_view = q.dl();
  const DLTensor k_view = k.dl();
  Calibration expected(4, 2, 8, 64);
  calibrate(q_view, k_view, expected.out());
  int failures = 0;
  for (bool failed = true; failed; failures += failed) {
    failed = false;
    allocations_left = failures;
    try {
      calibrate(q_view, k_view, out);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allocations_left = -1;
    if (failed) {
      ASSERT_TRUE(result == before) << "after " << failures << " allocations";
    }
  }
  EXPECT_GE(failures, 4);
  EXPECT_TRUE(result == expected);
}

}  // namespace
}  // namespace mpfa
