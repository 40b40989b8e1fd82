#include "sim/machine/device_model.h"

#include <array>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr int kMiB = 1 << 20;

// NVIDIA's data sheets and the CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability".
std::array<DeviceModel, 5> models() {
  std::array<DeviceModel, 5> all;
  all[0] = {.name = "NVIDIA A100-SXM4-80GB",
            .major = 8,
            .minor = 0,
            .sm_count = 108,
            .memory_bytes = 80 * kGiB,
            .shared_bytes_per_sm = 167936,
            .shared_bytes_per_block_optin = 166912,
            .max_cluster_size = 1,
            .l2_bytes = 40 * kMiB,
            .clock_khz = 1410000,
            .memory_clock_khz = 1593000,
            .memory_bus_bits = 5120};
  all[1] = {.name = "NVIDIA A10",
            .major = 8,
            .minor = 6,
            .sm_count = 72,
            .memory_bytes = 24 * kGiB,
            .max_threads_per_sm = 1536,
            .max_blocks_per_sm = 16,
            .shared_bytes_per_sm = 102400,
            .shared_bytes_per_block_optin = 101376,
            .max_cluster_size = 1,
            .l2_bytes = 6 * kMiB,
            .clock_khz = 1695000,
            .memory_clock_khz = 6251000,
            .memory_bus_bits = 384};
  all[2] = {.name = "NVIDIA L40S",
            .major = 8,
            .minor = 9,
            .sm_count = 142,
            .memory_bytes = 48 * kGiB,
            .max_threads_per_sm = 1536,
            .max_blocks_per_sm = 24,
            .shared_bytes_per_sm = 102400,
            .shared_bytes_per_block_optin = 101376,
            .max_cluster_size = 1,
            .l2_bytes = 96 * kMiB,
            .clock_khz = 2520000,
            .memory_clock_khz = 9001000,
            .memory_bus_bits = 384};
  all[3] = {.name = "NVIDIA H200",
            .major = 9,
            .minor = 0,
            .memory_bytes = 150109880320,
            .memory_bus_bits = 6016};
  all[4] = {.name = "NVIDIA B200",
            .major = 10,
            .minor = 0,
            .sm_count = 148,
            .memory_bytes = 180 * kGiB,
            .l2_bytes = 126 * kMiB,
            .clock_khz = 1965000,
            .memory_clock_khz = 3996000,
            .memory_bus_bits = 8192};
  return all;
}

}  // namespace

DeviceModel device_model(std::string_view arch) {
  std::string_view number = arch;
  if (number.starts_with("sm_")) number.remove_prefix(3);
  if (number.ends_with('a')) number.remove_suffix(1);
  for (const DeviceModel& model : models()) {
    if (std::to_string(model.capability()) == number) return model;
  }
  throw InvalidArgument("arch = " + std::string(arch) +
                        ": must be sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100 or sm_100a");
}

}  // namespace mpfa::sim
