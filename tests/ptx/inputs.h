// Inputs of the instruction tests: special values and random ones of a fixed seed, so that a
// program makes the same inputs wherever it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mpfa::ptx_test {

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t limit) { return bits() % limit; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1));
  }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  uint64_t state_;
};

// FNV-1a, of a text.
inline uint64_t seed_of(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return hash;
}

// A binary floating-point format. Those without infinities (e4m3) have NaN where all bits are set.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool infinities = true;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t pack(bool negative, uint64_t exponent, uint64_t mantissa) const {
    return (negative ? sign() : 0) | exponent << mantissa_bits | (mantissa & mantissa_mask());
  }
  uint64_t top_exponent() const { return (uint64_t{1} << exponent_bits) - 1; }
  uint64_t infinity() const { return pack(false, top_exponent(), 0); }
  uint64_t largest() const {
    return infinities ? infinity() - 1 : pack(false, top_exponent(), mantissa_mask() - 1);
  }
  // A small integer, exactly.
  uint64_t integer(int value) const {
    if (value == 0) {
      return 0;
    }
    const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
    int exponent = 0;
    while (magnitude >> (exponent + 1) != 0) {
      ++exponent;
    }
    const int shift = mantissa_bits - exponent;
    const uint64_t mantissa = shift >= 0 ? magnitude << shift : magnitude >> -shift;
    return pack(value < 0, static_cast<uint64_t>(exponent + bias()), mantissa);
  }
};

inline constexpr FloatFormat kF64{11, 52};
inline constexpr FloatFormat kF32{8, 23};
inline constexpr FloatFormat kTf32{8, 10};
inline constexpr FloatFormat kF16{5, 10};
inline constexpr FloatFormat kBf16{8, 7};
inline constexpr FloatFormat kE4m3{4, 3, false};
inline constexpr FloatFormat kE5m2{5, 2};

// Zeros, ends of the ranges of subnormal and normal numbers, infinities, NaNs with payloads, quiet
// and signaling, and numbers about 1.
inline std::vector<uint64_t> special_floats(const FloatFormat& format) {
  const uint64_t one = format.integer(1);
  const uint64_t smallest_normal = format.pack(false, 1, 0);
  std::vector<uint64_t> values = {
      0,
      1,
      smallest_normal - 1,
      smallest_normal,
      smallest_normal + 1,
      one,
      one + 1,
      one - 1,
      format.integer(2),
      format.pack(false, one >> format.mantissa_bits, uint64_t{1} << (format.mantissa_bits - 1)),
      format.largest(),
      format.largest() - 1};
  if (format.infinities) {
    const uint64_t quiet = uint64_t{1} << (format.mantissa_bits - 1);
    values.push_back(format.infinity());
    values.push_back(format.infinity() | 1);  // signaling
    values.push_back(format.infinity() | quiet);
    values.push_back(format.infinity() | quiet | 1 | quiet >> 1);
    values.push_back(format.infinity() + format.mantissa_mask());
  } else {
    values.push_back(format.largest() + 1);
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) {
    values.push_back(values[i] | format.sign());
  }
  return values;
}

// A number with its exponent within `spread` of that of 1 and a random mantissa.
inline uint64_t float_within(const FloatFormat& format, int spread, Random& random) {
  const int top = static_cast<int>(format.top_exponent()) - (format.infinities ? 1 : 0);
  const int exponent = format.bias() + random.between(-spread, spread);
  const int kept = exponent < 0 ? 0 : exponent > top ? top : exponent;
  uint64_t number = format.pack(random.below(2) != 0, static_cast<uint64_t>(kept), random.bits());
  if (!format.infinities && (number & ~format.sign()) > format.largest()) {
    number -= 1;  // not NaN
  }
  return number;
}

// A number that is a tie, or beside one, for a format with fewer bits of mantissa.
inline uint64_t float_near_tie(const FloatFormat& format, Random& random) {
  static constexpr int kNarrower[] = {23, 10, 7, 3, 2, 1};
  uint64_t number = float_within(format, random.below(2) != 0 ? 20 : 160, random);
  const int dropped = format.mantissa_bits - kNarrower[random.below(6)];
  if (dropped <= 0) {
    return number;
  }
  number = number >> dropped << dropped | uint64_t{1} << (dropped - 1);
  return number + random.below(3) - 1;
}

// A number at or beside a power of two, as the limits of the integers are.
inline uint64_t float_near_power(const FloatFormat& format, Random& random) {
  const int exponent = format.bias() + random.between(-2, 65);
  if (exponent >= static_cast<int>(format.top_exponent())) {
    return format.largest();
  }
  const uint64_t power = format.pack(false, static_cast<uint64_t>(exponent), 0);
  return (power + random.below(5) - 2) | (random.below(2) != 0 ? format.sign() : 0);
}

inline uint64_t random_float(const FloatFormat& format, Random& random) {
  switch (random.below(6)) {
    case 0:  // anything
      return random.bits() & (format.sign() * 2 - 1);
    case 1:
      return float_within(format, 3, random);
    case 2: {  // few bits set: exact results and ties
      const uint64_t number = float_within(format, format.mantissa_bits + 2, random);
      const uint64_t kept = uint64_t{1} << random.below(format.mantissa_bits) |
                            uint64_t{1} << random.below(format.mantissa_bits);
      return number & ~format.mantissa_mask() |
             (random.below(3) != 0 ? kept : kept & random.bits());
    }
    case 3:
      return float_near_tie(format, random);
    case 4:
      return float_near_power(format, random);
    default:
      return float_within(format, 1 << (format.exponent_bits - 2), random);
  }
}

inline std::vector<uint64_t> special_integers(int bits) {
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t top = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> values = {0,       1,       2,   3,       7,       all,
                                  all - 1, all - 2, top, top + 1, top - 1, top - 2};
  for (const uint64_t pattern : {0x5555555555555555u, 0xAAAAAAAAAAAAAAAAu, 0x00FF00FF00FF00FFu}) {
    values.push_back(pattern & all);
  }
  for (int bit = 8; bit < bits; bit *= 2) {
    values.push_back(uint64_t{1} << bit);
    values.push_back((uint64_t{1} << bit) - 1);
    values.push_back((0 - (uint64_t{1} << bit)) & all);
  }
  return values;
}

inline uint64_t random_integer(int bits, Random& random) {
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t value = random.bits() >> random.below(bits);  // of any magnitude
  return (random.below(3) == 0 ? 0 - value : value) & all;
}

// What an operand holds.
enum class Kind {
  kInt8,  // in a wider register, whose other bits are random
  kInt16,
  kInt32,
  kInt64,
  kBytes,      // four of 8 bits
  kInt16x2,    // two of 16
  kShift,      // counts, mostly small
  kSelector,   // 0 or 1
  kBytePairs,  // 16 bits: every byte comes up
  kF16,
  kBf16,
  kF16x2,
  kBf16x2,
  kF32,
  kF64,
  kAngle,  // f32 within +-100 pi
};

// Two special values of 16 bits for each of one.
inline std::vector<uint64_t> in_pairs(const std::vector<uint64_t>& values) {
  std::vector<uint64_t> pairs;
  for (size_t i = 0; i < values.size(); ++i) {
    pairs.push_back(values[i] | values[(i * 5 + 3) % values.size()] << 16);
  }
  return pairs;
}

// None of the finite ones that are too large for an error to be documented.
inline std::vector<uint64_t> special_angles() {
  std::vector<uint64_t> angles;
  for (const uint64_t value : special_floats(kF32)) {
    const uint64_t magnitude = value & ~kF32.sign();
    if (magnitude < kF32.integer(300) || magnitude >= kF32.infinity()) {
      angles.push_back(value);
    }
  }
  return angles;
}

inline std::vector<uint64_t> specials(Kind kind) {
  switch (kind) {
    case Kind::kInt8:
      return special_integers(8);
    case Kind::kInt16:
      return special_integers(16);
    case Kind::kInt32:
      return special_integers(32);
    case Kind::kInt64:
      return special_integers(64);
    case Kind::kBytes:
      return {0,          0x01010101, 0x7F7F7F7F, 0x80808080,
              0xFFFFFFFF, 0x7F80FF00, 0x00FF807F, 0x01FF0280};
    case Kind::kInt16x2:
      return in_pairs(special_integers(16));
    case Kind::kShift:
      return {0,  1,  2,  7,  8,   15,  16,  17,  24,  31,         32,
              33, 63, 64, 65, 127, 128, 255, 256, 257, 0x80000000, 0xFFFFFFFF};
    case Kind::kSelector:
      return {0, 1};
    case Kind::kBytePairs:
      return {0, 0x7F7F, 0x8080, 0xFFFF, 0x7C7C, 0xFCFC, 0x7E01, 0x0180};
    case Kind::kF16:
      return special_floats(kF16);
    case Kind::kBf16:
      return special_floats(kBf16);
    case Kind::kF16x2:
      return in_pairs(special_floats(kF16));
    case Kind::kBf16x2:
      return in_pairs(special_floats(kBf16));
    case Kind::kF32:
      return special_floats(kF32);
    case Kind::kAngle:
      return special_angles();
    case Kind::kF64:
      return special_floats(kF64);
  }
  return {};
}

inline uint64_t random_value(Kind kind, Random& random) {
  switch (kind) {
    case Kind::kInt8:
      return random.bits();
    case Kind::kInt16:
      return random_integer(16, random);
    case Kind::kInt32:
      return random_integer(32, random);
    case Kind::kInt64:
      return random_integer(64, random);
    case Kind::kBytes:
    case Kind::kInt16x2:
      return random.bits() & 0xFFFFFFFF;
    case Kind::kShift:
      return random.below(8) == 0 ? random.bits() & 0xFFFFFFFF : random.below(72);
    case Kind::kSelector:
      return random.below(2);
    case Kind::kBytePairs:
      return random.bits() & 0xFFFF;
    case Kind::kF16:
      return random_float(kF16, random);
    case Kind::kBf16:
      return random_float(kBf16, random);
    case Kind::kF16x2:
      return random_float(kF16, random) | random_float(kF16, random) << 16;
    case Kind::kBf16x2:
      return random_float(kBf16, random) | random_float(kBf16, random) << 16;
    case Kind::kF32:
      return random_float(kF32, random);
    case Kind::kF64:
      return random_float(kF64, random);
    case Kind::kAngle:
      return float_within(kF32, 7, random);
  }
  return 0;
}

// `count` inputs of instructions with these operands: special values with one another first, then
// random values, some with special ones among them.
inline std::vector<std::vector<uint64_t>> make_inputs(const std::vector<Kind>& kinds, size_t count,
                                                      uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<uint64_t>> special;
  size_t combinations = 1;
  for (const Kind kind : kinds) {
    special.push_back(specials(kind));
    combinations *= special.back().size();
  }
  const bool all_combinations = combinations <= count * 7 / 8;
  const size_t special_count = all_combinations ? combinations : count / 2;
  std::vector<std::vector<uint64_t>> inputs(count);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (size_t k = 0; k < kinds.size(); ++k) {
      uint64_t value = random_value(kinds[k], random);
      if (i < special_count) {
        value = all_combinations ? special[k][rest % special[k].size()] : random.of(special[k]);
        rest /= special[k].size();
      } else if (random.below(8) == 0) {
        value = random.of(special[k]);
      }
      inputs[i].push_back(value);
    }
  }
  return inputs;
}

// Factors, dividends and addends whose results are about the smallest normal number, to both of its
// sides, where flushing before rounding and after it differ: a * b, or a * b + c.
inline std::vector<std::vector<uint64_t>> make_tiny_products(const FloatFormat& format,
                                                             size_t count, size_t operands) {
  Random random(31);
  std::vector<std::vector<uint64_t>> inputs;
  const int smallest = 1 - format.bias();
  for (size_t i = 0; i < count; ++i) {
    // (1 + u ulp) * (1 - v ulp): next to 1, from below where u is no larger than v.
    const auto up = random.below(6);
    const auto down = random.below(6) + up;
    const bool below = random.below(4) != 0;
    const int exponent = random.between(-6, -1);
    const int other = smallest - exponent;
    const uint64_t a =
        format.pack(random.below(2) != 0, static_cast<uint64_t>(format.bias() + exponent), 0) + up;
    const uint64_t b =
        format.pack(random.below(2) != 0, static_cast<uint64_t>(format.bias() + other), 0);
    std::vector<uint64_t> input = {a, below ? b - down : b + down};
    if (operands == 3) {
      // Nothing, the smallest numbers, or the smallest normal one beside a smaller product.
      const uint64_t addends[] = {0,
                                  1,
                                  format.sign(),
                                  format.sign() | 1,
                                  format.pack(false, 1, 0),
                                  format.pack(true, 1, 0)};
      input.push_back(addends[random.below(6)]);
      if (random.below(2) == 0) {
        input[1] = format.pack(random.below(2) != 0, random.below(3) + 1, random.bits());
        input[0] = format.pack(
            random.below(2) != 0,
            static_cast<uint64_t>(format.bias() - format.mantissa_bits + random.between(-3, 1)),
            random.bits());
      }
    }
    inputs.push_back(input);
  }
  return inputs;
}

// Dividends and divisors with such quotients.
inline std::vector<std::vector<uint64_t>> make_tiny_quotients(const FloatFormat& format,
                                                              size_t count) {
  Random random(32);
  std::vector<std::vector<uint64_t>> inputs;
  for (size_t i = 0; i < count; ++i) {
    const int exponent = random.between(0, 6);
    const auto one = static_cast<uint64_t>(format.bias() + exponent);
    const auto least = static_cast<uint64_t>(1 + exponent);
    inputs.push_back({format.pack(random.below(2) != 0, least, 0) + random.below(6),
                      format.pack(random.below(2) != 0, one, 0) + random.below(9)});
  }
  return inputs;
}

// f64 numbers about the smallest normal f32.
inline std::vector<std::vector<uint64_t>> make_tiny_doubles(size_t count) {
  Random random(33);
  std::vector<std::vector<uint64_t>> inputs;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t smallest =
        kF64.pack(random.below(2) != 0, static_cast<uint64_t>(kF64.bias() - 126), 0);
    const uint64_t step = uint64_t{1} << random.between(24, 31);
    inputs.push_back({smallest + step * random.below(5) - 2 * step + random.below(3) - 1});
  }
  return inputs;
}

}  // namespace mpfa::ptx_test
