#include "sim/insn/matrix_operands.h"

#include "mpfa/check.h"
#include "sim/insn/matrix_fragment.h"

namespace mpfa::sim {
namespace {

template <class Visit>
std::vector<Slot> registers_of(InsnDecoder& d, const Operand& operand, Visit visit) {
  const std::vector<Operand> one = {operand};
  const auto& parts = operand.kind == OperandKind::kVector ? operand.parts : one;
  std::vector<Slot> slots;
  for (const Operand& part : parts) {
    const bool wide = d.register_bits(part, ScalarType::kB32) == 64;
    slots.push_back(visit(part, wide ? ScalarType::kB64 : ScalarType::kB32));
  }
  return slots;
}

}  // namespace

std::vector<Slot> matrix_sources(InsnDecoder& d, const Operand& operand) {
  return registers_of(d, operand, [&](const Operand& part, ScalarType type) {
    return d.register_source(part, type);
  });
}

std::vector<Slot> matrix_targets(InsnDecoder& d, const Operand& operand) {
  return registers_of(d, operand,
                      [&](const Operand& part, ScalarType type) { return d.target(part, type); });
}

void expect_registers(InsnDecoder& d, const char* name, size_t have, int64_t want) {
  if (static_cast<int64_t>(have) != want) {
    d.fail(internal::str_cat(name, " has ", have, " registers; the shape has ", want));
  }
}

int64_t accumulator_registers(int64_t m, int64_t n, AccumulatorType type) {
  const int64_t elements = m * n / kWarpSize;
  return type == AccumulatorType::kF16 ? elements / 2 : elements;
}

int64_t operand_registers(int64_t lines, int64_t k, ElementType type) {
  return lines * containers_of(type, k) / (int64_t{kWarpSize} * elements_of_register(type));
}

int64_t containers_of(ElementType type, int64_t k) { return type == ElementType::kB1 ? k / 32 : k; }

}  // namespace mpfa::sim
