// The pixels of an im2col copy (PTX ISA, "im2col mode").
#include "sim/tensor_map/box_walk.h"
#include "sim/tensor_map/copy_checks.h"

namespace mpfa::sim {
namespace {

// Goes through the pixels of a bounding box, W fastest, then H, D and N. Dimensions 1 to rank - 2
// of the map are W, H and D; rank - 1 is N.
class PixelCounter {
 public:
  PixelCounter(const TensorMap& map, std::span<const int32_t> coordinates) : map_(map) {
    std::copy(coordinates.begin(), coordinates.end(), at_.begin());
    for (int i = 1; i < map.rank - 1; ++i) {
      if (at_[i] < first(i) || at_[i] > last(i)) {
        fail_copy("coordinate ", i, " = ", at_[i], ": must lie in the bounding box [", first(i),
                  ", ", last(i), "]");
      }
    }
  }

  const std::array<int64_t, kMaxTensorRank>& at() const { return at_; }

  void advance() {
    for (int i = 1; i < map_.rank - 1; ++i) {
      at_[i] += map_.element_stride[i];
      if (at_[i] <= last(i)) return;
      at_[i] = first(i);
    }
    ++at_[map_.rank - 1];
  }

 private:
  int64_t first(int dim) const { return map_.lower_corner[dim - 1]; }
  int64_t last(int dim) const {
    return static_cast<int64_t>(map_.global_dim[dim]) - 1 + map_.upper_corner[dim - 1];
  }

  const TensorMap& map_;
  std::array<int64_t, kMaxTensorRank> at_ = {};
};

// By rank: what the instruction's offsets can hold.
int last_offset(int rank) {
  if (rank == 3) return (1 << 16) - 1;
  return rank == 4 ? (1 << 8) - 1 : (1 << 5) - 1;
}

void require_offsets(const TensorMap& map, std::span<const uint16_t> offsets,
                     CopyDirection direction) {
  if (direction == CopyDirection::kStore) {
    if (!offsets.empty()) fail_copy("im2col offsets: a store has none (.im2col_no_offs)");
    return;
  }
  if (static_cast<int>(offsets.size()) != map.rank - 2) {
    fail_copy(offsets.size(), " im2col offsets: must be ", map.rank - 2);
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] > last_offset(map.rank)) {
      fail_copy("im2col offset ", i, " = ", offsets[i], ": must be at most ",
                last_offset(map.rank));
    }
  }
}

// PTX ISA, "Restriction on Tensor Copy instructions".
void require_inside(const TensorMap& map, std::span<const int32_t> coordinates) {
  require_non_negative(coordinates);
  for (int i = 0; i < map.rank - 2; ++i) {
    if (map.lower_corner[i] < 0) {
      fail_copy("lower corner ", i, " = ", map.lower_corner[i],
                ": must not be negative in a store");
    }
    if (map.upper_corner[i] > 0) {
      fail_copy("upper corner ", i, " = ", map.upper_corner[i],
                ": must not be positive in a store");
    }
  }
}

}  // namespace

BoxWalk BoxWalk::im2col(const TensorMap& map, std::span<const int32_t> coordinates,
                        std::span<const uint16_t> offsets, uint32_t shared_address,
                        CopyDirection direction) {
  require_mode(map, TensorMapMode::kIm2col);
  require_coordinates(coordinates, map.rank);
  require_offsets(map, offsets, direction);
  if (direction == CopyDirection::kStore) require_inside(map, coordinates);
  BoxWalk walk(map, map.channels_per_pixel, coordinates[0], shared_address, direction);
  PixelCounter pixel(map, coordinates);
  for (uint32_t i = 0; i < map.pixels_per_column; ++i, pixel.advance()) {
    std::array<int64_t, kMaxTensorRank> at = pixel.at();
    for (size_t dim = 0; dim < offsets.size(); ++dim) at[dim + 1] += offsets[dim];
    walk.add_row(map, at);
  }
  return walk;
}

}  // namespace mpfa::sim
