#include "core/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "unit/core/expect_invalid.h"
#include "unit/core/test_tensor.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::kBfloat16;
using core_test::kFloat32;
using core_test::kUint8;

// A view of imagined memory: nothing here is read or written.
struct View {
  View(DLDataType dtype, int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides)
      : shape(std::move(shape)), strides(std::move(strides)) {
    tensor.data = reinterpret_cast<void*>(uintptr_t{1} << 40);
    tensor.byte_offset = static_cast<uint64_t>(offset);
    tensor.device = {kDLCPU, 0};
    tensor.dtype = dtype;
    tensor.ndim = static_cast<int32_t>(this->shape.size());
    tensor.shape = this->shape.data();
    tensor.strides = this->strides.data();
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Offset of every element's first byte, in units of the whole memory.
  std::multiset<int64_t> offsets() const {
    std::multiset<int64_t> result = {static_cast<int64_t>(tensor.byte_offset)};
    for (size_t i = 0; i < shape.size(); ++i) {
      std::multiset<int64_t> next;
      for (const int64_t at : result) {
        for (int64_t n = 0; n < shape[i]; ++n) {
          next.insert(at + n * strides[i] * (tensor.dtype.bits / 8));
        }
      }
      result = std::move(next);
    }
    return result;
  }
  std::set<int64_t> bytes() const {
    std::set<int64_t> result;
    for (const int64_t at : offsets()) {
      for (int64_t i = 0; i < tensor.dtype.bits / 8; ++i) result.insert(at + i);
    }
    return result;
  }

  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  DLTensor tensor{};
};

bool overlap_both_ways(const View& a, const View& b) {
  const bool result = overlap(a.tensor, b.tensor);
  EXPECT_EQ(overlap(b.tensor, a.tensor), result);
  return result;
}

View random_view(std::mt19937& random) {
  const DLDataType types[] = {kUint8, kBfloat16, kFloat32};
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  std::vector<int64_t> shape(below(4));
  std::vector<int64_t> strides(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = below(8) == 0 ? 0 : 1 + below(5);
    strides[i] = below(3) == 0 ? below(60) - 30 : below(12) - 4;
  }
  return {types[below(3)], 4000 + below(120), shape, strides};
}

TEST(Overlap, AgreesWithTheSetsOfBytes) {
  std::mt19937 random(1);
  int met = 0;
  int interleaved = 0;
  for (int i = 0; i < 30'000; ++i) {
    const View a = random_view(random);
    const View b = random_view(random);
    const std::set<int64_t> bytes = a.bytes();
    const std::set<int64_t> others = b.bytes();
    bool expected = false;
    for (const int64_t byte : others) expected = expected || bytes.contains(byte);
    ASSERT_EQ(overlap_both_ways(a, b), expected) << "case " << i;
    if (bytes.empty() || others.empty()) continue;
    met += expected;
    interleaved +=
        !expected && *bytes.begin() <= *others.rbegin() && *others.begin() <= *bytes.rbegin();
  }
  EXPECT_GT(met, 1000);
  EXPECT_GT(interleaved, 1000) << "cases that the extents alone cannot decide";
}

// Views of one buffer at real sizes: exact, and at once, though no list of elements is.
TEST(Overlap, ViewsOfLargeBuffers) {
  // Pages of tokens of heads of records: 64 bytes of codes, 128 of V, 8 of scales; then, at the end
  // of every page, k_first [heads, 128] in BF16.
  constexpr int64_t kRecord = 200, kHeads = 8, kTokens = 64, kPages = int64_t{1} << 30;
  constexpr int64_t kPage = kRecord * kHeads * kTokens + kHeads * 256;
  const std::vector<int64_t> strides = {kPage, kRecord, kRecord * kHeads, 1};
  const auto part = [&](int64_t offset, int64_t width) {
    return View(kUint8, offset, {kPages, kHeads, kTokens, width}, strides);
  };
  const View codes = part(0, 64);
  const View v = part(64, 128);
  const View scales = part(192, 8);
  const View first(kBfloat16, kPage - kHeads * 256, {kPages, kHeads, 128}, {kPage / 2, 128, 1});
  EXPECT_FALSE(overlap_both_ways(codes, v));
  EXPECT_FALSE(overlap_both_ways(v, scales));
  EXPECT_FALSE(overlap_both_ways(codes, scales));
  EXPECT_FALSE(overlap_both_ways(first, codes));
  EXPECT_FALSE(overlap_both_ways(first, scales));
  EXPECT_TRUE(overlap_both_ways(codes, part(63, 128)));
  EXPECT_TRUE(overlap_both_ways(scales, part(192, 9)));
  // The ninth byte of the last head's record of a page's last token is k_first's.
  EXPECT_TRUE(overlap_both_ways(first, part(192, 9)));
  EXPECT_TRUE(overlap_both_ways(codes, codes));
  // One token's codes, far inside.
  EXPECT_FALSE(overlap_both_ways(v, View(kUint8, 777 * kPage + 5 * kRecord, {64}, {1})));
  EXPECT_TRUE(overlap_both_ways(codes, View(kUint8, 777 * kPage + 5 * kRecord, {64}, {1})));
}

TEST(Overlap, StridesWithoutACommonStepCountAsSharing) {
  // Even bytes against odd ones, in rows of different lengths: millions of comparisons.
  const View even(kUint8, 0, {1 << 20, 1 << 12}, {1 << 13, 2});
  const View odd(kUint8, 1, {1 << 20, 1 << 12}, {10'006, 2});
  EXPECT_TRUE(overlap_both_ways(even, odd));
}

TEST(Overlap, EmptyTensorsShareNothing) {
  const View none(kFloat32, 0, {0, 4}, {4, 1});
  const View all(kFloat32, 0, {100}, {1});
  EXPECT_FALSE(overlap_both_ways(none, all));
  EXPECT_FALSE(overlap_both_ways(none, none));
}

TEST(DistinctElements, AcceptedTensorsHaveThemAndOrdinaryOnesAreAccepted) {
  std::mt19937 random(2);
  int accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    const View view = random_view(random);
    try {
      check_distinct_elements(view.tensor, "out");
    } catch (const InvalidArgument&) {
      continue;
    }
    ++accepted;
    const std::multiset<int64_t> offsets = view.offsets();
    ASSERT_EQ(std::set<int64_t>(offsets.begin(), offsets.end()).size(), offsets.size());
  }
  EXPECT_GT(accepted, 2000);
  for (const std::vector<int64_t>& strides :
       {std::vector<int64_t>{20, 5, 1}, {1, 4, 12}, {100, -6, 1}, {-20, 5, -1}}) {
    check_distinct_elements(View(kFloat32, 4000, {4, 3, 4}, strides).tensor, "out");
  }
  check_distinct_elements(View(kFloat32, 0, {1, 4}, {0, 1}).tensor, "out");  // a size of 1
  check_distinct_elements(View(kFloat32, 0, {3, 0}, {0, 1}).tensor, "out");  // empty
}

TEST(DistinctElements, NamesTensorShapeAndStride) {
  const auto rejected = [](std::vector<int64_t> strides, const char* stride) {
    const View view(kFloat32, 400, {3, 4}, std::move(strides));
    expect_invalid([&] { check_distinct_elements(view.tensor, "out"); },
                   {"out has shape [3, 4]", stride, "must not overlap itself"});
  };
  rejected({0, 1}, "a stride of 0");
  rejected({1, 1}, "a stride of 1");
  rejected({-3, 1}, "a stride of 3");
}

TEST(CheckWritten, NamesBothTensors) {
  const View q(kFloat32, 0, {10}, {1});
  const View out(kFloat32, 40, {10}, {1});
  const View lse(kFloat32, 80, {10}, {1});
  const View inside(kFloat32, 76, {1}, {1});
  const View broadcast(kFloat32, 200, {3, 4}, {0, 1});
  const auto check = [](std::vector<NamedTensor> written, std::vector<NamedTensor> inputs) {
    check_written(written, inputs);
  };
  check({{&out.tensor, "out"}, {&lse.tensor, "lse"}}, {{&q.tensor, "q"}, {nullptr, "sinks"}});
  check({{nullptr, "lse"}}, {{&q.tensor, "q"}});
  check({{&out.tensor, "out"}}, {{&broadcast.tensor, "q"}, {&broadcast.tensor, "k"}});
  expect_invalid(
      [&] {
        check({{&out.tensor, "out"}}, {{&q.tensor, "q"}, {&inside.tensor, "k"}});
      },
      {"k overlaps out in memory", "must not share memory"});
  expect_invalid(
      [&] {
        check({{&out.tensor, "out"}, {&inside.tensor, "lse"}}, {});
      },
      {"lse overlaps out in memory"});
  expect_invalid(
      [&] {
        check({{nullptr, "out"}, {&broadcast.tensor, "lse"}}, {});
      },
      {"lse has shape [3, 4]", "a stride of 0"});
}

}  // namespace
}  // namespace mpfa::internal
