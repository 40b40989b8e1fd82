// The inner loop of the means.
#pragma once

#include <cstdint>

#include "mpfa/formats.h"

namespace mpfa::internal {

// sum[i] += row[i] for i < size, in FP64. Elements do not mix, so the vector width changes nothing.
void add_row(const Bf16* row, int64_t size, double* sum);
void add_row(const Fp16* row, int64_t size, double* sum);
void add_row(const float* row, int64_t size, double* sum);

}  // namespace mpfa::internal
