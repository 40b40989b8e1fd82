// How far an attention output is from a reference, head by head.
#pragma once

#include <span>
#include <vector>

#include "mpfa/tensor.h"

namespace mpfa::tools {

// Per head over all rows together, as internal::PolicyResult has them.
struct HeadErrors {
  std::vector<double> relative_l2;  // |out - ref| / |ref|
  std::vector<double> cosine;       // out . ref / (|out| |ref|)

  double mean_relative_l2() const;
  double mean_cosine() const;
};

// out [rows, heads, d] BF16, FP16 or FP32, any outer strides; reference compact, of that shape. A
// reference of norm 0 gives error 0 and cosine 1 if out is 0 as well, else infinity and 0.
HeadErrors head_errors(const TensorView& out, std::span<const double> reference);

}  // namespace mpfa::tools
