#include "sim/machine/program.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "mpfa/check.h"
#include "sim/machine/address.h"
#include "sim/ptx/parser.h"

namespace mpfa::sim {
namespace {

int64_t first_value(const Function& function, const char* directive, int64_t otherwise) {
  const auto found = function.directives.find(directive);
  return found == function.directives.end() || found->second.empty() ? otherwise : found->second[0];
}

int64_t product(const Function& function, const char* directive) {
  const auto found = function.directives.find(directive);
  if (found == function.directives.end()) return 0;
  int64_t result = 1;
  for (const int64_t value : found->second) result *= value;
  return result;
}

// Zeros without the directive; dimensions that it leaves out are 1.
Dim3 dimensions(const Function& function, const char* directive) {
  const auto found = function.directives.find(directive);
  if (found == function.directives.end()) return {0, 0, 0};
  const std::vector<int64_t>& v = found->second;
  const auto at = [&](size_t i) { return static_cast<uint32_t>(i < v.size() ? v[i] : 1); };
  return {at(0), at(1), at(2)};
}

// 90 of "sm_90a".
int target_number(const std::string& target) {
  const size_t at = target.find("sm_");
  int number = 0;
  if (at != std::string::npos) {
    std::from_chars(target.data() + at + 3, target.data() + target.size(), number);
  }
  return number;
}

// What ptxas would allocate is not known; live values would, and this is a bound that programs that
// compute occupancy can work with.
constexpr int kAssumedRegisters = 32;

// A device runs what was made for it or for an older one.
void check_target(const Module& module, const DeviceModel& model) {
  if (target_number(module.target) <= model.capability()) return;
  throw PtxError(internal::str_cat(".target ", module.target, " is newer than the device, sm_",
                                   model.capability()));
}

// As ptxas, which refuses more: only dynamic shared memory may pass this limit.
void check_static_shared(const Kernel& kernel, const DeviceModel& model) {
  const auto limit = static_cast<uint64_t>(model.shared_bytes_per_block);
  if (kernel.static_shared_bytes <= limit) return;
  throw PtxError(internal::str_cat(kernel.name, ": ", kernel.static_shared_bytes,
                                   " bytes of static shared memory; at most ", limit,
                                   " (dynamic shared memory may be more)"));
}

}  // namespace

LoadedProgram::LoadedProgram(std::string_view ptx, GlobalMemory& memory, const DeviceModel& model)
    : module_(parse_ptx(ptx)), memory_(memory), model_(model) {
  check_target(module_, model);
  place_variables();
  for (const Function& function : module_.functions) {
    if (function.is_entry && function.is_defined) add_kernel(function, model);
  }
}

LoadedProgram::~LoadedProgram() {
  for (const auto& [name, address] : addresses_) memory_.release(address);
}

void LoadedProgram::place_variables() {
  const auto is_placed = [](const Variable& v) {
    return v.space == StateSpace::kGlobal || v.space == StateSpace::kConst;
  };
  for (const Variable& variable : module_.variables) {
    if (!is_placed(variable) || variable.bytes() == 0) continue;
    if (addresses_.contains(variable.name)) continue;
    const auto bytes = static_cast<uint64_t>(variable.bytes());
    const uint64_t address =
        memory_.allocate(bytes, MemoryKind::kModule, static_cast<uint64_t>(variable.alignment));
    if (address == 0) throw Error("no device memory for the variable " + variable.name);
    addresses_[variable.name] = address;
    symbols_[variable.name] = {address, bytes};
  }
  // An open extern array is what another variable or the runtime gives; here nothing does.
  for (const Variable& variable : module_.variables) {
    const auto found = addresses_.find(variable.name);
    if (found == addresses_.end() || !is_placed(variable)) continue;
    if (!variable.initial.empty()) initialize(variable, found->second);
    if (variable.space == StateSpace::kConst) memory_.set_constant(found->second);
  }
}

uint64_t LoadedProgram::value_of(const InitialValue& value) const {
  if (value.symbol.empty()) return value.bits;
  const auto found = addresses_.find(value.symbol);
  if (found != addresses_.end()) {
    uint64_t result = found->second + value.bits;
    if (value.byte_mask != 0) {
      int shift = 0;
      while ((value.byte_mask >> shift & 1) == 0) ++shift;
      result = (result & value.byte_mask) >> shift;
    }
    return result;
  }
  const Function* function = module_.find_function(value.symbol);
  if (function == nullptr) throw Error("an initial value names " + value.symbol + ": not declared");
  return address_of_function(static_cast<uint64_t>(function - module_.functions.data())) +
         value.bits;
}

void LoadedProgram::initialize(const Variable& variable, uint64_t address) {
  auto* to = reinterpret_cast<std::byte*>(address);
  const size_t element = static_cast<size_t>(variable.type.bits + 7) / 8;
  for (size_t i = 0; i < variable.initial.size(); ++i) {
    const uint64_t value = value_of(variable.initial[i]);
    std::memcpy(to + i * element, &value, std::min(element, sizeof(value)));
  }
}

void LoadedProgram::add_kernel(const Function& function, const DeviceModel& model) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = function.name;
  const std::vector<uint64_t> offsets = param_layout(function.params);
  for (size_t i = 0; i < function.params.size(); ++i) {
    kernel->params.push_back({offsets[i], static_cast<uint64_t>(function.params[i].bytes()),
                              static_cast<uint64_t>(function.params[i].alignment)});
  }
  kernel->param_bytes = offsets.back();
  for (const Variable& variable : function.variables) {
    if (variable.space == StateSpace::kLocal) {
      kernel->local_bytes += static_cast<uint64_t>(variable.bytes());
    }
  }
  kernel->static_shared_bytes = static_shared_bytes(module_, function);
  check_static_shared(*kernel, model);
  kernel->registers = static_cast<int>(first_value(function, "maxnreg", kAssumedRegisters));
  const int64_t bound = std::max(product(function, "maxntid"), product(function, "reqntid"));
  kernel->max_threads = static_cast<uint64_t>(bound > 0 ? bound : model.max_threads_per_block);
  kernel->min_blocks_per_sm = static_cast<int>(first_value(function, "minnctapersm", 0));
  kernel->explicit_cluster = function.directives.contains("explicitcluster");
  kernel->required_block = dimensions(function, "reqntid");
  kernel->required_cluster = dimensions(function, "reqnctapercluster");
  kernel->ptx_target = target_number(module_.target);
  kernels_[function.name] = std::move(kernel);
}

const Kernel* LoadedProgram::find_kernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second.get();
}

Symbol LoadedProgram::find_symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? Symbol{} : found->second;
}

std::vector<std::string> LoadedProgram::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& row : kernels_) names.push_back(row.first);
  return names;
}

const KernelCode& LoadedProgram::code(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  auto& code = code_[&kernel];
  if (!code) {
    code = decode_kernel(module_, *module_.find_function(kernel.name), addresses_, model_);
  }
  return *code;
}

}  // namespace mpfa::sim
