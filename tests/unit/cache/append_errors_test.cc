// Every wrong argument of append_kv is named with its value and what is allowed, and leaves the
// cache as it was.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "append_cases.h"

namespace mpfa::internal {
namespace {

// A valid call whose parts a test may damage.
struct Call {
  explicit Call(const CacheSpec& spec)
      : data(make_case(spec, kBfloat16, 6, false, Values::kActivations, 3)),
        view(data.cache.view()),
        k(data.k),
        v(data.v),
        slots(slot_tensor({0, 5, -1, 17, 95, 2})),
        cu_seqlens(int32_tensor({0, 4, 6})) {}

  AppendCase data;
  KvCacheView view;
  Owned k;
  Owned v;
  Owned slots;
  Owned cu_seqlens;
  AppendParams params;
};

CacheSpec full_spec() {
  CacheSpec spec;
  spec.group = 3;
  spec.stats = 2;
  spec.scales = true;
  spec.stats_index = true;
  return spec;
}

void expect_error(const std::function<void(Call&)>& damage, const std::vector<std::string>& parts) {
  Call call(full_spec());
  call.params.cu_seqlens = &call.cu_seqlens.tensor;
  damage(call);
  const std::vector<uint8_t> before = call.data.cache.bytes;
  try {
    append_kv(call.view, call.k.tensor, call.v.tensor, call.slots.tensor, call.params);
    ADD_FAILURE() << "no error; expected one with: " << parts[0];
  } catch (const InvalidArgument& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "\"" << error.what() << "\" does not say: " << part;
    }
  }
  EXPECT_EQ(call.data.cache.bytes, before);
}

TEST(AppendErrors, TheUndamagedCallIsValid) {
  Call call(full_spec());
  call.params.cu_seqlens = &call.cu_seqlens.tensor;
  append_kv(call.view, call.k.tensor, call.v.tensor, call.slots.tensor, call.params);
}

TEST(AppendErrors, Slots) {
  expect_error([](Call& c) { c.slots.set<int64_t>({1}, 96); },
               {"slot_mapping[1] = 96", "-1 (skip) to 95", "6 pages of 16"});
  expect_error([](Call& c) { c.slots.set<int64_t>({5}, -2); }, {"slot_mapping[5] = -2"});
  expect_error([](Call& c) { c.slots.set<int64_t>({5}, INT64_MAX); }, {"slot_mapping[5] = 92233"});
  expect_error([](Call& c) { c.slots.set<int64_t>({5}, INT64_MIN); }, {"slot_mapping[5] = -92233"});
  expect_error([](Call& c) { c.slots.set<int64_t>({4}, 5); },
               {"slot_mapping[4] = 5", "slot_mapping[1] is the same"});
  expect_error(
      [](Call& c) {
        c.slots = slot_tensor({0, 1, 2, 3, 4});
      },
      {"slot_mapping has shape [5]", "dimension 0 must be 6"});
  expect_error(
      [](Call& c) {
        c.slots = int32_tensor({0, 1, 2, 3, 4, 5});
      },
      {"slot_mapping has type int32", "int64"});
}

TEST(AppendErrors, DuplicatesAmongMany) {
  CacheSpec spec;
  spec.pages = 64;
  spec.kv_heads = 1;
  AppendCase c = make_case(spec, kBfloat16, 1000, false, Values::kActivations, 8);
  ASSERT_FALSE(first_difference(c.run(), c.expected));
  // Any pair, in either order, and never a false alarm (above).
  std::mt19937_64 rng(9);
  for (int i = 0; i < 50; ++i) {
    AppendCase damaged = c;
    const auto from = static_cast<int64_t>(rng() % 1000);
    const auto to = static_cast<int64_t>(rng() % 1000);
    if (from == to || damaged.slots[from] < 0) continue;
    damaged.slots[to] = damaged.slots[from];
    EXPECT_THROW(damaged.run(), InvalidArgument) << from << " to " << to;
  }
}

TEST(AppendErrors, Inputs) {
  const CacheSpec spec = full_spec();
  std::mt19937_64 rng(1);
  const auto input = [&](DLDataType type, int64_t tokens, int64_t heads, int64_t d) {
    CacheSpec other = spec;
    other.kv_heads = heads;
    other.head_dim = d;
    return make_input(other, type, tokens, false, Values::kActivations, rng);
  };
  expect_error([&](Call& c) { c.k = input(kBfloat16, 6, 3, 128); },
               {"k has shape [6, 3, 128]", "dimension 1 must be 2"});
  expect_error([&](Call& c) { c.k = input(kBfloat16, 6, 2, 64); },
               {"k has shape [6, 2, 64]", "dimension 2 must be 128"});
  expect_error([&](Call& c) { c.v = input(kBfloat16, 5, 2, 128); },
               {"v has shape [5, 2, 128]", "dimension 0 must be 6", "as k has"});
  expect_error([&](Call& c) { c.v = input(kFloat16, 6, 2, 128); },
               {"v has type float16", "bfloat16, as k has"});
  expect_error([&](Call& c) { c.k = c.v = input(kUint8, 6, 2, 128); },
               {"k has type uint8", "bfloat16, float16 or float32"});
  expect_error([&](Call& c) { c.k.tensor.ndim = 2; }, {"k has shape", "3 dimensions"});
  expect_error([&](Call& c) { c.v.tensor.data = nullptr; }, {"v has shape", "null"});
  expect_error([&](Call& c) { c.v.tensor.device.device_type = kDLCUDA; },
               {"v lies on DLPack device type 2"});
  // k says where the call runs.
  expect_error([&](Call& c) { c.k.tensor.device.device_type = kDLCUDA; }, {"DLPack device type"});
  expect_error(
      [&](Call& c) {
        c.k = Owned(Field::packed(kBfloat16, {6, 2, 128}, 0, {2, 1, 0}));
      },
      {"k has stride 12 in its last dimension", "must be 1"});
  expect_error([&](Call& c) { c.params.scale_rule = static_cast<ScaleRule>(7); },
               {"scale_rule = 7"});
}

TEST(AppendErrors, Sequences) {
  expect_error([](Call& c) { c.cu_seqlens.set<int32_t>({2}, 7); },
               {"cu_seqlens[2] = 7", "must not exceed"});
  expect_error([](Call& c) { c.cu_seqlens.set<int32_t>({0}, 1); }, {"cu_seqlens[0] = 1"});
  expect_error([](Call& c) { c.cu_seqlens.set<int32_t>({1}, 7); }, {"cu_seqlens[2] = 6"});
  expect_error([](Call& c) { c.cu_seqlens.set<int32_t>({2}, 5); },
               {"slot_mapping[5] = 2", "token 5 belongs to no sequence"});
  expect_error(
      [](Call& c) {
        c.cu_seqlens = int32_tensor({0, 2, 4, 6});
      },
      {"stats_index has 2 elements", "3"});
  expect_error([](Call& c) { c.data.cache.stats_index.set<int32_t>({1}, 2); },
               {"stats_index[1] = 2", "0 to 1"});
  expect_error([](Call& c) { c.data.cache.stats_index.set<int32_t>({0}, -1); },
               {"stats_index[0] = -1"});
}

// A decode batch without cu_seqlens would give every token the first sequence's statistics.
TEST(AppendErrors, SeveralRowsOfStatisticsNeedCuSeqlens) {
  expect_error([](Call& c) { c.params.cu_seqlens = nullptr; },
               {"cu_seqlens is missing: it is required", "2 sequences", "2 rows of statistics"});
}

TEST(AppendErrors, OneSequenceOrOneRowNeedsNoCuSeqlens) {
  CacheSpec spec = full_spec();
  AppendCase c = make_case(spec, kBfloat16, 6, false, Values::kActivations, 3);
  c.cu_seqlens.clear();
  Owned one(Field(kInt32, {1}, {1}, 0));
  one.set<int32_t>({0}, 1);
  c.cache.stats_index = one;
  c.compute_expected();
  EXPECT_FALSE(first_difference(c.run(), c.expected));
  spec.stats = 1;
  AppendCase many = make_case(spec, kBfloat16, 6, false, Values::kActivations, 4);
  many.cu_seqlens.clear();
  many.cache.stats_index = int32_tensor({0, 0, 0});
  many.compute_expected();
  EXPECT_FALSE(first_difference(many.run(), many.expected));
}

TEST(AppendErrors, Cache) {
  expect_error([](Call& c) { c.view.k_codes = nullptr; }, {"k_codes is missing"});
  expect_error([](Call& c) { c.view.stats.q_mean = nullptr; }, {"q_mean is missing", "delta_s"});
  expect_error([](Call& c) { c.view.stats.residual_scale = nullptr; },
               {"residual_scale is missing", "k_residual"});
  expect_error([](Call& c) { c.data.cache.k_scale.set({1, 0}, 0.0f); }, {"k_scale[1, 0] = 0"});
  expect_error(
      [](Call& c) {
        c.data.cache.v_scale.set({0, 1}, INFINITY);
      },
      {"v_scale[0, 1] = inf", "finite and above 0"});
}

// Memory that two writes, or a write and a read, would share.
TEST(AppendErrors, Overlap) {
  const auto inside = [](Call& c, const Field& field, Owned& input) {
    input.tensor.data = c.data.cache.bytes.data();
    input.tensor.byte_offset = static_cast<uint64_t>(field.byte({0}));
  };
  expect_error([&](Call& c) { inside(c, c.data.cache.k_codes, c.k); },
               {"k overlaps the cache's k_codes"});
  expect_error([&](Call& c) { inside(c, c.data.cache.k_first, c.v); },
               {"v overlaps the cache's k_first"});
  expect_error(
      [&](Call& c) {
        // Bytes that say "skip" as slots, so that nothing else is wrong.
        std::vector<uint8_t>& bytes = c.data.cache.bytes;
        std::fill(bytes.begin(), bytes.end(), 0xFF);
        inside(c, c.data.cache.k_residual, c.slots);
      },
      {"slot_mapping overlaps the cache's k_residual"});
  expect_error(
      [&](Call& c) {
        inside(c, c.data.cache.v, c.cu_seqlens);
        const int32_t ends[] = {0, 4, 6};
        std::memcpy(c.data.cache.bytes.data() + c.data.cache.v.byte({0}), ends, sizeof(ends));
      },
      {"cu_seqlens overlaps the cache's v"});
  expect_error([&](Call& c) { inside(c, c.data.cache.v, c.data.cache.k_mean); },
               {"k_mean overlaps the cache's v"});
  DLTensor scales;
  expect_error(
      [&](Call& c) {
        scales = *c.view.k_scales;
        scales.byte_offset = c.view.k_codes->byte_offset + 64;
        c.view.k_scales = &scales;
      },
      {"the cache's k_scales overlaps the cache's k_codes"});
  DLTensor tensor;
  std::vector<int64_t> strides;
  const auto restride = [&](const DLTensor* from, int dim, int64_t stride) {
    tensor = *from;
    strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    strides[dim] = stride;
    tensor.strides = strides.data();
    return &tensor;
  };
  expect_error([&](Call& c) { c.view.v = restride(c.view.v, 1, 0); },
               {"v has shape [6, 2, 16, 128]", "stride of 0", "must not overlap itself"});
  expect_error([&](Call& c) { c.view.delta_s = restride(c.view.delta_s, 1, 8); },
               {"delta_s has shape [6, 6, 16]", "stride of 8"});
}

// An input may repeat itself (a broadcast key): it is only read.
TEST(AppendErrors, ABroadcastInputIsValid) {
  CacheSpec spec;
  AppendCase c = make_case(spec, kBfloat16, 6, false, Values::kActivations, 3);
  Owned row(Field(kBfloat16, {6, 2, 128}, {0, 128, 1}, 0));
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 128; ++i) row.set({0, h, i}, c.k.get<Bf16>({0, h, i}));
  }
  c.k = row;
  c.compute_expected();
  EXPECT_FALSE(first_difference(c.run(), c.expected));
}

}  // namespace
}  // namespace mpfa::internal
