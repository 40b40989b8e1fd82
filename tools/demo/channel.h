// The channel of K that shows best what centring does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/layer_file.h"

namespace mpfa::tools {

struct DemoChannel {
  std::string layer;
  int64_t kv_head = 0;
  int64_t channel = 0;
  double strength = 0.0;      // |mean| / standard deviation
  std::vector<float> before;  // the channel's values, one for each token of the prompt
  std::vector<float> after;   // the same centred
  float scale_before = 0.0f;  // median NVFP4 scale of the blocks that hold the channel
  float scale_after = 0.0f;
};

// The channel of greatest strength over the first `prompt` tokens of a layer's K.
DemoChannel strongest_channel(const Layer& layer, int64_t prompt);

}  // namespace mpfa::tools
