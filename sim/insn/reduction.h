// The reductions of asynchronous copies and stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/insn/decoder.h"
#include "sim/tensor_map/reduce.h"

namespace mpfa::sim {

// Takes .add and the like.
ReduceOp take_reduce_op(InsnDecoder& decoder);
// The element type that reduces as a scalar type does outside of tensors; none if there is no such.
std::optional<TensorMapType> reduction_type(ScalarType type);

// to[i] = to[i] OP from[i] for all elements in `bytes`, each of them atomically: other threads of
// the host may run other clusters.
void reduce_atomically(ReduceOp op, TensorMapType type, std::byte* to, const std::byte* from,
                       size_t bytes);

}  // namespace mpfa::sim
