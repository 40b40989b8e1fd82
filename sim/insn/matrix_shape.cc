#include "sim/insn/matrix_shape.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "sim/insn/function_decoder.h"

namespace mpfa::sim {

namespace {

// Takes "m16" off the front.
bool take_extent(std::string_view& text, char letter, int& extent) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

MatrixShape take_matrix_shape(InsnDecoder& d) {
  for (const std::string& modifier : d.left()) {
    MatrixShape shape;
    std::string_view rest = modifier;
    const bool is_shape = take_extent(rest, 'm', shape.m) && take_extent(rest, 'n', shape.n) &&
                          take_extent(rest, 'k', shape.k) && rest.empty();
    if (is_shape) {
      d.take(std::string(modifier));
      return shape;
    }
  }
  d.fail("the shape is missing");
}

std::optional<ElementType> element_type_of(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return ElementType::kF16;
    case ScalarType::kBf16:
      return ElementType::kBf16;
    case ScalarType::kTf32:
      return ElementType::kTf32;
    case ScalarType::kE4m3:
      return ElementType::kE4m3;
    case ScalarType::kE5m2:
      return ElementType::kE5m2;
    case ScalarType::kE3m2:
      return ElementType::kE3m2;
    case ScalarType::kE2m3:
      return ElementType::kE2m3;
    case ScalarType::kE2m1:
      return ElementType::kE2m1;
    case ScalarType::kF64:
      return ElementType::kF64;
    case ScalarType::kS8:
      return ElementType::kS8;
    case ScalarType::kU8:
      return ElementType::kU8;
    case ScalarType::kS4:
      return ElementType::kS4;
    case ScalarType::kU4:
      return ElementType::kU4;
    case ScalarType::kB1:
      return ElementType::kB1;
    default:
      return std::nullopt;
  }
}

std::optional<AccumulatorType> accumulator_type_of(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return AccumulatorType::kF32;
    case ScalarType::kF16:
      return AccumulatorType::kF16;
    case ScalarType::kF64:
      return AccumulatorType::kF64;
    case ScalarType::kS32:
      return AccumulatorType::kS32;
    default:
      return std::nullopt;
  }
}

ElementType take_element_type(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  const std::optional<ElementType> element = element_type_of(type);
  if (!element) d.fail("." + std::string(name_of(type)) + " is no type of a matrix's elements");
  return *element;
}

AccumulatorType take_accumulator_type(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  const std::optional<AccumulatorType> accumulator = accumulator_type_of(type);
  if (!accumulator) d.fail("." + std::string(name_of(type)) + " is no type of an accumulator");
  return *accumulator;
}

Architecture architecture_of(InsnDecoder& d) {
  return architecture_of(d.function().kernel().capability);
}

}  // namespace mpfa::sim
