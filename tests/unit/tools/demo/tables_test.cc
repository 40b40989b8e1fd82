#include "demo/tables.h"

#include <gtest/gtest.h>

#include "demo/report_page.h"

namespace mpfa::tools {
namespace {

DemoResult sample() {
  DemoResult result;
  result.shape = {
      .tokens = 20, .prompt = 18, .steps = 2, .num_q_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  const char* ids[] = {"bf16", "fp8_k", "nvfp4_naive", "paper", "mpfa_r0", kDefaultMethod};
  const double bytes[] = {256, 128, 100, 106, 100, 108};
  for (size_t i = 0; i < 6; ++i) {
    DemoMethod method;
    method.name = std::string("name ") + ids[i];
    method.id = ids[i];
    method.bytes = bytes[i];
    method.real = i >= 4;
    method.residual_rank = i == 5 ? 8 : 0;
    result.methods.push_back(method);
  }
  for (const char* name : {"first", "second"}) {
    DemoLayer layer;
    layer.name = name;
    for (size_t i = 0; i < 6; ++i) {
      const double error = 0.01 * static_cast<double>(i + 1) * (name[0] == 'f' ? 1 : 3);
      layer.scores.push_back({.prefill_error = error, .decode_tokens_per_s = i >= 4 ? 1234.0 : 0});
    }
    result.layers.push_back(layer);
  }
  for (const internal::TableRow& row : internal::table_rows()) {
    result.table.push_back({row, row.error * 1.01});
  }
  return result;
}

TEST(DemoTables, MeansAreOverLayers) {
  const auto means = sample().means();
  EXPECT_NEAR(means[2].prefill_error, (0.03 + 0.09) / 2, 1e-12);
  EXPECT_NEAR(means[5].decode_tokens_per_s, 1234.0, 1e-9);
}

TEST(DemoTables, MethodsByLayerAndTheirMean) {
  const std::string text = method_table(sample()).str();
  for (const char* part : {"\nfirst\n", "\nsecond\n", "\nmean over layers\n", "256   1.00   0.0100",
                           "100   2.56   0.0500", "108   2.37   0.1800", "1,234"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(DemoTables, OneLayerNeedsNoMean) {
  DemoResult result = sample();
  result.layers.pop_back();
  EXPECT_EQ(method_table(result).str().find("mean"), std::string::npos);
}

TEST(DemoTables, PoliciesBesideWhatIsExpected) {
  const std::string text = policy_table(sample(), true).str();
  EXPECT_NE(text.find("residual r = 8, first key"), std::string::npos);
  EXPECT_NE(text.find("0.0383   +1.0%"), std::string::npos) << text;
  EXPECT_EQ(policy_table(sample(), false).str().find("+1.0%"), std::string::npos);
}

// docs/spec.md, section 4: 200 of 512 bytes, 208 with residual; 100 and 108 of 256.
TEST(DemoTables, Bytes) {
  const std::string text = bytes_table().str();
  EXPECT_NE(text.find(" 64   256          100   2.56         108   2.37\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("128   512          200   2.56         208   2.46\n"), std::string::npos)
      << text;
}

TEST(DemoTables, JsonSplitsTheBytes) {
  const Json json = demo_json(sample(), "file", false);
  EXPECT_EQ(json["bytes"][5]["k"], 36.0);
  EXPECT_EQ(json["bytes"][5]["compensation"], 8);
  EXPECT_EQ(json["bytes"][5]["v"], 64.0);
  EXPECT_EQ(json["mean"][4]["ratio"], 2.56);
  EXPECT_EQ(json["mean"][0]["emulated"], true);
  EXPECT_FALSE(json["policies"][0].contains("expected_relative_l2"));
}

TEST(ReportPage, SaysWhyItHasNoFigures) {
  const std::string page = report_page(sample(), {{}, "because <reasons>"}, true);
  EXPECT_EQ(page.find("<!DOCTYPE html>"), 0u);
  EXPECT_NE(page.find("no figures: because &lt;reasons&gt;."), std::string::npos);
  EXPECT_EQ(page.find("Why K is centred"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
}

TEST(ReportPage, FiguresStandInTheirSections) {
  const Figures figures = {{{"channel", "the channel", "<svg/>"}}, ""};
  const std::string page = report_page(sample(), figures, false);
  EXPECT_LT(page.find("Why K is centred"), page.find("<img alt=\"the channel\""));
  EXPECT_EQ(page.find("no figures"), std::string::npos);
}

}  // namespace
}  // namespace mpfa::tools
