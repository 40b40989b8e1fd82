// Checks of values, not shapes, that several functions make.
#pragma once

#include <string_view>

#include "core/tensor.h"
#include "mpfa/formats.h"

namespace mpfa::internal {

// Every element finite and above 0, as scales must be; the error names the first that is not. An
// absent tensor passes. Rank 1, 2 or 3.
template <int Rank>
void check_positive(const Tensor<float, Rank>& scales, std::string_view name);

void check_scale_rule(ScaleRule rule);

}  // namespace mpfa::internal
