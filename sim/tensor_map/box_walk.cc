#include "sim/tensor_map/box_walk.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/tensor_map/copy_checks.h"
#include "sim/tensor_map/encode.h"

namespace mpfa::sim {
namespace {

// Of shared addresses. An H200 ends the kernel with a misaligned address otherwise.
constexpr uint32_t kSharedAlignment = 128;

void require_supported(const TensorMap& map, CopyDirection direction) {
  const std::string broken = check(map);
  if (!broken.empty()) throw TensorMapError("tensor map: " + broken);
  if (map.interleave != TensorInterleave::kNone) {
    fail_copy("interleave_layout = ", static_cast<int>(map.interleave),
              ": copies with an interleaved layout are not supported");
  }
  if (direction == CopyDirection::kLoad) return;
  if (is_padded(map.type)) {
    fail_copy("elemtype = ", name_of(map.type), ": stores of this type are not supported");
  }
  if (map.swizzle.atom == SwizzleAtom::k32BFlip8B) {
    fail_copy("swizzle_atomicity = 2 (32B with 8B flip): loads only");
  }
}

// A box begins at a multiple of 16 bytes (PTX ISA, "Bounding Box"), those of padded types at one of
// 128 elements. An H200 ends the kernel with an illegal instruction otherwise.
void require_inner_coordinate(const TensorMap& map, int32_t coordinate) {
  // 16 bytes hold 256 / (bytes of 16 elements).
  const auto factor =
      is_padded(map.type) ? 128 : static_cast<int32_t>(256 / global_bytes_of(map.type, 16));
  if (coordinate % factor != 0) {
    fail_copy("coordinate 0 = ", coordinate, ": must be a multiple of ", factor, " for the type ",
              name_of(map.type), ", so that the box begins at a multiple of 16 bytes");
  }
}

}  // namespace

BoxWalk::BoxWalk(const TensorMap& map, uint32_t inner_elements, int32_t inner_coordinate,
                 uint32_t shared_address, CopyDirection direction)
    : swizzle_(map.swizzle), shared_address_(shared_address) {
  require_supported(map, direction);
  require_inner_coordinate(map, inner_coordinate);
  if (shared_address % kSharedAlignment != 0) {
    fail_copy("shared address = ", shared_address, ": must be a multiple of ", kSharedAlignment);
  }
  row_bytes_ = static_cast<uint32_t>(global_bytes_of(map.type, inner_elements));
  shared_pitch_ = std::max(shared_bytes_of(map.type, inner_elements), swizzle_.span_bytes());
  if (is_padded(map.type)) group_bytes_ = static_cast<uint32_t>(global_bytes_of(map.type, 16));
  const auto first = static_cast<int64_t>(inner_coordinate);
  const auto magnitude =
      static_cast<int64_t>(global_bytes_of(map.type, static_cast<uint64_t>(std::abs(first))));
  row_offset_ = first < 0 ? -magnitude : magnitude;
  tensor_bytes_ = static_cast<int64_t>(global_bytes_of(map.type, map.global_dim[0]));
  padded_bytes_ =
      direction == CopyDirection::kStore ? (tensor_bytes_ + 15) / 16 * 16 : tensor_bytes_;
}

void BoxWalk::add_row(const TensorMap& map, std::span<const int64_t> coordinates) {
  BoxRow row{.in_bounds = true, .global_address = map.global_address};
  for (int i = 1; i < map.rank; ++i) {
    const int64_t at = coordinates[i];
    row.in_bounds &= at >= 0 && at < static_cast<int64_t>(map.global_dim[i]);
    row.global_address += static_cast<uint64_t>(at) * map.global_stride[i - 1];
  }
  rows_.push_back(row);
}

BoxWalk BoxWalk::tile(const TensorMap& map, std::span<const int32_t> coordinates,
                      uint32_t shared_address, CopyDirection direction) {
  require_mode(map, TensorMapMode::kTiled);
  require_coordinates(coordinates, map.rank);
  if (direction == CopyDirection::kStore) require_non_negative(coordinates);
  BoxWalk walk(map, map.box_dim[0], coordinates[0], shared_address, direction);
  walk.add_rows(map, coordinates);
  return walk;
}

// Counts through dimensions 1 to rank - 1, the lowest fastest.
void BoxWalk::add_rows(const TensorMap& map, std::span<const int32_t> coordinates) {
  std::array<int64_t, kMaxTensorRank> at = {};
  std::copy(coordinates.begin(), coordinates.end(), at.begin());
  int dim = 0;
  while (dim < map.rank) {
    add_row(map, at);
    for (dim = 1; dim < map.rank; ++dim) {
      at[dim] += map.element_stride[dim];
      if (at[dim] - coordinates[dim] < map.box_dim[dim]) break;
      at[dim] = coordinates[dim];
    }
  }
}

BoxWalk BoxWalk::four_rows(const TensorMap& map, std::span<const int32_t> coordinates,
                           uint32_t shared_address, CopyDirection direction) {
  require_mode(map, TensorMapMode::kTiled);
  require_coordinates(coordinates, 5);
  if (map.rank != 2) fail_copy("rank = ", map.rank, ": must be 2 for gather4 and scatter4");
  if (map.box_dim[1] != 1) {
    fail_copy("box_dim[1] = ", map.box_dim[1], ": must be 1 for gather4 and scatter4");
  }
  if (direction == CopyDirection::kStore) require_non_negative(coordinates);
  BoxWalk walk(map, map.box_dim[0], coordinates[0], shared_address, direction);
  for (const int32_t row : coordinates.subspan(1)) {
    walk.add_row(map, std::array<int64_t, 2>{0, row});
  }
  return walk;
}

CopyRun BoxWalk::run_at(uint32_t row, uint32_t at) const {
  // Bytes of the box row where the tensor's row begins, where it ends, and where its padding ends.
  const bool row_in_bounds = rows_[row].in_bounds;
  const std::array<int64_t, 3> borders = {-row_offset_, tensor_bytes_ - row_offset_,
                                          padded_bytes_ - row_offset_};
  CopyRun run;
  run.in_bounds = row_in_bounds && at >= borders[0] && at < borders[2];
  run.in_padding = run.in_bounds && at >= borders[1];
  // Up to where shared memory stops being consecutive, or a border.
  const uint32_t unit = group_bytes_ != 0 ? group_bytes_ : swizzle_.unit_bytes();
  int64_t end = std::min<int64_t>(row_bytes_, (int64_t{at} / unit + 1) * unit);
  for (const int64_t border : borders) {
    if (row_in_bounds && at < border) end = std::min(end, border);
  }
  run.bytes = static_cast<uint32_t>(end - at);

  const uint32_t in_row = group_bytes_ != 0 ? at / group_bytes_ * 16 + at % group_bytes_ : at;
  const uint32_t linear = shared_address_ + row * shared_pitch_ + in_row;
  run.shared_offset = swizzle_.apply(linear) - shared_address_;
  if (run.in_bounds) {
    run.global_address = rows_[row].global_address + static_cast<uint64_t>(row_offset_ + at);
  }
  return run;
}

FillElement fill_of(const TensorMap& map) {
  FillElement element;
  element.size = std::max<uint32_t>(1, static_cast<uint32_t>(global_bytes_of(map.type, 1)));
  if (map.fill == TensorFill::kZero) return element;
  // OOB-NaN has no documented bits. Those of an H200: each 16 bits are 0x7FF7.
  for (uint32_t i = 0; i < element.size; i += 2) {
    element.bytes[i] = std::byte{0xF7};
    element.bytes[i + 1] = std::byte{0x7F};
  }
  return element;
}

void fill_run(const FillElement& element, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = element.bytes[i % element.size];
}

namespace {

// To TF32, nearest even; any NaN becomes one, as an H200 has it.
uint32_t rounded_to_tf32(uint32_t bits) {
  constexpr uint32_t kInfinity = 0x7F800000;
  if ((bits & 0x7FFFFFFF) > kInfinity) return 0x7FFFE000;
  const uint32_t half = 0xFFF + (bits >> 13 & 1);
  return (bits + half) & ~uint32_t{0x1FFF};
}

}  // namespace

void convert_loaded(TensorMapType type, std::span<std::byte> elements) {
  if (type != TensorMapType::kTf32 && type != TensorMapType::kTf32Ftz) return;
  for (size_t at = 0; at + sizeof(uint32_t) <= elements.size(); at += sizeof(uint32_t)) {
    uint32_t bits = 0;
    std::memcpy(&bits, &elements[at], sizeof(bits));
    bits = rounded_to_tf32(bits);
    std::memcpy(&elements[at], &bits, sizeof(bits));
  }
}

}  // namespace mpfa::sim
