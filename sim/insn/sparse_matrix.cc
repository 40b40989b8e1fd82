#include "sim/insn/sparse_matrix.h"

#include <cstring>

#include "mpfa/check.h"
#include "sim/insn/matrix_fragment.h"

namespace mpfa::sim {
namespace {

constexpr int kChunkBits = 4;
constexpr int kWordBits = 32;
constexpr int kHalfWordBits = 16;
constexpr int kGroup = 4;  // threads
constexpr int kTileRows = 8;

int chunk_elements(ElementType type) {
  if (type == ElementType::kTf32) return 2;
  return is_nibble(type) ? 8 : 4;
}

bool is_narrow(ElementType type) { return container_bytes(type) == 1; }

// One chunk's metadata: of a row, from `words`.
struct ChunkReader {
  const SparseMetadata& metadata;
  const uint32_t* words;

  uint32_t read(int row, int chunk) const {
    const int bit = kChunkBits * chunk;
    const int half = row / kTileRows;
    const bool narrow = is_narrow(metadata.type);
    const int thread = narrow ? half + 2 * (bit / kWordBits) : bit / kHalfWordBits;
    const int shift = narrow ? bit % kWordBits : bit % kHalfWordBits + kHalfWordBits * half;
    const int lane = kGroup * (row % kTileRows) + metadata.selector * metadata.threads() + thread;
    return words[lane] >> shift & 0xFu;
  }
};

// Copies of a row of B what one row of A selects.
template <class T>
void select(const T* row, const uint16_t* positions, int count, T* out) {
  for (int i = 0; i < count; ++i) out[i] = row[positions[i]];
}

template <class T>
void select_rows(const MatrixMultiply& op, const MatrixOperands& operands,
                 const uint16_t* positions, std::byte* out) {
  const T* b = static_cast<const T*>(operands.b);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t n = 0; n < op.n; ++n) {
    select(b + n * operands.b_stride, positions, op.k, to + n * op.k);
  }
}

}  // namespace

int SparseMetadata::threads() const {
  return kChunkBits * (k / chunk_elements(type)) / kHalfWordBits;
}

void SparseMetadata::positions(const Warp& warp, const Insn& insn, const uint32_t* words,
                               uint16_t* out) const {
  const ChunkReader reader{*this, words};
  const int chunk = chunk_elements(type);
  const int chunks = k / chunk;
  // Elements that two bits stand for. Those of tf32, half an element, come in pairs.
  const int quarter = chunk / 4;
  for (int row = 0; row < kSparseRows; ++row) {
    for (int c = 0; c < chunks; ++c) {
      const uint32_t bits = reader.read(row, c);
      const uint32_t places[2] = {bits & 3u, bits >> 2};
      const bool is_pair = places[0] % 2 == 0 && places[1] == places[0] + 1;
      if (places[0] == places[1] || (type == ElementType::kTf32 && !is_pair)) {
        warp.fail(FaultKind::kCheck, insn, kAllLanes,
                  internal::str_cat("the sparsity metadata of row ", row, ", elements ", c * chunk,
                                    " to ", (c + 1) * chunk - 1, ", is ", bits,
                                    ": such values are undefined"));
      }
      if (type == ElementType::kTf32) {
        *out++ = static_cast<uint16_t>(c * chunk + static_cast<int>(places[0]) / 2);
        continue;
      }
      for (const uint32_t place : places) {
        for (int i = 0; i < quarter; ++i) {
          *out++ = static_cast<uint16_t>(c * chunk + static_cast<int>(place) * quarter + i);
        }
      }
    }
  }
}

int take_sparsity_selector(InsnDecoder& d, size_t at, const SparseMetadata& metadata) {
  const int64_t selector = d.immediate(at);
  const int choices = kGroup / metadata.threads();
  if (selector < 0 || selector >= choices) {
    d.fail(internal::str_cat("the sparsity selector is ", selector, "; must be in 0 to ",
                             choices - 1));
  }
  return static_cast<int>(selector);
}

void sparse_multiply(const MatrixMultiply& op, const MatrixOperands& operands,
                     const uint16_t* positions) {
  thread_local std::vector<std::byte> selected;
  const int element = container_bytes(op.model.a);
  selected.resize(static_cast<size_t>(op.n) * static_cast<size_t>(op.k) *
                  static_cast<size_t>(element));
  const auto a_row_bytes = operands.a_stride * element;
  const int accumulator = container_bytes(op.model.accumulator);
  MatrixMultiply row_op = op;
  row_op.m = 1;
  for (int64_t row = 0; row < op.m; ++row, positions += op.k) {
    MatrixOperands one = operands;
    one.a = static_cast<const std::byte*>(operands.a) + row * a_row_bytes;
    one.c = static_cast<const std::byte*>(operands.c) + row * operands.c_stride * accumulator;
    one.d = static_cast<std::byte*>(operands.d) + row * operands.d_stride * accumulator;
    switch (element) {
      case 1:
        select_rows<uint8_t>(op, operands, positions, selected.data());
        break;
      case 2:
        select_rows<uint16_t>(op, operands, positions, selected.data());
        break;
      default:
        select_rows<uint32_t>(op, operands, positions, selected.data());
    }
    one.b = selected.data();
    one.b_stride = op.k;
    matrix_multiply(row_op, one);
  }
}

}  // namespace mpfa::sim
