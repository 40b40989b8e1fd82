// A kernel and all functions that it can reach, decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/insn/register_uses.h"
#include "sim/machine/code.h"
#include "sim/machine/device_model.h"
#include "sim/ptx/module.h"

namespace mpfa::sim {

// Addresses of module variables that live in device memory (.global, .const).
using SymbolAddresses = std::map<std::string, uint64_t, std::less<>>;

// Decodes `kernel` of `module`. Throws Fault (kIllegalInstruction), naming kernel, line and text,
// for an instruction that is not known.
std::unique_ptr<KernelCode> decode_kernel(const Module& module, const Function& kernel,
                                          const SymbolAddresses& symbols, const DeviceModel& model);

// Bytes of shared memory that the kernel, the functions that it can reach and the module's
// variables that they name declare.
uint64_t static_shared_bytes(const Module& module, const Function& kernel);

// Decodes one function: keeps what its instructions share.
class FunctionDecoder {
 public:
  FunctionDecoder(KernelCode& kernel, FunctionCode& code, const SymbolAddresses& symbols);

  void run();

  const Function& function() const { return *code_.function; }
  const KernelCode& kernel() const { return kernel_; }
  FunctionCode& code() { return code_; }

  Slot register_slot(int64_t index, int component) const;
  Slot constant(uint64_t bits, int width_bits);
  Slot scratch(int bits);
  Slot carry_slot() const { return code_.carry_slot; }
  // A branch's target, an index into Function::instructions, to be put into `insn`'s imm (or into
  // `place`) when all places are known.
  void branch_to(int64_t instruction);
  void branch_to(int64_t instruction, uint32_t* place);
  // Of a function that this kernel reaches.
  uint32_t function_index(const std::string& name) const;
  // The value of its address, the same in all kernels of the module.
  uint64_t function_address(const std::string& name) const;
  const Variable* find_variable(const std::string& name) const;
  // A .global or .const variable's address.
  uint64_t symbol_address(const std::string& name) const;
  uint64_t shared_offset(const std::string& name) const;
  uint64_t local_offset(const std::string& name) const;
  // Where the uses of registers are noted; nullptr in functions without wgmma.
  RegisterUses* register_uses() { return uses_.get(); }
  // An entry's parameter: its offset in the parameter buffer; -1 if it is none.
  int64_t entry_param_offset(const std::string& name) const;

 private:
  void place_registers();
  void place_locals();
  std::string register_name(Slot slot) const;

  KernelCode& kernel_;
  FunctionCode& code_;
  const SymbolAddresses& symbols_;
  std::vector<Slot> slots_;
  std::unique_ptr<RegisterUses> uses_;
  std::vector<std::byte> pool_;
  std::map<std::pair<uint64_t, int>, Slot> constants_;
  std::vector<std::pair<uint32_t, int64_t>> branches_;        // insn, target
  std::vector<std::pair<uint32_t*, int64_t>> branch_places_;  // elsewhere
};

// Offsets of parameters laid out one behind the other, each at its alignment; the end last.
std::vector<uint64_t> param_layout(const std::vector<Variable>& params);

}  // namespace mpfa::sim
