// The bytes that one tensor copy moves: where they lie in global and in shared memory
// (PTX ISA, "Tiled Mode" and "cp.async.bulk.tensor").
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {

enum class CopyDirection : uint8_t { kLoad, kStore };  // kStore: reductions too

// Consecutive bytes of both memories. Whole elements.
struct CopyRun {
  bool in_bounds = false;  // else: a load fills, a store skips
  // Of a store, in_bounds too: bytes after the last element of a tensor's row, up to a multiple of
  // 16. The engine clips stores to whole 16 bytes (seen on an H200), so it writes them.
  bool in_padding = false;
  uint64_t global_address = 0;  // where in_bounds
  uint32_t shared_offset = 0;   // from the box's first byte
  uint32_t bytes = 0;
};

// A row of a box: what is contiguous in the tensor. Its elements run along dimension 0.
struct BoxRow {
  bool in_bounds = false;       // in all dimensions but 0
  uint64_t global_address = 0;  // of element 0 of the tensor's row
};

// One copy's box. Throws TensorMapError for what the PTX ISA does not allow, or what this simulator
// does not have.
class BoxWalk {
 public:
  // Of .tile: `coordinates` has an element for each dimension of the map, innermost first.
  // `shared_address` is the box's first byte.
  static BoxWalk tile(const TensorMap& map, std::span<const int32_t> coordinates,
                      uint32_t shared_address, CopyDirection direction);

  // Of .tile::gather4 (a load) and .tile::scatter4: column, then four rows.
  static BoxWalk four_rows(const TensorMap& map, std::span<const int32_t> coordinates,
                           uint32_t shared_address, CopyDirection direction);

  // Of .im2col: `offsets` has rank - 2 elements, innermost (W) first; empty is .im2col_no_offs.
  static BoxWalk im2col(const TensorMap& map, std::span<const int32_t> coordinates,
                        std::span<const uint16_t> offsets, uint32_t shared_address,
                        CopyDirection direction);

  // What a load's complete_tx counts: the whole box, also where it is out of bounds. Padding of
  // packed types, which is not written, is not counted.
  uint32_t transaction_bytes() const { return row_bytes_ * row_count(); }
  // Bytes of shared memory from the first to the last that the box may use.
  uint32_t shared_bytes() const { return shared_pitch_ * row_count(); }
  uint32_t row_count() const { return static_cast<uint32_t>(rows_.size()); }

  // Calls visit(const CopyRun&) for every byte of the box once, row after row.
  template <typename Visit>
  void visit_runs(Visit&& visit) const {
    for (uint32_t row = 0; row < row_count(); ++row) {
      uint32_t at = 0;
      while (at < row_bytes_) {
        const CopyRun run = run_at(row, at);
        visit(run);
        at += run.bytes;
      }
    }
  }

 private:
  BoxWalk(const TensorMap& map, uint32_t inner_elements, int32_t inner_coordinate,
          uint32_t shared_address, CopyDirection direction);

  void add_rows(const TensorMap& map, std::span<const int32_t> coordinates);
  void add_row(const TensorMap& map, std::span<const int64_t> coordinates);
  // The longest run that begins at byte `at` of a row.
  CopyRun run_at(uint32_t row, uint32_t at) const;

  Swizzle swizzle_;
  uint32_t shared_address_ = 0;
  uint32_t row_bytes_ = 0;     // of a box row, in global memory
  uint32_t shared_pitch_ = 0;  // from a row to the next, in shared memory
  // Packed types with padding: bytes of 16 elements in global memory, else 0. They take 16 in
  // shared memory.
  uint32_t group_bytes_ = 0;
  int64_t row_offset_ = 0;    // of the box row's first byte in the tensor's row; may be negative
  int64_t tensor_bytes_ = 0;  // of a row of the tensor
  int64_t padded_bytes_ = 0;  // with what a store writes after it
  std::vector<BoxRow> rows_;  // in the order in which they lie in shared memory
};

// The bytes of an element that a load writes out of bounds.
struct FillElement {
  std::array<std::byte, 8> bytes = {};
  uint32_t size = 1;
};
FillElement fill_of(const TensorMap& map);
// Fills a run. `out` begins with a whole element.
void fill_run(const FillElement& element, std::span<std::byte> out);

// What a load makes of elements in bounds on the way: TF32 maps round. Other types pass unchanged,
// f32.ftz too, whose subnormals only reductions flush.
void convert_loaded(TensorMapType type, std::span<std::byte> elements);

}  // namespace mpfa::sim
