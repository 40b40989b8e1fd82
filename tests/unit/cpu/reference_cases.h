// What the oracle's tests share: running it over a PagedCase, and comparing.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cpu/reference.h"
#include "unit/cpu/expect_error.h"
#include "unit/cpu/paged_case.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {

struct Output {
  TensorBox<double> out;
  TensorBox<double> lse;
};

inline Output run(const PagedCase& c, const AttentionParams& params = {}) {
  Output result{TensorBox<double>({c.total_q(), c.config().num_q_heads, c.config().head_dim}),
                TensorBox<double>({c.total_q(), c.config().num_q_heads})};
  attention_reference(result.out.get(), result.lse.ptr(), c.q.get(), c.view(), c.block_table.get(),
                      c.seq_lens.get(), c.cu_seqlens_q.ptr(), params);
  return result;
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance = 1e-11) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n) {
    if (std::isinf(expected[n])) {
      ASSERT_EQ(actual[n], expected[n]) << "element " << n;
    } else {
      ASSERT_NEAR(actual[n], expected[n], tolerance * (1.0 + std::abs(expected[n])))
          << "element " << n;
    }
  }
}

}  // namespace mpfa::internal
