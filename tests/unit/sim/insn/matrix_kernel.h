// Kernels of one matrix instruction each: every operand's registers come from memory, word after
// word of a lane's, and the result's go there.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim::testing {

// What the words of an operand are.
enum class Words : uint8_t {
  kF16,
  kBf16,
  kTf32,
  kF32,
  kE4m3,
  kE5m2,
  kF64,
  kInteger,            // of the accumulator's type
  kBits,               // any
  kMetadata,           // of a sparse A, in ascending places
  kUnorderedMetadata,  // in any order
  kTf32Metadata,
};

struct Segment {
  Words words;
  uint32_t count;
};

inline std::string braces(const std::vector<std::string>& names) {
  std::string text = "{";
  for (const std::string& name : names) text += (text.size() > 1 ? ", " : "") + name;
  return text + "}";
}

class MatrixKernel {
 public:
  explicit MatrixKernel(std::string kernel_name, uint32_t lane_count = 32)
      : name(std::move(kernel_name)), lanes(lane_count) {}

  const std::string name;
  const uint32_t lanes;
  std::vector<Segment> segments;  // the input of a case
  uint32_t in_words = 0;
  uint32_t out_words = 0;

  // Registers that hold the next words: register i of lane l is word i * lanes + l of them.
  std::vector<std::string> load(const std::string& prefix, Words words, int count) {
    std::vector<std::string> names = declare(prefix, type_of(words), count);
    for (const std::string& each : names) {
      body += "  ld.global." + type_of(words) + " " + each + ", [%lane_in + " +
              std::to_string(4 * in_words) + "];\n";
      add_input(words, lanes);
    }
    return names;
  }
  // Words that the instruction itself reads: their byte offset from %in.
  uint32_t memory(Words words, uint32_t count) {
    const uint32_t at = 4 * in_words;
    add_input(words, count);
    return at;
  }
  std::vector<std::string> declare(const std::string& prefix, const std::string& type, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      names.push_back("%" + prefix + std::to_string(i));
      declarations += "  .reg ." + type + " " + names.back() + ";\n";
    }
    return names;
  }
  void store(const std::vector<std::string>& registers) {
    for (const std::string& each : registers) {
      body +=
          "  st.global.b32 [%lane_out + " + std::to_string(4 * out_words) + "], " + each + ";\n";
      out_words += lanes;
    }
  }

  std::string text() const {
    return ".visible .entry " + name +
           "(.param .u64 in, .param .u64 out) {\n"
           "  .reg .b64 %in, %out, %lane_in, %lane_out;\n  .reg .b32 %thread, %case;\n" +
           declarations +
           "  mov.u32 %thread, %tid.x;\n  mov.u32 %case, %ctaid.x;\n"
           "  ld.param.u64 %in, [in];\n  ld.param.u64 %out, [out];\n"
           "  mad.wide.u32 %in, %case, " +
           std::to_string(4 * in_words) + ", %in;\n  mad.wide.u32 %out, %case, " +
           std::to_string(4 * out_words) +
           ", %out;\n"
           "  mad.wide.u32 %lane_in, %thread, 4, %in;\n  mad.wide.u32 %lane_out, %thread, 4, "
           "%out;\n" +
           body + "  ret;\n}\n";
  }

  std::string declarations;
  std::string body;

 private:
  static std::string type_of(Words words) { return words == Words::kF32 ? "f32" : "b32"; }
  void add_input(Words words, uint32_t count) {
    segments.push_back({words, count});
    in_words += count;
  }
};

inline std::string matrix_module(const std::string& kernels) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n"
         ".shared .align 1024 .b8 tile[8192];\n" +
         kernels;
}

// The results of cases whose inputs follow each other in `in`.
inline std::vector<uint32_t> run_cases(PtxProgram& program, const MatrixKernel& kernel,
                                       const std::vector<uint32_t>& in) {
  const auto cases = static_cast<uint32_t>(in.size() / kernel.in_words);
  const uint64_t to = program.upload(std::vector<uint32_t>(size_t{kernel.out_words} * cases));
  PtxProgram::Shape shape;
  shape.grid = {cases, 1, 1};
  shape.block = {kernel.lanes, 1, 1};
  program.run(kernel.name, shape, program.upload(in), to);
  return program.download<uint32_t>(to, size_t{kernel.out_words} * cases);
}

inline std::vector<uint32_t> run_case(const MatrixKernel& kernel, const std::vector<uint32_t>& in) {
  PtxProgram program(matrix_module(kernel.text()));
  return run_cases(program, kernel, in);
}

// ---- the instructions

struct MmaTypes {
  std::string d;
  std::string a;
  std::string b;
  std::string c;
};

inline Words words_of(const std::string& type) {
  if (type == "f16") return Words::kF16;
  if (type == "bf16") return Words::kBf16;
  if (type == "tf32") return Words::kTf32;
  if (type == "f32") return Words::kF32;
  if (type == "e4m3") return Words::kE4m3;
  if (type == "e5m2") return Words::kE5m2;
  if (type == "f64") return Words::kF64;
  return type == "s32" ? Words::kInteger : Words::kBits;
}

// mma `instruction` (".sp.sync.aligned.m16n8k16.row.col") of 32-bit registers, of which A, B and an
// accumulator of 4-byte elements have these numbers. `tail` follows the operands.
struct MmaRegisters {
  int a = 0;
  int b = 0;
  int c = 4;
};

inline int accumulators(const std::string& type, int count) {
  return type == "f16" ? count / 2 : count;
}

inline MatrixKernel mma_kernel(const std::string& name, const std::string& instruction,
                               const MmaTypes& types, const MmaRegisters& registers,
                               Words metadata = Words::kBits, int selector = -1) {
  MatrixKernel k(name);
  const auto a = k.load("a", words_of(types.a), registers.a);
  const auto b = k.load("b", words_of(types.b), registers.b);
  const auto c = k.load("c", words_of(types.c), accumulators(types.c, registers.c));
  std::string tail;
  if (selector >= 0) tail = ", " + k.load("e", metadata, 1)[0] + ", " + std::to_string(selector);
  const auto d =
      k.declare("d", types.d == "f32" ? "f32" : "b32", accumulators(types.d, registers.c));
  k.body += "  mma." + instruction + "." + types.d + "." + types.a + "." + types.b + "." + types.c +
            " " + braces(d) + ", " + braces(a) + ", " + braces(b) + ", " + braces(c) + tail + ";\n";
  k.store(d);
  return k;
}

}  // namespace mpfa::sim::testing
