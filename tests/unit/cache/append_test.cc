// append_kv writes, byte for byte, what the scalar reference computes, on every instruction set,
// and nothing else.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "append_cases.h"
#include "core/tensor.h"

namespace mpfa::internal {
namespace {

constexpr DLDataType kTypes[] = {kBfloat16, kFloat16, kFloat32};

void expect_exact(AppendCase& c, const std::string& what) {
  const std::vector<uint8_t> k = c.k.bytes;
  const std::vector<uint8_t> v = c.v.bytes;
  for_each_target([&](const char* target) {
    const auto difference = first_difference(c.run(), c.expected);
    EXPECT_FALSE(difference) << target << ": byte " << *difference << " of " << c.expected.size()
                             << ", " << what;
  });
  EXPECT_EQ(c.k.bytes, k);
  EXPECT_EQ(c.v.bytes, v);
}

TEST(Append, EveryTypeHeadDimAndRule) {
  uint64_t seed = 1;
  for (DLDataType type : kTypes) {
    for (int64_t d : {64, 128}) {
      for (ScaleRule rule : {ScaleRule::kPlain, ScaleRule::kSearch}) {
        for (Values values : {Values::kActivations, Values::kExtreme, Values::kRandomBits}) {
          CacheSpec spec;
          spec.head_dim = d;
          spec.rule = rule;
          spec.group = 3;
          AppendCase c = make_case(spec, type, 37, seed % 2 == 0, values, seed);
          expect_exact(c, spec.describe() + " " + dtype_string(type));
          ++seed;
        }
      }
    }
  }
}

TEST(Append, EveryHeadCount) {
  for (int64_t heads : {1, 2, 3, 8}) {
    for (int64_t group : {0, 1, 3, 4, 5, 7, 8, 16, 20}) {
      CacheSpec spec;
      spec.kv_heads = heads;
      spec.group = group;
      spec.head_dim = group % 2 == 0 ? 128 : 64;
      AppendCase c =
          make_case(spec, kBfloat16, 9, false, Values::kActivations, heads * 100 + group);
      expect_exact(c, spec.describe());
    }
  }
}

TEST(Append, EveryCompensation) {
  for (int64_t rank : {0, 4, 8, 16}) {
    for (bool first_key : {false, true}) {
      for (int64_t group : {0, 4}) {
        for (int64_t d : {64, 128}) {
          CacheSpec spec;
          spec.rank = rank;
          spec.first_key = first_key;
          spec.group = group;
          spec.head_dim = d;
          AppendCase c = make_case(spec, kBfloat16, 23, false, Values::kExtreme, rank + group);
          expect_exact(c, spec.describe());
        }
      }
    }
  }
}

TEST(Append, EveryPageSizeAndLayout) {
  for (int64_t page_size : {16, 32, 64, 128}) {
    for (CacheLayout layout :
         {CacheLayout::kDense, CacheLayout::kRecords, CacheLayout::kBackward}) {
      CacheSpec spec;
      spec.page_size = page_size;
      spec.layout = layout;
      spec.group = 2;
      spec.kv_heads = 3;
      AppendCase c = make_case(spec, kBfloat16, 40, true, Values::kActivations, page_size);
      expect_exact(c, spec.describe());
    }
  }
}

TEST(Append, RandomCombinations) {
  std::mt19937_64 rng(2024);
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + rng() % values.size());
  };
  for (int i = 0; i < 150; ++i) {
    CacheSpec spec;
    spec.head_dim = pick({64, 128});
    spec.kv_heads = pick({1, 2, 3, 8});
    spec.group = pick({0, 0, 1, 3, 4, 5, 7, 8, 16});
    spec.rank = pick({0, 4, 8, 16});
    spec.first_key = pick({0, 1}) != 0;
    spec.page_size = pick({16, 32, 64, 128});
    spec.stats = pick({1, 2, 5});
    spec.stats_index = pick({0, 1}) != 0;
    spec.scales = pick({0, 1}) != 0;
    spec.layout = static_cast<CacheLayout>(pick({0, 1, 2}));
    spec.rule = static_cast<ScaleRule>(pick({0, 1, 1}));
    const DLDataType type = kTypes[rng() % 3];
    const auto values = static_cast<Values>(pick({0, 1, 2}));
    AppendCase c = make_case(spec, type, pick({1, 2, 3, 17, 40}), pick({0, 1}) != 0, values, i);
    expect_exact(c, str_cat("case ", i, " ", spec.describe(), " ", dtype_string(type)));
  }
}

// Search spends most time near ties and at the ends of the scale's range.
TEST(Append, ScaleExtremes) {
  CacheSpec spec;
  spec.rank = 4;
  AppendCase c = make_case(spec, kFloat32, 64, false, Values::kActivations, 5);
  std::mt19937_64 rng(6);
  for (int64_t t = 0; t < c.tokens(); ++t) {
    // Magnitudes from where the scale rounds to 0 (6 * 2^-10) to where it saturates (6 * 448).
    const float magnitude = std::exp2(static_cast<float>(t) * 0.375f - 10.0f);
    for (int64_t i = 0; i < spec.head_dim; ++i) {
      const float grid = 0.25f * static_cast<float>(static_cast<int>(rng() % 49) - 24);
      for (int64_t h = 0; h < 2; ++h) c.k.set({t, h, i}, magnitude * grid);
    }
  }
  for (int64_t i = 0; i < spec.head_dim; ++i) {
    for (int64_t h = 0; h < 2; ++h) c.cache.k_mean.set({0, h, i}, 0.0f);
  }
  c.compute_expected();
  expect_exact(c, spec.describe());
}

// Quotients that lie exactly between two e4m3 values: dividing by way of a reciprocal would be an
// ulp off for many of these divisors and round to the wrong side.
TEST(Append, QuotientsAtTies) {
  CacheSpec spec;
  spec.rank = 16;
  spec.scales = true;
  spec.stats = 60;
  spec.kv_heads = 1;
  spec.stats_index = true;
  spec.rule = ScaleRule::kPlain;
  AppendCase c = make_case(spec, kFloat32, spec.stats, false, Values::kActivations, 31);
  std::mt19937_64 rng(32);
  const auto odd = [&] { return static_cast<float>(rng() % 2048 * 2 + 1); };
  const auto tie = [&] { return 1.0f + static_cast<float>(rng() % 8 * 2 + 1) / 16; };
  for (int64_t row = 0; row < spec.stats; ++row) {
    c.cu_seqlens[row + 1] = static_cast<int32_t>(row + 1);
    const int64_t token = spec.stats - 1 - row;  // its sequence uses this row
    const float v_scale = odd();
    c.cache.v_scale.set({row, 0}, v_scale);
    c.cache.k_scale.set({row, 0}, 1.0f);
    for (int64_t i = 0; i < spec.head_dim; ++i) {
      // K is 5 and 6, so with scale 1 only the first element has an error, of 1.
      c.cache.k_mean.set({row, 0, i}, 0.0f);
      c.k.set({token, 0, i}, i == 0 ? 5.0f : 6.0f);
      c.v.set({token, 0, i}, v_scale * tie());
    }
    for (int64_t j = 0; j < spec.rank; ++j) {
      const float p_scale = odd();
      c.cache.residual_scale.set({row, 0, j}, p_scale);
      c.cache.residual_basis.set({row, 0, j, 0}, p_scale * tie());
    }
  }
  c.compute_expected();
  expect_exact(c, spec.describe());
}

TEST(Append, ThreadsChunksAndOrderDoNotMatter) {
  CacheSpec spec;
  spec.kv_heads = 3;
  spec.group = 2;
  spec.pages = 40;
  spec.stats = 3;
  spec.stats_index = true;
  AppendCase c = make_case(spec, kBfloat16, 600, false, Values::kExtreme, 11);
  for (size_t threads : {1, 2, 7}) {
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    EXPECT_FALSE(first_difference(c.run(), c.expected)) << threads << " threads";
  }
  // One call per piece of random length, last piece first.
  std::mt19937_64 rng(12);
  std::vector<uint8_t> memory = c.cache.bytes;
  for (int64_t end = c.tokens(); end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - 1 - static_cast<int64_t>(rng() % 40));
    const Field& all = c.k.field;
    const auto piece = [&](const Owned& x) {
      Owned part(Field::packed(kBfloat16, {end - begin, all.size(1), all.size(2)}, 2));
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t h = 0; h < all.size(1); ++h) {
          for (int64_t i = 0; i < all.size(2); ++i) {
            part.set({t - begin, h, i}, x.get<Bf16>({t, h, i}));
          }
        }
      }
      return part;
    };
    std::vector<int32_t> cu = {0};
    for (int64_t b = 0; b < spec.stats; ++b) {
      const int64_t at = std::clamp<int64_t>(c.cu_seqlens[b + 1], begin, end) - begin;
      cu.push_back(static_cast<int32_t>(at));
    }
    const Owned cu_seqlens = int32_tensor(cu);
    AppendParams params;
    params.cu_seqlens = &cu_seqlens.tensor;
    const std::vector<int64_t> slots(c.slots.begin() + begin, c.slots.begin() + end);
    append_kv(c.cache.view(memory), piece(c.k).tensor, piece(c.v).tensor, slot_tensor(slots).tensor,
              params);
    end = begin;
  }
  EXPECT_FALSE(first_difference(memory, c.expected));
}

TEST(Append, NothingToDo) {
  CacheSpec spec;
  AppendCase none = make_case(spec, kBfloat16, 0, false, Values::kActivations, 1);
  EXPECT_EQ(none.run(), none.cache.bytes);
  AppendCase skipped = make_case(spec, kBfloat16, 5, false, Values::kRandomBits, 1);
  std::fill(skipped.slots.begin(), skipped.slots.end(), -1);
  EXPECT_EQ(skipped.run(), skipped.cache.bytes);
}

}  // namespace
}  // namespace mpfa::internal
