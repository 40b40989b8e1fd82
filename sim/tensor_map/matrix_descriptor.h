// Shared-memory matrix descriptors of the tensor cores: wgmma's (PTX ISA, "Matrix Descriptor
// Format" and "Strides" of wgmma) and tcgen05's ("Shared Memory Descriptor").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mpfa/check.h"
#include "sim/tensor_map/swizzle.h"

namespace mpfa::sim {

// A descriptor that does not exist, or does not fit the operand. The message names the field, its
// value and what is allowed.
class MatrixDescriptorError : public Error {
 public:
  using Error::Error;
};

// The dimension along which elements are contiguous. MN is a transposed operand.
enum class MajorDimension : uint8_t { kK, kMn };

enum class TensorCore : uint8_t { kWgmma, kTcgen05 };

struct MatrixDescriptor {
  TensorCore tensor_core = TensorCore::kWgmma;
  uint32_t start_address = 0;        // bytes of shared memory, as are the offsets
  uint32_t leading_byte_offset = 0;  // LBO
  uint32_t stride_byte_offset = 0;   // SBO
  uint32_t base_offset = 0;  // the 128-byte line in which the swizzle's pattern begins, mod 8
  Swizzle swizzle;

  friend bool operator==(const MatrixDescriptor&, const MatrixDescriptor&) = default;
};

MatrixDescriptor decode_wgmma_descriptor(uint64_t bits);
MatrixDescriptor decode_tcgen05_descriptor(uint64_t bits);

// Where an operand's elements lie: the canonical layout that a descriptor stands for.
class OperandLayout {
 public:
  // `element_bytes` is 1, 2 or 4. MN-major elements: 2 bytes for wgmma; 1 or 2 for tcgen05, and 4
  // with the swizzle of 32-byte atoms only.
  OperandLayout(const MatrixDescriptor& descriptor, MajorDimension major, uint32_t element_bytes);

  // Shared address of the element in row `mn` (of A: m; of B: n) and column `k`.
  uint32_t address(uint32_t mn, uint32_t k) const;

  // Copies rows x columns elements to `out`, dense, each row's k after another. Throws
  // MatrixDescriptorError where the operand leaves `shared`.
  void gather(std::span<const std::byte> shared, uint32_t rows, uint32_t columns,
              std::span<std::byte> out) const;

 private:
  // Before the swizzle: of byte `along` of the contiguous dimension, and index `across` of the
  // other.
  uint32_t linear_address(uint32_t along, uint32_t across) const;
  uint32_t chunk_address(uint32_t along, uint32_t across) const;
  void require_inside(uint32_t address, size_t shared_bytes) const;
  void gather_k_major(std::span<const std::byte> shared, uint32_t rows, uint32_t columns,
                      std::span<std::byte> out) const;
  void gather_mn_major(std::span<const std::byte> shared, uint32_t rows, uint32_t columns,
                       std::span<std::byte> out) const;

  MatrixDescriptor descriptor_;
  MajorDimension major_;
  uint32_t element_bytes_;
  uint32_t width_;        // bytes of the contiguous dimension in one row of the swizzle's atom
  uint32_t atom_rows_;    // of the other dimension in one atom
  uint32_t next_along_;   // bytes from an atom to the next in the contiguous dimension
  uint32_t next_across_;  // and in the other
};

}  // namespace mpfa::sim
