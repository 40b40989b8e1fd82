// What a PTX source says, name by name resolved: the parser's result and the decoder's input.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpfa::sim {

enum class StateSpace : uint8_t { kReg, kConst, kGlobal, kLocal, kParam, kShared };

// A fundamental type as written: "b32", "f16x2", "pred". Bits of one element.
struct DataType {
  std::string name;
  int bits = 0;  // 1 for pred
};

// One element of an initialiser.
struct InitialValue {
  uint64_t bits = 0;       // of the element's type; added to the symbol's address if there is one
  std::string symbol;      // a variable or function whose address it is; empty: a number
  bool generic = false;    // generic(symbol)
  uint64_t byte_mask = 0;  // 0xFF(symbol) and the like: one byte of the address; 0: all
};

enum class Linkage : uint8_t { kInternal, kVisible, kExtern, kWeak, kCommon };

struct Variable {
  std::string name;
  StateSpace space = StateSpace::kGlobal;
  DataType type;
  int vector_size = 1;           // .v2, .v4
  int64_t alignment = 0;         // bytes: as written, or the natural one
  std::vector<int64_t> extents;  // an array's; 0 where the source leaves it open: name[]
  std::vector<InitialValue> initial;
  Linkage linkage = Linkage::kInternal;
  bool is_pointer = false;  // a parameter that says .ptr

  // Bytes of all elements; 0 for an open array.
  int64_t bytes() const {
    int64_t n = int64_t{type.bits + 7} / 8 * vector_size;
    for (const int64_t extent : extents) n *= extent;
    return n;
  }
};

// A virtual register of a function. Registers of the same name in different blocks are different.
struct Register {
  std::string name;
  DataType type;
  int vector_size = 1;
};

enum class OperandKind : uint8_t {
  kRegister,  // `index` into Function::registers; `component` of a vector register
  kSpecial,   // %tid.x, %clock64: `name`, `component`
  kInteger,   // `bits`
  kFloat32,   // `bits` of the FP32 value
  kFloat64,   // `bits` of the FP64 value
  kVariable,  // a variable's address: `name`, plus `offset`
  kFunction,  // a function's or prototype's `name`
  kLabel,     // `index`: the instruction that it stands before
  kTargets,   // a list of labels (.branchtargets): `name`, `labels`
  kAddress,   // [base + offset] with `parts`[0] the base; further parts as in [map, {x, y}]
  kVector,    // {a, b}: `parts`
  kList,      // (a, b): `parts`, arguments and results of calls
  kPair,      // p|q: two `parts`
  kSink,      // _
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool negated = false;  // !p, and -r where a register is subtracted from nothing
  int component = -1;    // x y z w as 0 to 3
  std::string selector;  // b0, h10, b3210: the part of it that a video instruction takes
  int64_t index = -1;
  int64_t offset = 0;  // bytes
  uint64_t bits = 0;
  std::string name;
  std::vector<Operand> parts;
  std::vector<int64_t> labels;
};

// Where in the user's source an instruction comes from (.loc).
struct SourceLocation {
  int file = 0;  // 0: not known; key of Module::files
  int line = 0;
  int column = 0;
};

struct Instruction {
  std::string opcode;                  // "ld"
  std::vector<std::string> modifiers;  // {"global", "nc", "v4", "f32"}
  std::vector<Operand> operands;
  int64_t guard = -1;  // register of @p; -1: always
  bool guard_negated = false;
  SourceLocation location;
  uint32_t ptx_line = 0;

  // "ld.global.nc.v4.f32"
  std::string full_name() const {
    std::string text = opcode;
    for (const std::string& modifier : modifiers) text += "." + modifier;
    return text;
  }
};

// The signature of an indirect call (.callprototype).
struct Prototype {
  std::vector<Variable> results;
  std::vector<Variable> params;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_defined = false;  // has a body
  Linkage linkage = Linkage::kInternal;
  std::vector<Variable> results;
  std::vector<Variable> params;
  std::map<std::string, std::vector<int64_t>> directives;  // "maxntid": {128, 1, 1}
  std::vector<Register> registers;
  std::vector<Variable> variables;  // of its own: .local, .shared, .param; names are made unique
  std::map<std::string, Prototype> prototypes;
  std::vector<Instruction> instructions;
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::string target;  // "sm_90a"
  int address_size = 64;
  std::map<int, std::string> files;  // of .loc
  std::vector<Variable> variables;
  std::vector<Function> functions;

  const Function* find_function(const std::string& name) const {
    const Function* found = nullptr;
    // A declaration may stand before its definition.
    for (const Function& function : functions) {
      if (function.name == name && (found == nullptr || function.is_defined)) found = &function;
    }
    return found;
  }
};

}  // namespace mpfa::sim
