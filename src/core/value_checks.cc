#include "core/value_checks.h"

#include <array>
#include <cmath>
#include <tuple>

namespace mpfa::internal {
namespace {

// "[1, 0, 3]"
template <size_t Rank>
std::string index_string(const std::array<int64_t, Rank>& index) {
  std::string text;
  for (const int64_t i : index) text += (text.empty() ? "[" : ", ") + std::to_string(i);
  return text + "]";
}

}  // namespace

template <int Rank>
void check_positive(const Tensor<float, Rank>& scales, std::string_view name) {
  if (!scales || scales.empty()) return;
  std::array<int64_t, Rank> index{};
  for (int dim = 0; dim >= 0;) {
    const float value = *std::apply([&](auto... i) { return scales.at(i...); }, index);
    MPFA_CHECK(std::isfinite(value) && value > 0, name, index_string(index), " = ", value,
               ": must be finite and above 0");
    for (dim = Rank - 1; dim >= 0 && ++index[dim] == scales.size(dim); --dim) index[dim] = 0;
  }
}

template void check_positive(const Tensor<float, 1>&, std::string_view);
template void check_positive(const Tensor<float, 2>&, std::string_view);
template void check_positive(const Tensor<float, 3>&, std::string_view);

void check_scale_rule(ScaleRule rule) {
  MPFA_CHECK(rule == ScaleRule::kPlain || rule == ScaleRule::kSearch,
             "scale_rule = ", static_cast<int>(rule), ": must be kPlain or kSearch");
}

}  // namespace mpfa::internal
