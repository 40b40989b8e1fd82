#include "sim/tensor_map/matrix_descriptor.h"

#include <algorithm>
#include <cstring>

namespace mpfa::sim {
namespace {

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
  throw MatrixDescriptorError(internal::str_cat("matrix descriptor: ", args...));
}

constexpr uint64_t field(uint64_t bits, int low, int width) {
  return bits >> low & ((uint64_t{1} << width) - 1);
}

void require_zero(uint64_t bits, int low, int width) {
  const uint64_t value = field(bits, low, width);
  if (value != 0) {
    fail("bits ", low, " to ", low + width - 1, " = ", value, ": must be 0");
  }
}

// matrix-descriptor-encode() drops the low four bits.
uint32_t encoded_bytes(uint64_t bits, int low) {
  return static_cast<uint32_t>(field(bits, low, 14)) << 4;
}

MatrixDescriptor common_fields(uint64_t bits, Swizzle swizzle) {
  require_zero(bits, 14, 2);
  require_zero(bits, 30, 2);
  MatrixDescriptor descriptor;
  descriptor.start_address = encoded_bytes(bits, 0);
  descriptor.leading_byte_offset = encoded_bytes(bits, 16);
  descriptor.stride_byte_offset = encoded_bytes(bits, 32);
  descriptor.base_offset = static_cast<uint32_t>(field(bits, 49, 3));
  descriptor.swizzle = swizzle;
  if (swizzle.span == SwizzleSpan::kNone && descriptor.base_offset != 0) {
    fail("base offset = ", descriptor.base_offset, ": must be 0 without a swizzle");
  }
  return descriptor;
}

Swizzle tcgen05_swizzle(uint64_t mode) {
  switch (mode) {
    case 0:
      return {SwizzleSpan::kNone, SwizzleAtom::k16B};
    case 1:
      return {SwizzleSpan::k128B, SwizzleAtom::k32B};
    case 2:
      return {SwizzleSpan::k128B, SwizzleAtom::k16B};
    case 4:
      return {SwizzleSpan::k64B, SwizzleAtom::k16B};
    case 6:
      return {SwizzleSpan::k32B, SwizzleAtom::k16B};
    default:
      fail("swizzling mode = ", mode, ": must be 0, 1, 2, 4 or 6");
  }
}

constexpr uint32_t kChunkBytes = 16;

void require_elements(const MatrixDescriptor& descriptor, MajorDimension major,
                      uint32_t element_bytes) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) {
    fail("elements of ", element_bytes, " bytes: must be 1, 2 or 4");
  }
  const bool wide_atom = descriptor.swizzle.atom == SwizzleAtom::k32B;
  if (major == MajorDimension::kK) {
    if (wide_atom) fail("swizzling mode = 128B with 32B atoms: must be MN-major");
  } else if (descriptor.tensor_core == TensorCore::kWgmma) {
    if (element_bytes != 2) fail("MN-major elements of ", element_bytes, " bytes: must be 2");
  } else if (wide_atom != (element_bytes == 4)) {
    fail("MN-major elements of ", element_bytes, " bytes: must be ",
         wide_atom ? "4 with 32B atoms" : "1 or 2 but with 32B atoms");
  }
}

}  // namespace

MatrixDescriptor decode_wgmma_descriptor(uint64_t bits) {
  constexpr Swizzle kModes[] = {{SwizzleSpan::kNone, SwizzleAtom::k16B},
                                {SwizzleSpan::k128B, SwizzleAtom::k16B},
                                {SwizzleSpan::k64B, SwizzleAtom::k16B},
                                {SwizzleSpan::k32B, SwizzleAtom::k16B}};
  require_zero(bits, 46, 3);
  require_zero(bits, 52, 10);
  return common_fields(bits, kModes[field(bits, 62, 2)]);
}

MatrixDescriptor decode_tcgen05_descriptor(uint64_t bits) {
  const uint64_t version = field(bits, 46, 3);
  if (version != 1) fail("bits 46 to 48 = ", version, ": must be 1 (tcgen05)");
  if (field(bits, 52, 1) != 0) {
    fail("leading dimension mode = 1 (absolute address): not supported; only sm_103a has it");
  }
  require_zero(bits, 53, 8);
  MatrixDescriptor descriptor = common_fields(bits, tcgen05_swizzle(field(bits, 61, 3)));
  descriptor.tensor_core = TensorCore::kTcgen05;
  return descriptor;
}

// The canonical layouts of the PTX ISA, in bytes (T elements are 16 bytes):
//   K-major   no swizzle     ((8,m),(T,2k)):((1T,SBO),(1,LBO))
//             swizzle of W   ((8,m),(T,2k)):((W,SBO),(1,T))
//   MN-major  no swizzle     ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
//             swizzle of W   ((T,W/16,m),(8,k)):((1,T,LBO),(W,SBO))
// With a 32-byte atom (tcgen05) an atom has 4 rows instead of 8.
OperandLayout::OperandLayout(const MatrixDescriptor& descriptor, MajorDimension major,
                             uint32_t element_bytes)
    : descriptor_(descriptor), major_(major), element_bytes_(element_bytes) {
  const bool wide_atom = descriptor.swizzle.atom == SwizzleAtom::k32B;
  require_elements(descriptor, major, element_bytes);
  const bool swizzled = descriptor.swizzle.span != SwizzleSpan::kNone;
  width_ = swizzled ? descriptor.swizzle.span_bytes() : kChunkBytes;
  atom_rows_ = wide_atom ? 4 : 8;
  next_along_ = descriptor.leading_byte_offset;
  next_across_ = descriptor.stride_byte_offset;
  if (major == MajorDimension::kMn && !swizzled) std::swap(next_along_, next_across_);
  // An instruction's slice of a K-major operand lies in one row of atoms: LBO is not used.
  if (major == MajorDimension::kK && swizzled) next_along_ = width_;
}

uint32_t OperandLayout::linear_address(uint32_t along, uint32_t across) const {
  return descriptor_.start_address + along / width_ * next_along_ + along % width_ +
         across / atom_rows_ * next_across_ + across % atom_rows_ * width_;
}

uint32_t OperandLayout::chunk_address(uint32_t along, uint32_t across) const {
  return descriptor_.swizzle.apply(linear_address(along, across), descriptor_.base_offset);
}

uint32_t OperandLayout::address(uint32_t mn, uint32_t k) const {
  return major_ == MajorDimension::kK ? chunk_address(k * element_bytes_, mn)
                                      : chunk_address(mn * element_bytes_, k);
}

void OperandLayout::require_inside(uint32_t address, size_t shared_bytes) const {
  if (address + kChunkBytes > shared_bytes) {
    fail("start address = ", descriptor_.start_address, ", LBO = ", descriptor_.leading_byte_offset,
         ", SBO = ", descriptor_.stride_byte_offset, ": the operand reaches byte ",
         address + kChunkBytes - 1, " of ", shared_bytes, " bytes of shared memory");
  }
}

void OperandLayout::gather(std::span<const std::byte> shared, uint32_t rows, uint32_t columns,
                           std::span<std::byte> out) const {
  const size_t row_bytes = size_t{columns} * element_bytes_;
  if (out.size() != rows * row_bytes) {
    fail("gather of ", rows, " x ", columns, " elements to ", out.size(), " bytes");
  }
  const size_t contiguous =
      major_ == MajorDimension::kK ? row_bytes : size_t{rows} * element_bytes_;
  if (contiguous % kChunkBytes != 0) {
    fail("operand of ", contiguous, " contiguous bytes: must be a multiple of ", kChunkBytes);
  }
  if (major_ == MajorDimension::kK) {
    gather_k_major(shared, rows, columns, out);
  } else {
    gather_mn_major(shared, rows, columns, out);
  }
}

void OperandLayout::gather_k_major(std::span<const std::byte> shared, uint32_t rows,
                                   uint32_t columns, std::span<std::byte> out) const {
  const uint32_t row_bytes = columns * element_bytes_;
  std::byte* to = out.data();
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t along = 0; along < row_bytes; along += kChunkBytes, to += kChunkBytes) {
      const uint32_t from = chunk_address(along, row);
      require_inside(from, shared.size());
      std::memcpy(to, &shared[from], kChunkBytes);
    }
  }
}

void OperandLayout::gather_mn_major(std::span<const std::byte> shared, uint32_t rows,
                                    uint32_t columns, std::span<std::byte> out) const {
  const size_t row_bytes = size_t{columns} * element_bytes_;
  const uint32_t per_chunk = kChunkBytes / element_bytes_;
  for (uint32_t k = 0; k < columns; ++k) {
    for (uint32_t row = 0; row < rows; row += per_chunk) {
      const uint32_t from = chunk_address(row * element_bytes_, k);
      require_inside(from, shared.size());
      std::byte* to = &out[row * row_bytes + size_t{k} * element_bytes_];
      for (uint32_t i = 0; i < per_chunk; ++i, to += row_bytes) {
        std::memcpy(to, &shared[from + size_t{i} * element_bytes_], element_bytes_);
      }
    }
  }
}

}  // namespace mpfa::sim
