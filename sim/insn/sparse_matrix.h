// Products of a structured sparse A: of every chunk of a row half the elements are stored, and
// metadata says where they belong (PTX ISA, "Sparse matrix storage").
//
// A chunk is 4 elements; of tf32 2; of 4-bit types 8, of which pairs are stored. Its metadata is 4
// bits: the places, in its quarters, of what is stored, in the low 2 bits that of the first half.
//
// The metadata of a tile of 16 rows (figures "Sparse MMA metadata layout"): of the 4 threads of a
// group g, 1, 2 or 4 hold it, as a row has 16, 32 or 64 bits; the sparsity selector says which of
// the 4 or 2 that can. Of types of 16 and 32 bits thread i holds the i-th 16 bits of row g, and
// above them those of row g + 8. Of narrower types, thread i holds 32 bits of row g + 8 * (i % 2),
// the first or (i / 2 = 1) the second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/machine/warp.h"
#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {

// Rows that one warp's metadata describes.
constexpr int kSparseRows = 16;

struct SparseMetadata {
  ElementType type = ElementType::kF16;
  int k = 0;  // of the whole A
  int selector = 0;

  // Threads of a group that hold it.
  int threads() const;
  // Where in B's k the stored elements of each row belong: [row][k / 2]. `words` are the lanes'
  // metadata. Metadata that names a place twice ends the kernel.
  void positions(const Warp& warp, const Insn& insn, const uint32_t* words, uint16_t* out) const;
};

// The operand `at`, which must be one of the selectors that there are.
int take_sparsity_selector(InsnDecoder& decoder, size_t at, const SparseMetadata& metadata);

// D = A * B^T + C with op.k and A's rows of what is stored: op.k is half of B's k. `positions` are
// op.m rows of op.k.
//
// A row is multiplied with the elements of B that it selects and with no other, as the tensor core
// does it: NaNs and infinities that it does not select do not matter, and the products of one
// hardware step are those of stored elements, as many as in the dense instruction of op.k.
void sparse_multiply(const MatrixMultiply& op, const MatrixOperands& operands,
                     const uint16_t* positions);

}  // namespace mpfa::sim
