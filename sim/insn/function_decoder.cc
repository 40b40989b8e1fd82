#include "sim/insn/function_decoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/operand_width.h"
#include "sim/machine/address.h"
#include "sim/machine/fault.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kPoolAlignment = 64;
constexpr int kLaneCount = kWarpSize;

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Bytes of a register of all lanes, 64-byte aligned but for predicates.
uint32_t slot_bytes(int bits) {
  if (bits == 1) return 4;
  const int lane_bytes = std::max(bits / 8, 2);  // .b8 registers hold 16 bits
  return static_cast<uint32_t>(lane_bytes * kLaneCount);
}

uint64_t alignment_of(const Variable& variable) {
  return static_cast<uint64_t>(std::max<int64_t>(variable.alignment, 1));
}

template <class Visit>
void visit_operands(const std::vector<Operand>& operands, const Visit& visit) {
  for (const Operand& operand : operands) {
    visit(operand);
    visit_operands(operand.parts, visit);
  }
}

// Where the function that a name means stands in Module::functions.
size_t place_of(const Module& module, const std::string& name) {
  return static_cast<size_t>(module.find_function(name) - module.functions.data());
}

// Finds what a kernel reaches, and lays out its shared memory.
class Reach {
 public:
  Reach(const Module& module, KernelCode& kernel) : module_(module), kernel_(kernel) {}

  // Gives the bytes of shared memory whose size is known.
  uint64_t run(const Function& entry, uint64_t reserved_shared_bytes) {
    kernel_.function_of_module.assign(module_.functions.size(), UINT32_MAX);
    add(entry);
    for (size_t i = 0; i < kernel_.functions.size(); ++i) {
      scan(*kernel_.functions[i]->function);
      // Any function whose address a variable holds may be called through it.
      if (calls_indirectly_ && i + 1 == kernel_.functions.size()) add_functions_of_variables();
    }
    return lay_out_shared(reserved_shared_bytes);
  }

 private:
  void add(const Function& function) {
    const auto index = static_cast<uint32_t>(kernel_.functions.size());
    if (!kernel_.function_index.emplace(function.name, index).second) return;
    kernel_.functions.push_back(std::make_unique<FunctionCode>());
    kernel_.functions.back()->function = &function;
    kernel_.function_of_module[place_of(module_, function.name)] = index;
  }

  void add_functions_of_variables() {
    for (const Variable& variable : module_.variables) {
      for (const InitialValue& value : variable.initial) {
        if (!value.symbol.empty()) add_named(value.symbol);
      }
    }
  }

  void scan(const Function& function) {
    add_shared_of(function);
    for (const Instruction& instruction : function.instructions) {
      calls_indirectly_ |=
          instruction.opcode == "call" &&
          std::any_of(instruction.operands.begin(), instruction.operands.end(),
                      [](const Operand& o) { return o.kind == OperandKind::kRegister; });
      visit_operands(instruction.operands, [&](const Operand& operand) {
        if (operand.kind == OperandKind::kFunction) add_named(operand.name);
        if (operand.kind == OperandKind::kVariable) add_variable(operand.name);
      });
    }
  }

  // The function's own variables; what no instruction names takes no memory.
  void add_shared_of(const Function& function) {
    std::set<std::string> named;
    for (const Instruction& instruction : function.instructions) {
      visit_operands(instruction.operands, [&](const Operand& operand) {
        if (operand.kind == OperandKind::kVariable) named.insert(operand.name);
      });
    }
    for (const Variable& variable : function.variables) {
      const bool is_used = variable.space == StateSpace::kShared && named.contains(variable.name);
      if (is_used) add_shared(function.name, variable);
    }
  }

  void add_named(const std::string& name) {
    const Function* function = module_.find_function(name);
    if (function != nullptr) add(*function);
  }

  void add_variable(const std::string& name) {
    if (!seen_.insert(name).second) return;
    const auto found =
        std::find_if(module_.variables.begin(), module_.variables.end(),
                     [&](const Variable& variable) { return variable.name == name; });
    if (found == module_.variables.end()) return;
    if (found->space == StateSpace::kShared) return add_shared("", *found);
    for (const InitialValue& value : found->initial) {
      if (value.symbol.empty()) continue;
      add_named(value.symbol);
      add_variable(value.symbol);
    }
  }

  // A function's own variables bear its name before theirs: two functions may use the same one.
  void add_shared(const std::string& function, const Variable& variable) {
    const std::string key = function.empty() ? variable.name : function + "::" + variable.name;
    const bool is_open = variable.bytes() == 0;
    (is_open ? dynamic_ : fixed_).emplace_back(key, &variable);
  }

  uint64_t lay_out_shared(uint64_t reserved) {
    uint64_t end = reserved;
    for (const auto& [key, variable] : fixed_) {
      end = round_up(end, alignment_of(*variable));
      kernel_.shared_offsets[key] = end;
      end += static_cast<uint64_t>(variable->bytes());
    }
    const uint64_t bytes = end - reserved;
    uint64_t alignment = 16;
    for (const auto& [key, variable] : dynamic_) {
      alignment = std::max(alignment, alignment_of(*variable));
    }
    kernel_.dynamic_shared_offset = round_up(end, alignment);
    for (const auto& [key, variable] : dynamic_) {
      kernel_.shared_offsets[key] = kernel_.dynamic_shared_offset;
    }
    return bytes;
  }

  const Module& module_;
  KernelCode& kernel_;
  std::set<std::string> seen_;
  bool calls_indirectly_ = false;
  std::vector<std::pair<std::string, const Variable*>> fixed_;
  std::vector<std::pair<std::string, const Variable*>> dynamic_;
};

}  // namespace

std::vector<uint64_t> param_layout(const std::vector<Variable>& params) {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (const Variable& param : params) {
    end = round_up(end, alignment_of(param));
    offsets.push_back(end);
    end += static_cast<uint64_t>(param.bytes());
  }
  offsets.push_back(end);
  return offsets;
}

uint64_t static_shared_bytes(const Module& module, const Function& kernel) {
  KernelCode scratch;
  return Reach(module, scratch).run(kernel, 0);
}

std::unique_ptr<KernelCode> decode_kernel(const Module& module, const Function& kernel,
                                          const SymbolAddresses& symbols,
                                          const DeviceModel& model) {
  auto code = std::make_unique<KernelCode>();
  code->module = &module;
  code->capability = model.capability();
  Reach(module, *code).run(kernel, static_cast<uint64_t>(model.reserved_shared_bytes));
  for (const auto& function : code->functions) {
    // Functions without a body are the runtime's own (vprintf): calls of them are known by name.
    if (function->function->is_defined) FunctionDecoder(*code, *function, symbols).run();
  }
  uint32_t first_insn = 0;
  for (const auto& function : code->functions) {
    function->first_insn = first_insn;
    first_insn += static_cast<uint32_t>(function->insns.size());
  }
  return code;
}

FunctionDecoder::FunctionDecoder(KernelCode& kernel, FunctionCode& code,
                                 const SymbolAddresses& symbols)
    : kernel_(kernel), code_(code), symbols_(symbols) {}

void FunctionDecoder::run() {
  place_registers();
  place_locals();
  const std::vector<Instruction>& instructions = function().instructions;
  const bool has_wgmma = std::any_of(instructions.begin(), instructions.end(),
                                     [](const Instruction& i) { return i.opcode == "wgmma"; });
  if (has_wgmma) uses_ = std::make_unique<RegisterUses>();
  std::vector<uint32_t> starts;
  starts.reserve(instructions.size() + 1);
  for (const Instruction& instruction : instructions) {
    starts.push_back(static_cast<uint32_t>(code_.insns.size()));
    InsnDecoder decoder(*this, instruction);
    const DecodeFunction decode = find_decode_function(instruction.opcode);
    if (decode == nullptr) decoder.fail("the simulator does not know " + instruction.opcode);
    check_operand_widths(decoder);
    decode(decoder);
    if (uses_) uses_->end_instruction(code_.insns.size(), instruction.opcode == "mov");
  }
  starts.push_back(static_cast<uint32_t>(code_.insns.size()));
  // Control may reach the end of the text: an implicit ret.
  Instruction ret;
  ret.opcode = "ret";
  InsnDecoder closing(*this, ret);
  find_decode_function("ret")(closing);
  code_.insns.back().source =
      static_cast<uint32_t>(instructions.empty() ? 0 : instructions.size() - 1);
  for (const auto& [insn, target] : branches_) {
    code_.insns[insn].imm = starts[static_cast<size_t>(target)];
  }
  for (const auto& [place, target] : branch_places_) {
    *place = starts[static_cast<size_t>(target)];
  }
  if (uses_) {
    code_.watched =
        uses_->finish(code_.insns.size(), [this](Slot slot) { return register_name(slot); });
  }
  code_.pool.resize(pool_.size() + kPoolAlignment);
  if (!pool_.empty()) {
    std::memcpy(const_cast<std::byte*>(code_.pool_data()), pool_.data(), pool_.size());
  }
}

void FunctionDecoder::place_registers() {
  for (const Register& each : function().registers) {
    slots_.push_back(scratch(each.type.bits));
    for (int i = 1; i < each.vector_size; ++i) scratch(each.type.bits);
  }
  code_.register_slots = slots_;
  code_.carry_slot = scratch(1);
}

void FunctionDecoder::place_locals() {
  uint64_t end = 0;
  const auto place = [&](const Variable& variable) {
    end = round_up(end, alignment_of(variable));
    code_.local_offsets[variable.name] = end;
    const uint64_t at = end;
    end += static_cast<uint64_t>(variable.bytes());
    return at;
  };
  if (!function().is_entry) {
    for (const Variable& variable : function().results) {
      code_.result_offsets.push_back(place(variable));
    }
    for (const Variable& variable : function().params) {
      code_.param_offsets.push_back(place(variable));
    }
  }
  for (const Variable& variable : function().variables) {
    if (variable.space == StateSpace::kLocal || variable.space == StateSpace::kParam) {
      place(variable);
    }
  }
  code_.local_bytes = round_up(end, 16);
}

std::string FunctionDecoder::register_name(Slot slot) const {
  // The last one that begins no later: registers lie in the order of their slots.
  const auto next = std::upper_bound(slots_.begin(), slots_.end(), slot);
  if (next == slots_.begin()) return "of the simulator's own";
  return function().registers[static_cast<size_t>(next - slots_.begin() - 1)].name;
}

Slot FunctionDecoder::register_slot(int64_t index, int component) const {
  const Slot slot = slots_[static_cast<size_t>(index)];
  if (component <= 0) return slot;
  const Register& each = function().registers[static_cast<size_t>(index)];
  return slot + static_cast<uint32_t>(component) * slot_bytes(each.type.bits);
}

Slot FunctionDecoder::scratch(int bits) {
  const uint32_t bytes = slot_bytes(bits);
  if (bits != 1) code_.frame_bytes = static_cast<uint32_t>(round_up(code_.frame_bytes, 64));
  const Slot slot = code_.frame_bytes;
  code_.frame_bytes += bytes;
  code_.slots.push_back({slot, bits});
  return slot;
}

Slot FunctionDecoder::constant(uint64_t bits, int width_bits) {
  const auto [found, is_new] = constants_.emplace(std::pair(bits, width_bits), 0);
  if (!is_new) return found->second;
  const uint32_t bytes = slot_bytes(width_bits);
  const auto at = static_cast<uint32_t>(round_up(pool_.size(), kPoolAlignment));
  pool_.resize(at + bytes);
  const uint32_t lane_bytes = width_bits == 1 ? 4 : bytes / kLaneCount;
  const uint64_t halves[2] = {bits, 0};
  for (uint32_t i = 0; i < bytes / lane_bytes; ++i) {
    std::memcpy(pool_.data() + at + size_t{i} * lane_bytes, halves, lane_bytes);
  }
  found->second = at | kPoolBit;
  return found->second;
}

void FunctionDecoder::branch_to(int64_t instruction) {
  branches_.emplace_back(static_cast<uint32_t>(code_.insns.size() - 1), instruction);
}

void FunctionDecoder::branch_to(int64_t instruction, uint32_t* place) {
  branch_places_.emplace_back(place, instruction);
}

uint32_t FunctionDecoder::function_index(const std::string& name) const {
  return kernel_.function_index.at(name);
}

uint64_t FunctionDecoder::function_address(const std::string& name) const {
  return address_of_function(place_of(*kernel_.module, name));
}

const Variable* FunctionDecoder::find_variable(const std::string& name) const {
  const auto find = [&](const std::vector<Variable>& list) -> const Variable* {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Variable& v) { return v.name == name; });
    return found == list.end() ? nullptr : &*found;
  };
  for (const auto* list : {&function().variables, &function().params, &function().results}) {
    if (const Variable* found = find(*list)) return found;
  }
  return find(kernel_.module->variables);
}

uint64_t FunctionDecoder::symbol_address(const std::string& name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) {
    throw Fault(FaultKind::kIllegalInstruction,
                "the variable " + name + " is extern and unresolved");
  }
  return found->second;
}

uint64_t FunctionDecoder::shared_offset(const std::string& name) const {
  const auto own = kernel_.shared_offsets.find(function().name + "::" + name);
  if (own != kernel_.shared_offsets.end()) return own->second;
  return kernel_.shared_offsets.at(name);
}

uint64_t FunctionDecoder::local_offset(const std::string& name) const {
  return code_.local_offsets.find(name)->second;
}

int64_t FunctionDecoder::entry_param_offset(const std::string& name) const {
  if (!function().is_entry) return -1;
  const std::vector<Variable>& params = function().params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].name == name) return static_cast<int64_t>(param_layout(params)[i]);
  }
  return -1;
}

}  // namespace mpfa::sim
