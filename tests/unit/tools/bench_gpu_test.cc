// mpfa bench decode and prefill --backend cuda, in the simulator: every row comes out, whatever its
// times.
#include <algorithm>

#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class BenchGpuCli : public CliTest {
 protected:
  nlohmann::json run(const std::vector<std::string>& extra) {
    std::vector<std::string> decode = {"decode", "--copy-mib", "1"};
    decode.insert(decode.end(), extra.begin(), extra.end());
    return run_mode(decode);
  }
  nlohmann::json run_mode(const std::vector<std::string>& mode) {
    std::vector<std::string> command = {MPFA_SIMRUN, MPFA_CLI, "bench"};
    command.insert(command.end(), mode.begin(), mode.end());
    for (const char* const option :
         {"--backend", "cuda", "--repeat", "2", "--json", "-", "--flush-mib", "1"}) {
      command.emplace_back(option);
    }
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    table_ = result.err;
    return nlohmann::json::parse(result.out);
  }

  std::string table_;
};

TEST_F(BenchGpuCli, RowsOfEveryShape) {
  const auto result = run({"--shapes", "2x8:2x128@200,1x4:4x64@100", "--caches", "2"});
  EXPECT_EQ(result["backend"], "cuda");
  EXPECT_EQ(result["repeat"], 2);
  EXPECT_GT(result["copy_gb_per_s"], 0.0);
  ASSERT_EQ(result["results"].size(), 2u);
  const auto& first = result["results"][0];
  EXPECT_EQ(first["shape"], "2x8:2x128@200");
  EXPECT_EQ(first["cache_bytes"], 2 * 200 * 2 * 208.0);
  EXPECT_EQ(first["seconds"].size(), 2u);
  EXPECT_EQ(first["num_caches"], 2);
  for (const char* const time : {"median_s", "schedule_s", "back_to_back_s", "copy_share"}) {
    EXPECT_GT(first[time], 0.0) << time;
  }
  EXPECT_NE(table_.find("1x4:4x64@100"), std::string::npos) << table_;
}

TEST_F(BenchGpuCli, EveryKindOfCacheAndLengths) {
  const std::vector<std::string> shape = {"--shapes", "4x6:2x64@300", "--caches", "1"};
  const auto with = [&](std::vector<std::string> extra) {
    extra.insert(extra.end(), shape.begin(), shape.end());
    return run(extra)["results"][0];
  };
  EXPECT_EQ(with({"--delta-s", "--residual-rank", "0", "--no-first-key"})["cache_bytes"],
            4 * 300 * 2 * (100.0 + 6));
  EXPECT_EQ(with({"--page-size", "16", "--dtype", "fp16"})["page_size"], 16);
  EXPECT_EQ(with({"--lengths", "uneven", "--seqlen-q", "3"})["seqlens_k"],
            nlohmann::json::parse("[300, 3, 3, 3]"));
  EXPECT_EQ(with({"--lengths", "uniform", "--kv-split-size", "128"})["lengths"], "uniform");
}

TEST_F(BenchGpuCli, Prefill) {
  const auto result = run_mode(
      {"prefill", "--shapes", "1x4:2x64@200,2x2:1x128@40", "--idle", "0", "--sustained", "0.001"});
  EXPECT_EQ(result["backend"], "cuda");
  EXPECT_EQ(result["idle_s"], 0.0);
  EXPECT_EQ(result["sustained_s"], 0.001);
  ASSERT_EQ(result["results"].size(), 2u);
  const auto& second = result["results"][1];
  EXPECT_EQ(second["seqlens_q"], nlohmann::json::parse("[40, 40]"));
  EXPECT_EQ(second["seqlens_k"], nlohmann::json::parse("[40, 40]"));
  EXPECT_EQ(second["seconds"].size(), 2u);
  for (const char* const time : {"median_s", "tflops", "attention_s", "sustained_s"}) {
    EXPECT_GT(second[time], 0.0) << time;
  }
  EXPECT_NE(table_.find("1x4:2x64@200"), std::string::npos) << table_;
}

TEST_F(BenchGpuCli, EveryKindOfPrefill) {
  const auto with = [&](std::vector<std::string> extra) {
    for (const char* const option : {"prefill", "--shapes", "1x6:2x64@150", "--idle", "0"}) {
      extra.emplace_back(option);
    }
    std::rotate(extra.begin(), extra.end() - 5, extra.end());
    return run_mode(extra)["results"][0];
  };
  EXPECT_EQ(with({"--seqlen-q", "20"})["shape"], "1x6:2x64@20 of 150");
  EXPECT_EQ(with({"--full", "--dtype", "fp16"})["is_causal"], false);
  for (const char* const precision : {"fp16", "fp8", "fp8-fp16-scores"}) {
    EXPECT_EQ(with({"--precision", precision})["precision"], precision);
  }
  EXPECT_EQ(with({"--delta-s", "--no-first-key", "--residual-rank", "0"})["delta_s"], true);
}

}  // namespace
}  // namespace mpfa::tools
