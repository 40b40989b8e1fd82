// mpfa bench decode --backend cuda, in the simulator: every row comes out, whatever its times.
#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class BenchGpuCli : public CliTest {
 protected:
  nlohmann::json run(const std::vector<std::string>& extra) {
    std::vector<std::string> command = {
        MPFA_SIMRUN, MPFA_CLI, "bench", "decode",      "--backend", "cuda",       "--repeat",
        "2",         "--json", "-",     "--flush-mib", "1",         "--copy-mib", "1"};
    command.insert(command.end(), extra.begin(), extra.end());
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

}  // namespace
}  // namespace mpfa::tools
