// Kernels written in PTX, run on a simulated GPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "sim/machine/gpu.h"

namespace mpfa::sim::testing {

class PtxProgram {
 public:
  explicit PtxProgram(const std::string& ptx, GpuOptions options = {})
      : gpu_(std::move(options)), program_(gpu_.load(ptx)) {}

  Gpu& gpu() { return gpu_; }
  const Kernel* kernel(const std::string& name) { return program_->find_kernel(name); }
  Symbol symbol(const std::string& name) { return program_->find_symbol(name); }

  // Device memory that holds `values`; its address.
  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = gpu_.memory().allocate(values.size() * sizeof(T), MemoryKind::kDevice);
    if (values.empty()) return address;
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    if (count == 0) return values;
    std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
    return values;
  }

  struct Shape {
    Dim3 grid = {1, 1, 1};
    Dim3 block = {32, 1, 1};
    Dim3 cluster = {1, 1, 1};
    uint64_t dynamic_shared_bytes = 0;
    bool cooperative = false;
  };

  // Runs kernel `name` with `params`, each aligned to its size.
  template <class... Params>
  void run(const std::string& name, const Shape& shape, const Params&... params) {
    Launch launch;
    launch.program = program_.get();
    launch.kernel = program_->find_kernel(name);
    if (launch.kernel == nullptr) throw std::runtime_error("no kernel " + name);
    launch.grid = shape.grid;
    launch.block = shape.block;
    launch.cluster = shape.cluster;
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.cooperative = shape.cooperative;
    (append(launch.params, params), ...);
    gpu_.run(launch);
  }

 private:
  template <class T>
  static void append(std::vector<std::byte>& buffer, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = (buffer.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    buffer.resize(at + sizeof(T));
    std::memcpy(buffer.data() + at, &value, sizeof(T));
  }

  Gpu gpu_;
  std::shared_ptr<Program> program_;
};

// The options of another order of events.
inline GpuOptions with_seed(uint64_t seed) {
  GpuOptions options;
  options.seed = seed;
  return options;
}

// A module with one kernel, `test`, of one warp or more: `body` has %tid.x in %r0 and its address
// `in` + tid * in_bytes in %rd1, `out` + tid * out_bytes in %rd2.
inline std::string one_kernel(const std::string& declarations, const std::string& body,
                              int in_bytes = 4, int out_bytes = 4,
                              const std::string& target = "sm_90a") {
  return ".version 9.0\n.target " + target +
         "\n.address_size 64\n"
         ".visible .entry test(.param .u64 in, .param .u64 out) {\n"
         "  .reg .b32 %r0;\n  .reg .b64 %rd1, %rd2;\n" +
         declarations +
         "\n  mov.u32 %r0, %tid.x;\n"
         "  ld.param.u64 %rd1, [in];\n  ld.param.u64 %rd2, [out];\n"
         "  mad.wide.u32 %rd1, %r0, " +
         std::to_string(in_bytes) + ", %rd1;\n  mad.wide.u32 %rd2, %r0, " +
         std::to_string(out_bytes) + ", %rd2;\n" + body + "\n  ret;\n}\n";
}

}  // namespace mpfa::sim::testing
