// Offsets past 2^33 bytes: a cache of 2^25 pages over address space that is never backed as a
// whole.
#include <gtest/gtest.h>

#include <memory>

#include "append_cases.h"
#include "core/tensor.h"
#include "support/resident_bytes.h"
#include "support/sparse_memory.h"

namespace mpfa::internal {
namespace {

constexpr int64_t kPages = int64_t{1} << 25;

TEST(AppendFar, OffsetsPass32And33Bits) {
  // The same tokens in a small cache say what the far pages must hold.
  CacheSpec spec;
  spec.head_dim = 64;
  spec.kv_heads = 1;
  spec.group = 2;
  spec.pages = 4;
  AppendCase small = make_case(spec, kBfloat16, 4, false, Values::kActivations, 21);
  small.slots = {0, 31, 32, 55};
  small.compute_expected();
  const std::vector<int64_t> far_pages = {0, kPages / 2 + 3, kPages - 2, kPages - 1};
  std::vector<int64_t> far_slots(4);
  for (size_t i = 0; i < 4; ++i) far_slots[i] = far_pages[i] * 16 + small.slots[i] % 16;

  const Field* fields[] = {&small.cache.k_codes, &small.cache.k_scales,   &small.cache.v,
                           &small.cache.delta_s, &small.cache.k_residual, &small.cache.k_first};
  std::vector<DLTensor> tensors;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::unique_ptr<testing::SparseMemory>> memories;
  KvCacheView view = small.cache.view();
  for (const DLTensor* tensor :
       {view.k_codes, view.k_scales, view.v, view.delta_s, view.k_residual, view.k_first}) {
    const int64_t page_bytes = stride_of(*tensor, 0) * tensor->dtype.bits / 8;
    memories.push_back(std::make_unique<testing::SparseMemory>(kPages * page_bytes));
    if (!memories.back()->ok()) GTEST_SKIP() << "no address space for a sparse cache";
    shapes.emplace_back(tensor->shape, tensor->shape + tensor->ndim);
    shapes.back()[0] = kPages;
    tensors.push_back(*tensor);
    tensors.back().data = memories.back()->data();
    tensors.back().byte_offset = 0;
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].shape = shapes[i].data();
  view.k_codes = &tensors[0];
  view.k_scales = &tensors[1];
  view.v = &tensors[2];
  view.delta_s = &tensors[3];
  view.k_residual = &tensors[4];
  view.k_first = &tensors[5];

  const int64_t before = testing::resident_bytes();
  append_kv(view, small.k.tensor, small.v.tensor, slot_tensor(far_slots).tensor);
  EXPECT_LT(testing::resident_bytes() - before, int64_t{64} << 20);

  // Pages are dense, so a page's bytes are those between its start and the next page's.
  for (size_t f = 0; f < std::size(fields); ++f) {
    const int64_t page_bytes = fields[f]->byte({1}) - fields[f]->byte({0});
    for (int64_t page = 0; page < 4; ++page) {
      const uint8_t* untouched = small.cache.bytes.data() + fields[f]->byte({page});
      const uint8_t* want = small.expected.data() + fields[f]->byte({page});
      const uint8_t* got = memories[f]->data() + far_pages[page] * page_bytes;
      int64_t written = 0;
      for (int64_t i = 0; i < page_bytes; ++i) {
        if (want[i] == untouched[i]) continue;  // fresh memory holds 0 there, or the same value
        ++written;
        ASSERT_EQ(got[i], want[i]) << "field " << f << " page " << far_pages[page] << " byte " << i;
      }
      const bool has_bytes = f != 5 || small.slots[page] % 16 == 0;
      EXPECT_EQ(written > 0, has_bytes) << "field " << f << " page " << far_pages[page];
    }
  }
}

}  // namespace
}  // namespace mpfa::internal
