#include "bench/prefill_report.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

GpuPrefillResult result(double sustained_s) {
  GpuPrefillResult result;
  result.prefill = equal_lengths(parse_bench_shapes("1x5:1x128@1000")[0], 0);  // 1.28 GFLOP
  result.times.call.seconds = {3e-3, 1e-3, 2e-3};
  result.times.clock_mhz = 1500.0;
  result.times.attention.seconds = {1e-3};
  result.times.sustained_s = sustained_s;
  return result;
}

TEST(PrefillReport, JsonHoldsTimesAndRates) {
  const Json json = gpu_prefill_json(result(0.0));
  EXPECT_EQ(json["shape"], "1x5:1x128@1000");
  EXPECT_EQ(json["is_causal"], true);
  EXPECT_EQ(json["seqlens_q"], Json::parse("[1000]"));
  EXPECT_EQ(json["seqlens_k"], Json::parse("[1000]"));
  EXPECT_EQ(json["median_s"], 2e-3);
  EXPECT_EQ(json["min_s"], 1e-3);
  EXPECT_NEAR(json["tflops"].get<double>(), 0.64, 1e-9);
  EXPECT_NEAR(json["attention_tflops"].get<double>(), 1.28, 1e-9);
  EXPECT_EQ(json["clock_mhz"], 1500.0);
  EXPECT_EQ(json["precision"], "auto");
  EXPECT_FALSE(json.contains("sustained_s"));
  EXPECT_NEAR(gpu_prefill_json(result(4e-3))["sustained_tflops"].get<double>(), 0.32, 1e-9);
}

TEST(PrefillReport, TableHasWhatWasMeasured) {
  const std::string plain = gpu_prefill_table({result(0.0)});
  EXPECT_NE(plain.find("2.000"), std::string::npos) << plain;
  EXPECT_NE(plain.find("1500"), std::string::npos) << plain;
  EXPECT_NE(plain.find(" -"), std::string::npos) << "a clock that is unknown\n" << plain;
  EXPECT_EQ(plain.find("in a row"), std::string::npos) << plain;
  const std::string sustained = gpu_prefill_table({result(4e-3)});
  EXPECT_NE(sustained.find("4.000"), std::string::npos) << sustained;
}

}  // namespace
}  // namespace mpfa::tools
