// The arguments of attention() and merge_states() beside the plan: values, strides, alignment and
// memory that must not be shared; and the working memory of an item.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "cpu/attention_item.h"
#include "support/attention_case.h"

namespace mpfa::testing {
namespace {

// One call whose arguments a test may replace.
struct Call {
  explicit Call(const AttentionShape& shape, uint32_t seed = 1) : problem(shape, seed) {
    plan = problem.make_plan();
    workspace = TestTensor(kU8, {plan.workspace_bytes});
    out = problem.out().dl();
    lse = problem.lse().dl();
    q = problem.q().dl();
    cache = problem.cache();
    block_table = problem.block_table().dl();
    seq_lens = problem.seq_lens();
    cu_seqlens_q = *problem.cu_seqlens_q();
    space = workspace.dl();
    params = problem.params();
  }

  void run() {
    attention(out, &lse, q, cache, block_table, seq_lens, &cu_seqlens_q, params, plan, &space);
  }

  AttentionCase problem;
  Plan plan;
  TestTensor workspace{kU8, {0}};
  DLTensor out, lse, q, block_table, seq_lens, cu_seqlens_q, space;
  KvCacheView cache;
  AttentionParams params;
};

AttentionShape full_shape() {
  return {.seqlens_q = {3, 1},
          .seqlens_k = {300, 40},
          .residual_rank = 4,
          .delta_s = true,
          .first_key = true,
          .scales = true,
          .sinks = true,
          .q_type = kF32,
          .kv_split_size = 128};
}

// `damage` makes the call invalid; nothing may be written then.
void expect(const std::string& start, const std::function<void(Call&)>& damage) {
  Call call(full_shape());
  damage(call);
  const auto out = call.problem.out().snapshot();
  const auto lse = call.problem.lse().snapshot();
  const auto q = call.problem.q().snapshot();
  const auto v = call.problem.v().snapshot();
  expect_error(start, [&] { call.run(); });
  EXPECT_EQ(call.problem.out().snapshot(), out);
  EXPECT_EQ(call.problem.lse().snapshot(), lse);
  EXPECT_EQ(call.problem.q().snapshot(), q);
  EXPECT_EQ(call.problem.v().snapshot(), v);
}

TEST(AttentionArgs, TheUndamagedCallIsValid) {
  Call call(full_shape());
  call.run();
  call.problem.expect_matches_reference();
}

TEST(AttentionArgs, SinksAreFiniteOrMinusInfinity) {
  const auto with = [](float value) {
    return [value](Call& c) { c.problem.sinks().set({5}, value); };
  };
  expect("sinks[5] = nan: must be finite or -inf", with(NAN));
  expect("sinks[5] = inf: must be finite or -inf", with(INFINITY));
  Call call(full_shape());
  with(-INFINITY)(call);
  call.run();
  call.problem.expect_matches_reference();
}

// ---- strides ------------------------------------------------------------------------------------

// A copy of a tensor of 4-byte elements whose last dimension has stride 3; what lies between is
// poison.
class Spread {
 public:
  explicit Spread(const DLTensor& tensor)
      : shape_(tensor.shape, tensor.shape + tensor.ndim), tensor_(tensor) {
    int64_t count = 1;
    for (const int64_t n : shape_) count *= n;
    values_.assign(static_cast<size_t>(3 * count), -123'456);
    const auto* from = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    for (int64_t i = 0; i < count; ++i) std::memcpy(&values_[3 * i], from + 4 * i, 4);
    int64_t stride = 3;
    strides_.assign(shape_.size(), 0);
    for (size_t i = shape_.size(); i-- > 0; stride *= shape_[i]) strides_[i] = stride;
    tensor_.data = values_.data();
    tensor_.byte_offset = 0;
    tensor_.strides = strides_.data();
  }
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;
  const DLTensor& get() const { return tensor_; }

 private:
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  std::vector<int32_t> values_;
  DLTensor tensor_;
};

TEST(AttentionArgs, TablesAndSinksMayBeStrided) {
  Call call(full_shape());
  call.run();
  const auto out = call.problem.out().snapshot();
  const auto lse = call.problem.lse().snapshot();
  const Spread table(call.block_table), lens(call.seq_lens), cu(call.cu_seqlens_q),
      sinks(*call.params.sinks), index(*call.cache.stats_index);
  const auto run = [&] {
    call.problem.poison_results();
    call.run();
    EXPECT_EQ(call.problem.out().snapshot(), out);
    EXPECT_EQ(call.problem.lse().snapshot(), lse);
  };
  call.block_table = table.get();
  run();
  call.seq_lens = lens.get();
  run();
  call.cu_seqlens_q = cu.get();
  run();
  call.params.sinks = &sinks.get();
  run();
  call.cache.stats_index = &index.get();
  run();
}

// ---- padding ------------------------------------------------------------------------------------

TEST(AttentionArgs, RowsPastCuSeqlensAreLeftAlone) {
  for (const int64_t split : {0, 128}) {
    AttentionShape shape = full_shape();
    shape.kv_split_size = split;
    Call call(shape);
    call.run();
    const int64_t rows = call.q.shape[0];
    ASSERT_GT(rows, call.problem.total_q());
    for (int64_t row = 0; row < rows; ++row) {
      const bool padding = row >= call.problem.total_q();
      for (int64_t h = 0; h < call.problem.num_q_heads(); ++h) {
        EXPECT_EQ(call.problem.lse().get({row, h}) == -777.0f, padding) << row;
        for (int64_t i = 0; i < 64; ++i) {
          EXPECT_EQ(call.problem.out().get({row, h, i}) == -777.0f, padding) << row;
        }
      }
    }
  }
}

// ---- alignment ----------------------------------------------------------------------------------

TEST(AttentionArgs, MisalignedDataIsNamed) {
  expect("q starts at an address that is 2 modulo 4: must be aligned to its elements",
         [](Call& c) { c.q.byte_offset += 2; });
  expect("out starts at an address that is 1 modulo 4: must be aligned to its elements",
         [](Call& c) { c.out.byte_offset += 1; });
  expect("lse starts at an address that is 3 modulo 4: must be aligned",
         [](Call& c) { c.lse.byte_offset += 3; });
  expect("seq_lens starts at an address that is 2 modulo 4",
         [](Call& c) { c.seq_lens.byte_offset += 2; });
  Call call({.q_type = kBF16});
  call.q.byte_offset += 1;
  expect_error("q starts at an address that is 1 modulo 2", [&] { call.run(); });
  call.q.byte_offset += 1;  // aligned to BF16, if not to more
  call.q.shape[0] = call.out.shape[0] = call.lse.shape[0] = call.problem.total_q();
  call.run();
}

TEST(AttentionArgs, MisalignedWorkspaceIsNamed) {
  expect("workspace is not aligned to 4 bytes", [](Call& c) {
    c.workspace = TestTensor(kU8, {c.plan.workspace_bytes + 4});
    c.space = c.workspace.dl();
    c.space.byte_offset += 1;
  });
}

// ---- memory -------------------------------------------------------------------------------------

// Lays one argument over the memory of another.
void lay_over(DLTensor& tensor, const DLTensor& memory) {
  tensor.data = memory.data;
  tensor.byte_offset = memory.byte_offset;
}

TEST(AttentionArgs, OutputsMustNotOverlapThemselves) {
  expect("out has shape [6, 8, 64] and a stride of 1 that makes its elements share memory",
         [](Call& c) { c.out.strides[0] = 1; });
  expect("out has shape [6, 8, 64] and a stride of 0 that", [](Call& c) { c.out.strides[1] = 0; });
  expect("lse has shape [6, 8] and a stride of 1 that", [](Call& c) { c.lse.strides[0] = 1; });
}

TEST(AttentionArgs, OutputsMustNotOverlapInputs) {
  const std::string all = " in memory: what is written must not share memory";
  expect("q overlaps out" + all, [](Call& c) { lay_over(c.out, c.q); });
  expect("q overlaps lse" + all, [](Call& c) { lay_over(c.lse, c.q); });
  expect("the cache's v overlaps lse" + all, [](Call& c) { lay_over(c.lse, *c.cache.v); });
  expect("the cache's k_codes overlaps out" + all,
         [](Call& c) { lay_over(c.out, *c.cache.k_codes); });
  expect("the cache's k_first overlaps lse" + all,
         [](Call& c) { lay_over(c.lse, *c.cache.k_first); });
  expect("k_mean overlaps lse" + all, [](Call& c) { lay_over(c.lse, *c.cache.stats.k_mean); });
  expect("q overlaps workspace" + all, [](Call& c) { lay_over(c.q, c.space); });
  // The small ones: laid into the output, with their values.
  const auto inside = [](DLTensor& tensor, const DLTensor& output) {
    const size_t bytes =
        4 *
        static_cast<size_t>(tensor.ndim == 2 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0]);
    auto* to = static_cast<std::byte*>(output.data) + output.byte_offset;
    std::memcpy(to, static_cast<std::byte*>(tensor.data) + tensor.byte_offset, bytes);
    lay_over(tensor, output);
  };
  expect("block_table overlaps out" + all, [&](Call& c) { inside(c.block_table, c.out); });
  expect("seq_lens overlaps out" + all, [&](Call& c) { inside(c.seq_lens, c.out); });
  expect("cu_seqlens_q overlaps lse" + all, [&](Call& c) { inside(c.cu_seqlens_q, c.lse); });
  DLTensor sinks;
  expect("sinks overlaps lse" + all, [&](Call& c) {
    sinks = *c.params.sinks;
    inside(sinks, c.lse);
    c.params.sinks = &sinks;
  });
}

TEST(AttentionArgs, OutputsMustNotOverlapEachOther) {
  const std::string all = " in memory: what is written must not share memory";
  expect("lse overlaps out" + all, [](Call& c) { lay_over(c.lse, c.out); });
  expect("workspace overlaps out" + all, [](Call& c) { lay_over(c.space, c.out); });
  const auto end_of_workspace = [](Call& c) {
    c.workspace = TestTensor(kU8, {c.plan.workspace_bytes + 4096});
    c.space = c.workspace.dl();
    lay_over(c.lse, c.space);
    c.lse.byte_offset += static_cast<uint64_t>(c.plan.workspace_bytes + 4092);
  };
  expect("workspace overlaps lse" + all, end_of_workspace);
}

// q, out and lse as parts of one buffer's records: no byte is shared.
TEST(AttentionArgs, TensorsMayInterleave) {
  Call call(full_shape());
  call.run();
  const int64_t rows = call.q.shape[0];
  const int64_t heads = call.q.shape[1];
  constexpr int64_t kRecord = 64 + 64 + 1;
  TestTensor records(kF32, {rows * heads * kRecord});
  TestTensor want_out = call.problem.out();
  TestTensor want_lse = call.problem.lse();
  std::vector<int64_t> strides = {heads * kRecord, kRecord, 1};
  const auto part = [&](DLTensor& tensor, int64_t offset) {
    tensor.data = records.dl().data;
    tensor.byte_offset = records.dl().byte_offset + static_cast<uint64_t>(4 * offset);
    tensor.strides = strides.data();
  };
  part(call.q, 0);
  part(call.out, 64);
  part(call.lse, 128);
  call.problem.q().for_each([&](const TestTensor::Shape& i) {
    records.set({(i[0] * heads + i[1]) * kRecord + i[2]}, call.problem.q().get(i));
  });
  call.run();
  for (int64_t row = 0; row < call.problem.total_q(); ++row) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (row * heads + h) * kRecord;
      EXPECT_EQ(records.get({at + 128}), want_lse.get({row, h}));
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(records.get({at + 64 + i}), want_out.get({row, h, i}));
      }
    }
  }
}

// ---- merge_states -------------------------------------------------------------------------------

class MergeMemory : public ::testing::Test {
 protected:
  MergeMemory() {
    for (TestTensor* t : {&out_a, &out_b, &lse_a, &lse_b}) t->fill_normal(7);
  }
  void expect(const std::string& start, const DLTensor& out, const DLTensor* lse) {
    const auto before = {out_a.snapshot(), out_b.snapshot(), lse_a.snapshot(), lse_b.snapshot()};
    const DLTensor* outs[] = {out_a.ptr(), out_b.ptr()};
    const DLTensor* lses[] = {lse_a.ptr(), last_lse == nullptr ? lse_b.ptr() : last_lse};
    expect_error(start, [&] { merge_states(out, lse, outs, lses); });
    const auto after = {out_a.snapshot(), out_b.snapshot(), lse_a.snapshot(), lse_b.snapshot()};
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  }

  TestTensor out_a{kF32, {4, 2, 64}}, out_b{kF32, {4, 2, 64}}, lse_a{kF32, {4, 2}},
      lse_b{kF32, {4, 2}};
  TestTensor out{kF32, {4, 2, 64}}, lse{kF32, {4, 2}};
  const DLTensor* last_lse = nullptr;  // instead of lse_b
};

TEST_F(MergeMemory, OnlyAWholePartMayBeTheOutput) {
  const DLTensor* outs[] = {out_a.ptr(), out_b.ptr()};
  const DLTensor* lses[] = {lse_a.ptr(), lse_b.ptr()};
  merge_states(out.dl(), lse.ptr(), outs, lses);
  const std::string all = " in memory: what is written must not share memory";
  DLTensor shifted = out_b.dl();
  shifted.byte_offset += 4;
  expect("outs[1] overlaps out" + all, shifted, lse.ptr());
  std::vector<int64_t> swapped = {64, 4 * 64, 1};  // the same bytes in another order
  DLTensor reordered = out_a.dl();
  reordered.strides = swapped.data();
  expect("outs[0] overlaps out" + all, reordered, lse.ptr());
  DLTensor half = out_a.dl();
  half.dtype = kBF16;  // the same shape over half of the bytes
  expect("outs[0] overlaps out" + all, half, lse.ptr());
  DLTensor shifted_lse = lse_a.dl();
  shifted_lse.byte_offset += 4;
  expect("lses[0] overlaps lse" + all, out.dl(), &shifted_lse);
  ViewOver lse_in_out(out.dl(), kF32, {4, 2});
  last_lse = lse_in_out.ptr();
  expect("lses[1] overlaps out" + all, out.dl(), lse.ptr());
}

TEST_F(MergeMemory, OutputsShareNothingBetweenThem) {
  const std::string all = " in memory: what is written must not share memory";
  ViewOver lse_in_out(out.dl(), kF32, {4, 2}), lse_in_part(out_a.dl(), kF32, {4, 2});
  ViewOver out_folded(out.dl(), kF32, {4, 2, 64}, {1, 256, 1});
  ViewOver lse_folded(lse.dl(), kF32, {4, 2}, {0, 1});
  expect("out overlaps lse" + all, out.dl(), lse_in_out.ptr());
  expect("outs[0] overlaps lse" + all, out.dl(), lse_in_part.ptr());
  expect("out has shape [4, 2, 64] and a stride of 1 that", *out_folded.ptr(), lse.ptr());
  expect("lse has shape [4, 2] and a stride of 0 that", out.dl(), lse_folded.ptr());
}

TEST_F(MergeMemory, AnyPartMayBeTheOutputAndItsAlignmentIsChecked) {
  const DLTensor* outs[] = {out_a.ptr(), out_b.ptr()};
  const DLTensor* lses[] = {lse_a.ptr(), lse_b.ptr()};
  merge_states(out.dl(), lse.ptr(), outs, lses);
  merge_states(out_b.dl(), lse_a.ptr(), outs, lses);
  out.for_each([&](const TestTensor::Shape& i) { ASSERT_EQ(out_b.get(i), out.get(i)); });
  lse.for_each([&](const TestTensor::Shape& i) { ASSERT_EQ(lse_a.get(i), lse.get(i)); });
  DLTensor odd = out.dl();
  odd.byte_offset += 2;
  expect("out starts at an address that is 2 modulo 4", odd, lse.ptr());
}

// ---- working memory -----------------------------------------------------------------------------

TEST(Scratch, AFailedAllocationLeavesRoomAndCapacitiesAsTheyWere) {
  internal::Scratch scratch;
  scratch.reserve(2, 40, 64, 3);
  const auto* q = scratch.q.get();
  const auto* o = scratch.o.get();
  const auto* deltas = scratch.deltas.get();
  // Sizes in bytes beyond 64 bits: the allocator gives null without asking the system.
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THROW(scratch.reserve(1, kHuge, 64, 3), std::bad_alloc);
  EXPECT_THROW(scratch.reserve(1, 40, kHuge, 3), std::bad_alloc);
  EXPECT_THROW(scratch.reserve(1, 40, 64, kHuge / internal::kTileTokens), std::bad_alloc);
  EXPECT_EQ(scratch.q_capacity, 80);
  EXPECT_EQ(scratch.o_capacity, 128);
  EXPECT_EQ(scratch.deltas_capacity, 3 * internal::kTileTokens);
  EXPECT_EQ(scratch.q.get(), q);
  EXPECT_EQ(scratch.o.get(), o);
  EXPECT_EQ(scratch.deltas.get(), deltas);
  ASSERT_NE(scratch.q.get(), nullptr);
  ASSERT_NE(scratch.k_tile.get(), nullptr);
  ASSERT_NE(scratch.v_tile.get(), nullptr);
  scratch.reserve(4, 40, 64, 3);  // grows as if nothing had happened
  EXPECT_EQ(scratch.q_capacity, 160);
}

}  // namespace
}  // namespace mpfa::testing
