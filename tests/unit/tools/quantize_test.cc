#include <cmath>

#include "cli_fixture.h"
#include "core/tensor.h"
#include "mpfa/cache.h"

namespace mpfa::tools {
namespace {

class QuantizeCli : public CliTest {
 protected:
  // Shape of a tensor of the written file; empty if it is not there.
  static std::vector<int64_t> shape(const internal::SafetensorsReader& reader,
                                    const std::string& name) {
    const internal::TensorInfo* info = reader.find(name);
    return info == nullptr ? std::vector<int64_t>{} : info->shape;
  }
};

using Shape = std::vector<int64_t>;

TEST_F(QuantizeCli, TensorsAreNamedAsTheSpecificationSays) {
  QkvFile().add_layer("", 4, 2, 70, 64).write(path("in"));
  succeed({"quantize", path("in"), "-o", path("c"), "--delta-s"});
  const auto reader = internal::SafetensorsReader::open(path("c"));
  EXPECT_EQ(shape(reader, "k_codes"), (Shape{2, 2, 64, 32}));
  EXPECT_EQ(shape(reader, "k_scales"), (Shape{2, 2, 64, 4}));
  EXPECT_EQ(shape(reader, "v"), (Shape{2, 2, 64, 64}));
  EXPECT_EQ(shape(reader, "delta_s"), (Shape{2, 4, 64}));
  EXPECT_EQ(shape(reader, "k_residual"), (Shape{2, 2, 64, 8}));
  EXPECT_EQ(shape(reader, "k_first"), (Shape{2, 2, 64}));
  EXPECT_EQ(shape(reader, "k_mean"), (Shape{1, 2, 64}));
  EXPECT_EQ(shape(reader, "q_mean"), (Shape{1, 4, 64}));
  EXPECT_EQ(shape(reader, "residual_basis"), (Shape{1, 2, 8, 64}));
  EXPECT_EQ(shape(reader, "block_table"), (Shape{1, 2}));
  EXPECT_EQ(*static_cast<const int32_t*>(reader.view("seq_lens").data), 70);
}

TEST_F(QuantizeCli, OptionsLeaveTensorsOut) {
  QkvFile().add_layer("", 2, 1, 70, 128).write(path("in"));
  succeed({"quantize", path("in"), "-o", path("c"), "--residual-rank", "0", "--no-first-key",
           "--page-size", "16", "--tokens", "33"});
  const auto reader = internal::SafetensorsReader::open(path("c"));
  EXPECT_EQ(shape(reader, "k_codes"), (Shape{3, 1, 16, 64}));
  for (const char* name : {"delta_s", "k_residual", "k_first", "residual_basis"}) {
    EXPECT_EQ(reader.find(name), nullptr) << name;
  }
}

// V has no statistics: its codes are e4m3 of the input, wherever the token's slot is.
TEST_F(QuantizeCli, EveryTokenIsWhereTheBlockTableSays) {
  QkvFile input;
  input.add_layer("", 2, 2, 40, 64);
  input.write(path("in"));
  succeed({"quantize", path("in"), "-o", path("c"), "--page-size", "16"});
  const KvCache cache = load_cache(path("c"));
  const auto v = internal::Tensor<E4m3, 4>::from(*cache.view().v, "v");
  const auto table = internal::Tensor<int32_t, 2>::from(*cache.block_table(), "block_table");
  for (int64_t token = 0; token < 40; ++token) {
    for (int64_t head = 0; head < 2; ++head) {
      const E4m3* row = v.at(*table.at(0, token / 16), head, token % 16);
      for (int64_t i = 0; i < 64; ++i) {
        const float x = input.value("v", static_cast<size_t>((head * 40 + token) * 64 + i));
        ASSERT_EQ(row[i], e4m3_from_float(x)) << token << " " << head << " " << i;
      }
    }
  }
}

TEST_F(QuantizeCli, PlainScalesDiffer) {
  QkvFile().add_layer("", 2, 1, 64, 64).write(path("in"));
  succeed({"quantize", path("in"), "-o", path("search")});
  succeed({"quantize", path("in"), "-o", path("plain"), "--scale-rule", "plain"});
  EXPECT_NE(read_file(path("search")), read_file(path("plain")));
}

TEST_F(QuantizeCli, StatisticsFileOfTheSameInputChangesNothing) {
  const auto expect_same = [&](const std::string& option) {
    succeed({"quantize", real_data(), "-o", path("a"), "--layer", "layer15", option});
    succeed({"quantize", real_data(), "-o", path("b"), "--layer", "layer15", option, "--stats",
             path("stats")});
    EXPECT_TRUE(read_file(path("a")) == read_file(path("b"))) << option;
  };
  succeed({"calibrate", real_data(), "-o", path("stats")});
  expect_same("--no-first-key");
  succeed({"calibrate", real_data(), "-o", path("stats"), "--delta-s"});
  expect_same("--delta-s");
}

TEST_F(QuantizeCli, StatisticsOfHigherRankGiveTheirFirstRows) {
  QkvFile().add_layer("", 2, 1, 64, 64).write(path("in"));
  succeed({"calibrate", path("in"), "-o", path("s16"), "--residual-rank", "16"});
  succeed({"calibrate", path("in"), "-o", path("s4"), "--residual-rank", "4"});
  succeed(
      {"quantize", path("in"), "-o", path("a"), "--stats", path("s16"), "--residual-rank", "4"});
  succeed({"quantize", path("in"), "-o", path("b"), "--stats", path("s4")});
  EXPECT_EQ(read_file(path("a")), read_file(path("b")));
  fail(1, {"quantize", path("in"), "-o", path("c"), "--stats", path("s4"), "--residual-rank", "8"},
       {"s4", "'residual_basis'", "[1, 1, 4, 64]", "at least 8"});
}

TEST_F(QuantizeCli, WithStatisticsNoQueriesAreNeeded) {
  QkvFile().add_layer("", 2, 1, 64, 64).write(path("in"));
  QkvFile(2).add("k", 1, 64, 64).add("v", 1, 64, 64).write(path("kv"));
  succeed({"calibrate", path("in"), "-o", path("s")});
  succeed({"quantize", path("kv"), "-o", path("c"), "--stats", path("s")});
  fail(1, {"quantize", path("kv"), "-o", path("d")}, {"kv", "'q'"});
}

TEST_F(QuantizeCli, JsonHasTheDocumentedKeys) {
  const std::string out = succeed({"quantize", real_data(), "-o", path("c"), "--layer", "layer00",
                                   "--json", path("c.json")})
                              .out;
  EXPECT_NE(out.find("108 bytes per token and KV head, 256 in BF16: 2.37 times fewer"),
            std::string::npos)
      << out;
  const nlohmann::json result = json(path("c.json"));
  EXPECT_EQ(result["command"], "quantize");
  EXPECT_EQ(result["layer"], "layer00");
  EXPECT_EQ(result["tokens"], 512);
  EXPECT_EQ(result["num_kv_heads"], 3);
  EXPECT_EQ(result["head_dim"], 64);
  EXPECT_EQ(result["page_size"], 64);
  EXPECT_EQ(result["num_pages"], 8);
  EXPECT_EQ(result["residual_rank"], 8);
  EXPECT_EQ(result["first_key"], true);
  EXPECT_EQ(result["delta_s"], false);
  EXPECT_EQ(result["bytes_per_token_and_kv_head"], 108.0);
  EXPECT_EQ(result["bf16_bytes_per_token_and_kv_head"], 256.0);
  EXPECT_NEAR(result["ratio"].get<double>(), 256.0 / 108.0, 1e-12);
  // 512 tokens and 3 heads at 108 bytes, and 128 bytes of k_first for each page and head.
  EXPECT_EQ(result["cache_bytes"], 512 * 3 * 108 + 8 * 3 * 128);
}

TEST_F(QuantizeCli, WhichLayerMustBeClear) {
  fail(2, {"quantize", real_data(), "-o", path("c")},
       {"--layer", "'layer00', 'layer15', 'layer29'"});
  fail(1, {"quantize", real_data(), "-o", path("c"), "--layer", "layer01"},
       {"no layer 'layer01'", "'layer00', 'layer15', 'layer29'"});
  QkvFile().add_layer("only", 2, 1, 32, 64).write(path("one"));
  succeed({"quantize", path("one"), "-o", path("c")});
}

TEST_F(QuantizeCli, BadInputIsNamed) {
  const auto add_q_and_k = [](QkvFile& file) -> QkvFile& {
    return file.add("q", 2, 32, 64).add("k", 2, 32, 64);
  };
  QkvFile short_v;
  add_q_and_k(short_v).add("v", 2, 31, 64).write(path("short_v"));
  fail(1, {"quantize", path("short_v"), "-o", path("c")},
       {"short_v", "'v'", "[2, 31, 64]", "the shape of 'k'", "[2, 32, 64]"});
  QkvFile f32_v;
  add_q_and_k(f32_v).add_f32("v", {2, 32, 64}, std::vector<float>(4096, 1.0f)).write(path("f32_v"));
  fail(1, {"quantize", path("f32_v"), "-o", path("c")}, {"'v'", "F32", "the type of 'k'", "BF16"});
  QkvFile flat_v;
  add_q_and_k(flat_v).add_zeros("v", internal::Dtype::BF16, {2, 32 * 64}).write(path("flat_v"));
  fail(1, {"quantize", path("flat_v"), "-o", path("c")},
       {"'v'", "[2, 2048]", "[heads, tokens, d]"});
  QkvFile().add_layer("", 2, 1, 32, 96).write(path("d96"));
  fail(1, {"quantize", path("d96"), "-o", path("c")}, {"d96", "d = 96", "64 or 128"});
  QkvFile().add_zeros("weights", internal::Dtype::F32, {4}).write(path("other"));
  fail(1, {"quantize", path("other"), "-o", path("c")}, {"other", "no tensor is named q, k, v"});
  write_file(path("text"), "this is not safetensors at all");
  fail(1, {"quantize", path("text"), "-o", path("c")}, {"text"});
  EXPECT_FALSE(std::filesystem::exists(path("c")));
}

TEST_F(QuantizeCli, StatisticsThatDoNotFitAreNamed) {
  QkvFile().add_layer("", 4, 2, 32, 64).write(path("in"));
  QkvFile().add_layer("", 4, 4, 32, 64).write(path("other"));
  succeed({"calibrate", path("other"), "-o", path("s")});
  fail(1, {"quantize", path("in"), "-o", path("c"), "--stats", path("s")},
       {"'k_mean'", "[1, 4, 64]", "[1, 2, 64]"});
  fail(1, {"quantize", path("in"), "-o", path("c"), "--stats", path("in")}, {"in", "'k_mean'"});
  EXPECT_FALSE(std::filesystem::exists(path("c")));
}

TEST_F(QuantizeCli, AnOlderFileSurvivesAFailure) {
  write_file(path("c"), "precious");
  QkvFile().add_layer("", 2, 1, 32, 96).write(path("d96"));
  fail(1, {"quantize", path("d96"), "-o", path("c")}, {"d = 96"});
  EXPECT_EQ(read_file(path("c")), "precious");
  EXPECT_EQ(folder_.entries(), (std::vector<std::string>{"c", "d96"}));
}

TEST_F(QuantizeCli, BadOptionsExitWith2) {
  fail(2, {"quantize", real_data(), "-o", path("c"), "--page-size", "48"}, {"--page-size", "48"});
  fail(2, {"quantize", real_data(), "-o", path("c"), "--residual-rank", "3"}, {"--residual-rank"});
  fail(2, {"quantize", real_data(), "-o", path("c"), "--tokens", "-5"}, {"--tokens", "'-5'"});
  fail(2, {"quantize", real_data(), "extra", "-o", path("c")}, {"extra"});
}

TEST_F(QuantizeCli, FilesAreNotOverwrittenByEachOther) {
  QkvFile().add_layer("", 2, 1, 40, 64).write(path("in"));
  const std::string before = read_file(path("in"));
  fail(2, {"quantize", path("in"), "-o", path("in")}, {"-o ", "would overwrite the input"});
  EXPECT_EQ(read_file(path("in")), before);
  fail(2, {"quantize", path("in"), "-o", path("c"), "--json", path("c")},
       {"is the file of -o too"});
}

// A message about an element names it in the library's order, and says that this is so.
TEST_F(QuantizeCli, IndicesInMessagesAreExplained) {
  QkvFile input;
  input.add_layer("", 2, 2, 40, 64);
  input.set_bf16("k", (0 * 40 + 1) * 64 + 13, NAN);  // head 0, token 1, channel 13
  input.write(path("in"));
  fail(1, {"quantize", path("in"), "-o", path("c")}, {"as [tokens, heads, d]: k[1, 0, 13] = nan"});
}

TEST_F(QuantizeCli, StatisticsThatCannotBeAreTheirFilesFault) {
  QkvFile().add_layer("", 2, 1, 40, 64).write(path("in"));
  const auto with = [&](float mean, float basis, float scale, int64_t rank) {
    QkvFile stats;
    stats.add_f32("k_mean", {1, 1, 64}, std::vector<float>(64, mean));
    stats.add_f32("residual_basis", {1, 1, rank, 64},
                  std::vector<float>(static_cast<size_t>(64 * rank), basis));
    stats.add_f32("residual_scale", {1, 1, rank},
                  std::vector<float>(static_cast<size_t>(rank), scale));
    stats.write(path("s"));
  };
  const auto expect = [&](const std::string& part) {
    fail(1, {"quantize", path("in"), "--stats", path("s"), "-o", path("c")}, {path("s"), part});
  };
  with(NAN, 0.1f, 1.0f, 8);
  expect("tensor 'k_mean', element 0 of [1, 1, 64]: nan: must be finite");
  with(0.0f, 1e30f, 1.0f, 8);
  expect("must be -1 to 1");
  for (const float scale : {0.0f, -1.0f, NAN, INFINITY}) {
    with(0.0f, 0.1f, scale, 8);
    expect("must be finite and above 0");
  }
  with(0.0f, 0.1f, 1.0f, 5);
  expect("must be 4, 8 or 16");
}

}  // namespace
}  // namespace mpfa::tools
