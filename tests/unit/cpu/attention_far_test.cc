// Offsets past 2^33 bytes: attention over pages that lie far apart in address space that is never
// backed as a whole.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "mpfa/attention.h"
#include "support/attention_case.h"
#include "support/sparse_memory.h"

namespace mpfa::testing {
namespace {

constexpr int64_t kPages = int64_t{1} << 25;

// A tensor of kPages pages, zero but for the pages of a small tensor, moved to where `far` says.
class FarTensor {
 public:
  FarTensor(const DLTensor& small, const std::vector<int64_t>& far)
      : tensor_(small), shape_(small.shape, small.shape + small.ndim) {
    const int64_t page_bytes = internal::stride_of(small, 0) * small.dtype.bits / 8;
    memory_ = std::make_unique<SparseMemory>(kPages * page_bytes);
    if (!memory_->ok()) return;
    const auto* from = static_cast<const uint8_t*>(small.data) + small.byte_offset;
    for (int64_t page = 0; page < shape_[0]; ++page) {
      std::memcpy(memory_->data() + far[page] * page_bytes, from + page * page_bytes, page_bytes);
    }
    shape_[0] = kPages;
    tensor_.shape = shape_.data();
    tensor_.data = memory_->data();
    tensor_.byte_offset = 0;
  }

  bool ok() const { return memory_->ok(); }
  const DLTensor* ptr() const { return &tensor_; }

 private:
  DLTensor tensor_;
  std::vector<int64_t> shape_;
  std::unique_ptr<SparseMemory> memory_;
};

TEST(AttentionFar, OffsetsPass32And33Bits) {
  AttentionCase problem({.seqlens_q = {3, 1},
                         .seqlens_k = {40, 30},
                         .num_kv_heads = 2,
                         .group_size = 2,
                         .residual_rank = 8,
                         .delta_s = true,
                         .first_key = true,
                         .q_type = kF32},
                        30);
  problem.run();
  const auto expected = problem.out().snapshot();
  const auto expected_lse = problem.lse().snapshot();

  const int64_t pages = problem.cache().v->shape[0];
  std::vector<int64_t> far(pages);
  for (int64_t i = 0; i < pages; ++i) far[i] = kPages - 1 - i * (kPages / pages);
  KvCacheView view = problem.cache();
  std::vector<std::unique_ptr<FarTensor>> tensors;
  for (const DLTensor* KvCacheView::*field :
       {&KvCacheView::k_codes, &KvCacheView::k_scales, &KvCacheView::v, &KvCacheView::delta_s,
        &KvCacheView::k_residual, &KvCacheView::k_first}) {
    tensors.push_back(std::make_unique<FarTensor>(*(view.*field), far));
    if (!tensors.back()->ok()) GTEST_SKIP() << "no address space for a sparse cache";
    view.*field = tensors.back()->ptr();
  }
  ASSERT_GT(far[0] * problem.cache().v->shape[1] * 16 * 64, int64_t{1} << 33);
  problem.block_table().for_each([&](const TestTensor::Shape& i) {
    int32_t& entry = problem.block_table().at<int32_t>(i[0], i[1]);
    if (entry >= 0) entry = static_cast<int32_t>(far[entry]);
  });

  problem.poison_results();
  attention(*problem.out().ptr(), problem.lse().ptr(), *problem.q().ptr(), view,
            *problem.block_table().ptr(), problem.seq_lens(), problem.cu_seqlens_q(),
            problem.params(), problem.make_plan(), nullptr);
  EXPECT_EQ(problem.out().snapshot(), expected);
  EXPECT_EQ(problem.lse().snapshot(), expected_lse);
}

}  // namespace
}  // namespace mpfa::testing
