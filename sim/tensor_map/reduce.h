// cp.reduce.async.bulk: element by element, destination = destination OP source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {

enum class ReduceOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

std::string_view name_of(ReduceOp op);
// Whether the PTX ISA has the operation for the type ("cp.reduce.async.bulk.tensor").
bool has_reduction(ReduceOp op, TensorMapType type);

// Both spans have the same whole number of elements. Throws TensorMapError if !has_reduction().
void reduce(ReduceOp op, TensorMapType type, std::span<std::byte> destination,
            std::span<const std::byte> source);

}  // namespace mpfa::sim
