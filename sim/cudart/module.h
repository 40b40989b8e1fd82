// Device code that a program brought: read when something of it is first used, as the real runtime
// does by default (lazy loading), so that a program may carry code that no device here runs.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cudart/function.h"
#include "sim/machine/gpu.h"

namespace mpfa::sim::cudart {

class Module : public std::enable_shared_from_this<Module> {
 public:
  // `code` is a fat binary that outlives the module. Of relocatable device code (-rdc=true) it is
  // what the linker made.
  static std::shared_ptr<Module> of_fat_binary(const void* code, bool relocatable);
  static std::shared_ptr<Module> of_ptx(std::string text);
  // Whatever the driver takes for an image, copied: a fat binary, its wrapper, or PTX that ends
  // with NUL.
  static std::shared_ptr<Module> of_image(const void* image);

  // Throws ApiError if there is no PTX for the device, or it cannot be read; said once on stderr.
  Program& program();

  // Whether the code has a variable of that name with .attribute(.managed).
  bool has_managed_variable(std::string_view name) const;

  // The function of that name, whether or not the code has it: Function::kernel() finds out.
  const std::shared_ptr<Function>& function(const std::string& name);

  // A host pointer that is to hold a managed variable's address once the module is loaded.
  void add_managed(std::string name, void** host_pointer);

 private:
  std::string ptx() const;
  void load();

  const void* fat_binary_ = nullptr;  // nullptr: text_
  std::vector<std::byte> copy_;       // of a fat binary that does not outlive the module
  bool relocatable_ = false;
  std::string text_;
  std::shared_ptr<Program> program_;
  std::exception_ptr failure_;
  std::map<std::string, std::shared_ptr<Function>> functions_;
  std::vector<std::pair<std::string, void**>> managed_;
};

}  // namespace mpfa::sim::cudart
