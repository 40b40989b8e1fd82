#include "common/head_errors.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Sums over one head.
struct Sums {
  double difference = 0.0;
  double out = 0.0;
  double reference = 0.0;
  double product = 0.0;

  void add(double x, double y) {
    difference += (x - y) * (x - y);
    out += x * x;
    reference += y * y;
    product += x * y;
  }
  double relative_l2() const {
    if (reference > 0.0) return std::sqrt(difference / reference);
    return out == 0.0 ? 0.0 : std::numeric_limits<double>::infinity();
  }
  double cosine() const {
    if (reference > 0.0 && out > 0.0) return product / std::sqrt(out * reference);
    return out == 0.0 && reference == 0.0 ? 1.0 : 0.0;
  }
};

}  // namespace

double HeadErrors::mean_relative_l2() const { return mean(relative_l2); }
double HeadErrors::mean_cosine() const { return mean(cosine); }

HeadErrors head_errors(const TensorView& out, std::span<const double> reference) {
  const int64_t rows = out.size(0);
  const int64_t heads = out.size(1);
  const int64_t d = out.size(2);
  MPFA_CHECK(static_cast<int64_t>(reference.size()) == rows * heads * d, "reference has ",
             reference.size(), " values: must have ", rows * heads * d);
  HeadErrors errors;
  internal::visit_float_tensor<3>(out, "out", [&](const auto& values) {
    for (int64_t head = 0; head < heads; ++head) {
      Sums sums;
      for (int64_t row = 0; row < rows; ++row) {
        const auto* x = values.at(row, head);
        const double* y = reference.data() + (row * heads + head) * d;
        for (int64_t i = 0; i < d; ++i) {
          sums.add(static_cast<double>(internal::to_float(x[i])), y[i]);
        }
      }
      errors.relative_l2.push_back(sums.relative_l2());
      errors.cosine.push_back(sums.cosine());
    }
  });
  return errors;
}

}  // namespace mpfa::tools
