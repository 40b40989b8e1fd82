// merge_states() with tensors on a GPU: against its definition in FP64, and, where values are not
// finite, against the CPU back end.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/reference.h"
#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"
#include "mpfa/attention.h"

namespace mpfa::testing {
namespace {

constexpr DLDataType kF64{kDLFloat, 64, 1};
constexpr float kInf = std::numeric_limits<float>::infinity();

enum class Layout {
  kCompact,
  kHeadsFirst,
  kAlignedGaps,
  kOddGaps,  // breaks all alignment but that of elements
};

struct Case {
  std::vector<DLDataType> types = {kBF16};  // of the parts, in turn
  DLDataType out_type = kBF16;
  int count = 2;
  TestTensor::Shape shape = {5, 3, 64};
  Layout layout = Layout::kCompact;
  double hidden = 0.0;  // share of states that are (anything, -inf)
  bool has_lse = true;
  int in_place = -1;  // the part whose tensors are out and lse
  unsigned seed = 1;
};

TestTensor make(DLDataType type, const TestTensor::Shape& shape, Layout layout) {
  switch (layout) {
    case Layout::kHeadsFirst:
      if (shape.size() == 3) return TestTensor::heads_first(type, shape);
      return TestTensor(type, shape, {1, shape[0]});
    case Layout::kAlignedGaps:
      return TestTensor::with_gaps(type, shape, 16);
    case Layout::kOddGaps:
      return TestTensor::with_gaps(type, shape);
    default:
      return TestTensor(type, shape);
  }
}

// States on the host, and on the GPU.
class States {
 public:
  explicit States(const Case& c) : c_(c) {
    const TestTensor::Shape rows = {c.shape[0], c.shape[1]};
    std::mt19937 random(c.seed);
    std::uniform_real_distribution<double> uniform;
    for (int i = 0; i < c.count; ++i) {
      const DLDataType type = c.types[static_cast<size_t>(i) % c.types.size()];
      outs_.push_back(std::make_unique<TestTensor>(make(type, c.shape, c.layout)));
      lses_.push_back(std::make_unique<TestTensor>(make(kF32, rows, c.layout)));
      outs_.back()->fill_normal(1000 * c.seed + i);
      lses_.back()->fill_normal(2000 * c.seed + i, 3.0f);
      lses_.back()->for_each([&](const TestTensor::Shape& at) {
        if (uniform(random) >= c.hidden) return;
        lses_.back()->set(at, -kInf);
        if (c.shape[2] > 0) outs_.back()->set({at[0], at[1], c.shape[2] - 1}, NAN);
      });
    }
    if (c.in_place < 0) {
      out_ = std::make_unique<TestTensor>(make(c.out_type, c.shape, c.layout));
      lse_ = std::make_unique<TestTensor>(make(kF32, rows, c.layout));
    }
  }

  TestTensor& out() { return c_.in_place < 0 ? *out_ : *outs_[static_cast<size_t>(c_.in_place)]; }
  TestTensor& lse() { return c_.in_place < 0 ? *lse_ : *lses_[static_cast<size_t>(c_.in_place)]; }
  TestTensor& part_out(int i) { return *outs_[static_cast<size_t>(i)]; }
  TestTensor& part_lse(int i) { return *lses_[static_cast<size_t>(i)]; }

  std::vector<const DLTensor*> out_views() { return views(outs_); }
  std::vector<const DLTensor*> lse_views() { return views(lses_); }

  void copy_to_device() {
    for (const DLTensor* part : out_views()) device_outs.push_back(copies.copy(part));
    for (const DLTensor* part : lse_views()) device_lses.push_back(copies.copy(part));
    const auto at = static_cast<size_t>(std::max(c_.in_place, 0));
    device_out = c_.in_place < 0 ? copies.copy(out_->ptr()) : device_outs[at];
    device_lse = c_.in_place < 0 ? copies.copy(lse_->ptr()) : device_lses[at];
  }
  void enqueue(cudaStream_t stream = nullptr) {
    merge_states(*device_out, c_.has_lse ? device_lse : nullptr, device_outs, device_lses, stream);
  }
  void run() {
    copy_to_device();
    enqueue();
    check(cudaDeviceSynchronize());
  }
  // Everything that the GPU has, results or not.
  void download() {
    for (const DLTensor* part : device_outs) copies.download(part);
    for (const DLTensor* part : device_lses) copies.download(part);
    copies.download(device_out);
    copies.download(device_lse);
  }

  DeviceCopies copies;
  std::vector<const DLTensor*> device_outs, device_lses;
  const DLTensor* device_out = nullptr;
  const DLTensor* device_lse = nullptr;

 private:
  using Tensors = std::vector<std::unique_ptr<TestTensor>>;
  static std::vector<const DLTensor*> views(Tensors& tensors) {
    std::vector<const DLTensor*> all;
    for (auto& tensor : tensors) all.push_back(tensor->ptr());
    return all;
  }

  Case c_;
  Tensors outs_, lses_;
  std::unique_ptr<TestTensor> out_, lse_;
};

// Half a unit in the last place of a value of this size, beside what FP32 sums lose.
double rounding(DLDataType type, double value) {
  constexpr double kFp32Sums = 2e-6;
  if (type.bits == 32) return kFp32Sums;
  const double bits = type.code == kDLBfloat ? 0x1p-8 : 0x1p-11;
  return kFp32Sums + 1.01 * bits * std::fabs(value);
}

// The bytes of a tensor that are none of its elements'.
std::vector<std::byte> gaps_of(const TestTensor& tensor) {
  TestTensor copy = tensor;
  copy.for_each([&](const TestTensor::Shape& at) { copy.set(at, 0.0f); });
  return copy.snapshot();
}

void check_case(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.count << " parts, d " << c.shape[2] << ", layout "
                                    << static_cast<int>(c.layout) << ", seed " << c.seed);
  States states(c);
  TestTensor want(kF64, c.shape);
  TestTensor want_lse(kF64, {c.shape[0], c.shape[1]});
  internal::merge_states_reference(*want.ptr(), want_lse.ptr(), states.out_views(),
                                   states.lse_views());
  std::vector<std::vector<std::byte>> before;
  for (int i = 0; i < c.count; ++i) {
    before.push_back(states.part_out(i).snapshot());
    before.push_back(states.part_lse(i).snapshot());
  }
  const std::vector<std::byte> out_gaps = gaps_of(states.out());
  const std::vector<std::byte> lse_gaps = gaps_of(states.lse());
  const std::vector<std::byte> lse_before = states.lse().snapshot();
  states.run();
  states.download();

  states.out().for_each([&](const TestTensor::Shape& at) {
    const double expected = want.at<double>(at[0], at[1], at[2]);
    ASSERT_NEAR(states.out().get(at), expected, rounding(c.out_type, expected));
  });
  if (c.has_lse) {
    states.lse().for_each([&](const TestTensor::Shape& at) {
      const double expected = want_lse.at<double>(at[0], at[1]);
      if (expected == -kInf) {
        ASSERT_EQ(states.lse().get(at), expected);
      } else {
        ASSERT_NEAR(states.lse().get(at), expected, 2e-6 * (1.0 + std::fabs(expected)));
      }
    });
  } else {
    EXPECT_EQ(states.lse().snapshot(), lse_before);
  }
  EXPECT_EQ(gaps_of(states.out()), out_gaps);
  EXPECT_EQ(gaps_of(states.lse()), lse_gaps);
  for (int i = 0; i < c.count; ++i) {
    if (i == c.in_place) continue;
    EXPECT_EQ(states.part_out(i).snapshot(), before[2 * static_cast<size_t>(i)]);
    EXPECT_EQ(states.part_lse(i).snapshot(), before[2 * static_cast<size_t>(i) + 1]);
  }
}

TEST(CudaMergeStates, AnyNumberOfParts) {
  for (int count = 1; count <= 20; ++count) {
    Case c;
    c.count = count;
    c.hidden = count % 3 == 0 ? 0.3 : 0.0;
    c.shape = {3, 2, count % 2 == 0 ? 128 : 64};
    c.seed = static_cast<unsigned>(count);
    check_case(c);
  }
  for (const int count : {32, 33, 70}) {
    Case c;
    c.count = count;
    c.hidden = 0.2;
    c.shape = {2, 1, 64};
    check_case(c);
  }
}

TEST(CudaMergeStates, TypesAndLayouts) {
  unsigned seed = 100;
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    for (const Layout layout :
         {Layout::kCompact, Layout::kHeadsFirst, Layout::kAlignedGaps, Layout::kOddGaps}) {
      for (const int64_t d : {64, 128}) {
        Case c;
        c.types = {type};
        c.out_type = type;
        c.layout = layout;
        c.shape = {5, 3, d};
        c.count = 3;
        c.hidden = 0.1;
        c.seed = ++seed;
        check_case(c);
      }
    }
  }
}

TEST(CudaMergeStates, PartsOfOtherTypes) {
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    for (const Layout layout : {Layout::kCompact, Layout::kOddGaps}) {
      Case c;
      c.types = {kF32, kBF16, kF16};
      c.out_type = type;
      c.layout = layout;
      c.count = 5;
      check_case(c);
    }
  }
}

TEST(CudaMergeStates, OtherHeadDims) {
  for (const int64_t d : {0, 1, 3, 20, 33, 72, 127, 132, 256, 300}) {
    Case c;
    c.shape = {3, 2, d};
    c.count = 3;
    c.hidden = 0.1;
    check_case(c);
  }
}

TEST(CudaMergeStates, RowsAndHeads) {
  for (const TestTensor::Shape& shape :
       {TestTensor::Shape{0, 3, 64}, {4, 0, 64}, {1, 1, 64}, {1, 40, 128}, {77, 1, 64}}) {
    Case c;
    c.shape = shape;
    check_case(c);
  }
}

TEST(CudaMergeStates, WithoutLse) {
  Case c;
  c.has_lse = false;
  c.hidden = 0.3;
  check_case(c);
}

TEST(CudaMergeStates, MayWriteOverAPart) {
  for (const Layout layout : {Layout::kCompact, Layout::kOddGaps}) {
    for (const int in_place : {0, 2, 18}) {
      for (const int64_t d : {64, 300}) {
        Case c;
        c.layout = layout;
        c.in_place = in_place;
        c.count = in_place == 18 ? 19 : 3;
        c.hidden = 0.2;
        c.shape = {4, 2, d};
        check_case(c);
      }
    }
  }
}

TEST(CudaMergeStates, AllHidden) {
  Case c;
  c.hidden = 1.1;
  c.count = 4;
  check_case(c);
}

TEST(CudaMergeStates, AStateThatCountsAloneIsCopied) {
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    Case c;
    c.types = {type};
    c.out_type = type;
    c.count = 3;
    c.shape = {8, 2, 64};
    States states(c);
    for (const int i : {0, 2}) {
      states.part_lse(i).for_each([&](const TestTensor::Shape& at) {
        states.part_lse(i).set(at, at[0] % 2 == 0 ? -kInf : states.part_lse(1).get(at) - 1000.0f);
        states.part_out(i).set({at[0], at[1], 7}, at[0] % 2 == 0 ? NAN : kInf);
      });
    }
    states.run();
    states.download();
    EXPECT_EQ(states.out().snapshot(), states.part_out(1).snapshot());
    EXPECT_EQ(states.lse().snapshot(), states.part_lse(1).snapshot());
  }
}

// What is not finite: the values of the CPU, NaN for NaN.
TEST(CudaMergeStates, SpecialValuesAreThoseOfTheCpu) {
  const std::vector<float> lses = {-kInf, kInf, NAN,  0.0f,  -90.0f, -100.0f, -104.0f,
                                   -500,  -740, -760, -2000, 3e38f,  -3e38f};
  const std::vector<float> outs = {1.0f, -2.0f, kInf, -kInf, NAN, 0.0f};
  for (int count = 1; count <= 3; ++count) {
    Case c;
    c.types = {kF32};
    c.out_type = kF32;
    c.count = count;
    c.shape = {40, 13, 6};
    States states(c);
    std::mt19937 random(5);
    for (int i = 0; i < count; ++i) {
      TestTensor& out = states.part_out(i);
      TestTensor& lse = states.part_lse(i);
      lse.for_each([&](const TestTensor::Shape& at) {
        lse.set(at, count == 1 ? lses[static_cast<size_t>(at[1])] : lses[random() % lses.size()]);
      });
      out.for_each([&](const TestTensor::Shape& at) { out.set(at, outs[random() % outs.size()]); });
    }
    TestTensor want(kF32, c.shape);
    TestTensor want_lse(kF32, {c.shape[0], c.shape[1]});
    merge_states(*want.ptr(), want_lse.ptr(), states.out_views(), states.lse_views());
    states.run();
    states.download();
    const auto expect_alike = [](float got, float expected) {
      if (std::isnan(expected) || std::isinf(expected)) {
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected)
            << got << " instead of " << expected;
      } else {
        ASSERT_NEAR(got, expected, 2e-6 * (1.0 + std::fabs(expected)));
      }
    };
    want.for_each(
        [&](const TestTensor::Shape& at) { expect_alike(states.out().get(at), want.get(at)); });
    want_lse.for_each(
        [&](const TestTensor::Shape& at) { expect_alike(states.lse().get(at), want_lse.get(at)); });
  }
}

TEST(CudaMergeStates, GraphsFollowTheStates) {
  Case c;
  c.types = {kF32};
  c.out_type = kF32;
  c.count = 4;
  States states(c);
  states.copy_to_device();
  const Stream stream;
  const Graph graph(stream, [&] { states.enqueue(stream); });
  for (unsigned seed = 1; seed <= 3; ++seed) {
    TestTensor want(kF64, c.shape);
    for (int i = 0; i < c.count; ++i) {
      states.part_out(i).fill_normal(seed + 10 * static_cast<unsigned>(i));
      states.part_lse(i).fill_normal(seed + 20 * static_cast<unsigned>(i), 3.0f);
      states.copies.upload(states.device_outs[static_cast<size_t>(i)]);
      states.copies.upload(states.device_lses[static_cast<size_t>(i)]);
    }
    internal::merge_states_reference(*want.ptr(), nullptr, states.out_views(), states.lse_views());
    graph.launch(stream);
    check(cudaStreamSynchronize(stream));
    states.download();
    want.for_each([&](const TestTensor::Shape& at) {
      ASSERT_NEAR(states.out().get(at), want.at<double>(at[0], at[1], at[2]), 2e-6);
    });
  }
}

// One state 512 times is itself, with the logarithm of 512 more.
TEST(CudaMergeStates, AsManyPartsAsThereMayBe) {
  Case c;
  c.types = {kF32};
  c.out_type = kF32;
  c.count = 1;
  States states(c);
  states.copy_to_device();
  states.device_outs.assign(512, states.device_outs[0]);
  states.device_lses.assign(512, states.device_lses[0]);
  states.enqueue();
  check(cudaDeviceSynchronize());
  states.copies.download(states.device_out);
  states.copies.download(states.device_lse);
  states.out().for_each([&](const TestTensor::Shape& at) {
    ASSERT_NEAR(states.out().get(at), states.part_out(0).get(at), 2e-5);
  });
  states.lse().for_each([&](const TestTensor::Shape& at) {
    ASSERT_NEAR(states.lse().get(at), states.part_lse(0).get(at) + std::log(512.0), 2e-5);
  });
  states.device_outs.push_back(states.device_outs[0]);
  states.device_lses.push_back(states.device_lses[0]);
  expect_error("outs has 513 states: at most 512 can be merged at once on a GPU",
               [&] { states.enqueue(); });
}

// ---- errors of arguments ------------------------------------------------------------------------

TEST(CudaMergeStatesErrors, NameWhatIsWrong) {
  Case c;
  States states(c);
  states.copy_to_device();
  const auto expect = [&](const std::string& start, const DLTensor* out, const DLTensor* lse,
                          const std::vector<const DLTensor*>& outs,
                          const std::vector<const DLTensor*>& lses) {
    expect_error(start, [&] { merge_states(*out, lse, outs, lses); });
  };
  const DLTensor* out = states.device_out;
  const DLTensor* lse = states.device_lse;
  const auto& outs = states.device_outs;
  const auto& lses = states.device_lses;
  expect("outs is empty: needs at least one state", out, lse, {}, {});
  expect("outs has 2 states and lses 1: must be equal", out, lse, outs, {lses[0]});
  expect("outs[1] is null", out, lse, {outs[0], nullptr}, lses);
  expect("lses[0] is null", out, lse, outs, {nullptr, lses[1]});
  expect(
      "outs[1] lies on DLPack device type 1, number 0: must be type 2 (CUDA), number 0, as that "
      "of out",
      out, lse, {outs[0], states.part_out(1).ptr()}, lses);
  expect("lse lies on DLPack device type 1", out, states.lse().ptr(), outs, lses);
  // On the CPU, out decides likewise.
  expect("outs[0] ", states.out().ptr(), nullptr, outs, lses);
  TestTensor other(kBF16, {5, 3, 128});
  expect("outs[1] has shape [5, 3, 128]: dimension 2 must be 64", out, lse,
         {outs[0], states.copies.copy(other.ptr())}, lses);
  TestTensor integers(kI32, {5, 3, 64});
  expect("outs[0] has type int32: must be bfloat16, float16 or float32", out, lse,
         {states.copies.copy(integers.ptr()), outs[1]}, lses);
}

TEST(CudaMergeStatesErrors, TooManyRows) {
  Case c;
  c.shape = {1, 1, 1};
  States states(c);
  states.copy_to_device();
  // Nothing looks at memory before this error, so that the tensors need none.
  int64_t shape[] = {int64_t{1} << 20, int64_t{1} << 11, 1};
  DLTensor out = *states.device_out;
  DLTensor part = *states.device_outs[0];
  DLTensor lse = *states.device_lses[0];
  for (DLTensor* tensor : {&out, &part, &lse}) {
    tensor->shape = shape;
    tensor->strides = nullptr;
  }
  const auto at = [](int64_t address) { return reinterpret_cast<void*>(address); };
  out.data = at(int64_t{1} << 40);
  part.data = at(int64_t{1} << 41);
  lse.data = at(int64_t{1} << 42);
  const DLTensor* outs[] = {&part};
  const DLTensor* lses[] = {&lse};
  expect_error(
      "out has shape [1048576, 2048, 1]: at most 2147483647 rows times heads can be merged at once",
      [&] { merge_states(out, nullptr, outs, lses); });
}

TEST(CudaMergeStatesErrors, OverlapOtherThanAsAWhole) {
  Case c;
  c.shape = {6, 3, 64};
  States states(c);
  states.copy_to_device();
  DLTensor later = *states.device_outs[0];
  int64_t shape[] = {5, 3, 64};
  later.shape = shape;
  later.byte_offset += static_cast<uint64_t>(3 * 64 * 2);  // a row further
  DLTensor first = *states.device_outs[0];
  first.shape = shape;
  DLTensor lse = *states.device_lses[0];
  int64_t lse_shape[] = {5, 3};
  lse.shape = lse_shape;
  const DLTensor* outs[] = {&first};
  const DLTensor* lses[] = {&lse};
  expect_error("outs[0] overlaps out in memory", [&] { merge_states(later, nullptr, outs, lses); });
}

}  // namespace
}  // namespace mpfa::testing
