// What differs from one GPU to the next.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpfa::sim {

// The numbers that a program can ask for, or that decide whether a launch is legal.
struct DeviceModel {
  std::string name;  // "NVIDIA H200"
  int major = 9;     // compute capability
  int minor = 0;
  int sm_count = 132;
  uint64_t memory_bytes = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int registers_per_sm = 65536;
  int shared_bytes_per_sm = 233472;
  int shared_bytes_per_block = 49152;         // without opting in
  int shared_bytes_per_block_optin = 232448;  // cudaFuncAttributeMaxDynamicSharedMemorySize
  int reserved_shared_bytes = 1024;           // at the start of every block's shared memory
  int max_cluster_size = 8;                   // portable; 16 when the kernel allows it
  int l2_bytes = 60 << 20;
  int clock_khz = 1980000;
  int memory_clock_khz = 3201000;
  int memory_bus_bits = 6144;

  int capability() const { return major * 10 + minor; }
};

// By --arch: "sm_80" (A100), "sm_86", "sm_89" (L40S), "sm_90" or "sm_90a" (H200), "sm_100a" (B200).
// Throws InvalidArgument for another name, naming these.
DeviceModel device_model(std::string_view arch);

}  // namespace mpfa::sim
