#pragma once

#include <cstdint>

namespace mpfa::internal {

// a / b rounded up, for a >= 0 and b > 0; not (a + b - 1) / b, whose sum may overflow.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace mpfa::internal
