// Products of matrices whose arithmetic is that of the CPU: f64, integers, bits.
#pragma once

#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {

void f64_multiply(const MatrixMultiply& op, const MatrixOperands& operands);
void integer_multiply(const MatrixMultiply& op, const MatrixOperands& operands);
void population_multiply(const MatrixMultiply& op, const MatrixOperands& operands);

}  // namespace mpfa::sim
