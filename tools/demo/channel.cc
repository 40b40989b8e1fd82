#include "demo/channel.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/tensor.h"
#include "mpfa/formats.h"

namespace mpfa::tools {
namespace {

struct Moments {
  double mean = 0.0;
  double deviation = 0.0;

  // How far the channel sits from 0, in its own width.
  double strength() const { return deviation > 0.0 ? std::abs(mean) / deviation : 0.0; }
};

// The first `rows` tokens of one head, channel by channel.
class HeadValues {
 public:
  HeadValues(const TensorView& k, int64_t head, int64_t rows) : d_(k.size(2)), rows_(rows) {
    internal::visit_float_tensor<3>(k, "k", [&](const auto& values) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < d_; ++i) {
          values_.push_back(internal::to_float(values.at(row, head)[i]));
        }
      }
    });
  }

  float at(int64_t row, int64_t channel) const {
    return values_[static_cast<size_t>(row * d_ + channel)];
  }
  int64_t head_dim() const { return d_; }
  int64_t rows() const { return rows_; }

  Moments moments(int64_t channel) const {
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t row = 0; row < rows_; ++row) {
      const double x = at(row, channel);
      sum += x;
      squares += x * x;
    }
    const auto n = static_cast<double>(rows_);
    const double mean = sum / n;
    return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean))};
  }

 private:
  int64_t d_;
  int64_t rows_;
  std::vector<float> values_;
};

// Median over tokens of the scale that the block around `channel` gets, centred or not.
float median_scale(const HeadValues& head, int64_t channel, bool centred) {
  const int64_t first = channel / kNvfp4BlockSize * kNvfp4BlockSize;
  float means[kNvfp4BlockSize] = {};
  for (int i = 0; centred && i < kNvfp4BlockSize; ++i) {
    means[i] = static_cast<float>(head.moments(first + i).mean);
  }
  std::vector<float> scales;
  for (int64_t row = 0; row < head.rows(); ++row) {
    float block[kNvfp4BlockSize];
    for (int i = 0; i < kNvfp4BlockSize; ++i) block[i] = head.at(row, first + i) - means[i];
    scales.push_back(e4m3_to_float({nvfp4_quantize(block, ScaleRule::kSearch).scale}));
  }
  std::nth_element(scales.begin(), scales.begin() + scales.size() / 2, scales.end());
  return scales[scales.size() / 2];
}

}  // namespace

DemoChannel strongest_channel(const Layer& layer, int64_t prompt) {
  DemoChannel best;
  best.strength = -1.0;
  for (int64_t head = 0; head < layer.k.size(1); ++head) {
    const HeadValues values(layer.k, head, prompt);
    for (int64_t channel = 0; channel < values.head_dim(); ++channel) {
      const double strength = values.moments(channel).strength();
      if (strength <= best.strength) continue;
      best.strength = strength;
      best.kv_head = head;
      best.channel = channel;
    }
  }
  best.layer = layer.name;
  const HeadValues values(layer.k, best.kv_head, prompt);
  const auto mean = static_cast<float>(values.moments(best.channel).mean);
  for (int64_t row = 0; row < prompt; ++row) {
    best.before.push_back(values.at(row, best.channel));
    best.after.push_back(best.before.back() - mean);
  }
  best.scale_before = median_scale(values, best.channel, false);
  best.scale_after = median_scale(values, best.channel, true);
  return best;
}

}  // namespace mpfa::tools
