#include <cmath>

#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class CalibrateCli : public CliTest {
 protected:
  // What a tensor of the written file holds, after a look at its shape.
  static std::vector<float> floats(const internal::SafetensorsReader& reader,
                                   const std::string& name, const std::vector<int64_t>& shape) {
    const internal::TensorInfo& info = reader.at(name);
    EXPECT_EQ(info.shape, shape) << name;
    EXPECT_EQ(info.dtype, internal::Dtype::F32) << name;
    int64_t count = 1;
    for (const int64_t n : info.shape) count *= n;
    const auto* data = static_cast<const float*>(reader.view(name).data);
    return {data, data + count};
  }
};

// Mean of one channel over the first tokens of a file's tensor [heads, total, d].
double mean_of(const QkvFile& file, const std::string& name, int64_t head, int64_t total, int64_t d,
               int64_t channel, int64_t tokens) {
  double sum = 0.0;
  for (int64_t t = 0; t < tokens; ++t) {
    sum += file.value(name, static_cast<size_t>((head * total + t) * d + channel));
  }
  return sum / static_cast<double>(tokens);
}

TEST_F(CalibrateCli, WritesTheMeansOfEveryLayer) {
  QkvFile input;
  input.add_layer("layer00", 4, 2, 40, 64).add_layer("layer07", 6, 3, 24, 128);
  input.write(path("in.safetensors"));
  const std::string out =
      succeed({"calibrate", path("in.safetensors"), "-o", path("stats.safetensors")}).out;
  EXPECT_NE(out.find("layer07"), std::string::npos);
  const auto reader = internal::SafetensorsReader::open(path("stats.safetensors"));
  EXPECT_EQ(reader.tensors().size(), 8u);
  const auto k_mean = floats(reader, "layer00.k_mean", {1, 2, 64});
  for (int64_t i = 0; i < 128; ++i) {
    EXPECT_NEAR(k_mean[static_cast<size_t>(i)],
                mean_of(input, "layer00.k", i / 64, 40, 64, i % 64, 40), 1e-5);
  }
  const auto q_mean = floats(reader, "layer07.q_mean", {1, 6, 128});
  for (int64_t i = 0; i < 768; ++i) {
    EXPECT_NEAR(q_mean[static_cast<size_t>(i)],
                mean_of(input, "layer07.q", i / 128, 24, 128, i % 128, 24), 1e-5);
  }
}

TEST_F(CalibrateCli, BasisIsOrthonormalAndScalesArePositive) {
  QkvFile().add_layer("", 4, 2, 64, 64).write(path("in.safetensors"));
  succeed(
      {"calibrate", path("in.safetensors"), "-o", path("s.safetensors"), "--residual-rank", "4"});
  const auto reader = internal::SafetensorsReader::open(path("s.safetensors"));
  const auto basis = floats(reader, "residual_basis", {1, 2, 4, 64});
  for (const float scale : floats(reader, "residual_scale", {1, 2, 4})) EXPECT_GT(scale, 0.0f);
  for (size_t head = 0; head < 2; ++head) {
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        double dot = 0.0;
        for (size_t c = 0; c < 64; ++c) {
          dot +=
              static_cast<double>(basis[(head * 4 + i) * 64 + c]) * basis[(head * 4 + j) * 64 + c];
        }
        EXPECT_NEAR(dot, i == j ? 1.0 : 0.0, 1e-5);
      }
    }
  }
}

TEST_F(CalibrateCli, RankZeroLeavesOutTheResidual) {
  QkvFile().add_layer("", 2, 2, 32, 64).write(path("in.safetensors"));
  succeed(
      {"calibrate", path("in.safetensors"), "-o", path("s.safetensors"), "--residual-rank", "0"});
  const auto reader = internal::SafetensorsReader::open(path("s.safetensors"));
  EXPECT_EQ(reader.tensors().size(), 2u);
  EXPECT_EQ(reader.find("residual_basis"), nullptr);
}

TEST_F(CalibrateCli, TokensUsesTheFirstOnes) {
  QkvFile input;
  input.add_layer("", 2, 1, 48, 64);
  input.write(path("in.safetensors"));
  succeed({"calibrate", path("in.safetensors"), "-o", path("s.safetensors"), "--tokens", "20"});
  const auto reader = internal::SafetensorsReader::open(path("s.safetensors"));
  const auto k_mean = floats(reader, "k_mean", {1, 1, 64});
  const auto q_mean = floats(reader, "q_mean", {1, 2, 64});
  EXPECT_NEAR(k_mean[5], mean_of(input, "k", 0, 48, 64, 5, 20), 1e-5);
  EXPECT_NEAR(q_mean[64 + 7], mean_of(input, "q", 1, 48, 64, 7, 20), 1e-5);
}

TEST_F(CalibrateCli, LayerPatternsChoose) {
  QkvFile file;
  for (const char* layer : {"layer00", "layer01", "layer10"}) file.add_layer(layer, 2, 1, 32, 64);
  file.write(path("in.safetensors"));
  succeed({"calibrate", path("in.safetensors"), "-o", path("s.safetensors"), "--layer", "layer0*",
           "--json", path("s.json")});
  const auto layers = json(path("s.json"))["layers"];
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1]["layer"], "layer01");
  fail(1, {"calibrate", path("in.safetensors"), "-o", path("t.safetensors"), "--layer", "layer2*"},
       {"in.safetensors", "no layer fits 'layer2*'", "'layer00', 'layer01', 'layer10'"});
  EXPECT_FALSE(std::filesystem::exists(path("t.safetensors")));
}

TEST_F(CalibrateCli, JsonHasTheDocumentedKeys) {
  succeed({"calibrate", real_data(), "-o", path("s.safetensors"), "--json", path("s.json")});
  const nlohmann::json result = json(path("s.json"));
  EXPECT_EQ(result["command"], "calibrate");
  EXPECT_EQ(result["output"], path("s.safetensors"));
  EXPECT_EQ(result["residual_rank"], 8);
  EXPECT_EQ(result["scale_rule"], "search");
  EXPECT_EQ(result["delta_s"], false);
  ASSERT_EQ(result["layers"].size(), 3u);
  const nlohmann::json expected = {{"layer", "layer15"},
                                   {"tokens", 512},
                                   {"num_q_heads", 9},
                                   {"num_kv_heads", 3},
                                   {"head_dim", 64}};
  EXPECT_EQ(result["layers"][1], expected);
}

TEST_F(CalibrateCli, DeltaSTakesTheBasisFromCentredQueries) {
  QkvFile().add_layer("", 4, 2, 64, 64).write(path("in"));
  succeed({"calibrate", path("in"), "-o", path("raw")});
  succeed({"calibrate", path("in"), "-o", path("centred"), "--delta-s", "--json", path("j")});
  EXPECT_EQ(json(path("j"))["delta_s"], true);
  const auto raw = internal::SafetensorsReader::open(path("raw"));
  const auto centred = internal::SafetensorsReader::open(path("centred"));
  EXPECT_EQ(raw.metadata().at("delta_s"), "false");
  EXPECT_EQ(centred.metadata().at("delta_s"), "true");
  EXPECT_EQ(floats(raw, "q_mean", {1, 4, 64}), floats(centred, "q_mean", {1, 4, 64}));
  EXPECT_NE(floats(raw, "residual_basis", {1, 2, 8, 64}),
            floats(centred, "residual_basis", {1, 2, 8, 64}));
}

// What the library's own checks say, without where in its source they stand.
TEST_F(CalibrateCli, HeadDimensionsOfNoCacheAreRefused) {
  QkvFile().add_layer("", 2, 1, 32, 32).write(path("d32"));
  fail(1, {"calibrate", path("d32"), "-o", path("s")}, {"d32", "head_dim = 32", "must be 64 or"});
  EXPECT_EQ(mpfa({"calibrate", path("d32"), "-o", path("s")}).err.find(".cc:"), std::string::npos);
}

TEST_F(CalibrateCli, BadInputIsNamed) {
  const std::string out = path("s.safetensors");
  fail(1, {"calibrate", path("none.safetensors"), "-o", out}, {"none.safetensors", "No such file"});
  const std::string whole = QkvFile().add_layer("", 2, 1, 32, 64).write(path("whole"));
  write_file(path("cut"), read_file(whole).substr(0, 5000));
  fail(1, {"calibrate", path("cut"), "-o", out}, {"cut"});
  QkvFile()
      .add("q", 2, 32, 64)
      .add_zeros("k", internal::Dtype::I32, {1, 32, 64})
      .write(path("i32"));
  fail(1, {"calibrate", path("i32"), "-o", out},
       {"i32", "'k'", "I32 [1, 32, 64]", "expected BF16, F16 or F32"});
  QkvFile().add("q", 3, 32, 64).add("k", 2, 32, 64).write(path("heads"));
  fail(1, {"calibrate", path("heads"), "-o", out},
       {"'q'", "[3, 32, 64]", "a multiple of the heads of 'k'", "[2, 32, 64]"});
  QkvFile().add("k", 2, 32, 64).write(path("no_q"));
  fail(1, {"calibrate", path("no_q"), "-o", out}, {"no_q", "'q'"});
  QkvFile().add_layer("", 2, 1, 32, 64).set("k", 3 * 64 + 5, NAN).write(path("nan"));
  fail(1, {"calibrate", path("nan"), "-o", out}, {"nan", "k"});
  fail(1, {"calibrate", whole, "-o", out, "--tokens", "33"}, {"32 tokens", "--tokens 33"});
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(CalibrateCli, BadOptionsExitWith2) {
  const std::string in = QkvFile().add_layer("", 2, 1, 32, 64).write(path("in"));
  fail(2, {"calibrate", in}, {"--output is required"});
  fail(2, {"calibrate", in, "-o", path("s"), "--residual-rank", "5"}, {"--residual-rank", "5"});
  fail(2, {"calibrate", in, "-o", path("s"), "--scale-rule", "best"}, {"--scale-rule", "best"});
  fail(2, {"calibrate", in, "-o", path("s"), "--tokens", "0"}, {"--tokens", "'0' must be"});
  EXPECT_EQ(folder_.entries(), (std::vector<std::string>{"in"}));
}

TEST_F(CalibrateCli, OutputThatCannotBeWrittenLeavesNothing) {
  const std::string in = QkvFile().add_layer("", 2, 1, 32, 64).write(path("in"));
  fail(1, {"calibrate", in, "-o", path("missing/s.safetensors")}, {"missing/s.safetensors"});
  fail(1, {"calibrate", in, "-o", folder_.path().string()}, {folder_.path().string()});
  EXPECT_EQ(folder_.entries(), (std::vector<std::string>{"in"}));
}

}  // namespace
}  // namespace mpfa::tools
