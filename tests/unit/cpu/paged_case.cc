#include "unit/cpu/paged_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace mpfa::internal {
namespace {

constexpr double kE2m1Values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr int64_t kUnusedPages = 3;

double e2m1_value(int code) { return code < 8 ? kE2m1Values[code] : -kE2m1Values[code - 8]; }

// Codes of e4m3 by hand: sign, exponent with bias 7, three bits of mantissa. Finite, normal.
E4m3 e4m3_code(bool negative, int exponent, int mantissa) {
  return {static_cast<uint8_t>((negative ? 0x80 : 0) | ((exponent + 7) << 3) | mantissa)};
}
double e4m3_normal_value(bool negative, int exponent, int mantissa) {
  return std::ldexp(1.0 + mantissa / 8.0, exponent) * (negative ? -1.0 : 1.0);
}

// Top half of an FP32 pattern; fails the test where the value does not fit.
Bf16 exact_bf16(double value) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits;
  static_assert(sizeof(bits) == sizeof(narrow));
  std::memcpy(&bits, &narrow, sizeof(bits));
  EXPECT_EQ(bits & 0xFFFFU, 0U) << value << " is not a BF16 number";
  EXPECT_EQ(static_cast<double>(narrow), value);
  return {static_cast<uint16_t>(bits >> 16)};
}

template <typename T>
void fill(TensorBox<T>& box, T value) {
  std::fill(box.values().begin(), box.values().end(), value);
}

}  // namespace

PagedCase::PagedCase(const PagedCaseConfig& config)
    : config_(config), state_(config.seed * 0x9E3779B97F4A7C15ULL + 1) {
  make_tables();
  make_tensors();
  for (int64_t row = 0; row < config_.num_stats; ++row) make_stats(row);
  const auto batch = static_cast<int64_t>(config_.kv_lens.size());
  keys_.resize(batch);
  values_.resize(batch);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t token = 0; token < config_.kv_lens[b]; ++token) {
      for (int64_t h = 0; h < config_.num_kv_heads; ++h) make_token(b, token, h);
    }
  }
  for (float& x : q.values()) x = static_cast<float>(random(-96, 96)) / 64.0f;
}

int PagedCase::random(int low, int high) {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return low + static_cast<int>((state_ >> 16) % static_cast<uint64_t>(high - low + 1));
}

void PagedCase::make_tables() {
  const auto batch = static_cast<int64_t>(config_.kv_lens.size());
  const int64_t page_size = config_.page_size;
  int64_t pages = 0;
  int64_t widest = 1;
  for (const int32_t length : config_.kv_lens) {
    const int64_t count = (length + page_size - 1) / page_size;
    pages += count;
    widest = std::max(widest, count + 1);
  }
  std::vector<int32_t> order(pages + kUnusedPages);
  std::iota(order.begin(), order.end(), 0);
  for (size_t n = order.size(); n > 1; --n) {
    std::swap(order[n - 1], order[random(0, static_cast<int>(n) - 1)]);
  }
  block_table = TensorBox<int32_t>({batch, widest});
  seq_lens = TensorBox<int32_t>({batch}, config_.kv_lens);
  cu_seqlens_q = TensorBox<int32_t>({batch + 1});
  stats_index = TensorBox<int32_t>({batch});
  fill(block_table, int32_t{-1000});  // entries that no length reaches
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t n = 0; n * page_size < config_.kv_lens[b]; ++n) {
      block_table(b, n) = order.back();
      order.pop_back();
    }
    cu_seqlens_q(b + 1) = cu_seqlens_q(b) + config_.q_lens[b];
    stats_index(b) = static_cast<int32_t>((b + 1) % config_.num_stats);
  }
  q = TensorBox<float>({cu_seqlens_q(batch), config_.num_q_heads, config_.head_dim});
  k_codes = TensorBox<uint8_t>(
      {pages + kUnusedPages, config_.num_kv_heads, page_size, config_.head_dim / 2});
}

void PagedCase::make_tensors() {
  const int64_t pages = k_codes.size(0), hq = config_.num_q_heads, hkv = config_.num_kv_heads;
  const int64_t size = config_.page_size, d = config_.head_dim, r = config_.residual_rank;
  const int64_t stats = config_.num_stats;
  k_scales = TensorBox<E4m3>({pages, hkv, size, d / 16});
  v = TensorBox<E4m3>({pages, hkv, size, d});
  k_residual = TensorBox<E4m3>({pages, hkv, size, r});
  delta_s = TensorBox<Bf16>({pages, hq, size});
  k_first = TensorBox<Bf16>({pages, hkv, d});
  fill(k_codes, uint8_t{0xFF});
  for (auto* box : {&k_scales, &v, &k_residual}) fill(*box, E4m3{0x7F});
  for (auto* box : {&delta_s, &k_first}) fill(*box, Bf16{0x7FC1});
  k_mean = TensorBox<float>({stats, hkv, d});
  q_mean = TensorBox<float>({stats, hq, d});
  residual_basis = TensorBox<float>({stats, hkv, r, d});
  residual_scale = TensorBox<float>({stats, hkv, r});
  k_scale = TensorBox<float>({stats, hkv});
  v_scale = TensorBox<float>({stats, hkv});
}

void PagedCase::make_stats(int64_t row) {
  const int64_t hq = config_.num_q_heads, hkv = config_.num_kv_heads;
  const int64_t d = config_.head_dim, r = config_.residual_rank;
  for (int64_t h = 0; h < hkv; ++h) {
    for (int64_t c = 0; c < d; ++c) k_mean(row, h, c) = static_cast<float>(random(-32, 32)) / 16.0f;
    k_scale(row, h) = !config_.scales ? 1.0f : row == 1 ? 2.0f : 0.5f;
    v_scale(row, h) = config_.scales ? 0.75f + static_cast<float>(row) : 1.0f;
    for (int64_t j = 0; j < r; ++j) {
      residual_scale(row, h, j) = (row + j) % 2 == 0 ? 0.5f : 0.25f;
      // Unit vectors where delta_s must come out exact; else dense rows.
      for (int64_t c = 0; c < d; ++c) {
        const float sign = random(0, 1) == 0 ? -1.0f : 1.0f;
        const bool chosen = c == 3 * j + row;
        residual_basis(row, h, j, c) = !config_.delta_s ? sign / 8.0f : chosen ? sign : 0.0f;
      }
    }
  }
  for (int64_t h = 0; h < hq; ++h) {
    q_mean(row, h, random(0, 31)) = 1.0f;
    q_mean(row, h, random(32, static_cast<int>(d) - 1)) = -1.0f;
  }
}

void PagedCase::make_token(int64_t b, int64_t token, int64_t kv_head) {
  const int64_t page = block_table(b, token / config_.page_size);
  const int64_t offset = token % config_.page_size;
  const int64_t row = stats_index(b), d = config_.head_dim;
  std::vector<double> key(d), value(d);
  for (int64_t block = 0; block < d / 16; ++block) {
    const int exponent = config_.delta_s ? 0 : random(-2, 1);
    const int mantissa = config_.delta_s ? 0 : random(0, 7);
    k_scales(page, kv_head, offset, block) = e4m3_code(false, exponent, mantissa);
    for (int64_t n = 0; n < 16; ++n) {
      const int code = random(0, 15);
      uint8_t& pair = k_codes(page, kv_head, offset, (block * 16 + n) / 2);
      pair = static_cast<uint8_t>(n % 2 == 0 ? code : pair | (code << 4));
      key[block * 16 + n] =
          e4m3_normal_value(false, exponent, mantissa) * e2m1_value(code) * k_scale(row, kv_head);
    }
  }
  for (int64_t c = 0; c < d; ++c) {
    const bool negative = random(0, 1) == 1;
    const int exponent = random(-3, 2), mantissa = random(0, 7);
    v(page, kv_head, offset, c) = e4m3_code(negative, exponent, mantissa);
    value[c] = e4m3_normal_value(negative, exponent, mantissa) * v_scale(row, kv_head);
  }
  for (int64_t j = 0; j < config_.residual_rank; ++j) {
    const bool negative = random(0, 1) == 1;
    const int exponent = random(0, 1);
    k_residual(page, kv_head, offset, j) = e4m3_code(negative, exponent, 0);
    const double p = e4m3_normal_value(negative, exponent, 0) * residual_scale(row, kv_head, j);
    for (int64_t c = 0; c < d; ++c) key[c] += p * residual_basis(row, kv_head, j, c);
  }
  for (int64_t c = 0; token == 0 && config_.first_key && c < d; ++c) {
    const double rest = random(-2, 2) / 2.0;
    k_first(page, kv_head, c) = exact_bf16(rest);
    key[c] += rest;
  }
  const int64_t group = config_.num_q_heads / config_.num_kv_heads;
  for (int64_t h = kv_head * group; config_.delta_s && h < (kv_head + 1) * group; ++h) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += q_mean(row, h, c) * key[c];
    delta_s(page, h, offset) = exact_bf16(sum);
  }
  for (int64_t c = 0; c < d; ++c) key[c] += k_mean(row, kv_head, c);
  keys_[b].push_back(key);
  values_[b].push_back(value);
}

KvCacheView PagedCase::view() const {
  KvCacheView view;
  view.k_codes = k_codes.ptr();
  view.k_scales = k_scales.ptr();
  view.v = v.ptr();
  if (config_.delta_s) view.delta_s = delta_s.ptr();
  if (config_.first_key) view.k_first = k_first.ptr();
  if (config_.residual_rank > 0) {
    view.k_residual = k_residual.ptr();
    view.stats.residual_basis = residual_basis.ptr();
    view.stats.residual_scale = residual_scale.ptr();
  }
  view.stats.k_mean = k_mean.ptr();
  view.stats.q_mean = q_mean.ptr();  // present without delta_s too: it must not be used then
  if (config_.scales) {
    view.stats.k_scale = k_scale.ptr();
    view.stats.v_scale = v_scale.ptr();
  }
  if (config_.num_stats > 1) view.stats_index = stats_index.ptr();
  return view;
}

ExpectedAttention expected_attention(const PagedCase& c, const AttentionParams& params) {
  const PagedCaseConfig& config = c.config();
  const int64_t d = config.head_dim, group = config.num_q_heads / config.num_kv_heads;
  const long double scale = params.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(d)));
  ExpectedAttention result;
  int64_t row = 0;
  for (size_t b = 0; b < config.kv_lens.size(); ++b) {
    for (int64_t i = 0; i < config.q_lens[b]; ++i, ++row) {
      // The last query stands at the last key.
      const int64_t position = config.kv_lens[b] - config.q_lens[b] + i;
      for (int64_t h = 0; h < config.num_q_heads; ++h) {
        std::vector<long double> sum(d, 0.0L);
        long double l = 0.0L;
        bool any = false;
        for (int64_t j = 0; j < config.kv_lens[b]; ++j) {
          if (params.causal && j > position) continue;
          if (params.window_left >= 0 && j < position - params.window_left) continue;
          any = true;
          const auto& key = c.key(static_cast<int64_t>(b), j, h / group);
          const auto& value = c.value(static_cast<int64_t>(b), j, h / group);
          long double x = 0.0L;
          for (int64_t n = 0; n < d; ++n) x += static_cast<long double>(c.q(row, h, n)) * key[n];
          x *= scale;
          if (params.softcap > 0) x = params.softcap * std::tanh(x / params.softcap);
          const long double w = std::exp(x);
          l += w;
          for (int64_t n = 0; n < d; ++n) sum[n] += w * value[n];
        }
        if (any && params.sinks != nullptr) {
          l += std::exp(static_cast<long double>(static_cast<const float*>(params.sinks->data)[h]));
        }
        for (const long double x : sum) result.out.push_back(any ? double(x / l) : 0.0);
        result.lse.push_back(any ? double(std::log(l)) : -std::numeric_limits<double>::infinity());
      }
    }
  }
  return result;
}

}  // namespace mpfa::internal
