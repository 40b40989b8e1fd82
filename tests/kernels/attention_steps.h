// Steps of a serving engine, run on a GPU and compared with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/sm90_prefill.h"
#include "kernels/device_case.h"
#include "kernels/far_pages.h"
#include "kernels/stream_and_graph.h"

namespace mpfa::testing {

// Q less its mean, and the residual's coefficients, are rounded to FP16: 2^-12 at most, and the
// errors of a sum's terms cancel in part.
inline constexpr double kCompensationRounding = 5e-5;

inline Rounding rounding_of(const AttentionShape& shape) {
  return shape.delta_s || shape.residual_rank > 0 ? kCompensationRounding : 0.0;
}

// What the kernels for sm_90a add, where they take the calls. Probabilities in e4m3 err by at most
// 2^-4 of themselves, 2^-5.2 in the mean, and a row's dims share their errors. Scores in FP16 err
// by 2^-12 of the largest that there can be, and so do keys in FP16 that compensations were added
// to.
inline Rounding rounding_of_kernel(const DeviceCase& device) {
  const PlanParams& plan = device.plan().params;
  const bool is_for_all_gpus = !internal::is_for_sm90_prefill(plan) || device.cache.delta_s ||
                               device.cu_seqlens_q == nullptr;
  if (is_for_all_gpus) return {};
  return {plan.prefill_precision == PrefillPrecision::kFp8 ? 1e-4 : 5e-4, 0.04};
}

// ---- variations of a problem ----

// Queries that FP16 does not hold as they are.
inline std::vector<AttentionShape> with_query_magnitudes(const AttentionShape& base) {
  std::vector<AttentionShape> shapes;
  for (const float magnitude : {1e-30f, 1e-3f, 40.0f, 1e18f}) {
    AttentionShape& shape = shapes.emplace_back(base);
    shape.q_magnitude = magnitude;
    shape.residual_rank = 8;
    shape.first_key = true;
  }
  return shapes;
}

// Scales of keys, values and residuals likewise.
inline std::vector<AttentionShape> with_scale_magnitudes(const AttentionShape& base) {
  std::vector<AttentionShape> shapes;
  for (const float magnitude : {1e-20f, 1e-3f, 1e4f, 1e20f}) {
    AttentionShape& shape = shapes.emplace_back(base);
    shape.scales = true;
    shape.scale_magnitude = magnitude;
    shape.residual_rank = 8;
    shape.residual_magnitude = magnitude;
  }
  return shapes;
}

// Every tensor that a call reads, with gaps between its rows.
inline std::vector<AttentionShape> with_gaps(const AttentionShape& base) {
  std::vector<AttentionShape> shapes;
  for (const int64_t gap : {16, 48}) {
    AttentionShape& shape = shapes.emplace_back(base);
    shape.strided = true;
    shape.gap = gap;
    shape.residual_rank = 8;
    shape.delta_s = true;
    shape.first_key = true;
  }
  return shapes;
}

// ---- runs ----

inline void expect_matches(AttentionCase& host, const DeviceCase& device,
                           const Rounding& rounding = {}) {
  const Rounding more = rounding_of_kernel(device);
  host.expect_matches_reference(
      {rounding.scores + more.scores, rounding.probabilities + more.probabilities});
}

inline void expect_right(AttentionCase& host, DeviceCase& device, const Rounding& rounding) {
  expect_matches(host, device, rounding);
  EXPECT_EQ(device.errors(), 0);
}

inline void attend_and_expect_right(AttentionCase& host, DeviceCase& device,
                                    const Rounding& rounding, bool is_scheduled = false) {
  device.attend(is_scheduled);
  expect_right(host, device, rounding);
}

inline void expect_right_with_far_pages(const AttentionShape& shape, uint32_t seed) {
  if (!FarPages::fit()) GTEST_SKIP() << "needs 17 GB of memory";
  AttentionCase host(shape, seed);
  DeviceCase device(host);
  const FarPages pages(host, device);
  attend_and_expect_right(host, device, rounding_of(shape));
}

// A graph of one call follows what then lies in the tensors: each step has lengths of its own,
// other queries, and two pages of sequence 0 have changed places.
inline void expect_graph_follows(AttentionCase& host, DeviceCase& device,
                                 const std::vector<std::vector<int32_t>>& steps,
                                 std::pair<int64_t, int64_t> pages, const Rounding& rounding) {
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
