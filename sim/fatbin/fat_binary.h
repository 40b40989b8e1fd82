// The container in which nvcc embeds device code in a program: PTX and machine code for several
// architectures, each perhaps compressed. NVIDIA documents no layout; this one is what nvcc 13.0
// writes (see fat_binary.cc), held against its output by the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpfa::sim {

enum class CodeKind : uint8_t { kPtx, kElf };

// Which devices an entry's code is for (PTX ISA, ".target").
enum class CodeVariant : uint8_t {
  kPortable,      // sm_90: this and all later ones, if it is PTX
  kFamily,        // sm_100f: later ones of the same major number
  kArchSpecific,  // sm_90a: this one only
};

enum class CodeCompression : uint8_t { kNone, kZstd, kLz4 };

// One entry. The payload lies in the fat binary that was read.
struct FatBinaryEntry {
  CodeKind kind = CodeKind::kPtx;
  int capability = 0;  // 90 of sm_90a
  CodeVariant variant = CodeVariant::kPortable;
  CodeCompression compression = CodeCompression::kNone;
  std::span<const std::byte> payload;
  uint64_t uncompressed_bytes = 0;  // 0: the payload is not compressed

  std::string target() const;  // "sm_90a"
};

// The entries of a fat binary, in its order; those that are neither PTX nor ELF are left out.
// Throws IoError for headers that contradict themselves or leave `bytes`.
std::vector<FatBinaryEntry> read_fat_binary(std::span<const std::byte> bytes);

// The same for one in memory that ends where its header says.
std::vector<FatBinaryEntry> read_fat_binary(const void* start);

// How many bytes its header says that it has. Throws IoError if it is none.
uint64_t fat_binary_bytes(const void* start);

// Whether `start` holds a fat binary's magic number.
bool is_fat_binary(const void* start);

// The payload as text, decompressed. Throws IoError when that fails.
std::string ptx_text(const FatBinaryEntry& entry);

}  // namespace mpfa::sim
