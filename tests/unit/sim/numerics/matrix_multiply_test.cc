// The fast product against the reference, element by element.
#include "sim/numerics/matrix_multiply.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "sim/numerics/dot_add_reference.h"
#include "unit/sim/numerics/tensor_core_cases.h"

namespace mpfa::sim {
namespace {

using testing::Draw;
using testing::NamedModel;
using testing::Operands;

std::string in_hex(uint64_t x) {
  std::ostringstream out;
  out << "0x" << std::hex << x;
  return out.str();
}

struct Shape {
  int m;
  int n;
  int k;
};

// Elements in containers of their own, with something else at the end of each row.
class Rows {
 public:
  Rows(int rows, int length, int bytes)
      : rows_(rows),
        length_(length),
        bytes_(bytes),
        stride_(length + 3),
        data_(static_cast<size_t>(rows) * stride_ * bytes, 0xA5) {}

  uint64_t get(int row, int at) const {
    uint64_t value = 0;
    std::memcpy(&value, data_.data() + offset(row, at), bytes_);
    return value;
  }
  void set(int row, int at, uint64_t value) {
    std::memcpy(data_.data() + offset(row, at), &value, bytes_);
  }
  std::vector<uint64_t> row(int r) const {
    std::vector<uint64_t> values;
    for (int i = 0; i < length_; ++i) values.push_back(get(r, i));
    return values;
  }
  // Whether nothing was written between rows.
  bool gaps_are_untouched() const {
    for (int r = 0; r < rows_; ++r) {
      for (int i = length_; i < stride_; ++i) {
        const auto* at = data_.data() + offset(r, i);
        if (std::any_of(at, at + bytes_, [](uint8_t x) { return x != 0xA5; })) return false;
      }
    }
    return true;
  }

  uint8_t* data() { return data_.data(); }
  int64_t stride() const { return stride_; }

 private:
  size_t offset(int row, int at) const {
    return (static_cast<size_t>(row) * stride_ + at) * bytes_;
  }

  int rows_;
  int length_;
  int bytes_;
  int stride_;
  std::vector<uint8_t> data_;
};

// One product: its operands, its result and what the reference says.
class Product {
 public:
  Product(const MatrixMultiply& op, const Draw& draw, uint64_t seed)
      : op_(op),
        length_(op.model.a == ElementType::kB1 ? op.k / 32 : op.k),
        blocks_(op.model.scale_block != 0 ? op.k / op.model.scale_block : 0),
        a_(op.m, length_, container_bytes(op.model.a)),
        b_(op.n, length_, container_bytes(op.model.b)),
        c_(op.m, op.n, container_bytes(op.model.accumulator)),
        d_(op.m, op.n, container_bytes(op.model.accumulator)),
        a_scales_(op.m, blocks_, 1),
        b_scales_(op.n, blocks_, 1) {
    Operands operands(draw, seed);
    const auto fill = [](Rows& rows, int count, int length, auto draw_one) {
      for (int i = 0; i < count; ++i) {
        for (int j = 0; j < length; ++j) rows.set(i, j, draw_one());
      }
    };
    fill(a_, op.m, length_, [&] { return operands.element(op.model.a); });
    fill(b_, op.n, length_, [&] { return operands.element(op.model.b); });
    fill(c_, op.m, op.n, [&] { return operands.accumulator(op.model.accumulator); });
    fill(a_scales_, op.m, blocks_, [&] { return operands.scale(op.model.scale); });
    fill(b_scales_, op.n, blocks_, [&] { return operands.scale(op.model.scale); });
  }

  void run(bool in_place = false) {
    Rows& to = in_place ? c_ : d_;
    const Rows before = c_;
    matrix_multiply(op_, {.a = a_.data(),
                          .a_stride = a_.stride(),
                          .b = b_.data(),
                          .b_stride = b_.stride(),
                          .c = op_.add_c ? c_.data() : nullptr,
                          .c_stride = c_.stride(),
                          .d = to.data(),
                          .d_stride = to.stride(),
                          .a_scales = a_scales_.data(),
                          .a_scale_stride = a_scales_.stride(),
                          .b_scales = b_scales_.data(),
                          .b_scale_stride = b_scales_.stride()});
    if (!in_place) return;
    d_ = c_;
    c_ = before;
  }

  // Every element of D against the reference; tells of the first that differs.
  ::testing::AssertionResult check() const {
    if (!d_.gaps_are_untouched()) return ::testing::AssertionFailure() << "wrote beyond a row";
    for (int i = 0; i < op_.m; ++i) {
      for (int j = 0; j < op_.n; ++j) {
        const uint64_t want = expected(i, j);
        if (d_.get(i, j) == want) continue;
        return ::testing::AssertionFailure()
               << "element " << i << ", " << j << " is " << in_hex(d_.get(i, j)) << ", must be "
               << in_hex(want);
      }
    }
    return ::testing::AssertionSuccess();
  }

  // C becomes -A * B^T, as far as it can.
  void cancel() {
    op_.add_c = false;
    run();
    op_.add_c = true;
    const int sign = 8 * container_bytes(op_.model.accumulator) - 1;
    for (int i = 0; i < op_.m; ++i) {
      for (int j = 0; j < op_.n; ++j) c_.set(i, j, d_.get(i, j) ^ uint64_t{1} << sign);
    }
  }

 private:
  uint64_t expected(int i, int j) const {
    std::vector<uint64_t> a = a_.row(i);
    std::vector<uint64_t> b = b_.row(j);
    const auto negate = [](ElementType type, std::vector<uint64_t>& row) {
      const int at = format_of(type).sign_shift() + unused_low_bits(type);
      for (uint64_t& x : row) x ^= uint64_t{1} << at;
    };
    if (op_.negate_a) negate(op_.model.a, a);
    if (op_.negate_b) negate(op_.model.b, b);
    const auto bytes = [](const std::vector<uint64_t>& row) {
      return std::vector<uint8_t>(row.begin(), row.end());
    };
    const std::vector<uint8_t> a_scales = bytes(a_scales_.row(i));
    const std::vector<uint8_t> b_scales = bytes(b_scales_.row(j));
    return dot_add_reference(op_.model, {a, b, a_scales, b_scales}, op_.add_c ? c_.get(i, j) : 0);
  }

  MatrixMultiply op_;
  int length_;
  int blocks_;
  Rows a_;
  Rows b_;
  Rows c_;
  Rows d_;
  Rows a_scales_;
  Rows b_scales_;
};

void expect_equal(const NamedModel& named, const Shape& shape, const Draw& draw, uint64_t seed) {
  Product product({.model = named.model, .m = shape.m, .n = shape.n, .k = shape.k}, draw, seed);
  product.run();
  EXPECT_TRUE(product.check()) << named.name << ", m" << shape.m << "n" << shape.n << "k" << shape.k
                               << ", " << draw.name << ", seed " << seed;
}

// The k of one instruction.
int natural_k(const DotAddModel& model) {
  if (model.arithmetic == Arithmetic::kFusedGroupAdd) return 64;
  if (model.a == ElementType::kB1) return 256;
  return 32 / container_bytes(model.a);
}

// Calls fn with each instruction set that this processor has in turn.
template <class Fn>
void for_each_target(const Fn& fn) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    // Forget the choice that earlier calls made.
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    fn();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(MatrixMultiplyTest, EqualsReferenceOnAllModels) {
  uint64_t seed = 1;
  for (const NamedModel& named : testing::plain_models()) {
    for (const Draw& draw : testing::draws()) {
      expect_equal(named, {5, 9, natural_k(named.model)}, draw, ++seed);
      expect_equal(named, {17, 5, natural_k(named.model)}, draw, ++seed);
    }
    if (HasFailure()) return;
  }
}

TEST(MatrixMultiplyTest, EqualsReferenceOnBlockScaledModels) {
  uint64_t seed = 1;
  for (const NamedModel& named : testing::block_scaled_models()) {
    for (const Draw& draw : testing::draws()) {
      expect_equal(named, {16, 40, natural_k(named.model)}, draw, ++seed);
      expect_equal(named, {3, 8, 2 * natural_k(named.model)}, draw, ++seed);
      expect_equal(named, {33, 8, natural_k(named.model)}, draw, ++seed);
    }
    if (HasFailure()) return;
  }
}

// Halves of an instruction's k, chains, widths that are not those of vectors or blocks.
TEST(MatrixMultiplyTest, EqualsReferenceOnAllShapes) {
  const std::vector<NamedModel> models = testing::plain_models();
  uint64_t seed = 1000;
  for (size_t i = 0; i < models.size(); i += 7) {
    const int k = natural_k(models[i].model);
    const Shape shapes[] = {{1, 1, k},      {8, 8, k / 2}, {16, 8, k},      {2, 17, k},
                            {3, 63, 3 * k}, {2, 65, k},    {4, 136, 2 * k}, {70, 3, 2 * k}};
    for (const Shape& shape : shapes) {
      for (const Draw& draw : testing::draws()) expect_equal(models[i], shape, draw, ++seed);
    }
    if (HasFailure()) return;
  }
}

TEST(MatrixMultiplyTest, EqualsReferenceOnEveryTarget) {
  std::vector<NamedModel> models = testing::plain_models();
  const std::vector<NamedModel> scaled = testing::block_scaled_models();
  models.insert(models.end(), scaled.begin(), scaled.end());
  for_each_target([&] {
    uint64_t seed = 20000;
    for (size_t i = 0; i < models.size(); i += 3) {
      for (const Draw& draw : testing::draws()) {
        expect_equal(models[i], {4, 35, natural_k(models[i].model)}, draw, ++seed);
      }
    }
  });
}

TEST(MatrixMultiplyTest, EqualsReferenceOnWgmmaShapes) {
  const DotAddModel model = model_for(Architecture::kHopper, MmaKind::kWgmma, ElementType::kBf16,
                                      ElementType::kBf16, AccumulatorType::kF32);
  for (const int n : {8, 24, 136, 256}) {
    for (const Draw& draw : testing::draws()) {
      expect_equal({"wgmma bf16", model}, {64, n, 16}, draw, n);
    }
  }
}

TEST(MatrixMultiplyTest, EqualsReferenceWhereSumsCancel) {
  std::vector<NamedModel> models = testing::plain_models();
  const std::vector<NamedModel> scaled = testing::block_scaled_models();
  models.insert(models.end(), scaled.begin(), scaled.end());
  uint64_t seed = 5000;
  for (const NamedModel& named : models) {
    for (const Draw& draw : testing::draws()) {
      Product product({.model = named.model, .m = 4, .n = 8, .k = natural_k(named.model)}, draw,
                      ++seed);
      product.cancel();
      product.run();
      EXPECT_TRUE(product.check()) << named.name << ", " << draw.name << ", seed " << seed;
    }
    if (HasFailure()) return;
  }
}

TEST(MatrixMultiplyTest, NegatesOperands) {
  for (const NamedModel& named : testing::plain_models()) {
    if (!is_fused_type(named.model.a)) continue;
    for (int signs = 1; signs < 4; ++signs) {
      const MatrixMultiply op{.model = named.model,
                              .m = 16,
                              .n = 8,
                              .k = natural_k(named.model),
                              .negate_a = (signs & 1) != 0,
                              .negate_b = (signs & 2) != 0};
      Product product(op, {.name = "", .spread = 4, .wild = 0.01}, signs);
      product.run();
      ASSERT_TRUE(product.check()) << named.name << ", signs " << signs;
    }
  }
}

TEST(MatrixMultiplyTest, LeavesOutC) {
  for (const NamedModel& named : testing::plain_models()) {
    Product product(
        {.model = named.model, .m = 16, .n = 8, .k = natural_k(named.model), .add_c = false},
        {.name = "", .spread = 4, .wild = 0.01}, 7);
    product.run();
    ASSERT_TRUE(product.check()) << named.name;
  }
}

TEST(MatrixMultiplyTest, WorksInPlace) {
  for (const NamedModel& named : testing::plain_models()) {
    for (const int n : {8, 72}) {
      Product product({.model = named.model, .m = 16, .n = n, .k = 2 * natural_k(named.model)},
                      {.name = "", .spread = 4, .wild = 0.01}, 9);
      product.run(true);
      ASSERT_TRUE(product.check()) << named.name << ", n " << n;
    }
  }
}

TEST(MatrixMultiplyTest, SaturatesIntegersAndXorsBits) {
  for (NamedModel& named : testing::plain_models()) {
    named.model.saturate = true;
    named.model.bit_operation = BitOperation::kXor;
    if (!is_integer(named.model.a)) continue;
    for (const Draw& draw : testing::draws()) {
      expect_equal(named, {4, 8, natural_k(named.model)}, draw, 3);
    }
  }
}

// A first step that overflows is infinite; what the second adds cannot bring it back.
TEST(MatrixMultiplyTest, KeepsInfinityOfAnEarlierStep) {
  const DotAddModel model = model_for(Architecture::kHopper, MmaKind::kWgmma, ElementType::kBf16,
                                      ElementType::kBf16, AccumulatorType::kF32);
  std::vector<uint16_t> a(32, 0x7F00);  // 2^127
  std::vector<uint16_t> b(32, 0x3F80);  // 1
  std::fill(b.begin() + 16, b.end(), 0xBF80);
  uint32_t d = 0;
  matrix_multiply({.model = model, .m = 1, .n = 1, .k = 32, .add_c = false}, {.a = a.data(),
                                                                              .a_stride = 32,
                                                                              .b = b.data(),
                                                                              .b_stride = 32,
                                                                              .c = nullptr,
                                                                              .c_stride = 0,
                                                                              .d = &d,
                                                                              .d_stride = 1});
  EXPECT_EQ(d, 0x7F800000u);
}

void expect_refused(const MatrixMultiply& op, const MatrixOperands& operands,
                    const std::string& message) {
  try {
    matrix_multiply(op, operands);
    ADD_FAILURE() << "accepted, must be refused: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(MatrixMultiplyTest, RefusesWrongArguments) {
  const DotAddModel f16;
  uint32_t d = 0;
  const MatrixOperands some{.a = &d,
                            .a_stride = 1,
                            .b = &d,
                            .b_stride = 1,
                            .c = &d,
                            .c_stride = 1,
                            .d = &d,
                            .d_stride = 1};
  expect_refused({.model = f16, .m = 1, .n = 0, .k = 1}, some, "n = 0");
  expect_refused({.model = f16, .m = 1, .n = 1, .k = 1}, {}, "must not be null");
  MatrixOperands no_c = some;
  no_c.c = nullptr;
  expect_refused({.model = f16, .m = 1, .n = 1, .k = 1}, no_c, "operand c");
  DotAddModel bits = model_for(Architecture::kAmpere, MmaKind::kMmaSync, ElementType::kB1,
                               ElementType::kB1, AccumulatorType::kS32);
  expect_refused({.model = bits, .m = 1, .n = 1, .k = 33}, some, "k = 33 bits");
  expect_refused({.model = bits, .m = 1, .n = 1, .k = 32, .negate_b = true}, some, "type b1");
  const DotAddModel scaled =
      block_scaled_model_for(Architecture::kBlackwell, MmaKind::kTcgen05, BlockScaledKind::kMxf4,
                             ElementType::kE2m1, ElementType::kE2m1, ScaleType::kUe8m0, 32);
  expect_refused({.model = scaled, .m = 1, .n = 1, .k = 16}, some, "k = 16");
  expect_refused({.model = scaled, .m = 1, .n = 1, .k = 32}, some, "scales of a and b");
}

}  // namespace
}  // namespace mpfa::sim
