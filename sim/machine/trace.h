// A file that every instruction is written to (simrun --trace).
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

class Trace {
 public:
  // Throws IoError if the file cannot be written.
  explicit Trace(const std::string& file_name);

  // A launch's name and shape.
  void begin(const std::string& kernel, Dim3 grid, Dim3 block);
  // "(0, 0, 0) warp 1 0xffffffff add.s32 %r1, %r2, %r3;": before the warp's active lanes run it.
  void write(const Warp& warp, const Insn& insn);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace mpfa::sim
