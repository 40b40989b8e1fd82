// Shapes and types that matrix instructions name.
#pragma once

#include <optional>
#include <string>

#include "sim/insn/decoder.h"
#include "sim/numerics/dot_add_model.h"
#include "sim/numerics/tensor_types.h"

namespace mpfa::sim {

struct MatrixShape {
  int m = 0;
  int n = 0;
  int k = 0;
};

// Takes .m16n8k16.
MatrixShape take_matrix_shape(InsnDecoder& decoder);
std::optional<ElementType> element_type_of(ScalarType type);
std::optional<AccumulatorType> accumulator_type_of(ScalarType type);
ElementType take_element_type(InsnDecoder& decoder);
AccumulatorType take_accumulator_type(InsnDecoder& decoder);

// The architecture whose tensor cores the decoder's kernel runs on.
Architecture architecture_of(InsnDecoder& decoder);

}  // namespace mpfa::sim
