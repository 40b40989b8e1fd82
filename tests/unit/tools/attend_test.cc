#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "cli_fixture.h"
#include "common/layer_file.h"
#include "common/owned_tensor.h"
#include "core/tensor.h"
#include "cpu/reference.h"
#include "mpfa/cache.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kQHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kTokens = 150;
constexpr int64_t kHeadDim = 64;

// Attention as the oracle of the library computes it, in FP64 from the cache file.
struct Expected {
  std::vector<double> out;  // [rows, Hq, d]
  std::vector<double> lse;  // [rows, Hq]
};

class AttendCli : public CliTest {
 protected:
  void SetUp() override {
    input_.add_layer("", kQHeads, kKvHeads, kTokens, kHeadDim)
        .add_f32("sink_logits", {kQHeads}, {-1.0f, 0.0f, 2.0f, 5.0f})
        .write(path("in"));
    succeed({"quantize", path("in"), "-o", path("cache")});
  }

  Expected reference(const AttentionParams& params, int64_t begin = 0, int64_t end = kTokens) {
    const KvCache cache = load_cache(path("cache"));
    const LayerFile file = LayerFile::open(path("in"));
    const TensorView q = file.load("", {.q = true}).q.slice(0, begin, end);
    const int64_t rows = end - begin;
    constexpr DLDataType kFloat64{kDLFloat, 64, 1};
    const OwnedTensor out("out", kFloat64, {rows, kQHeads, kHeadDim});
    const OwnedTensor lse("lse", kFloat64, {rows, kQHeads});
    const OwnedTensor cu_seqlens("cu_seqlens", internal::kInt32Type, {2});
    cu_seqlens.data<int32_t>()[1] = static_cast<int32_t>(rows);
    internal::attention_reference(out.dl(), lse.get(), q, cache.view(), *cache.block_table(),
                                  *cache.seq_lens(), cu_seqlens.get(), params);
    return {{out.data<double>(), out.data<double>() + rows * kQHeads * kHeadDim},
            {lse.data<double>(), lse.data<double>() + rows * kQHeads}};
  }

  // Whether an output file holds what is expected, within the rounding of BF16.
  void expect_output(const std::string& file, const Expected& expected) {
    const auto reader = internal::SafetensorsReader::open(file);
    const auto rows = static_cast<int64_t>(expected.lse.size()) / kQHeads;
    ASSERT_EQ(reader.at("out").shape, (std::vector<int64_t>{kQHeads, rows, kHeadDim}));
    ASSERT_EQ(reader.at("lse").shape, (std::vector<int64_t>{kQHeads, rows}));
    const auto out = internal::Tensor<Bf16, 3>::from(reader.view("out"), "out");
    const auto lse = internal::Tensor<float, 2>::from(reader.view("lse"), "lse");
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t head = 0; head < kQHeads; ++head) {
        const auto index = static_cast<size_t>(row * kQHeads + head);
        ASSERT_NEAR(*lse.at(head, row), expected.lse[index], 0.02) << row << " " << head;
        for (int64_t i = 0; i < kHeadDim; ++i) {
          const double want = expected.out[index * kHeadDim + static_cast<size_t>(i)];
          ASSERT_NEAR(bf16_to_float(*out.at(head, row, i)), want, 0.02 + 0.01 * std::abs(want))
              << row << " " << head << " " << i;
        }
      }
    }
  }

  // Runs the command on the cache with these options, and compares.
  void expect_options(const std::vector<std::string>& options, const AttentionParams& params) {
    std::vector<std::string> arguments = {"attend", path("cache"), path("in"), "-o", path("out")};
    arguments.insert(arguments.end(), options.begin(), options.end());
    succeed(arguments);
    expect_output(path("out"), reference(params));
  }

  QkvFile input_;
};

TEST_F(AttendCli, DefaultIsCausal) { expect_options({}, {}); }

TEST_F(AttendCli, NoCausal) {
  AttentionParams params;
  params.causal = false;
  expect_options({"--no-causal"}, params);
}

TEST_F(AttendCli, WindowLeft) {
  AttentionParams params;
  params.window_left = 17;
  expect_options({"--window-left", "17"}, params);
  params.window_left = 0;
  expect_options({"--window-left", "0"}, params);
}

TEST_F(AttendCli, Softcap) {
  AttentionParams params;
  params.softcap = 2.5f;
  expect_options({"--softcap", "2.5"}, params);
}

TEST_F(AttendCli, SoftmaxScale) {
  AttentionParams params;
  params.softmax_scale = 0.03f;
  expect_options({"--softmax-scale", "0.03"}, params);
}

TEST_F(AttendCli, Sinks) {
  const OwnedTensor sinks("sinks", internal::kFloat32Type, {kQHeads});
  const std::vector<float> logits = {-1.0f, 0.0f, 2.0f, 5.0f};
  std::copy(logits.begin(), logits.end(), sinks.data<float>());
  AttentionParams params;
  params.sinks = sinks.get();
  expect_options({"--sinks", "sink_logits"}, params);
}

TEST_F(AttendCli, KvSplitSize) { expect_options({"--kv-split-size", "128"}, {}); }

TEST_F(AttendCli, QRowsChooseTheQueries) {
  succeed({"attend", path("cache"), path("in"), "-o", path("out"), "--q-rows", "-5:"});
  expect_output(path("out"), reference({}, kTokens - 5, kTokens));
  succeed({"attend", path("cache"), path("in"), "-o", path("out"), "--q-rows", "10:12"});
  expect_output(path("out"), reference({}, 10, 12));  // these rows stand at the end of the keys
}

TEST_F(AttendCli, RawInputGivesTheSameBits) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"--residual-rank", "0"},
      {"--residual-rank", "16", "--page-size", "16"},
      {"--delta-s", "--no-first-key", "--residual-rank", "0"},
      {"--scale-rule", "plain"},
      {"--tokens", "77"},
  };
  for (const auto& variant : variants) {
    std::vector<std::string> quantize = {"quantize", path("in"), "-o", path("c")};
    std::vector<std::string> raw = {"attend", path("in"), "-o", path("raw"), "--q-rows", "-60:"};
    quantize.insert(quantize.end(), variant.begin(), variant.end());
    raw.insert(raw.end(), variant.begin(), variant.end());
    succeed(quantize);
    if (!variant.empty() && variant[0] == "--tokens") raw[5] = ":60";  // queries are cut as well
    succeed(raw);
    succeed({"attend", path("c"), path("in"), "-o", path("cached"), "--q-rows", raw[5]});
    EXPECT_EQ(read_file(path("raw")), read_file(path("cached")))
        << ::testing::PrintToString(variant);
  }
}

TEST_F(AttendCli, RealDataIsNearTheUnquantisedAttention) {
  succeed({"attend", real_data(), "--layer", "layer29", "-o", path("out")});
  const auto reader = internal::SafetensorsReader::open(path("out"));
  EXPECT_EQ(reader.at("out").shape, (std::vector<int64_t>{9, 512, 64}));
  EXPECT_EQ(reader.metadata().at("layer"), "layer29");
  // The first query sees one key only: its output is that key's V, and V is e4m3 in the cache.
  const LayerFile file = LayerFile::open(real_data());
  const Layer layer = file.load("layer29", {.v = true});
  const auto v = internal::Tensor<Bf16, 3>::from(layer.v, "v");
  const auto out = internal::Tensor<Bf16, 3>::from(reader.view("out"), "out");
  for (int64_t head = 0; head < 9; ++head) {
    for (int64_t i = 0; i < 64; ++i) {
      const float stored = e4m3_to_float(e4m3_from_float(bf16_to_float(*v.at(0, head / 3, i))));
      EXPECT_EQ(bf16_to_float(*out.at(head, 0, i)), stored);
    }
  }
}

TEST_F(AttendCli, ThreadCountChangesNothing) {
  succeed({"attend", path("in"), "-o", path("one"), "--threads", "1"});
  succeed({"attend", path("in"), "-o", path("all")});
  EXPECT_EQ(read_file(path("one")), read_file(path("all")));
}

TEST_F(AttendCli, JsonHasTheDocumentedKeys) {
  succeed({"attend", path("cache"), path("in"), "-o", path("out"), "--json", path("out.json")});
  const nlohmann::json result = json(path("out.json"));
  EXPECT_EQ(result["command"], "attend");
  EXPECT_EQ(result["input"], path("cache"));
  EXPECT_EQ(result["output"], path("out"));
  EXPECT_EQ(result["layer"], "");
  EXPECT_EQ(result["rows"], kTokens);
  EXPECT_EQ(result["num_q_heads"], kQHeads);
  EXPECT_EQ(result["head_dim"], kHeadDim);
  EXPECT_EQ(result["keys"], kTokens);
  EXPECT_GT(result["seconds"].get<double>(), 0.0);
}

TEST_F(AttendCli, MistakesAreNamed) {
  const std::string out = path("out");
  fail(2, {"attend", path("cache"), "-o", out}, {"is a cache", "queries"});
  fail(2, {"attend", path("cache"), path("in"), "-o", out, "--page-size", "32"}, {"--page-size"});
  fail(1, {"attend", path("in"), path("in"), "-o", out}, {"in'", "not a cache"});
  fail(1, {"attend", path("cache"), path("none"), "-o", out}, {"none", "No such file"});
  fail(1, {"attend", path("cache"), path("in"), "-o", out, "--q-rows", "150:"}, {"'150:'", "150"});
  fail(1, {"attend", path("cache"), path("in"), "-o", out, "--sinks", "nosuch"}, {"'nosuch'"});
  fail(1, {"attend", path("cache"), path("in"), "-o", out, "--sinks", "k"},
       {"'k'", "BF16 [2, 150, 64]", "F32 [4]"});
  QkvFile().add("q", 3, 4, 64).write(path("q3"));
  fail(1, {"attend", path("cache"), path("q3"), "-o", out}, {"q3", "3 heads", "2 KV heads"});
  QkvFile().add("q", 4, 4, 128).write(path("q128"));
  fail(1, {"attend", path("cache"), path("q128"), "-o", out}, {"q128", "d = 128", "d = 64"});
  write_file(path("cut"), read_file(path("cache")).substr(0, 3000));
  fail(1, {"attend", path("cut"), path("in"), "-o", out}, {"cut"});
  fail(1, {"attend", path("in"), "-o", path("missing/out")}, {"missing/out"});
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(AttendCli, BadOptionsExitWith2) {
  const std::vector<std::vector<std::string>> bad = {
      {"--softcap", "-1"},      {"--softcap", "nan"},        {"--softcap", "inf"},
      {"--softmax-scale", "0"}, {"--window-left", "-1"},     {"--window-left", "x"},
      {"--q-rows", "5"},        {"--q-rows", "a:b"},         {"--kv-split-size", "100"},
      {"--threads", "9999"},    {"--softmax-scale", "1e99"},
  };
  for (const auto& option : bad) {
    std::vector<std::string> arguments = {"attend", path("in"), "-o", path("out")};
    arguments.insert(arguments.end(), option.begin(), option.end());
    fail(2, arguments, {option[0], option[1]});
  }
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace
}  // namespace mpfa::tools
