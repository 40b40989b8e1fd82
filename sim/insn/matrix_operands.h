// The register operands of matrix instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {

// The registers of an operand, one or a vector of them, each of 32 or 64 bits.
std::vector<Slot> matrix_sources(InsnDecoder& decoder, const Operand& operand);
std::vector<Slot> matrix_targets(InsnDecoder& decoder, const Operand& operand);

// Fails unless matrix `name` has `want` registers.
void expect_registers(InsnDecoder& decoder, const char* name, size_t have, int64_t want);

// Registers of a lane: of m * n accumulators of a warp, and of `lines` rows of A, or columns of B.
int64_t accumulator_registers(int64_t m, int64_t n, AccumulatorType type);
int64_t operand_registers(int64_t lines, int64_t k, ElementType type);

// Containers (tensor_types.h) of k elements.
int64_t containers_of(ElementType type, int64_t k);

}  // namespace mpfa::sim
