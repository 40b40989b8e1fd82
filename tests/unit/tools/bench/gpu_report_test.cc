#include "bench/gpu_report.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

GpuDecodeResult result(int64_t page_size) {
  GpuDecodeResult result;
  result.decode.shape = {.batch_size = 2, .num_q_heads = 4, .num_kv_heads = 1, .length = 1000};
  result.decode.options.residual_rank = 0;
  result.decode.options.first_key = false;
  result.decode.options.page_size = page_size;
  result.times.attention.seconds = {3e-6, 1e-6, 2e-6};
  result.times.schedule_s = 5e-6;
  result.times.back_to_back_s = 1e-6;
  result.times.num_caches = 7;
  return result;
}

const GpuReference kReference = {"a GPU", 1e-6, 800e9};

TEST(GpuReport, JsonHoldsTimesAndRates) {
  const Json json = gpu_decode_json(kReference, result(64));
  EXPECT_EQ(json["shape"], "2x4:1x128@1000");
  EXPECT_EQ(json["seqlens_k"], Json::parse("[1000, 1000]"));
  EXPECT_EQ(json["median_s"], 2e-6);
  EXPECT_EQ(json["min_s"], 1e-6);
  EXPECT_EQ(json["max_s"], 3e-6);
  EXPECT_EQ(json["cache_bytes"], 400e3);
  EXPECT_NEAR(json["cache_gb_per_s"].get<double>(), 200.0, 1e-9);
  EXPECT_NEAR(json["copy_share"].get<double>(), 0.25, 1e-12);
  EXPECT_NEAR(json["back_to_back_gb_per_s"].get<double>(), 400.0, 1e-9);
  EXPECT_EQ(json["num_caches"], 7);
}

TEST(GpuReport, TableGroupsRowsOfOneKind) {
  const std::string table = gpu_decode_table(kReference, {result(64), result(64), result(16)});
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = table.find(text); at != std::string::npos; at = table.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("page 64\n"), 1);
  EXPECT_EQ(count("page 16\n"), 1);
  EXPECT_EQ(count("2x4:1x128@1000"), 3);
  EXPECT_EQ(count("25%"), 3);
}

}  // namespace
}  // namespace mpfa::tools
