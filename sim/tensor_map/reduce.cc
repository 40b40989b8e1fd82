#include "sim/tensor_map/reduce.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "mpfa/formats.h"

namespace mpfa::sim {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"add", "min", "max", "inc",
                                                    "dec", "and", "or",  "xor"};

template <typename T>
T combined_integers(ReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case ReduceOp::kAdd:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return b > a ? b : a;
    // As atom.inc and atom.dec.
    case ReduceOp::kInc:
      return a >= b ? T{0} : static_cast<T>(a + 1);
    case ReduceOp::kDec:
      return a == 0 || a > b ? b : static_cast<T>(a - 1);
    case ReduceOp::kAnd:
      return a & b;
    case ReduceOp::kOr:
      return a | b;
    case ReduceOp::kXor:
      return a ^ b;
  }
  return a;
}

// 16-bit floats as sign-and-magnitude numbers that compare as the values do, -0 below +0.
struct F16Format {
  using Storage = Fp16;
  static constexpr uint16_t kInfinity = 0x7C00;
  static float widen(Fp16 x) { return fp16_to_float(x); }
  static Fp16 narrow(float x) { return fp16_from_float(x); }
};
struct Bf16Format {
  using Storage = Bf16;
  static constexpr uint16_t kInfinity = 0x7F80;
  static float widen(Bf16 x) { return bf16_to_float(x); }
  static Bf16 narrow(float x) { return bf16_from_float(x); }
};
constexpr uint16_t kCanonicalNan16 = 0x7FFF;

template <typename Format>
bool is_nan16(uint16_t bits) {
  return (bits & 0x7FFF) > Format::kInfinity;
}

int32_t ordered16(uint16_t bits) {
  return (bits & 0x8000) != 0 ? ~int32_t{bits & 0x7FFF} : int32_t{bits};
}

// Of two numbers the lesser or greater; of a number and a NaN the number.
template <typename Format>
uint16_t extreme16(ReduceOp op, uint16_t a, uint16_t b) {
  if (is_nan16<Format>(a) && is_nan16<Format>(b)) return kCanonicalNan16;
  if (is_nan16<Format>(a)) return b;
  if (is_nan16<Format>(b)) return a;
  const bool take_b =
      op == ReduceOp::kMin ? ordered16(b) < ordered16(a) : ordered16(b) > ordered16(a);
  return take_b ? b : a;
}

template <typename Format>
uint16_t combined_16(ReduceOp op, uint16_t a, uint16_t b) {
  if (op != ReduceOp::kAdd) return extreme16<Format>(op, a, b);
  using Storage = typename Format::Storage;
  // FP32 has more than twice the precision: rounding the FP32 sum again does no harm.
  const float sum = Format::widen(Storage{a}) + Format::widen(Storage{b});
  const uint16_t bits = Format::narrow(sum).bits;
  return is_nan16<Format>(bits) ? kCanonicalNan16 : bits;
}

uint32_t flushed(uint32_t bits) { return (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits; }

uint32_t f32_sum(uint32_t a, uint32_t b, bool ftz) {
  if (ftz) a = flushed(a), b = flushed(b);
  const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
  if (sum != sum) return 0x7FFFFFFF;
  const auto bits = std::bit_cast<uint32_t>(sum);
  return ftz ? flushed(bits) : bits;
}

// A NaN passes as it is, the source's first; infinities of both signs give the negative default
// NaN.
uint64_t f64_sum(uint64_t a, uint64_t b) {
  const double x = std::bit_cast<double>(a);
  const double y = std::bit_cast<double>(b);
  if (y != y) return b;
  if (x != x) return a;
  const double sum = x + y;
  return sum != sum ? 0xFFF8000000000000 : std::bit_cast<uint64_t>(sum);
}

template <typename T, typename Combine>
void for_each(std::span<std::byte> destination, std::span<const std::byte> source,
              Combine combine) {
  for (size_t at = 0; at + sizeof(T) <= destination.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, &destination[at], sizeof(T));
    std::memcpy(&b, &source[at], sizeof(T));
    const T result = combine(a, b);
    std::memcpy(&destination[at], &result, sizeof(T));
  }
}

bool is_bits(ReduceOp op) {
  return op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
}

}  // namespace

std::string_view name_of(ReduceOp op) { return kNames.at(static_cast<size_t>(op)); }

bool has_reduction(ReduceOp op, TensorMapType type) {
  const bool is_min_or_max = op == ReduceOp::kMin || op == ReduceOp::kMax;
  switch (type) {
    case TensorMapType::kU32:
      return true;
    case TensorMapType::kS32:
    case TensorMapType::kU64:
      return op == ReduceOp::kAdd || is_min_or_max || is_bits(op);
    case TensorMapType::kS64:  // An H200 has no more, though bits and sums would be those of kU64.
      return is_min_or_max;
    case TensorMapType::kF16:
    case TensorMapType::kBf16:
      return op == ReduceOp::kAdd || is_min_or_max;
    case TensorMapType::kF32:
    case TensorMapType::kF32Ftz:
    case TensorMapType::kF64:
      return op == ReduceOp::kAdd;
    default:
      return false;
  }
}

void reduce(ReduceOp op, TensorMapType type, std::span<std::byte> destination,
            std::span<const std::byte> source) {
  if (!has_reduction(op, type)) {
    throw TensorMapError(internal::str_cat("tensor reduction: .", name_of(op), " of type ",
                                           name_of(type), ": the PTX ISA has no such combination"));
  }
  switch (type) {
    case TensorMapType::kU32:
      return for_each<uint32_t>(destination, source, [op](uint32_t a, uint32_t b) {
        return combined_integers(op, a, b);
      });
    case TensorMapType::kS32:
      return for_each<int32_t>(destination, source,
                               [op](int32_t a, int32_t b) { return combined_integers(op, a, b); });
    case TensorMapType::kU64:
      return for_each<uint64_t>(destination, source, [op](uint64_t a, uint64_t b) {
        return combined_integers(op, a, b);
      });
    case TensorMapType::kS64:
      return for_each<int64_t>(destination, source,
                               [op](int64_t a, int64_t b) { return combined_integers(op, a, b); });
    case TensorMapType::kF16:
      return for_each<uint16_t>(destination, source, [op](uint16_t a, uint16_t b) {
        return combined_16<F16Format>(op, a, b);
      });
    case TensorMapType::kBf16:
      return for_each<uint16_t>(destination, source, [op](uint16_t a, uint16_t b) {
        return combined_16<Bf16Format>(op, a, b);
      });
    case TensorMapType::kF64:
      return for_each<uint64_t>(destination, source, f64_sum);
    default:
      return for_each<uint32_t>(destination, source, [type](uint32_t a, uint32_t b) {
        return f32_sum(a, b, type == TensorMapType::kF32Ftz);
      });
  }
}

}  // namespace mpfa::sim
