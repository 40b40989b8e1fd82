// Steps of a serving engine, run on a GPU and compared with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"

namespace mpfa::testing {

// Q less its mean, and the residual's coefficients, are rounded to FP16: 2^-12 at most, and the
// errors of a sum's terms cancel in part.
inline constexpr double kCompensationRounding = 5e-5;

inline double rounding_of(const AttentionShape& shape) {
  return shape.delta_s || shape.residual_rank > 0 ? kCompensationRounding : 0.0;
}

inline void expect_right(AttentionCase& host, DeviceCase& device, double rounding) {
  host.expect_matches_reference(rounding);
  EXPECT_EQ(device.errors(), 0);
}

inline void attend_and_expect_right(AttentionCase& host, DeviceCase& device, double rounding,
                                    bool is_scheduled = false) {
  device.attend(is_scheduled);
  expect_right(host, device, rounding);
}

// A graph of one call follows what then lies in the tensors: each step has lengths of its own,
// other queries, and two pages of sequence 0 have changed places.
inline void expect_graph_follows(AttentionCase& host, DeviceCase& device,
                                 const std::vector<std::vector<int32_t>>& steps,
                                 std::pair<int64_t, int64_t> pages, double rounding) {
  const Stream stream;
  const Graph graph(stream, [&] { device.enqueue(false, stream); });
  TestTensor& lengths = host.seq_lens_tensor();
  for (const std::vector<int32_t>& step : steps) {
    SCOPED_TRACE(step[0]);
    for (size_t b = 0; b < step.size(); ++b) lengths.at<int32_t>(static_cast<int64_t>(b)) = step[b];
    host.q().fill_normal(static_cast<uint32_t>(step[0]), 1.0f);
    std::swap(host.block_table().at<int32_t>(0, pages.first),
              host.block_table().at<int32_t>(0, pages.second));
    device.copies().upload(device.seq_lens);
    device.copies().upload(device.q);
    device.copies().upload(device.block_table);
    host.poison_results();
    device.copies().upload(device.out);
    device.copies().upload(device.lse);
    graph.launch(stream);
    device.fetch();
    expect_right(host, device, rounding);
  }
}

}  // namespace mpfa::testing
