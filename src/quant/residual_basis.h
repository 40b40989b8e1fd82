// The directions along which a KV head's queries see rounding errors most (docs/spec.md, section
// 2).
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace mpfa::internal {

// Writes U [rank, d] as rows: the top eigenvectors of E[q q^T] over queries of heads [first_head,
// first_head + group_size), largest eigenvalue first, each with its element of largest magnitude
// (the first of equal ones) made positive. Orthonormal to FP32 rounding also where there are fewer
// than `rank` independent queries. Runs on one thread, in a fixed order.
template <typename T>
void compute_residual_basis(const Tensor<T, 3>& q, int64_t first_head, int64_t group_size,
                            int64_t rank, float* const* rows);

}  // namespace mpfa::internal
