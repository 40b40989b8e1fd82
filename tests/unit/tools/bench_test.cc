#include <algorithm>

#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class BenchCli : public CliTest {
 protected:
  nlohmann::json run(const std::string& mode, const std::vector<std::string>& extra = {}) {
    std::vector<std::string> arguments = {"bench",    mode, "--shapes", "2x4:2x64@100,1x3:1x128@40",
                                          "--repeat", "3",  "--json",   path("times.json")};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    succeed(arguments);
    return json(path("times.json"));
  }
};

TEST_F(BenchCli, EveryModeReportsItsShapes) {
  for (const std::string mode : {"append", "decode", "prefill"}) {
    const nlohmann::json result = run(mode);
    EXPECT_EQ(result["command"], "bench " + mode);
    EXPECT_EQ(result["backend"], "cpu");
    EXPECT_EQ(result["repeat"], 3);
    EXPECT_TRUE(result["machine"].contains("attention_target"));
    ASSERT_EQ(result["results"].size(), 2u);
    const auto& first = result["results"][0];
    EXPECT_EQ(first["shape"], "2x4:2x64@100");
    EXPECT_EQ(first["batch_size"], 2);
    EXPECT_EQ(first["num_q_heads"], 4);
    EXPECT_EQ(first["num_kv_heads"], 2);
    EXPECT_EQ(first["head_dim"], 64);
    EXPECT_EQ(first["length"], 100);
    ASSERT_EQ(first["seconds"].size(), 3u);
    auto seconds = first["seconds"].get<std::vector<double>>();
    std::sort(seconds.begin(), seconds.end());
    EXPECT_EQ(first["min_s"].get<double>(), seconds[0]);
    EXPECT_EQ(first["median_s"].get<double>(), seconds[1]);
    EXPECT_EQ(first["max_s"].get<double>(), seconds[2]);
  }
}

TEST_F(BenchCli, RatesFollowFromTheMedian) {
  const auto decode = run("decode", {"--residual-rank", "4"})["results"][0];
  const double median = decode["median_s"];
  EXPECT_EQ(decode["cache_bytes"], 2 * 100 * 2 * 104.0);  // batch, tokens, heads, bytes
  EXPECT_NEAR(decode["cache_gb_per_s"].get<double>() * median * 1e9, 2 * 100 * 2 * 104.0, 1e-3);
  EXPECT_NEAR(decode["tokens_per_s"].get<double>() * median, 2.0, 1e-9);
  EXPECT_NEAR(decode["gflops"].get<double>() * median * 1e9, 4.0 * 2 * 4 * 64 * 100, 1e-3);
  const auto prefill = run("prefill")["results"][1];
  EXPECT_NEAR(prefill["gflops"].get<double>() * prefill["median_s"].get<double>() * 1e9,
              4.0 * 3 * 128 * 820, 1e-3);  // 40 * 41 / 2 pairs
  const auto append = run("append", {"--dtype", "fp32", "--delta-s"})["results"][0];
  EXPECT_EQ(append["input_bytes"], 2.0 * 2 * 100 * 2 * 64 * 4);
  EXPECT_EQ(append["cache_bytes"], 2 * 100 * 2 * (108.0 + 4));
  EXPECT_NEAR(append["tokens_per_s"].get<double>() * append["median_s"].get<double>(), 200.0, 1e-6);
}

TEST_F(BenchCli, LongerThanOneChunkOfInput) {
  succeed(
      {"bench", "decode", "--shapes", "1x1:1x64@5K", "--repeat", "1", "--kv-split-size", "1024"});
}

TEST_F(BenchCli, MistakesAreNamed) {
  fail(2, {"bench", "decode", "--shapes", "1x8:3x64@128"}, {"'1x8:3x64@128'", "not a multiple"});
  fail(2, {"bench", "decode", "--shapes", "1x8:8x64"}, {"no '@' after the head dimension"});
  fail(2, {"bench", "append", "--repeat", "0"}, {"--repeat"});
  fail(2, {"bench", "append", "--dtype", "fp8"}, {"--dtype", "fp8"});
  fail(2, {"bench", "append", "--kv-split-size", "128"}, {"--kv-split-size"});
  fail(1, {"bench", "prefill", "--shapes", "1x1024:1024x128@1024K"}, {"needs ", "GiB"});
}

TEST_F(BenchCli, OptionsOfAnotherBackEndAreRefused) {
  const std::vector<std::string> decode = {"bench", "decode"};
  const auto refuse = [&](std::vector<std::string> arguments,
                          const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin(), decode.begin(), decode.end());
    fail(2, arguments, parts);
  };
  refuse({"--suite", "wide"}, {"--suite needs --backend cuda"});
  refuse({"--seqlen-q", "4"}, {"--seqlen-q needs --backend cuda"});
  refuse({"--backend", "cuda", "--seqlen-q", "17"}, {"--seqlen-q", "16"});
  refuse({"--backend", "rocm"}, {"--backend", "rocm"});
  refuse({"--backend", "cuda", "--suite", "all"}, {"--suite", "all"});
  refuse({"--backend", "cuda", "--page-size", "16"}, {"--page-size needs --shapes"});
  refuse({"--backend", "cuda", "--suite", "wide", "--shapes", "1x1:1x64@1"}, {"--shapes"});
  refuse({"--backend", "cuda", "--dtype", "fp32"}, {"--dtype fp32", "bf16 or fp16"});
  fail(2, {"bench", "append", "--backend", "cuda"}, {"--backend"});
}

TEST_F(BenchCli, OptionsOfPrefillOnAGpu) {
  const auto refuse = [&](std::vector<std::string> arguments,
                          const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin(), {"bench", "prefill"});
    fail(2, arguments, parts);
  };
  refuse({"--precision", "fp8"}, {"--precision needs --backend cuda"});
  refuse({"--full"}, {"--full needs --backend cuda"});
  refuse({"--backend", "cuda", "--precision", "fp4"}, {"--precision", "fp4"});
  refuse({"--backend", "cuda", "--full"}, {"--full needs --shapes"});
  refuse({"--backend", "cuda", "--idle", "-1"}, {"--idle"});
  refuse({"--backend", "cuda", "--shapes", "1x1:1x64@8", "--seqlen-q", "9"}, {"9 query rows", "8"});
  refuse({"--backend", "cuda", "--kv-split-size", "128"}, {"--kv-split-size"});
}

TEST_F(BenchCli, AMachineWithoutGpuIsAnError) {
  const ProcessResult result = run_process(
      {"env", "CUDA_VISIBLE_DEVICES=", MPFA_CLI, "bench", "decode", "--backend", "cuda"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("error: --backend cuda: "), std::string::npos) << result.err;
}

}  // namespace
}  // namespace mpfa::tools
