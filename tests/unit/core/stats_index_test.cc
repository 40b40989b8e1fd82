#include "core/stats_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/core/expect_invalid.h"
#include "unit/core/test_tensor.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::kInt32;
using core_test::TestTensor;

struct Rows {
  explicit Rows(const std::vector<int32_t>& values)
      : source(kInt32, {static_cast<int64_t>(values.size())}) {
    source.fill(values);
    tensor = Tensor<int32_t, 1>::from(*source, "stats_index");
  }
  TestTensor source;
  Tensor<int32_t, 1> tensor;
};

TEST(CheckStatsIndex, RowsOfTheBatchOnly) {
  const Rows rows({0, 1, 1, 7});
  check_stats_index(rows.tensor, 3, 2);
  check_stats_index(rows.tensor, 0, 2);
  check_stats_index(rows.tensor, 4, 8);
  expect_invalid([&] { check_stats_index(rows.tensor, 4, 2); },
                 {"stats_index[3] = 7", "must be 0 to 1"});
  expect_invalid([&] { check_stats_index(rows.tensor, 2, 1); },
                 {"stats_index[1] = 1", "must be 0 to 0"});
  const Rows negative({0, -1});
  expect_invalid([&] { check_stats_index(negative.tensor, 2, 2); }, {"stats_index[1] = -1"});
}

TEST(CheckStatsIndex, LengthAndAbsence) {
  const Rows rows({0, 1});
  expect_invalid([&] { check_stats_index(rows.tensor, 3, 2); },
                 {"stats_index has 2 elements", "one per sequence, 3"});
  expect_invalid([&] { check_stats_index(rows.tensor, 3, 0); }, {"stats_index has 2 elements"});
  check_stats_index(rows.tensor, 2, 0);  // nobody reads the rows
  check_stats_index({}, 1000, 1);
}

TEST(CheckOneSequence, SeveralSequencesNeedCuSeqlens) {
  const Rows rows({0, 1});
  expect_invalid([&] { check_one_sequence(rows.tensor, 2, 1, "cu_seqlens"); },
                 {"cu_seqlens is missing", "2 sequences", "2 rows"});
  const Rows same({1, 1});  // alike by chance or not: still an error
  expect_invalid([&] { check_one_sequence(same.tensor, 2, 5, "cu_seqlens_q"); },
                 {"cu_seqlens_q is missing"});
  check_one_sequence(rows.tensor, 2, 0, "cu_seqlens");  // no token
  check_one_sequence(rows.tensor, 1, 5, "cu_seqlens");  // one row for all
  check_one_sequence({}, 2, 5, "cu_seqlens");           // row 0 for all
  const Rows one({1});
  check_one_sequence(one.tensor, 2, 5, "cu_seqlens");
}

}  // namespace
}  // namespace mpfa::internal
