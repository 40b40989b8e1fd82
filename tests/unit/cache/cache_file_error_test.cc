// Files that are not what they claim: every one is an IoError that names the file and the tensor.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "mpfa/cache.h"
#include "unit/cache/cache_file_parts.h"

namespace mpfa {
namespace {

using internal::Dtype;
using testing::CacheFileTest;
using testing::FileParts;

class CacheFileErrorTest : public CacheFileTest {
 protected:
  // Breaks a good file and expects the message to name the path and to have `part`.
  void expect(const std::string& part, const std::function<void(FileParts&)>& damage) {
    SCOPED_TRACE(part);
    save_full();
    FileParts parts(path);
    damage(parts);
    parts.write(path);
    internal::expect_parts(internal::message_of<IoError>([&] { load_cache(path); }), {path, part});
  }
  void expect_reshaped(const std::string& part, const std::string& name,
                       const std::vector<int64_t>& shape) {
    expect(part,
           [&](FileParts& parts) { parts.resize(name, parts.tensors.at(name).dtype, shape); });
  }
};

TEST_F(CacheFileErrorTest, MissingTensors) {
  for (const std::string name : {"k_codes", "k_scales", "v", "k_mean"}) {
    expect(name + " is missing: it is required",
           [&](FileParts& parts) { parts.tensors.erase(name); });
  }
  expect("q_mean is missing: it is required with delta_s",
         [](FileParts& parts) { parts.tensors.erase("q_mean"); });
  expect("residual_basis is missing: it is required with k_residual",
         [](FileParts& parts) { parts.tensors.erase("residual_basis"); });
  expect("residual_scale is missing: it is required with k_residual",
         [](FileParts& parts) { parts.tensors.erase("residual_scale"); });
  expect("seq_lens is missing: it is required with block_table",
         [](FileParts& parts) { parts.tensors.erase("seq_lens"); });
  expect("block_table is missing: it is required with seq_lens",
         [](FileParts& parts) { parts.tensors.erase("block_table"); });
}

TEST_F(CacheFileErrorTest, TensorsThatDoNotBelong) {
  expect("tensor 'layer00.q' is not one of a cache's",
         [](FileParts& parts) { parts.tensors["layer00.q"] = parts.tensors.at("k_mean"); });
  expect("q_mean is there without delta_s",
         [](FileParts& parts) { parts.tensors.erase("delta_s"); });
  expect("residual_basis is there without k_residual",
         [](FileParts& parts) { parts.tensors.erase("k_residual"); });
}

TEST_F(CacheFileErrorTest, WrongTypes) {
  const auto expect_type = [&](const std::string& name, Dtype dtype, const std::string& part) {
    expect(part,
           [&](FileParts& parts) { parts.resize(name, dtype, parts.tensors.at(name).shape); });
  };
  expect_type("k_codes", Dtype::F8_E4M3, "k_codes has type float8_e4m3fn: must be uint8");
  expect_type("k_scales", Dtype::BF16, "k_scales has type bfloat16: must be float8_e4m3fn");
  expect_type("v", Dtype::F16, "v has type float16: must be float8_e4m3fn");
  expect_type("v", Dtype::F8_E5M2, "v has type ");
  expect_type("delta_s", Dtype::F16, "delta_s has type float16: must be bfloat16");
  expect_type("k_residual", Dtype::I8, "k_residual has type int8: must be float8_e4m3fn");
  expect_type("k_first", Dtype::F32, "k_first has type float32: must be bfloat16");
  expect_type("k_mean", Dtype::BF16, "k_mean has type bfloat16: must be float32");
  expect_type("q_mean", Dtype::F64, "q_mean has type float64: must be float32");
  expect_type("residual_basis", Dtype::I32, "residual_basis has type int32: must be float32");
  expect_type("residual_scale", Dtype::BF16, "residual_scale has type bfloat16: must be float32");
  expect_type("k_scale", Dtype::F16, "k_scale has type float16: must be float32");
  expect_type("v_scale", Dtype::F16, "v_scale has type float16: must be float32");
  expect_type("stats_index", Dtype::I64, "stats_index has type int64: must be int32");
  expect_type("block_table", Dtype::I64, "block_table has type int64: must be int32");
  expect_type("seq_lens", Dtype::U32, "seq_lens has type uint32: must be int32");
}

TEST_F(CacheFileErrorTest, ShapesThatDisagree) {
  expect_reshaped("k_codes has shape [3, 2, 16, 16]", "k_codes", {3, 2, 16, 16});
  expect_reshaped("page_size = 8", "k_codes", {3, 2, 8, 32});
  expect_reshaped("k_codes has shape [96, 32]: must have 4 dimensions", "k_codes", {96, 32});
  expect_reshaped("k_scales has shape [2, 2, 16, 4]: dimension 0 must be 3", "k_scales",
                  {2, 2, 16, 4});
  expect_reshaped("k_scales has shape [3, 2, 16, 8]: dimension 3 must be 4", "k_scales",
                  {3, 2, 16, 8});
  expect_reshaped("v has shape [3, 1, 16, 64]: dimension 1 must be 2", "v", {3, 1, 16, 64});
  expect_reshaped("delta_s has shape [3, 5, 16]", "delta_s", {3, 5, 16});
  expect_reshaped("k_residual has shape [3, 2, 16, 5]", "k_residual", {3, 2, 16, 5});
  expect_reshaped("k_residual has shape [3, 2, 32, 8]: dimension 2 must be 16", "k_residual",
                  {3, 2, 32, 8});
  expect_reshaped("k_first has shape [3, 2, 128]: dimension 2 must be 64", "k_first", {3, 2, 128});
  expect_reshaped("k_mean has shape [2, 3, 64]: dimension 1 must be 2", "k_mean", {2, 3, 64});
  expect_reshaped("k_mean has shape [0, 2, 64]", "k_mean", {0, 2, 64});
  expect_reshaped("q_mean has shape [2, 4, 64]: dimension 1 must be 6", "q_mean", {2, 4, 64});
  expect_reshaped("residual_basis has shape [2, 2, 4, 64]: dimension 2 must be 8", "residual_basis",
                  {2, 2, 4, 64});
  expect_reshaped("residual_scale has shape [1, 2, 8]: dimension 0 must be 2", "residual_scale",
                  {1, 2, 8});
  expect_reshaped("k_scale has shape [1, 2]: dimension 0 must be 2", "k_scale", {1, 2});
  expect_reshaped("stats_index has 5 elements: must have one per sequence, 4", "stats_index", {5});
  expect_reshaped("seq_lens has shape [3]: dimension 0 must be 4", "seq_lens", {3});
  expect_reshaped("block_table has shape [4, 0]: needs at least one sequence and one page",
                  "block_table", {4, 0});
  expect("num_pages = 0", [](FileParts& parts) {
    for (const char* name : {"k_codes", "k_scales", "v", "delta_s", "k_residual", "k_first"}) {
      std::vector<int64_t> shape = parts.tensors.at(name).shape;
      shape[0] = 0;
      parts.resize(name, parts.tensors.at(name).dtype, shape);
    }
    for (int i = 0; i < 4; ++i) parts.value<int32_t>("seq_lens", i) = 0;
  });
}

TEST_F(CacheFileErrorTest, ValuesOutOfRange) {
  // Sequence 1 of the good file has 33 tokens: three pages of a table that is five wide.
  expect("seq_lens[1] = -1: must be 0 to 5 pages of 16 tokens",
         [](FileParts& parts) { parts.value<int32_t>("seq_lens", 1) = -1; });
  expect("seq_lens[1] = 81: must be 0 to 5 pages of 16 tokens",
         [](FileParts& parts) { parts.value<int32_t>("seq_lens", 1) = 81; });
  expect("seq_lens[1] = 2147483647: must be 0 to 5 pages",
         [](FileParts& parts) { parts.value<int32_t>("seq_lens", 1) = 2147483647; });
  expect("block_table[1, 2] = 3: must be 0 to 2",
         [](FileParts& parts) { parts.value<int32_t>("block_table", 5 + 2) = 3; });
  expect("block_table[1, 0] = -1: must be 0 to 2",
         [](FileParts& parts) { parts.value<int32_t>("block_table", 5) = -1; });
  expect("stats_index[3] = 2: must be 0 to 1",
         [](FileParts& parts) { parts.value<int32_t>("stats_index", 3) = 2; });
  expect("k_scale[1, 0] = 0: must be finite and above 0",
         [](FileParts& parts) { parts.value<float>("k_scale", 2) = 0; });
  expect("v_scale[0, 1] = -1: must be finite and above 0",
         [](FileParts& parts) { parts.value<float>("v_scale", 1) = -1; });
  expect("residual_scale[0, 0, 3] = nan: must be finite and above 0",
         [](FileParts& parts) { parts.value<float>("residual_scale", 3) = std::nanf(""); });
}

TEST_F(CacheFileErrorTest, EntriesPastTheEndOfASequenceMayBeAnything) {
  save_full();
  FileParts parts(path);
  parts.value<int32_t>("block_table", 5 + 3) = -7;
  parts.value<int32_t>("block_table", 5 + 4) = 1 << 30;
  parts.write(path);
  EXPECT_NO_THROW(load_cache(path));
}

TEST_F(CacheFileErrorTest, OtherFormatsAndVersions) {
  expect("metadata format is 'other': must be 'mpfa-kv-cache'",
         [](FileParts& parts) { parts.metadata["format"] = "other"; });
  expect("metadata version is '2': must be '1'",
         [](FileParts& parts) { parts.metadata["version"] = "2"; });
}

TEST_F(CacheFileErrorTest, NoFile) {
  EXPECT_THROW(load_cache(folder.file("absent")), IoError);
  EXPECT_THROW(load_cache(folder.path().string()), IoError);
}

TEST_F(CacheFileErrorTest, EveryTruncationIsAnError) {
  save_full();
  const std::string whole = internal::read_file(path);
  std::vector<size_t> lengths;
  for (size_t n = 0; n < 64; ++n) lengths.push_back(n);
  for (size_t n = 64; n < whole.size(); n += 397) lengths.push_back(n);
  lengths.push_back(whole.size() - 1);
  for (const size_t n : lengths) {
    internal::write_file(path, whole.substr(0, n));
    EXPECT_THROW(load_cache(path), IoError) << n;
  }
  internal::write_file(path, whole + '\0');
  EXPECT_THROW(load_cache(path), IoError);
}

// Whatever the damage, the outcome is a valid cache or an Error, never anything else.
TEST_F(CacheFileErrorTest, DamagedBytesNeverCrash) {
  save_full();
  const std::string whole = internal::read_file(path);
  const size_t header = whole.find('}', whole.rfind("data_offsets")) + 2;
  std::mt19937 random(1);
  int rejected = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole;
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < flips; ++i) {
      const size_t range = round % 4 == 0 ? whole.size() : header;
      damaged[random() % range] = static_cast<char>(random());
    }
    internal::write_file(path, damaged);
    try {
      load_cache(path);
    } catch (const Error&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 100);
}

}  // namespace
}  // namespace mpfa
