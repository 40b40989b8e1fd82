// Which lane a lane reads by shfl.
#pragma once

#include <cstdint>

namespace mpfa::sim {

enum class Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };

struct ShuffleSource {
  int lane = 0;  // the reading one itself where it is out of range
  bool in_range = false;
};

// PTX ISA, shfl.sync's pseudo-code.
constexpr ShuffleSource shuffle_source(Shuffle mode, int lane, uint32_t b, uint32_t c) {
  const int by = static_cast<int>(b & 31);
  const int clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int max_lane = (lane & segment) | (clamp & ~segment);
  const int min_lane = lane & segment;
  int from = 0;
  switch (mode) {
    case Shuffle::kUp:
      from = lane - by;
      break;
    case Shuffle::kDown:
      from = lane + by;
      break;
    case Shuffle::kButterfly:
      from = lane ^ by;
      break;
    case Shuffle::kIndex:
      from = min_lane | (by & ~segment);
      break;
  }
  const bool in_range = mode == Shuffle::kUp ? from >= max_lane : from <= max_lane;
  return {in_range ? from : lane, in_range};
}

}  // namespace mpfa::sim
