// Inputs and runs of append_kv's tests.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "append_fixture.h"

namespace mpfa::internal {

enum class Values : uint8_t {
  kActivations,  // like real keys: per-row magnitudes, some outliers
  kExtreme,      // zeros, -0, subnormals, huge, infinite and NaN values in some blocks
  kRandomBits    // any bit pattern
};

inline float extreme_value(std::mt19937_64& rng) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kValues[] = {0.0f,  -0.0f,  1e-41f, -1e-41f, 3e-39f, 1e-20f, 6e-5f, -6e-8f,
                               1e30f, -1e30f, 3e38f,  kInf,    -kInf,  kNan,   -kNan, 65504.0f};
  return kValues[rng() % std::size(kValues)];
}

// An input [tokens, Hkv, d]; `strided` gives it heads outermost, gaps and an odd address.
inline Owned make_input(const CacheSpec& spec, DLDataType dtype, int64_t tokens, bool strided,
                        Values values, std::mt19937_64& rng) {
  const std::vector<int64_t> shape = {tokens, spec.kv_heads, spec.head_dim};
  Owned x(strided ? Field::packed(dtype, shape, 7, {1, 0, 2}, 9) : Field::packed(dtype, shape, 0));
  std::normal_distribution<float> normal;
  if (values == Values::kRandomBits) {
    for (uint8_t& byte : x.bytes) byte = static_cast<uint8_t>(rng());
    return x;
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < spec.kv_heads; ++h) {
      const float scale = std::exp2(static_cast<float>(static_cast<int>(rng() % 9)) - 4.0f);
      bool extreme = false;
      for (int64_t i = 0; i < spec.head_dim; ++i) {
        if (i % kNvfp4BlockSize == 0) extreme = values == Values::kExtreme && rng() % 2 == 0;
        float value = scale * normal(rng) * (rng() % 50 == 0 ? 20.0f : 1.0f);
        if (extreme && rng() % 8 == 0) value = extreme_value(rng);
        write_float(x, {t, h, i}, value);
      }
    }
  }
  return x;
}

// Distinct random slots, one in eight -1.
inline std::vector<int64_t> random_slots(const CacheSpec& spec, int64_t tokens,
                                         std::mt19937_64& rng) {
  std::vector<int64_t> slots(spec.pages * spec.page_size);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  std::shuffle(slots.begin(), slots.end(), rng);
  slots.resize(tokens);
  for (int64_t& slot : slots) {
    // Starts of pages are rare in a random draw, but they are the ones with a first key.
    if (rng() % 8 == 0) slot = -1;
  }
  for (int64_t page = 0; page < std::min(spec.pages, tokens / 4); ++page) {
    const int64_t start = page * spec.page_size;
    if (std::find(slots.begin(), slots.end(), start) == slots.end()) slots[4 * page] = start;
  }
  return slots;
}

inline Owned slot_tensor(const std::vector<int64_t>& slots, int64_t stride = 1) {
  const auto count = static_cast<int64_t>(slots.size());
  Owned tensor(Field(kInt64, {count}, {stride}, 0));
  for (int64_t i = 0; i < count; ++i) tensor.set({i}, slots[i]);
  return tensor;
}

inline Owned int32_tensor(const std::vector<int32_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  Owned tensor(Field(kInt32, {count}, {1}, 0));
  for (int64_t i = 0; i < count; ++i) tensor.set({i}, values[i]);
  return tensor;
}

// One call of append_kv and what it must leave in the cache.
struct AppendCase {
  TestCache cache;
  Owned k;
  Owned v;
  std::vector<int64_t> slots;
  std::vector<int32_t> cu_seqlens;  // empty: not given
  std::vector<uint8_t> expected;

  int64_t tokens() const { return static_cast<int64_t>(slots.size()); }

  int64_t stats_row(int64_t token) const {
    if (!cache.spec.stats_index) return 0;
    int64_t sequence = 0;
    while (!cu_seqlens.empty() && cu_seqlens[sequence + 1] <= token) ++sequence;
    return cache.stats_index.get<int32_t>({sequence});
  }

  void compute_expected() {
    expected = cache.bytes;
    for (int64_t t = 0; t < tokens(); ++t) {
      if (slots[t] >= 0) cache.append_reference(expected, k, v, t, slots[t], stats_row(t));
    }
  }

  // The cache's bytes after the call, which starts from its first bytes.
  std::vector<uint8_t> run() {
    std::vector<uint8_t> memory = cache.bytes;
    AppendParams params;
    params.scale_rule = cache.spec.rule;
    const Owned cu = int32_tensor(cu_seqlens);
    if (!cu_seqlens.empty()) params.cu_seqlens = &cu.tensor;
    append_kv(cache.view(memory), k.tensor, v.tensor, slot_tensor(slots, 3).tensor, params);
    return memory;
  }
};

inline AppendCase make_case(const CacheSpec& spec, DLDataType dtype, int64_t tokens, bool strided,
                            Values values, uint64_t seed) {
  std::mt19937_64 rng(seed);
  AppendCase result{TestCache(spec, rng()),
                    make_input(spec, dtype, tokens, strided, values, rng),
                    make_input(spec, dtype, tokens, !strided, values, rng),
                    random_slots(spec, tokens, rng),
                    {},
                    {}};
  if (spec.stats_index) {
    // One sequence per row of statistics, some of them empty.
    result.cu_seqlens.assign(spec.stats + 1, 0);
    for (int64_t b = 1; b < spec.stats; ++b) {
      result.cu_seqlens[b] = static_cast<int32_t>(rng() % (tokens + 1));
    }
    result.cu_seqlens[spec.stats] = static_cast<int32_t>(tokens);
    std::sort(result.cu_seqlens.begin(), result.cu_seqlens.end());
  }
  result.compute_expected();
  return result;
}

// Calls fn(name) with each instruction set that this processor has in turn.
template <typename Fn>
void for_each_target(const Fn& fn) {
  const int64_t supported = hwy::SupportedTargets() | HWY_SCALAR;
  for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    fn(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Index of the first byte that differs, or nothing.
inline std::optional<size_t> first_difference(const std::vector<uint8_t>& a,
                                              const std::vector<uint8_t>& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at == a.end() && other == b.end()) return std::nullopt;
  return at - a.begin();
}

}  // namespace mpfa::internal
