// How the matrices of mma.sync and wgmma lie in a warp's registers (PTX ISA, "Matrix Fragments for
// mma.*", "Register Fragments and Shared Memory Matrix Layouts" of wgmma).
//
// With g = lane / 4 and t = lane % 4, a register of 32 bits holds P elements that follow each other
// in k. Register r of A: row g + 8 * (r mod rows / 8), k from 4 P * (r div rows / 8) + P t.
// Register r of B: column g, k from 4 P r + P t. Registers 2 r and 2 r + 1 of C: row g + 8 r,
// columns 2 t and 2 t + 1, and so on for every 8 columns; of f16, one register holds both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/machine/code.h"
#include "sim/numerics/tensor_types.h"

namespace mpfa::sim {

// Registers that each hold 32 lanes.
using RegisterFile = std::byte*;

inline bool is_nibble(ElementType type) {
  return type == ElementType::kS4 || type == ElementType::kU4;
}

// Elements, as containers of tensor_types.h, of one register of A or B.
int elements_of_register(ElementType type);

// Copies A (rows: 8 or 16) out of `slots` to dense rows of `stride` containers.
void gather_a(RegisterFile registers, const std::vector<Slot>& slots, ElementType type, int rows,
              void* out, int64_t stride);
// B, 8 columns: out is [column][k].
void gather_b(RegisterFile registers, const std::vector<Slot>& slots, ElementType type, void* out,
              int64_t stride);
// C or D of 8 or 16 rows and as many columns as the registers hold: [row][column].
void gather_c(RegisterFile registers, const std::vector<Slot>& slots, AccumulatorType type,
              int rows, void* out, int64_t stride);
void scatter_d(RegisterFile registers, const std::vector<Slot>& slots, AccumulatorType type,
               int rows, const void* from, int64_t stride);

}  // namespace mpfa::sim
