#include "sim/machine/gpu.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/machine/grid_runner.h"
#include "sim/machine/program.h"
#include "sim/machine/trace.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kStackBytes = 256 << 10;  // of a thread, where calls or alloca make it unknown

[[noreturn]] void reject(const Launch& launch, const std::string& why) {
  throw Fault(FaultKind::kInvalidLaunch,
              internal::str_cat("launch of ", launch.kernel->name, ": ", why));
}

std::string to_text(Dim3 size) { return internal::str_cat(size.x, " x ", size.y, " x ", size.z); }

void check_launch(const Launch& launch, const DeviceModel& model) {
  const uint64_t threads = launch.block.count();
  if (launch.grid.count() == 0) reject(launch, "the grid is empty");
  if (threads == 0) reject(launch, "the block is empty");
  if (threads > launch.kernel->max_threads) {
    reject(launch, internal::str_cat("a block of ", threads, " threads; at most ",
                                     launch.kernel->max_threads));
  }
  const Dim3 required = launch.kernel->required_block;
  if (required.x != 0 && required != launch.block) {
    reject(launch, internal::str_cat("a block of ", to_text(launch.block), "; .reqntid says ",
                                     to_text(required)));
  }
  // PTX ISA, ".explicitcluster". A cluster of one block counts as none.
  if (launch.kernel->explicit_cluster && launch.kernel->required_cluster.x == 0 &&
      launch.cluster.count() == 1) {
    reject(launch, "no cluster is given; the kernel's .explicitcluster asks for one");
  }
  if (launch.grid.x % launch.cluster.x != 0 || launch.grid.y % launch.cluster.y != 0 ||
      launch.grid.z % launch.cluster.z != 0) {
    reject(launch, "the cluster does not divide the grid");
  }
  const uint64_t shared = launch.kernel->static_shared_bytes + launch.dynamic_shared_bytes;
  if (shared > static_cast<uint64_t>(model.shared_bytes_per_block_optin)) {
    reject(launch, internal::str_cat(shared, " bytes of shared memory; at most ",
                                     model.shared_bytes_per_block_optin));
  }
  if (launch.params.size() != launch.kernel->param_bytes) {
    reject(launch, internal::str_cat(launch.params.size(), " bytes of parameters; the kernel has ",
                                     launch.kernel->param_bytes));
  }
}

uint64_t stack_bytes(const KernelCode& code) {
  uint64_t sum = 0;
  bool is_known = code.functions.size() == 1;
  for (const auto& function : code.functions) {
    sum += function->local_bytes;
    is_known &= !function->grows_stack;
  }
  return is_known ? sum : std::max(kStackBytes, 2 * sum);
}

constexpr GridWorkspace kNewWorkspace;

// Device memory that a launch needs while it runs.
class LaunchMemory {
 public:
  LaunchMemory(GlobalMemory& memory, std::span<const std::byte> content)
      : memory_(memory),
        address_(memory.allocate(std::max<uint64_t>(content.size(), 1), MemoryKind::kModule)) {
    if (address_ == 0) throw Error("no device memory for a launch's parameters");
    if (content.empty()) return;
    std::memcpy(reinterpret_cast<void*>(address_), content.data(), content.size());
  }
  ~LaunchMemory() { memory_.release(address_); }
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  uint64_t address() const { return address_; }

 private:
  GlobalMemory& memory_;
  uint64_t address_;
};

}  // namespace

class Gpu::Impl {
 public:
  explicit Impl(GpuOptions options)
      : options_(std::move(options)),
        model_(device_model(options_.arch)),
        memory_(model_.memory_bytes) {
    if (!options_.trace_file.empty()) trace_ = std::make_unique<Trace>(options_.trace_file);
  }

  const DeviceModel& model() const { return model_; }
  const GpuOptions& options() const { return options_; }
  GlobalMemory& memory() { return memory_; }
  uint64_t instructions() const { return instructions_; }

  std::shared_ptr<Program> load(std::string_view ptx) {
    return std::make_shared<LoadedProgram>(ptx, memory_, model_);
  }

  void run(const Launch& launch) {
    check_launch(launch, model_);
    auto& program = const_cast<LoadedProgram&>(dynamic_cast<const LoadedProgram&>(*launch.program));
    Grid grid;
    grid.code = &program.code(*launch.kernel);
    grid.kernel = launch.kernel;
    grid.model = &model_;
    grid.memory = &memory_;
    grid.checks = options_.checks;
    grid.grid = launch.grid;
    grid.block = launch.block;
    grid.cluster = launch.cluster;
    grid.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    grid.shared_bytes = grid.code->dynamic_shared_offset + launch.dynamic_shared_bytes;
    grid.stack_bytes = stack_bytes(*grid.code);
    grid.id = ++launches_;
    grid.seed = options_.seed * 0xD1B54A32D192ED03u + grid.id;
    const LaunchMemory params(memory_, launch.params);
    memory_.set_constant(params.address());
    grid.params = params.address();
    std::optional<LaunchMemory> workspace;
    if (launch.cooperative) {
      workspace.emplace(memory_, std::as_bytes(std::span(&kNewWorkspace, 1)));
      grid.workspace = workspace->address();
    }
    grid.trace = trace_.get();
    if (trace_) trace_->begin(launch.kernel->name, launch.grid, launch.block);
    instructions_ += run_grid(grid, resident_clusters(grid, launch.cooperative), host_threads());
  }

 private:
  int host_threads() const {
    if (trace_) return 1;
    if (options_.threads > 0) return options_.threads;
    return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
  }

  // As many clusters as the device has room for run at a time; of a cooperative launch, whose
  // blocks wait for each other, all.
  uint64_t resident_clusters(const Grid& grid, bool cooperative) const {
    if (cooperative) return grid.grid.count() / grid.cluster.count();
    const uint64_t threads = (grid.block.count() + 31) / 32 * 32;
    uint64_t per_sm = std::min<uint64_t>(
        static_cast<uint64_t>(model_.max_blocks_per_sm),
        static_cast<uint64_t>(model_.max_threads_per_sm) / std::max<uint64_t>(threads, 1));
    per_sm = std::min(per_sm, static_cast<uint64_t>(model_.shared_bytes_per_sm) /
                                  std::max<uint64_t>(grid.shared_bytes, 1));
    const uint64_t blocks = std::max<uint64_t>(per_sm, 1) * static_cast<uint64_t>(model_.sm_count);
    return std::max<uint64_t>(blocks / grid.cluster.count(), 1);
  }

  GpuOptions options_;
  DeviceModel model_;
  GlobalMemory memory_;
  std::unique_ptr<Trace> trace_;
  std::atomic<uint64_t> launches_ = 0;
  std::atomic<uint64_t> instructions_ = 0;
};

Gpu::Gpu(GpuOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Gpu::~Gpu() = default;
const DeviceModel& Gpu::model() const { return impl_->model(); }
const GpuOptions& Gpu::options() const { return impl_->options(); }
GlobalMemory& Gpu::memory() { return impl_->memory(); }
std::shared_ptr<Program> Gpu::load(std::string_view ptx) { return impl_->load(ptx); }
uint64_t Gpu::instructions() const { return impl_->instructions(); }
void Gpu::run(const Launch& launch) { impl_->run(launch); }

}  // namespace mpfa::sim
