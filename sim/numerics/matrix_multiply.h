// What one tensor core instruction computes: D = A * B^T + C, bit for bit as dot_add_reference.h
// defines each element, and fast.
#pragma once

#include <cstdint>

#include "sim/numerics/dot_add_model.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

struct MatrixMultiply {
  DotAddModel model;
  int m = 0;
  int n = 0;
  int k = 0;  // elements; a k longer than an instruction's is a chain of instructions

  bool add_c = true;  // false: C is zero, and not read
  // Of floating-point types but f64 (ISA, section "wgmma.mma_async": imm-scale-a, imm-scale-b).
  bool negate_a = false;
  bool negate_b = false;
  // Of f64 alone; the others round as their models say.
  Rounding rounding = Rounding::kNearestEven;
};

// Strides are in elements: in containers of A and B (tensor_types.h), along which k runs.
struct MatrixOperands {
  const void* a = nullptr;  // [m][k]
  int64_t a_stride = 0;
  const void* b = nullptr;  // [n][k]
  int64_t b_stride = 0;
  const void* c = nullptr;  // [m][n], of the accumulator's type
  int64_t c_stride = 0;
  void* d = nullptr;  // [m][n]; may be c, with its stride
  int64_t d_stride = 0;
  // Of block-scaled models.
  const uint8_t* a_scales = nullptr;  // [m][k / scale_block]
  int64_t a_scale_stride = 0;
  const uint8_t* b_scales = nullptr;  // [n][k / scale_block]
  int64_t b_scale_stride = 0;
};

void matrix_multiply(const MatrixMultiply& op, const MatrixOperands& operands);

}  // namespace mpfa::sim
