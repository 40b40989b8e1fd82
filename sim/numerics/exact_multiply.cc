#include "sim/numerics/exact_multiply.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/numerics/float_type.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {
namespace {

// One sum after another, rounded in a mode. NaNs are those of the instruction fma.f64.
template <Rounding kMode>
double rounded_sum(const double* x, const double* y, int k, double sum) {
  for (int i = 0; i < k; ++i) {
    sum = float_fma<ArithmeticOptions{.rounding = kMode}>(x[i], y[i], sum);
  }
  return sum;
}

double rounded_sum(Rounding mode, const double* x, const double* y, int k, double sum) {
  switch (mode) {
    case Rounding::kZero:
      return rounded_sum<Rounding::kZero>(x, y, k, sum);
    case Rounding::kDown:
      return rounded_sum<Rounding::kDown>(x, y, k, sum);
    case Rounding::kUp:
      return rounded_sum<Rounding::kUp>(x, y, k, sum);
    default:
      return rounded_sum<Rounding::kNearestEven>(x, y, k, sum);
  }
}

// Calls element(i, j, c) for every element of D, which becomes what it returns.
template <class T, class Element>
void for_each_element(const MatrixMultiply& op, const MatrixOperands& operands, Element element) {
  const auto* c = static_cast<const T*>(operands.c);
  auto* d = static_cast<T*>(operands.d);
  for (int64_t i = 0; i < op.m; ++i) {
    for (int64_t j = 0; j < op.n; ++j) {
      const T from = op.add_c ? c[i * operands.c_stride + j] : T{0};
      d[i * operands.d_stride + j] = element(i, j, from);
    }
  }
}

// Rows of integer elements, widened.
std::vector<int16_t> integer_rows(ElementType type, const void* elements, int64_t stride, int rows,
                                  int k) {
  const auto* codes = static_cast<const uint8_t*>(elements);
  std::vector<int16_t> values;
  values.reserve(static_cast<size_t>(rows) * k);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      values.push_back(static_cast<int16_t>(integer_value(type, codes[i * stride + j])));
    }
  }
  return values;
}

// Products of bytes: 2^15 of them fit 32 bits.
int64_t integer_dot(const int16_t* a, const int16_t* b, int k) {
  constexpr int kChunk = 1 << 14;
  int64_t sum = 0;
  for (int begin = 0; begin < k; begin += kChunk) {
    const int end = std::min(k, begin + kChunk);
    int32_t part = 0;
    for (int i = begin; i < end; ++i) part += a[i] * b[i];
    sum += part;
  }
  return sum;
}

}  // namespace

void f64_multiply(const MatrixMultiply& op, const MatrixOperands& operands) {
  const auto* a = static_cast<const double*>(operands.a);
  const auto* b = static_cast<const double*>(operands.b);
  for_each_element<double>(op, operands, [&](int64_t i, int64_t j, double sum) {
    const double* x = a + i * operands.a_stride;
    const double* y = b + j * operands.b_stride;
    const double c = sum;
    for (int k = 0; k < op.k; ++k) sum = std::fma(x[k], y[k], sum);
    const bool as_is = op.rounding == Rounding::kNearestEven && !is_nan(sum);
    return as_is ? sum : rounded_sum(op.rounding, x, y, op.k, c);
  });
}

void integer_multiply(const MatrixMultiply& op, const MatrixOperands& operands) {
  const auto a = integer_rows(op.model.a, operands.a, operands.a_stride, op.m, op.k);
  const auto b = integer_rows(op.model.b, operands.b, operands.b_stride, op.n, op.k);
  for_each_element<int32_t>(op, operands, [&](int64_t i, int64_t j, int32_t c) {
    int64_t sum = c + integer_dot(a.data() + i * op.k, b.data() + j * op.k, op.k);
    if (op.model.saturate) {
      using Limits = std::numeric_limits<int32_t>;
      sum = std::clamp<int64_t>(sum, Limits::min(), Limits::max());
    }
    return static_cast<int32_t>(sum);
  });
}

void population_multiply(const MatrixMultiply& op, const MatrixOperands& operands) {
  const auto* a = static_cast<const uint32_t*>(operands.a);
  const auto* b = static_cast<const uint32_t*>(operands.b);
  const bool is_xor = op.model.bit_operation == BitOperation::kXor;
  for_each_element<uint32_t>(op, operands, [&](int64_t i, int64_t j, uint32_t sum) {
    const uint32_t* x = a + i * operands.a_stride;
    const uint32_t* y = b + j * operands.b_stride;
    for (int w = 0; w < op.k / 32; ++w) sum += std::popcount(is_xor ? x[w] ^ y[w] : x[w] & y[w]);
    return sum;
  });
}

}  // namespace mpfa::sim
