#include "sim/cudart/module.h"

#include <fatbinary_section.h>

#include <cstring>
#include <utility>

#include "sim/cudart/api.h"
#include "sim/cudart/runtime.h"
#include "sim/fatbin/choose_ptx.h"
#include "sim/fatbin/fat_binary.h"
#include "sim/ptx/lexer.h"
#include "sim/ptx/token_stream.h"

namespace mpfa::sim::cudart {

std::shared_ptr<Module> Module::of_fat_binary(const void* code, bool relocatable) {
  auto module = std::make_shared<Module>();
  module->fat_binary_ = code;
  module->relocatable_ = relocatable;
  return module;
}

std::shared_ptr<Module> Module::of_ptx(std::string text) {
  auto module = std::make_shared<Module>();
  module->text_ = std::move(text);
  return module;
}

std::shared_ptr<Module> Module::of_image(const void* image) {
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  bool relocatable = false;
  if (magic == FATBINC_MAGIC) {
    const auto* wrapper = static_cast<const __fatBinC_Wrapper_t*>(image);
    relocatable = wrapper->version == FATBINC_LINK_VERSION;
    image = wrapper->data;
  }
  if (!is_fat_binary(image)) return of_ptx(static_cast<const char*>(image));
  const auto* bytes = static_cast<const std::byte*>(image);
  std::vector<std::byte> copy(bytes, bytes + fat_binary_bytes(image));
  auto module = of_fat_binary(copy.data(), relocatable);
  module->copy_ = std::move(copy);
  return module;
}

Program& Module::program() {
  if (failure_) std::rethrow_exception(failure_);
  if (!program_) {
    try {
      load();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  return *program_;
}

std::string Module::ptx() const {
  if (fat_binary_ == nullptr) return text_;
  const auto entries = read_fat_binary(fat_binary_);
  const FatBinaryEntry* chosen = choose_ptx(entries, model().capability());
  if (chosen == nullptr) {
    std::string why = explain_no_ptx(entries, model().capability());
    if (relocatable_) why += " and without -rdc=true, whose linked code is machine code";
    say(why);
    fail(cudaErrorNoKernelImageForDevice, why);
  }
  return ptx_text(*chosen);
}

void Module::load() {
  try {
    program_ = gpu().load(ptx());
  } catch (const PtxVersionError& error) {
    say(error.what());
    fail(cudaErrorUnsupportedPtxVersion, error.what());
  } catch (const PtxError& error) {
    say(error.what());
    fail(cudaErrorInvalidPtx, error.what());
  } catch (const IoError& error) {
    say(error.what());
    fail(cudaErrorInvalidKernelImage, error.what());
  }
  for (const auto& [name, host_pointer] : managed_) {
    *host_pointer = reinterpret_cast<void*>(program_->find_symbol(name).address);
  }
}

// PTX ISA, "Variable Attribute Directive: .attribute": it stands before the variable's name, and
// nothing else between them is a name.
bool Module::has_managed_variable(std::string_view name) const {
  const std::string text = ptx();
  TokenStream in(text);
  while (!in.at_end()) {
    if (!in.take_dotted("attribute")) {
      in.next();
      continue;
    }
    bool is_managed = false;
    while (!in.at_end() && !in.take(")")) is_managed |= in.next().is_dotted("managed");
    while (!in.at_end() && in.peek().kind != TokenKind::kIdentifier) in.next();
    if (is_managed && in.peek().text == name) return true;
  }
  return false;
}

const std::shared_ptr<Function>& Module::function(const std::string& name) {
  auto& function = functions_[name];
  if (!function) function = std::make_shared<Function>(weak_from_this(), name);
  return function;
}

void Module::add_managed(std::string name, void** host_pointer) {
  if (program_) *host_pointer = reinterpret_cast<void*>(program_->find_symbol(name).address);
  managed_.emplace_back(std::move(name), host_pointer);
}

}  // namespace mpfa::sim::cudart
