// mma.sync.m8n8k4 of f16: four products, each of 8 threads (quad_pair.cc).
#pragma once

#include "sim/insn/decoder.h"
#include "sim/insn/matrix_shape.h"

namespace mpfa::sim {

// Whether an mma of this shape, whose types have not been taken, is one.
bool is_quad_pair(const InsnDecoder& decoder, const MatrixShape& shape);
// .mma, .sync, .aligned and the shape have been taken.
void decode_quad_pair_mma(InsnDecoder& decoder);

}  // namespace mpfa::sim
