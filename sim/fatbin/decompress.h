// The two compressions of fat binaries: Zstandard frames, and LZ4 blocks without a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mpfa::sim {

// Both throw IoError unless the result has exactly `bytes` bytes.
std::string decompress_zstd(std::span<const std::byte> compressed, uint64_t bytes);
std::string decompress_lz4(std::span<const std::byte> compressed, uint64_t bytes);

}  // namespace mpfa::sim
