// Bit patterns spread over a floating-point type: every exponent, with the significands at which
// roundings turn, and random ones.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace mpfa::sim {

constexpr uint64_t kSeed = 20250731;

// Significands around where `kept` bits end: ties, their neighbours, carries.
inline std::vector<uint64_t> turning_fractions(int mantissa_bits, std::vector<int> kept) {
  const uint64_t all = (uint64_t{1} << mantissa_bits) - 1;
  std::vector<uint64_t> fractions{0, 1, 2, all, all - 1, all / 3};
  for (const int bits : kept) {
    if (bits >= mantissa_bits) continue;
    const uint64_t half = uint64_t{1} << (mantissa_bits - bits - 1);
    for (const uint64_t base : {uint64_t{0}, 2 * half, all - 2 * half + 1, all - 4 * half + 1}) {
      for (const uint64_t offset : {half - 1, half, half + 1}) {
        fractions.push_back((base + offset) & all);
      }
    }
  }
  return fractions;
}

inline std::vector<float> float_samples(const std::vector<int>& kept, int random_count) {
  std::vector<float> samples;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint64_t fraction : turning_fractions(23, kept)) {
      const uint32_t bits = exponent << 23 | static_cast<uint32_t>(fraction);
      samples.push_back(std::bit_cast<float>(bits));
      samples.push_back(std::bit_cast<float>(bits | 0x80000000u));
    }
  }
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < random_count; ++i) {
    samples.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  return samples;
}

inline std::vector<double> double_samples(const std::vector<int>& exponents,
                                          const std::vector<int>& kept) {
  std::vector<double> samples;
  for (const int exponent : exponents) {
    for (const uint64_t fraction : turning_fractions(52, kept)) {
      const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52 | fraction;
      samples.push_back(std::bit_cast<double>(bits));
      samples.push_back(std::bit_cast<double>(bits | uint64_t{1} << 63));
    }
  }
  return samples;
}

}  // namespace mpfa::sim
