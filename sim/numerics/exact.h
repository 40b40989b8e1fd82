// Numbers that no float holds: exact sums, products, quotients and roots of doubles, and their
// rounding to any format in any mode. Integer arithmetic, slow and plain; what has a fast way
// (f32, and f64 in .rn) does not come here.
#pragma once

#include <cstdint>

#include "sim/numerics/float_format.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

__extension__ using Uint128 = unsigned __int128;

// significand * 2^exponent. What an operation cannot hold exactly it leaves in the lowest bit as a
// one ("sticky"): far enough below the bits of any format that roundings go right.
struct Exact {
  bool negative = false;
  Uint128 significand = 0;
  int exponent = 0;
};

Exact exact_value(double x);  // finite
Exact exact_value(uint64_t x);
Exact exact_value(int64_t x);

Exact exact_product(const Exact& a, const Exact& b);  // of significands up to 64 bits
// A sum of zero is negative where both terms are, or where they differ and `mode` is kDown
// (IEEE 754, 6.3).
Exact exact_sum(const Exact& a, const Exact& b, Rounding mode);
Exact exact_quotient(const Exact& a, const Exact& b);  // of significands up to 64 bits, b not 0
Exact exact_root(const Exact& a);                      // a positive

// The code of a value, its sign included.
uint64_t round_exact(const FloatFormat& format, const Exact& value, Rounding mode);

}  // namespace mpfa::sim
