// PTX that has been read, its variables placed in device memory, its kernels decoded when first
// run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sim/insn/function_decoder.h"
#include "sim/machine/gpu.h"
#include "sim/ptx/module.h"

namespace mpfa::sim {

class LoadedProgram : public Program {
 public:
  LoadedProgram(std::string_view ptx, GlobalMemory& memory, const DeviceModel& model);
  ~LoadedProgram() override;

  const Kernel* find_kernel(std::string_view name) const override;
  Symbol find_symbol(std::string_view name) const override;
  std::vector<std::string> kernel_names() const override;

  // The executable form. Throws Fault for an instruction that is not known.
  const KernelCode& code(const Kernel& kernel);

 private:
  void place_variables();
  void initialize(const Variable& variable, uint64_t address);
  uint64_t value_of(const InitialValue& value) const;
  void add_kernel(const Function& function, const DeviceModel& model);

  Module module_;
  GlobalMemory& memory_;
  DeviceModel model_;
  SymbolAddresses addresses_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  std::mutex mutex_;
  std::map<const Kernel*, std::unique_ptr<KernelCode>> code_;
};

}  // namespace mpfa::sim
