#include "common/layer_file.h"

#include <gtest/gtest.h>

#include "../qkv_file.h"
#include "../temp_folder.h"
#include "common/errors.h"
#include "core/tensor.h"

namespace mpfa::tools {
namespace {

class LayerFileTest : public ::testing::Test {
 protected:
  LayerFile open(const QkvFile& file) { return LayerFile::open(file.write(folder_.file("f"))); }

  // The message of loading all three tensors.
  std::string problem(const QkvFile& file, const std::string& layer = "") {
    const LayerFile opened = open(file);
    try {
      opened.load(layer, {.q = true, .k = true, .v = true});
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  }

  TempFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(LayerFileTest, FindsLayersByTheirTensors) {
  QkvFile file;
  file.add("model.layers.3.q", 1, 16, 16).add("a.k", 1, 16, 16).add("v", 1, 16, 16);
  file.add("b.weight", 1, 16, 16).add("q.x", 1, 16, 16).add("a.v", 1, 16, 16);
  EXPECT_EQ(open(file).names(), (Names{"", "a", "model.layers.3"}));
}

TEST_F(LayerFileTest, ViewsAreTokensByHeads) {
  QkvFile file;
  file.add_layer("x", 4, 2, 20, 32);
  const LayerFile opened = open(file);
  const Layer layer = opened.load("x", {.q = true, .k = true, .v = true});
  EXPECT_EQ(layer.q.size(0), 20);
  EXPECT_EQ(layer.q.size(1), 4);
  EXPECT_EQ(layer.k.size(1), 2);
  const auto q = internal::Tensor<Bf16, 3>::from(layer.q, "q");
  EXPECT_EQ(bf16_to_float(*q.at(7, 3, 5)), file.value("x.q", (3 * 20 + 7) * 32 + 5));
}

TEST_F(LayerFileTest, LoadsOnlyWhatIsNeeded) {
  QkvFile file;
  file.add("k", 1, 16, 16);
  const LayerFile opened = open(file);
  const Layer layer = opened.load("", {.k = true});
  EXPECT_EQ(layer.q.ndim, 0);
  EXPECT_EQ(layer.k.ndim, 3);
  EXPECT_THROW(opened.load("", {.v = true}), IoError);
}

TEST_F(LayerFileTest, OneName) {
  QkvFile one;
  one.add("x.k", 1, 16, 16);
  EXPECT_EQ(open(one).one_name(""), "x");
  EXPECT_EQ(open(one).one_name("x"), "x");
  EXPECT_THROW(open(one).one_name("y"), IoError);
  QkvFile two;
  two.add("x.k", 1, 16, 16).add("y.k", 1, 16, 16);
  EXPECT_EQ(open(two).one_name("y"), "y");
  EXPECT_THROW(open(two).one_name(""), UsageError);
}

TEST_F(LayerFileTest, NoLayersIsAnError) {
  QkvFile file;
  file.add("weight", 1, 16, 16);
  EXPECT_THROW(open(file), IoError);
  write_file(folder_.file("text"), "{}");
  EXPECT_THROW(LayerFile::open(folder_.file("text")), IoError);
}

TEST_F(LayerFileTest, ShapesMustFitOneAnother) {
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  QkvFile heads;
  heads.add("q", 4, 16, 16).add("k", 3, 16, 16).add("v", 3, 16, 16);
  EXPECT_TRUE(contains(problem(heads),
                       "tensor 'q' is BF16 [4, 16, 16]: expected a multiple of the "
                       "heads of 'k' (BF16 [3, 16, 16])"));
  QkvFile dims;
  dims.add("q", 2, 16, 32).add("k", 2, 16, 16).add("v", 2, 16, 16);
  EXPECT_TRUE(contains(problem(dims), "expected the d of 'k'"));
  QkvFile tokens;
  tokens.add("q", 2, 16, 16).add("k", 2, 16, 16).add("v", 2, 15, 16);
  EXPECT_TRUE(
      contains(problem(tokens), "tensor 'v' is BF16 [2, 15, 16]: expected the shape of 'k'"));
  QkvFile empty;
  empty.add("q", 2, 16, 16).add("k", 2, 0, 16).add("v", 2, 0, 16);
  EXPECT_TRUE(contains(problem(empty), "1 to 2^31 - 1 tokens"));
  QkvFile odd;
  odd.add("q", 2, 16, 24).add("k", 2, 16, 24).add("v", 2, 16, 24);
  EXPECT_TRUE(contains(problem(odd), "d a multiple of 16"));
  QkvFile bytes;
  bytes.add_zeros("q", internal::Dtype::U8, {2, 16, 16});
  EXPECT_TRUE(contains(problem(bytes), "tensor 'q' is U8 [2, 16, 16]: expected BF16, F16 or F32"));
  QkvFile longer_q;  // queries may be more or fewer than keys: the command decides
  longer_q.add("q", 2, 40, 16).add("k", 2, 16, 16).add("v", 2, 16, 16);
  EXPECT_EQ(problem(longer_q), "");
}

// A control character in a name must not reach the terminal.
TEST_F(LayerFileTest, NamesAreQuotedInMessages) {
  QkvFile file;
  file.add_zeros("\x1b[31mred.q", internal::Dtype::U8, {2, 16, 16});
  const std::string text = problem(file, "\x1b[31mred");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("\\x1b"), std::string::npos);
}

TEST_F(LayerFileTest, CacheHeadDim) {
  QkvFile file;
  file.add("a.k", 1, 16, 64).add("b.k", 1, 16, 128).add("c.k", 1, 16, 256);
  const LayerFile opened = open(file);
  check_cache_head_dim(opened.load("a", {.k = true}));
  check_cache_head_dim(opened.load("b", {.k = true}));
  EXPECT_THROW(check_cache_head_dim(opened.load("c", {.k = true})), IoError);
}

}  // namespace
}  // namespace mpfa::tools
