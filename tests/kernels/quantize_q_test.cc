// The quantiser of queries on the device against quantize_q() on the CPU.
#include "kernels/any/quantize_q/quantize_q.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/device_tensor.h"
#include "mpfa/quant.h"

namespace mpfa::kernels {
namespace {

using testing::DeviceTensor;
using testing::Gaps;

struct Case {
  InputType type = InputType::kBf16;
  Gaps gaps = Gaps::kNone;
  ScaleRule rule = ScaleRule::kSearch;
  int64_t num_tokens = 11;
  int num_q_heads = 6;
  int num_kv_heads = 2;
  int head_dim = 128;
  int rank = 8;
  bool q_mean = true;
  bool two_terms = true;
  bool dots = true;
  bool special_values = false;
  int num_stats = 1;
  std::vector<int32_t> cu_seqlens = {};
  std::vector<int32_t> stats_index = {};
  unsigned seed = 1;
};

class QuantizeRun {
 public:
  explicit QuantizeRun(const Case& c) : c_(c), random_(c.seed) {
    const int64_t tokens = c.num_tokens, heads = c.num_q_heads, d = c.head_dim;
    const int64_t kv_heads = c.num_kv_heads, stats = c.num_stats;
    batch_size_ = c.cu_seqlens.empty() ? 1 : static_cast<int64_t>(c.cu_seqlens.size()) - 1;
    q_ = make(c.type == InputType::kFp32 ? 4 : 2, {tokens, heads, d});
    fill_q();
    codes_ = make(1, {tokens, heads, d / 2});
    scales_ = make(1, {tokens, heads, d / 16});
    if (c.two_terms) {
      codes2_ = make(1, {tokens, heads, d / 2});
      scales2_ = make(1, {tokens, heads, d / 16});
    }
    if (c.q_mean) fill(q_mean_ = make(4, {stats, heads, d}), {stats, heads, d});
    if (c.dots) {
      fill(k_mean_ = make(4, {stats, kv_heads, d}), {stats, kv_heads, d});
      fill(basis_ = make(4, {stats, kv_heads, c.rank, d}), {stats, kv_heads, c.rank, d});
      k_first_ = make(2, {batch_size_, kv_heads, d});
      for (int64_t s = 0; s < batch_size_; ++s) {
        for (int64_t h = 0; h < kv_heads; ++h) {
          for (int64_t i = 0; i < d; ++i) {
            *k_first_.host<Bf16>({s, h, i}) = bf16_from_float(normal());
          }
        }
      }
      rowbias_ = make(4, {tokens, heads});
      residual_ = make(4, {tokens, heads, c.rank});
      first_key_ = make(4, {tokens, heads});
    }
    make_table(c.cu_seqlens, cu_seqlens_);
    make_table(c.stats_index, stats_index_);
    error_count_ = DeviceTensor(4, {1}, Gaps::kNone, random_);
    *error_count_.host<int32_t>() = 50;
  }

  // errors: tokens that the device is to count, and to leave alone. The CPU rejects such calls.
  void run_and_compare(int errors = 0) {
    for (DeviceTensor* tensor : all()) tensor->upload();
    ASSERT_EQ(launch_quantize_q(params(), nullptr), cudaSuccess);
    testing::check_cuda(cudaDeviceSynchronize(), "quantize_q");
    *error_count_.host<int32_t>() += errors;
    error_count_.expect_equal("error_count");
    if (errors == 0) {
      reference();
      canonicalise_nan(rowbias_);
      canonicalise_nan(residual_);
      canonicalise_nan(first_key_);
    }
    q_.expect_equal("q");
    codes_.expect_equal("codes");
    scales_.expect_equal("scales");
    codes2_.expect_equal("codes2");
    scales2_.expect_equal("scales2");
    rowbias_.expect_equal("rowbias");
    residual_.expect_equal("residual");
    first_key_.expect_equal("first_key");
  }

  QuantizeQParams params() {
    QuantizeQParams p;
    p.q = q_.device();
    set_bytes(q_, p.q_strides);
    p.codes = codes_.device(), p.scales = scales_.device();
    set_bytes(codes_, p.codes_strides);
    set_bytes(scales_, p.scales_strides);
    if (codes2_) {
      p.codes2 = codes2_.device(), p.scales2 = scales2_.device();
      set_bytes(codes2_, p.codes2_strides);
      set_bytes(scales2_, p.scales2_strides);
    }
    if (q_mean_) {
      p.q_mean = q_mean_.device<float>();
      set_elements(q_mean_, p.q_mean_strides);
    }
    if (c_.dots) {
      p.k_mean = k_mean_.device<float>();
      p.residual_basis = basis_.device<float>();
      p.k_first = k_first_.device();
      p.rowbias = rowbias_.device<float>();
      p.residual = residual_.device<float>();
      p.first_key = first_key_.device<float>();
      set_elements(k_mean_, p.k_mean_strides);
      for (int i = 0; i < 3; ++i) p.residual_basis_strides[i] = basis_.elements(i);
      set_bytes(k_first_, p.k_first_strides);
      set_elements(rowbias_, p.rowbias_strides);
      set_elements(residual_, p.residual_strides);
      set_elements(first_key_, p.first_key_strides);
    }
    p.sequences = sequence_table(cu_seqlens_, stats_index_, c_.num_stats);
    p.error_count = error_count_.device<int32_t>();
    p.num_tokens = c_.num_tokens;
    p.num_q_heads = c_.num_q_heads;
    p.num_kv_heads = c_.num_kv_heads;
    p.residual_rank = c_.rank;
    p.head_dim = c_.head_dim;
    p.type = c_.type;
    p.scale_rule = c_.rule;
    return p;
  }

 private:
  static void set_bytes(const DeviceTensor& tensor, int64_t (&strides)[2]) {
    strides[0] = tensor.stride(0), strides[1] = tensor.stride(1);
  }
  static void set_elements(const DeviceTensor& tensor, int64_t (&strides)[2]) {
    strides[0] = tensor.elements(0), strides[1] = tensor.elements(1);
  }

  DeviceTensor make(int item_bytes, const std::vector<int64_t>& shape) {
    return DeviceTensor(item_bytes, shape, c_.gaps, random_);
  }
  float normal() { return std::normal_distribution<float>(0.1f, 1.0f)(random_); }

  // All of a tensor of FP32.
  void fill(DeviceTensor& tensor, const std::vector<int64_t>& shape) {
    std::vector<int64_t> at(shape.size(), 0);
    while (true) {
      *tensor.host<float>(at) = normal();
      size_t i = shape.size();
      while (i > 0 && ++at[i - 1] == shape[i - 1]) at[--i] = 0;
      if (i == 0) return;
    }
  }

  void fill_q() {
    static constexpr float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(),
                                         std::numeric_limits<float>::infinity(),
                                         -std::numeric_limits<float>::infinity(),
                                         0.0f,
                                         -0.0f,
                                         1e-40f,
                                         3e38f};
    for (int64_t t = 0; t < c_.num_tokens; ++t) {
      for (int64_t h = 0; h < c_.num_q_heads; ++h) {
        const float size = std::exp(2.0f * normal());
        const bool is_special = c_.special_values && random_() % 2 == 0;
        for (int64_t i = 0; i < c_.head_dim; ++i) {
          float x = normal() * size;
          if (is_special && random_() % 20 == 0) x = kSpecial[random_() % std::size(kSpecial)];
          std::byte* to = q_.host({t, h, i});
          const Bf16 bf16 = bf16_from_float(x);
          const Fp16 fp16 = fp16_from_float(x);
          if (c_.type == InputType::kBf16) std::memcpy(to, &bf16, 2);
          if (c_.type == InputType::kFp16) std::memcpy(to, &fp16, 2);
          if (c_.type == InputType::kFp32) std::memcpy(to, &x, 4);
        }
      }
    }
  }

  void make_table(const std::vector<int32_t>& values, DeviceTensor& table) {
    if (values.empty()) return;
    table = DeviceTensor(4, {static_cast<int64_t>(values.size())}, c_.gaps, random_);
    for (size_t i = 0; i < values.size(); ++i) {
      *table.host<int32_t>({static_cast<int64_t>(i)}) = values[i];
    }
  }

  std::vector<DeviceTensor*> all() {
    return {&q_,        &codes_,     &scales_,     &codes2_,      &scales2_,
            &q_mean_,   &k_mean_,    &basis_,      &k_first_,     &rowbias_,
            &residual_, &first_key_, &cu_seqlens_, &stats_index_, &error_count_};
  }

  // The sign and payload of a NaN differ between processors.
  void canonicalise_nan(DeviceTensor& tensor) {
    if (!tensor) return;
    std::vector<std::byte> bytes = tensor.download();
    std::byte* host = tensor.host() - tensor.host_offset();
    for (size_t i = static_cast<size_t>(tensor.host_offset()); i + 4 <= bytes.size(); i += 4) {
      float got, want;
      std::memcpy(&got, &bytes[i], 4);
      std::memcpy(&want, host + i, 4);
      if (std::isnan(got) && std::isnan(want)) std::memcpy(host + i, &bytes[i], 4);
    }
  }

  void reference() {
    constexpr DLDataType kTypes[] = {testing::kBF16, testing::kF16, testing::kF32};
    std::vector<DLTensor> views;
    views.reserve(16);
    const auto view = [&](DeviceTensor& tensor, DLDataType type) -> const DLTensor* {
      if (!tensor) return nullptr;
      views.push_back(tensor.dl(type));
      return &views.back();
    };
    mpfa::QuantizedQ out;
    out.codes = view(codes_, testing::kU8);
    out.scales = view(scales_, testing::kU8);
    out.codes2 = view(codes2_, testing::kU8);
    out.scales2 = view(scales2_, testing::kU8);
    out.rowbias = view(rowbias_, testing::kF32);
    out.residual = view(residual_, testing::kF32);
    out.first_key = view(first_key_, testing::kF32);
    mpfa::QuantizeQParams p;
    p.scale_rule = c_.rule;
    p.q_mean = view(q_mean_, testing::kF32);
    p.k_mean = view(k_mean_, testing::kF32);
    p.residual_basis = view(basis_, testing::kF32);
    p.k_first = view(k_first_, testing::kBF16);
    p.stats_index = view(stats_index_, testing::kI32);
    p.cu_seqlens_q = view(cu_seqlens_, testing::kI32);
    quantize_q(*view(q_, kTypes[static_cast<int>(c_.type)]), out, p);
  }

  Case c_;
  std::mt19937 random_;
  int64_t batch_size_ = 1;
  DeviceTensor q_, codes_, scales_, codes2_, scales2_, q_mean_, k_mean_, basis_, k_first_;
  DeviceTensor rowbias_, residual_, first_key_, cu_seqlens_, stats_index_, error_count_;
};

void check(const Case& c) { QuantizeRun(c).run_and_compare(); }

TEST(QuantizeQ, TypesAndStrides) {
  unsigned seed = 1;
  for (const InputType type : {InputType::kBf16, InputType::kFp16, InputType::kFp32}) {
    for (const Gaps gaps : {Gaps::kNone, Gaps::kAligned, Gaps::kOdd}) {
      for (const int d : {64, 128}) {
        Case c;
        c.type = type;
        c.gaps = gaps;
        c.head_dim = d;
        c.seed = ++seed;
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        check(c);
      }
    }
  }
}

TEST(QuantizeQ, HeadDims) {
  for (const int d : {16, 32, 48, 64, 80, 128, 192, 256, 512, 528, 640, 1008, 1024}) {
    Case c;
    c.head_dim = d;
    c.dots = (d & (d - 1)) == 0;
    c.num_tokens = 5;
    c.num_q_heads = 4;
    SCOPED_TRACE(d);
    check(c);
  }
}

TEST(QuantizeQ, Options) {
  for (const bool q_mean : {false, true}) {
    for (const bool two_terms : {false, true}) {
      for (const bool dots : {false, true}) {
        for (const ScaleRule rule : {ScaleRule::kPlain, ScaleRule::kSearch}) {
          Case c;
          c.q_mean = q_mean;
          c.two_terms = two_terms;
          c.dots = dots;
          c.rule = rule;
          c.rank = dots && q_mean ? 3 : 16;
          check(c);
        }
      }
    }
  }
}

TEST(QuantizeQ, SpecialValues) {
  for (const InputType type : {InputType::kBf16, InputType::kFp16, InputType::kFp32}) {
    for (const ScaleRule rule : {ScaleRule::kPlain, ScaleRule::kSearch}) {
      Case c;
      c.type = type;
      c.rule = rule;
      c.special_values = true;
      c.num_tokens = 30;
      check(c);
    }
  }
}

TEST(QuantizeQ, RaggedSequences) {
  Case c;
  c.num_tokens = 40;
  c.num_stats = 3;
  c.cu_seqlens = {0, 0, 5, 6, 20, 20, 33};  // the last seven belong to none
  c.stats_index = {0, 2, 1, 0, 1, 2};
  check(c);
  c.gaps = Gaps::kOdd;
  check(c);
  c.cu_seqlens.resize(41);
  std::iota(c.cu_seqlens.begin(), c.cu_seqlens.end(), 0);
  for (size_t i = c.stats_index.size(); i < 40; ++i) c.stats_index.push_back(i % 3);
  check(c);
}

TEST(QuantizeQ, CountsErrorsAndWritesNothing) {
  Case c;
  c.num_tokens = 9;
  c.num_stats = 2;
  c.cu_seqlens = {0, 4, 8};
  c.stats_index = {-1, 2};
  QuantizeRun(c).run_and_compare(8);
}

TEST(QuantizeQ, Empty) {
  Case c;
  c.num_tokens = 0;
  check(c);
}

TEST(QuantizeQ, RejectsShapes) {
  Case c;
  QuantizeRun run(c);
  QuantizeQParams p = run.params();
  p.head_dim = 72;
  EXPECT_EQ(launch_quantize_q(p, nullptr), cudaErrorInvalidValue);
  p.head_dim = 48;  // with dot products
  EXPECT_EQ(launch_quantize_q(p, nullptr), cudaErrorInvalidValue);
  p = run.params();
  p.num_kv_heads = 4;
  EXPECT_EQ(launch_quantize_q(p, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mpfa::kernels
