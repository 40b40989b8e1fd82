// The simulated GPU as the CUDA runtime sees it: memory, programs, launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/machine/checks.h"
#include "sim/machine/device_model.h"
#include "sim/machine/dim3.h"
#include "sim/machine/fault.h"
#include "sim/machine/global_memory.h"

namespace mpfa::sim {

// One parameter of a kernel in its parameter buffer.
struct KernelParam {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
};

// An entry function of a Program; lives as long as that.
struct Kernel {
  std::string name;  // mangled
  std::vector<KernelParam> params;
  uint64_t param_bytes = 0;
  uint64_t static_shared_bytes = 0;
  uint64_t local_bytes = 0;           // a thread's .local variables
  int registers = 0;                  // a thread's, as ptxas would roughly need
  uint64_t max_threads = 1024;        // .maxntid, .reqntid, or the device's limit
  int min_blocks_per_sm = 0;          // .minnctapersm
  Dim3 required_block = {0, 0, 0};    // .reqntid; zeros: none
  Dim3 required_cluster = {0, 0, 0};  // .reqnctapercluster; zeros: none
  bool explicit_cluster = false;      // .explicitcluster: a launch must name a cluster
  int ptx_target = 0;                 // 90 of sm_90a
};

// A global or constant variable of a Program.
struct Symbol {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// PTX that has been read, with its variables in device memory.
class Program {
 public:
  Program() = default;
  virtual ~Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // nullptr if there is none of that name.
  virtual const Kernel* find_kernel(std::string_view name) const = 0;
  // bytes 0 if there is none of that name.
  virtual Symbol find_symbol(std::string_view name) const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
};

struct Launch {
  const Kernel* kernel = nullptr;
  const Program* program = nullptr;
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;  // 1, 1, 1: none
  uint64_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> params;  // param_bytes of them
};

struct GpuOptions {
  std::string arch = "sm_90a";
  uint64_t seed = 0;  // of the interleaving
  int threads = 0;    // of the host; 0: all
  Checks checks;
  std::string trace_file;  // empty: none; with one, a single host thread runs
};

class Gpu {
 public:
  explicit Gpu(GpuOptions options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DeviceModel& model() const;
  const GpuOptions& options() const;
  GlobalMemory& memory();

  // Reads PTX. Throws PtxError for what cannot be read. A kernel with an instruction that is not
  // known loads; launching it throws.
  std::shared_ptr<Program> load(std::string_view ptx);

  // Runs a grid to its end. Throws Fault; for kInvalidLaunch nothing has run.
  void run(const Launch& launch);
  // Warp instructions run so far.
  uint64_t instructions() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mpfa::sim
