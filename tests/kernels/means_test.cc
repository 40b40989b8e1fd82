// Means on the device against compute_means() on the CPU.
#include "kernels/any/means/means.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/device_tensor.h"
#include "mpfa/quant.h"

namespace mpfa::kernels {
namespace {

using testing::DeviceTensor;
using testing::Gaps;

struct Case {
  InputType type = InputType::kBf16;
  Gaps gaps = Gaps::kNone;
  int64_t num_tokens = 100;
  int num_heads = 3;
  int head_dim = 128;
  std::vector<int32_t> cu_seqlens = {};
  unsigned seed = 1;
  float offset = 0.25f;
};

constexpr DLDataType kTypes[] = {testing::kBF16, testing::kF16, testing::kF32};

void check(const Case& c) {
  std::mt19937 random(c.seed);
  const int item = c.type == InputType::kFp32 ? 4 : 2;
  const int64_t batch_size =
      c.cu_seqlens.empty() ? 1 : static_cast<int64_t>(c.cu_seqlens.size()) - 1;
  DeviceTensor x(item, {c.num_tokens, c.num_heads, c.head_dim}, c.gaps, random);
  DeviceTensor out(4, {batch_size, c.num_heads, c.head_dim}, c.gaps, random);
  DeviceTensor cu;
  std::normal_distribution<float> normal(c.offset, 1.0f);
  for (int64_t t = 0; t < c.num_tokens; ++t) {
    for (int64_t h = 0; h < c.num_heads; ++h) {
      for (int64_t i = 0; i < c.head_dim; ++i) {
        const float value = normal(random);
        std::byte* to = x.host({t, h, i});
        if (c.type == InputType::kFp32) std::memcpy(to, &value, 4);
        const Bf16 bf16 = bf16_from_float(value);
        const Fp16 fp16 = fp16_from_float(value);
        if (c.type == InputType::kBf16) std::memcpy(to, &bf16, 2);
        if (c.type == InputType::kFp16) std::memcpy(to, &fp16, 2);
      }
    }
  }
  MeansParams p;
  p.x = x.device();
  p.x_token_stride = x.stride(0), p.x_head_stride = x.stride(1);
  p.out = out.device<float>();
  p.out_strides[0] = out.elements(0), p.out_strides[1] = out.elements(1);
  p.num_tokens = c.num_tokens;
  p.batch_size = static_cast<int32_t>(batch_size);
  p.num_heads = c.num_heads;
  p.head_dim = c.head_dim;
  p.type = c.type;
  if (!c.cu_seqlens.empty()) {
    cu = DeviceTensor(4, {batch_size + 1}, c.gaps, random);
    for (int64_t i = 0; i <= batch_size; ++i) *cu.host<int32_t>({i}) = c.cu_seqlens[i];
    p.cu_seqlens = cu.device<int32_t>();
    p.cu_seqlens_stride = cu.elements(0);
  }
  x.upload(), out.upload(), cu.upload();
  ASSERT_EQ(launch_means(p, nullptr), cudaSuccess);
  testing::check_cuda(cudaDeviceSynchronize(), "means");
  const std::vector<std::byte> first = out.download();
  ASSERT_EQ(launch_means(p, nullptr), cudaSuccess);
  testing::check_cuda(cudaDeviceSynchronize(), "means");
  EXPECT_EQ(out.download(), first);  // repeats

  // The CPU wants its data aligned to the elements; the copy's is.
  const DLTensor x_dl = x.dl(kTypes[static_cast<int>(c.type)]);
  const DLTensor out_dl = out.dl(testing::kF32);
  const DLTensor cu_dl = cu ? cu.dl(testing::kI32) : DLTensor{};
  compute_means(x_dl, cu ? &cu_dl : nullptr, out_dl);
  // FP64 sums in another order: the same FP32 value, or its neighbour where it lies between two.
  const std::byte* base = out.host() - out.host_offset();
  for (int64_t s = 0; s < batch_size; ++s) {
    for (int64_t h = 0; h < c.num_heads; ++h) {
      for (int64_t i = 0; i < c.head_dim; ++i) {
        const float* want = out.host<float>({s, h, i});
        float got;
        std::memcpy(&got, first.data() + (reinterpret_cast<const std::byte*>(want) - base), 4);
        const float ulp = std::nextafter(std::fabs(*want), INFINITY) - std::fabs(*want);
        ASSERT_LE(std::fabs(got - *want), ulp) << s << ' ' << h << ' ' << i;
        // What lies between the rows is the host's; so the rest can be compared at once.
        *out.host<float>({s, h, i}) = got;
      }
    }
  }
  out.expect_equal("out");
  x.expect_equal("x");
}

TEST(Means, TypesAndStrides) {
  for (const InputType type : {InputType::kBf16, InputType::kFp16, InputType::kFp32}) {
    for (const Gaps gaps : {Gaps::kNone, Gaps::kAligned, Gaps::kOdd}) {
      for (const int d : {64, 128, 256}) {
        Case c;
        c.type = type;
        c.gaps = gaps;
        c.head_dim = d;
        SCOPED_TRACE(::testing::Message() << static_cast<int>(type) << ' ' << d);
        check(c);
      }
    }
  }
}

TEST(Means, RaggedSequences) {
  Case c;
  c.num_tokens = 700;
  c.cu_seqlens = {0, 0, 1, 3, 3, 290, 310, 690};  // the last ten belong to none
  for (const Gaps gaps : {Gaps::kNone, Gaps::kOdd}) {
    c.gaps = gaps;
    check(c);
  }
}

// Enough tokens for several reads at a time.
TEST(Means, LongSequence) {
  Case c;
  c.num_tokens = 5000;
  c.num_heads = 1;
  c.cu_seqlens = {0, 4500, 4999};
  check(c);
  c.gaps = Gaps::kOdd;
  c.type = InputType::kFp32;
  check(c);
}

TEST(Means, OtherHeadDims) {
  for (const int d : {1, 8, 20, 72}) {
    Case c;
    c.head_dim = d;
    check(c);
  }
}

// FP32 sums of such values would be off.
TEST(Means, LargeOffset) {
  Case c;
  c.type = InputType::kFp32;
  c.num_tokens = 3000;
  c.num_heads = 1;
  c.offset = 10000.0f;
  check(c);
}

TEST(Means, NoTokens) {
  Case c;
  c.num_tokens = 1;
  c.cu_seqlens = {0, 0};
  check(c);
}

}  // namespace
}  // namespace mpfa::kernels
