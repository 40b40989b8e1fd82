// Lists the instructions of PTX sources that the simulator does not read or decode.
//
//     undecoded ARCH FILE...
//
// A file holds one or more modules; a line "//// NAME" begins another. For each instruction that
// fails, one line: NAME, the instruction and the reason, with tabs between. Where a whole module
// cannot be read, the instruction is empty. The last line says how many instructions were looked
// at.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/function_decoder.h"
#include "sim/machine/device_model.h"
#include "sim/ptx/parser.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {
namespace {

constexpr std::string_view kSeparator = "//// ";
constexpr uint64_t kSomeAddress = 4096;

// Name and text.
using Source = std::pair<std::string, std::string>;

std::vector<Source> read_modules(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  std::vector<Source> sources = {{file, ""}};
  std::string line;
  while (std::getline(stream, line)) {
    if (line.rfind(kSeparator, 0) == 0) {
      sources.emplace_back(line.substr(kSeparator.size()), "");
    } else {
      sources.back().second += line + "\n";
    }
  }
  if (sources.size() > 1) sources.erase(sources.begin());
  return sources;
}

// One line of a message: its last, which gives the reason; those before it say where.
std::string last_line(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  const size_t end = message.rfind('\n');
  return end == std::string::npos ? message : message.substr(end + 1);
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

// Branches lead to the one instruction that is there.
void drop_targets(std::vector<Operand>& operands) {
  for (Operand& operand : operands) {
    if (operand.kind == OperandKind::kLabel) operand.index = 0;
    for (int64_t& label : operand.labels) label = 0;
    drop_targets(operand.parts);
  }
}

class Listing {
 public:
  explicit Listing(DeviceModel model) : model_(std::move(model)) {}

  void add(const Source& source) {
    Module module;
    try {
      module = parse_ptx(source.second);
    } catch (const std::exception& error) {
      print(source.first, "", one_line(error.what()));
      return;
    }
    SymbolAddresses symbols;
    for (const Variable& variable : module.variables) symbols[variable.name] = kSomeAddress;
    // Functions without their instructions: each instruction is decoded alone, so that one that
    // fails hides no other.
    std::vector<std::vector<Instruction>> bodies;
    for (Function& function : module.functions) {
      bodies.push_back(std::exchange(function.instructions, {}));
    }
    for (size_t i = 0; i < bodies.size(); ++i) {
      for (Instruction& instruction : bodies[i]) {
        add(source.first, module, symbols, i, std::move(instruction));
      }
    }
  }

  size_t count() const { return count_; }

 private:
  void add(const std::string& name, Module& module, const SymbolAddresses& symbols, size_t i,
           Instruction instruction) {
    ++count_;
    Function& function = module.functions[i];
    const std::string text = print_instruction(function, instruction);
    drop_targets(instruction.operands);
    function.instructions = {std::move(instruction)};
    try {
      decode_kernel(module, function, symbols, model_);
    } catch (const std::exception& error) {
      print(name, text, last_line(error.what()));
    }
    function.instructions.clear();
  }

  static void print(const std::string& name, const std::string& text, const std::string& reason) {
    std::printf("%s\t%s\t%s\n", name.c_str(), one_line(text).c_str(), reason.c_str());
  }

  DeviceModel model_;
  size_t count_ = 0;
};

int main(const std::vector<std::string>& arguments) {
  Listing listing(device_model(arguments.at(0)));
  for (size_t i = 1; i < arguments.size(); ++i) {
    for (const Source& source : read_modules(arguments[i])) listing.add(source);
  }
  std::printf("%zu instructions\n", listing.count());
  return 0;
}

}  // namespace
}  // namespace mpfa::sim

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " ARCH FILE...\n";
    return 2;
  }
  try {
    return mpfa::sim::main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 2;
  }
}
