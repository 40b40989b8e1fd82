// The cache writer against the scalar reference: every byte of the cache, those that must not
// change included.
#include "kernels/any/append/append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "cache/append_reference.h"
#include "kernels/device_tensor.h"

namespace mpfa::kernels {
namespace {

using testing::DeviceTensor;
using testing::Gaps;

enum class Values {
  kNormal,    // like activations
  kSpecial,   // NaN, infinities, subnormals, huge and tiny values, equal ones, zeros
  kBits,      // all bit patterns alike
  kPatterns,  // element i of the tensor has bit pattern i: all of a 16-bit type
  kTies,      // few bits everywhere, statistics included: sums are exact, and ties are frequent
};

enum class Scales { kNone, kPowersOfTwo, kAny, kExtreme };

struct Case {
  int head_dim = 128;
  int page_size = 64;
  int num_kv_heads = 2;
  int group_size = 3;
  int rank = 8;
  bool delta_s = false;
  bool first_key = true;
  InputType type = InputType::kBf16;
  ScaleRule rule = ScaleRule::kSearch;
  Gaps gaps = Gaps::kNone;
  Values values = Values::kNormal;
  Scales scales = Scales::kNone;
  int64_t num_tokens = 37;
  int num_pages = 5;
  int num_stats = 1;
  std::vector<int32_t> cu_seqlens = {};
  std::vector<int32_t> stats_index = {};
  std::vector<std::pair<int64_t, int64_t>> slots = {};  // token, slot: instead of random ones
  double skipped = 0.1;                                 // share of tokens with slot -1
  unsigned seed = 1;
};

float input_value(const std::byte* from, InputType type) {
  if (type == InputType::kFp32) {
    float x;
    std::memcpy(&x, from, 4);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return type == InputType::kBf16 ? bf16_to_float({bits}) : fp16_to_float({bits});
}

void set_input(std::byte* to, InputType type, float x) {
  if (type == InputType::kFp32) {
    std::memcpy(to, &x, 4);
    return;
  }
  const uint16_t bits =
      type == InputType::kBf16 ? bf16_from_float(x).bits : fp16_from_float(x).bits;
  std::memcpy(to, &bits, 2);
}

class AppendRun {
 public:
  explicit AppendRun(const Case& c) : c_(c), random_(c.seed) {
    make_inputs();
    make_statistics();
    make_cache();
    make_slots();
  }

  void run_and_compare(cudaError_t expected = cudaSuccess) {
    for (DeviceTensor* tensor : all()) tensor->upload();
    ASSERT_EQ(launch_append(params(), nullptr), expected);
    if (expected != cudaSuccess) return;
    testing::check_cuda(cudaDeviceSynchronize(), "append");
    write_reference();
    k_codes_.expect_equal("k_codes");
    k_scales_.expect_equal("k_scales");
    v_out_.expect_equal("v");
    delta_s_.expect_equal("delta_s");
    k_residual_.expect_equal("k_residual");
    k_first_.expect_equal("k_first");
    error_count_.expect_equal("error_count");
    k_.expect_equal("k");
    v_.expect_equal("v");
  }

  AppendParams params() {
    AppendParams p;
    p.k = k_.device();
    p.v = v_.device();
    p.k_token_stride = k_.stride(0), p.k_head_stride = k_.stride(1);
    p.v_token_stride = v_.stride(0), p.v_head_stride = v_.stride(1);
    p.slots = slots_.device<int64_t>();
    p.slots_stride = slots_.elements(0);
    p.k_mean = k_mean_.device<float>();
    p.k_mean_strides[0] = k_mean_.elements(0), p.k_mean_strides[1] = k_mean_.elements(1);
    if (q_mean_) {
      p.q_mean = q_mean_.device<float>();
      p.q_mean_strides[0] = q_mean_.elements(0), p.q_mean_strides[1] = q_mean_.elements(1);
    }
    if (residual_basis_) {
      p.residual_basis = residual_basis_.device<float>();
      p.residual_scale = residual_scale_.device<float>();
      for (int i = 0; i < 3; ++i) p.residual_basis_strides[i] = residual_basis_.elements(i);
      for (int i = 0; i < 2; ++i) p.residual_scale_strides[i] = residual_scale_.elements(i);
    }
    if (k_scale_) {
      p.k_scale = k_scale_.device<float>();
      p.v_scale = v_scale_.device<float>();
      for (int i = 0; i < 2; ++i) p.k_scale_strides[i] = k_scale_.elements(i);
      for (int i = 0; i < 2; ++i) p.v_scale_strides[i] = v_scale_.elements(i);
    }
    p.k_codes = k_codes_.device(), p.k_codes_strides = strides(k_codes_);
    p.k_scales = k_scales_.device(), p.k_scales_strides = strides(k_scales_);
    p.v_out = v_out_.device(), p.v_out_strides = strides(v_out_);
    if (delta_s_) p.delta_s = delta_s_.device(), p.delta_s_strides = strides(delta_s_);
    if (k_residual_)
      p.k_residual = k_residual_.device(), p.k_residual_strides = strides(k_residual_);
    if (k_first_) {
      p.k_first = k_first_.device();
      p.k_first_strides = {k_first_.stride(0), k_first_.stride(1), 0};
    }
    p.error_count = error_count_.device<int32_t>();
    p.sequences = sequence_table(cu_seqlens_, stats_index_, c_.num_stats);
    p.num_tokens = c_.num_tokens;
    p.num_pages = c_.num_pages;
    p.page_shift = std::countr_zero(static_cast<unsigned>(c_.page_size));
    p.num_kv_heads = c_.num_kv_heads;
    p.group_size = c_.group_size;
    p.residual_rank = c_.rank;
    p.head_dim = c_.head_dim;
    p.type = c_.type;
    p.scale_rule = c_.rule;
    return p;
  }

 private:
  static PagedStrides strides(const DeviceTensor& tensor) {
    return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
  }

  std::vector<DeviceTensor*> all() {
    return {&k_,
            &v_,
            &slots_,
            &k_mean_,
            &q_mean_,
            &residual_basis_,
            &residual_scale_,
            &k_scale_,
            &v_scale_,
            &k_codes_,
            &k_scales_,
            &v_out_,
            &delta_s_,
            &k_residual_,
            &k_first_,
            &cu_seqlens_,
            &stats_index_,
            &error_count_};
  }

  float normal() { return std::normal_distribution<float>(0.0f, 1.0f)(random_); }
  bool chance(double share) { return std::uniform_real_distribution<>(0.0, 1.0)(random_) < share; }

  // A row of K or V. Channels differ in size, as those of keys do.
  void fill_row(DeviceTensor& tensor, int64_t token, int64_t head) {
    static constexpr float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(),
                                         -std::numeric_limits<float>::quiet_NaN(),
                                         std::numeric_limits<float>::infinity(),
                                         -std::numeric_limits<float>::infinity(),
                                         0.0f,
                                         -0.0f,
                                         1e-45f,
                                         -1e-40f,
                                         1e-38f,
                                         3e38f,
                                         -3e38f,
                                         65504.0f,
                                         449.0f,
                                         464.0f,
                                         2689.0f};
    const int kind = static_cast<int>(random_() % 8);
    const float size =
        c_.values == Values::kNormal ? 1.0f : std::ldexp(1.0f, int(random_() % 60) - 40);
    for (int i = 0; i < c_.head_dim; ++i) {
      float x = normal() * size * (i % 7 == 3 ? 6.0f : 1.0f);
      if (c_.values == Values::kSpecial) {
        if (kind == 0) x = 0.0f;
        if (kind == 1) x = static_cast<float>(static_cast<int>(random_() % 25) - 12) * 0.25f;
        if (kind == 2 && chance(0.03)) x = kSpecial[random_() % std::size(kSpecial)];
        if (kind == 3 && chance(0.03)) x = kSpecial[2 + random_() % (std::size(kSpecial) - 2)];
        if (kind == 4) x = size;
        if (kind == 5) x = normal() * 0.002f;
        if (kind == 6) x = normal() * 1000.0f;
      }
      std::byte* to = tensor.host({token, head, i});
      set_input(to, c_.type, x);
      if (c_.values == Values::kBits) {
        for (int b = 0; b < input_bytes(); ++b) to[b] = static_cast<std::byte>(random_());
      }
      if (c_.values == Values::kTies) {
        set_input(to, c_.type, static_cast<float>(static_cast<int>(random_() % 193) - 96) / 64);
      }
      if (c_.values == Values::kPatterns) {
        const int64_t index = (token * c_.num_kv_heads + head) * c_.head_dim + i;
        const auto bits = static_cast<uint16_t>(index);
        std::memcpy(to, &bits, 2);
      }
    }
  }

  int input_bytes() const { return c_.type == InputType::kFp32 ? 4 : 2; }

  void make_inputs() {
    const std::vector<int64_t> shape = {c_.num_tokens, c_.num_kv_heads, c_.head_dim};
    k_ = DeviceTensor(input_bytes(), shape, c_.gaps, random_, 1);
    v_ = DeviceTensor(input_bytes(), shape, c_.gaps, random_, 1);
    for (int64_t t = 0; t < c_.num_tokens; ++t) {
      for (int64_t h = 0; h < c_.num_kv_heads; ++h) {
        fill_row(k_, t, h);
        fill_row(v_, t, h);
      }
    }
  }

  float random_scale() {
    if (c_.scales == Scales::kPowersOfTwo)
      return std::ldexp(1.0f, static_cast<int>(random_() % 7) - 3);
    if (c_.scales == Scales::kExtreme) {
      static constexpr float kExtremes[] = {1e-45f,   0x1p-127f, 0x1p-126f, 0x1p126f,
                                            0x1p127f, 3e38f,     1e-30f};
      return kExtremes[random_() % std::size(kExtremes)];
    }
    return std::exp(normal());
  }

  void make_statistics() {
    const int64_t stats = c_.num_stats;
    const int64_t heads = c_.num_kv_heads;
    const bool has_ties = c_.values == Values::kTies;
    const bool is_plain = c_.values == Values::kPatterns || c_.values == Values::kBits || has_ties;
    k_mean_ = DeviceTensor(4, {stats, heads, c_.head_dim}, c_.gaps, random_);
    for (int64_t s = 0; s < stats; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int i = 0; i < c_.head_dim; ++i) {
          *k_mean_.host<float>({s, h, i}) = is_plain ? 0.0f : 0.5f * normal();
        }
      }
    }
    if (c_.delta_s) {
      q_mean_ = DeviceTensor(4, {stats, heads * c_.group_size, c_.head_dim}, c_.gaps, random_);
      for (int64_t s = 0; s < stats; ++s) {
        for (int64_t h = 0; h < heads * c_.group_size; ++h) {
          for (int i = 0; i < c_.head_dim; ++i) *q_mean_.host<float>({s, h, i}) = normal();
        }
      }
    }
    if (c_.rank > 0) {
      residual_basis_ = DeviceTensor(4, {stats, heads, c_.rank, c_.head_dim}, c_.gaps, random_);
      residual_scale_ = DeviceTensor(4, {stats, heads, c_.rank}, c_.gaps, random_);
      for (int64_t s = 0; s < stats; ++s) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int j = 0; j < c_.rank; ++j) {
            *residual_scale_.host<float>({s, h, j}) =
                has_ties ? std::ldexp(1.0f, -(j % 8)) : std::exp(normal() - 4.0f);
            for (int i = 0; i < c_.head_dim; ++i) {
              *residual_basis_.host<float>({s, h, j, i}) =
                  has_ties ? (i % 11 == j % 11 ? 1.0f : 0.0f) : normal() * 0.1f;
            }
          }
        }
      }
    }
    if (c_.scales == Scales::kNone) return;
    k_scale_ = DeviceTensor(4, {stats, heads}, c_.gaps, random_);
    v_scale_ = DeviceTensor(4, {stats, heads}, c_.gaps, random_);
    for (int64_t s = 0; s < stats; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        *k_scale_.host<float>({s, h}) = random_scale();
        *v_scale_.host<float>({s, h}) = random_scale();
      }
    }
  }

  void make_cache() {
    const int64_t pages = c_.num_pages;
    const int64_t heads = c_.num_kv_heads;
    k_codes_ = DeviceTensor(1, {pages, heads, c_.page_size, c_.head_dim / 2}, c_.gaps, random_);
    k_scales_ = DeviceTensor(1, {pages, heads, c_.page_size, c_.head_dim / 16}, c_.gaps, random_);
    v_out_ = DeviceTensor(1, {pages, heads, c_.page_size, c_.head_dim}, c_.gaps, random_);
    if (c_.delta_s) {
      delta_s_ = DeviceTensor(2, {pages, heads * c_.group_size, c_.page_size}, c_.gaps, random_, 1);
    }
    if (c_.rank > 0) {
      k_residual_ = DeviceTensor(1, {pages, heads, c_.page_size, c_.rank}, c_.gaps, random_);
    }
    if (c_.first_key) k_first_ = DeviceTensor(2, {pages, heads, c_.head_dim}, c_.gaps, random_, 1);
  }

  void make_slots() {
    slots_ = DeviceTensor(8, {std::max<int64_t>(c_.num_tokens, 1), 1}, c_.gaps, random_);
    std::vector<int64_t> free_slots(c_.num_pages * c_.page_size);
    std::iota(free_slots.begin(), free_slots.end(), 0);
    // Half of the cases in order, as a prefill has them.
    if (c_.seed % 2 == 0) std::shuffle(free_slots.begin(), free_slots.end(), random_);
    ASSERT_GE(static_cast<int64_t>(free_slots.size()), c_.num_tokens);
    for (int64_t t = 0; t < c_.num_tokens; ++t) {
      const bool is_outside = !c_.cu_seqlens.empty() && t >= c_.cu_seqlens.back();
      *slots_.host<int64_t>({t}) = is_outside || chance(c_.skipped) ? -1 : free_slots[t];
    }
    for (const auto& [token, slot] : c_.slots) *slots_.host<int64_t>({token}) = slot;
    error_count_ = DeviceTensor(4, {1}, Gaps::kNone, random_);
    *error_count_.host<int32_t>() = 1000;
    const auto make_table = [&](const std::vector<int32_t>& values, DeviceTensor& table) {
      if (values.empty()) return;
      table = DeviceTensor(4, {static_cast<int64_t>(values.size()), 1}, c_.gaps, random_);
      for (size_t i = 0; i < values.size(); ++i) {
        *table.host<int32_t>({static_cast<int64_t>(i)}) = values[i];
      }
    };
    make_table(c_.cu_seqlens, cu_seqlens_);
    make_table(c_.stats_index, stats_index_);
  }

  // The row of statistics, or -1.
  int64_t stats_row(int64_t token) const {
    int64_t sequence = 0;
    if (!c_.cu_seqlens.empty()) {
      const auto after = std::upper_bound(c_.cu_seqlens.begin(), c_.cu_seqlens.end(), token);
      if (after == c_.cu_seqlens.end()) return -1;
      sequence = after - c_.cu_seqlens.begin() - 1;
    }
    if (c_.stats_index.empty()) return 0;
    const int64_t row = c_.stats_index[sequence];
    return row >= 0 && row < c_.num_stats ? row : -1;
  }

  void write_reference() {
    for (int64_t t = 0; t < c_.num_tokens; ++t) {
      const int64_t slot = *slots_.host<int64_t>({t});
      if (slot == -1) continue;
      const int64_t row = stats_row(t);
      if (row < 0 || slot < 0 || slot >= static_cast<int64_t>(c_.num_pages) * c_.page_size) {
        ++*error_count_.host<int32_t>();
        continue;
      }
      for (int64_t h = 0; h < c_.num_kv_heads; ++h) write_row(t, h, slot, row);
    }
  }

  void write_row(int64_t token, int64_t head, int64_t slot, int64_t row) {
    internal::AppendConfig config;
    config.head_dim = c_.head_dim;
    config.residual_rank = c_.rank;
    config.group_size = c_.delta_s ? c_.group_size : 0;
    config.scale_rule = c_.rule;
    internal::AppendStats stats;
    stats.k_mean = k_mean_.host<float>({row, head});
    if (c_.delta_s) {
      stats.q_mean = q_mean_.host<float>({row, head * c_.group_size});
      stats.q_mean_stride = q_mean_.elements(1);
    }
    if (c_.rank > 0) {
      stats.residual_basis = residual_basis_.host<float>({row, head});
      stats.residual_basis_stride = residual_basis_.elements(2);
      stats.residual_scale = residual_scale_.host<float>({row, head});
    }
    if (k_scale_) {
      stats.k_scale = *k_scale_.host<float>({row, head});
      stats.v_scale = *v_scale_.host<float>({row, head});
    }
    const int64_t page = slot / c_.page_size;
    const int64_t offset = slot % c_.page_size;
    internal::AppendTargets out;
    out.k_codes = k_codes_.host<uint8_t>({page, head, offset});
    out.k_scales = k_scales_.host<E4m3>({page, head, offset});
    out.v = v_out_.host<E4m3>({page, head, offset});
    std::vector<Bf16> delta(c_.delta_s ? c_.group_size : 0);
    out.delta_s = delta.data();
    out.delta_s_stride = 1;
    if (k_residual_) out.k_residual = k_residual_.host<E4m3>({page, head, offset});
    std::vector<Bf16> first(c_.head_dim);
    const bool has_first = k_first_ && offset == 0;
    if (has_first) out.k_first = first.data();
    std::vector<float> k(c_.head_dim), v(c_.head_dim);
    for (int i = 0; i < c_.head_dim; ++i) {
      k[i] = input_value(k_.host({token, head, i}), c_.type);
      v[i] = input_value(v_.host({token, head, i}), c_.type);
    }
    internal::append_token_reference(config, stats, k.data(), v.data(), out);
    for (size_t g = 0; g < delta.size(); ++g) {
      const int64_t q_head = head * c_.group_size + static_cast<int64_t>(g);
      std::memcpy(delta_s_.host({page, q_head, offset}), &delta[g], 2);
    }
    if (has_first) std::memcpy(k_first_.host({page, head}), first.data(), first.size() * 2);
  }

  Case c_;
  std::mt19937 random_;
  DeviceTensor k_, v_, slots_, k_mean_, q_mean_, residual_basis_, residual_scale_, k_scale_,
      v_scale_;
  DeviceTensor k_codes_, k_scales_, v_out_, delta_s_, k_residual_, k_first_;
  DeviceTensor cu_seqlens_, stats_index_, error_count_;
};

void check(const Case& c) { AppendRun(c).run_and_compare(); }

constexpr int kHeadDims[] = {64, 128};
constexpr InputType kTypes[] = {InputType::kBf16, InputType::kFp16, InputType::kFp32};
constexpr ScaleRule kRules[] = {ScaleRule::kPlain, ScaleRule::kSearch};

// Every mix of optional tensors, page sizes and groups of query heads.
TEST(Append, Shapes) {
  unsigned seed = 1;
  for (const int d : kHeadDims) {
    for (const int rank : {0, 4, 8, 16}) {
      for (const bool delta_s : {false, true}) {
        for (const bool first_key : {false, true}) {
          Case c;
          c.head_dim = d;
          c.rank = rank;
          c.delta_s = delta_s;
          c.first_key = first_key;
          c.page_size = 16 << (seed % 4);
          c.group_size = 1 + static_cast<int>(seed % 8);
          c.rule = kRules[seed / 2 % 2];
          c.seed = ++seed;
          SCOPED_TRACE(::testing::Message() << "seed " << seed << ", d " << d << ", rank " << rank);
          check(c);
        }
      }
    }
  }
}

TEST(Append, GroupSizes) {
  for (int group_size = 1; group_size <= 8; ++group_size) {
    Case c;
    c.head_dim = group_size % 2 == 0 ? 64 : 128;
    c.rank = 0;
    c.delta_s = true;
    c.group_size = group_size;
    c.num_tokens = 21;
    c.seed = 70 + static_cast<unsigned>(group_size);
    SCOPED_TRACE(group_size);
    check(c);
  }
}

TEST(Append, TypesAndStrides) {
  unsigned seed = 100;
  for (const int d : kHeadDims) {
    for (const InputType type : kTypes) {
      for (const Gaps gaps : {Gaps::kNone, Gaps::kAligned, Gaps::kOdd}) {
        for (const bool delta_s : {false, true}) {
          Case c;
          c.head_dim = d;
          c.type = type;
          c.gaps = gaps;
          c.delta_s = delta_s;
          c.page_size = 16;
          c.num_tokens = 43;
          c.seed = ++seed;
          SCOPED_TRACE(::testing::Message() << "seed " << seed);
          check(c);
        }
      }
    }
  }
}

TEST(Append, Scales) {
  unsigned seed = 200;
  for (const int d : kHeadDims) {
    for (const Scales scales : {Scales::kPowersOfTwo, Scales::kAny, Scales::kExtreme}) {
      for (const Values values : {Values::kNormal, Values::kSpecial}) {
        Case c;
        c.head_dim = d;
        c.scales = scales;
        c.values = values;
        c.delta_s = true;
        c.group_size = 2;
        c.type = kTypes[seed % 3];
        c.seed = ++seed;
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        check(c);
      }
    }
  }
}

TEST(Append, SpecialValues) {
  unsigned seed = 300;
  for (const int d : kHeadDims) {
    for (const InputType type : kTypes) {
      for (const ScaleRule rule : kRules) {
        for (const Values values : {Values::kSpecial, Values::kBits}) {
          Case c;
          c.head_dim = d;
          c.type = type;
          c.rule = rule;
          c.values = values;
          c.page_size = 16;
          c.num_pages = 8;
          c.num_tokens = 101;
          c.delta_s = true;
          c.rank = 4;
          c.seed = ++seed;
          SCOPED_TRACE(::testing::Message() << "seed " << seed);
          check(c);
        }
      }
    }
  }
}

// Candidates with equal errors, and residuals halfway between two codes: what the kernel's
// shortcuts may not decide.
TEST(Append, Ties) {
  unsigned seed = 350;
  for (const int d : kHeadDims) {
    for (const int rank : {4, 8, 16}) {
      Case c;
      c.head_dim = d;
      c.rank = rank;
      c.values = Values::kTies;
      c.page_size = 16;
      c.num_pages = 8;
      c.num_tokens = 90;
      c.seed = ++seed;
      SCOPED_TRACE(::testing::Message() << "seed " << seed);
      check(c);
    }
  }
}

// All values of the 16-bit types, as K and as V.
TEST(Append, AllBitPatterns) {
  for (const InputType type : {InputType::kBf16, InputType::kFp16}) {
    Case c;
    c.type = type;
    c.values = Values::kPatterns;
    c.num_kv_heads = 8;
    c.num_tokens = 64;
    c.num_pages = 2;
    c.rank = 4;
    c.skipped = 0.0;
    SCOPED_TRACE(static_cast<int>(type));
    check(c);
  }
}

TEST(Append, RaggedSequences) {
  for (const int d : kHeadDims) {
    Case c;
    c.head_dim = d;
    c.num_stats = 3;
    c.cu_seqlens = {0, 0, 7, 8, 8, 30, 37, 37};
    c.stats_index = {1, 2, 0, 1, 2, 1, 0};
    c.delta_s = true;
    c.num_tokens = 45;  // the last ones belong to no sequence
    c.seed = 400;
    check(c);
    c.gaps = Gaps::kOdd;
    c.seed = 401;
    check(c);
    c.cu_seqlens.clear();
    c.stats_index = {2};
    check(c);
  }
}

// A decode step: one token of each sequence.
TEST(Append, DecodeStep) {
  for (const int batch_size : {1, 2, 64}) {
    Case c;
    c.num_tokens = batch_size;
    c.num_stats = 5;
    c.cu_seqlens.resize(batch_size + 1);
    std::iota(c.cu_seqlens.begin(), c.cu_seqlens.end(), 0);
    for (int i = 0; i < batch_size; ++i) c.stats_index.push_back(i % 5);
    c.seed = 500 + static_cast<unsigned>(batch_size);
    check(c);
  }
}

TEST(Append, CountsErrorsAndWritesNothing) {
  Case c;
  c.num_tokens = 40;
  c.num_stats = 2;
  c.cu_seqlens = {0, 10, 20, 30, 36};
  c.stats_index = {0, 2, 1, -1};  // two rows out of range
  c.slots = {{0, -2},
             {3, int64_t{5} * 64},
             {5, int64_t{5} * 64 - 1},
             {22, std::numeric_limits<int64_t>::min()},
             {23, std::numeric_limits<int64_t>::max()},
             {24, int64_t{1} << 32},
             {37, 7},  // of no sequence
             {38, -2}};
  c.delta_s = true;
  for (const int d : kHeadDims) {
    c.head_dim = d;
    c.seed = 600;
    check(c);
  }
}

TEST(Append, NoErrorCounter) {
  Case c;
  c.slots = {{1, -7}};
  AppendRun run(c);
  AppendParams p = run.params();
  p.error_count = nullptr;
  p.num_tokens = 0;  // nothing has been uploaded
  EXPECT_EQ(launch_append(p, nullptr), cudaSuccess);
}

TEST(Append, Empty) {
  Case c;
  c.num_tokens = 0;
  check(c);
  c.num_tokens = 9;
  c.skipped = 1.0;
  check(c);
}

// Enough rows that CTAs take several turns.
TEST(Append, ManyTokens) {
  Case c;
  c.head_dim = 64;
  c.num_kv_heads = 32;
  c.num_tokens = 1029;
  c.page_size = 128;
  c.num_pages = 9;
  c.rank = 4;
  c.rule = ScaleRule::kPlain;
  c.num_stats = 2;
  c.cu_seqlens = {0, 500, 1029};
  c.stats_index = {1, 0};
  check(c);
}

// As many heads as leave a CTA all tokens of one; with several first keys in a warp, and rows of
// statistics that change within it.
TEST(Append, ManyHeads) {
  for (const int d : kHeadDims) {
    Case c;
    c.head_dim = d;
    c.num_kv_heads = 300;
    c.num_tokens = 45;
    c.page_size = 16;
    c.num_pages = 3;
    c.skipped = 0.0;
    c.num_stats = 2;
    c.cu_seqlens = {0, 22, 45};
    c.stats_index = {1, 0};
    c.seed = 700;
    check(c);
  }
}

TEST(Append, RejectsShapes) {
  Case c;
  c.num_tokens = 3;
  AppendRun run(c);
  AppendParams p = run.params();
  p.head_dim = 96;
  EXPECT_EQ(launch_append(p, nullptr), cudaErrorInvalidValue);
  p = run.params();
  p.residual_rank = 5;
  EXPECT_EQ(launch_append(p, nullptr), cudaErrorInvalidValue);
  p = run.params();
  p.num_kv_heads = 0;
  EXPECT_EQ(launch_append(p, nullptr), cudaErrorInvalidValue);
  p = run.params();
  p.num_tokens = kMaxAppendTokens + 1;
  EXPECT_EQ(launch_append(p, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mpfa::kernels
