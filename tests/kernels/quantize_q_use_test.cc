// quantize_q() with tensors on a GPU: the bytes of the CPU back end, errors that the host can see,
// and counts of those that it cannot.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"
#include "mpfa/quant.h"

namespace mpfa::testing {
namespace {

struct Case {
  DLDataType type = kBF16;
  int64_t tokens = 13;
  int64_t heads = 6;
  int64_t kv_heads = 2;
  int64_t head_dim = 64;
  int64_t rank = 8;
  bool has_gaps = false;
  bool has_mean = true;
  bool two_terms = true;
  bool dots = true;
  bool ragged = true;  // three sequences with rows of their own, and tokens of none
  ScaleRule rule = ScaleRule::kSearch;
};

// The tensors of a call on the host.
class QueryCase {
 public:
  explicit QueryCase(const Case& c) : c_(c) {
    const int64_t stats = c.ragged ? 4 : 1;
    const int64_t batch = c.ragged ? 3 : 1;
    const int64_t d = c.head_dim;
    out.codes = filler(kU8, {c.tokens, c.heads, d / 2});
    out.scales = filler(kF8, {c.tokens, c.heads, d / 16});
    if (c.two_terms) {
      out.codes2 = filler(kU8, {c.tokens, c.heads, d / 2});
      out.scales2 = filler(kF8, {c.tokens, c.heads, d / 16});
    }
    q = random(c.type, {c.tokens, c.heads, d}, 2.0f);
    if (c.has_mean) params.q_mean = random(kF32, {stats, c.heads, d}, 1.0f);
    if (c.dots) {
      params.k_mean = random(kF32, {stats, c.kv_heads, d}, 1.0f);
      params.residual_basis = random(kF32, {stats, c.kv_heads, c.rank, d}, 0.1f);
      params.k_first = random(kBF16, {batch, c.kv_heads, d}, 0.3f);
      out.rowbias = filler(kF32, {c.tokens, c.heads});
      out.residual = filler(kF32, {c.tokens, c.heads, c.rank});
      out.first_key = filler(kF32, {c.tokens, c.heads});
    }
    if (c.ragged) {
      params.cu_seqlens_q = integers({0, 5, 5, static_cast<int32_t>(c.tokens) - 2});
      params.stats_index = integers({3, 0, 1});
    }
    params.scale_rule = c.rule;
  }

  // What a call writes, with all bytes around it.
  std::vector<std::vector<std::byte>> written() const {
    std::vector<std::vector<std::byte>> all;
    for (const size_t i : written_) all.push_back(tensors_[i].snapshot());
    return all;
  }

  const DLTensor* q = nullptr;
  QuantizedQ out;
  QuantizeQParams params;

 private:
  const DLTensor* keep(TestTensor tensor) {
    tensors_.push_back(std::move(tensor));
    return tensors_.back().ptr();
  }
  TestTensor make(DLDataType type, const TestTensor::Shape& shape) const {
    return c_.has_gaps ? TestTensor::with_gaps(type, shape) : TestTensor(type, shape);
  }
  // Of 0xFF bytes at first, which no result has.
  const DLTensor* filler(DLDataType type, const TestTensor::Shape& shape) {
    written_.push_back(tensors_.size());
    return keep(make(type, shape));
  }
  const DLTensor* random(DLDataType type, const TestTensor::Shape& shape, float scale) {
    TestTensor tensor = make(type, shape);
    tensor.fill_normal(static_cast<uint32_t>(tensors_.size()) + 1, scale, 0.1f);
    return keep(std::move(tensor));
  }
  const DLTensor* integers(const std::vector<int32_t>& values) { return keep(int_tensor(values)); }

  Case c_;
  std::deque<TestTensor> tensors_;
  std::vector<size_t> written_;
};

// The same on the GPU.
struct DeviceQueries {
  explicit DeviceQueries(const QueryCase& host) : params(host.params) {
    q = copies.copy(host.q);
    for (const auto member : kOutputs) out.*member = copies.copy(host.out.*member);
    params.q_mean = copies.copy(params.q_mean);
    params.k_mean = copies.copy(params.k_mean);
    params.residual_basis = copies.copy(params.residual_basis);
    params.k_first = copies.copy(params.k_first);
    params.stats_index = copies.copy(params.stats_index);
    params.cu_seqlens_q = copies.copy(params.cu_seqlens_q);
  }
  void enqueue(cudaStream_t stream = nullptr) const { quantize_q(*q, out, params, stream); }
  // Into the host's tensors.
  void download() {
    check(cudaDeviceSynchronize());
    for (const auto member : kOutputs) {
      if (out.*member != nullptr) copies.download(out.*member);
    }
  }

  static constexpr const DLTensor* QuantizedQ::*kOutputs[] = {
      &QuantizedQ::codes,   &QuantizedQ::scales,   &QuantizedQ::codes2,   &QuantizedQ::scales2,
      &QuantizedQ::rowbias, &QuantizedQ::residual, &QuantizedQ::first_key};
  DeviceCopies copies;
  const DLTensor* q = nullptr;
  QuantizedQ out;
  QuantizeQParams params;
};

void expect_bytes_of_cpu(const Case& c) {
  SCOPED_TRACE(::testing::Message() << "d " << c.head_dim << ", gaps " << c.has_gaps << ", mean "
                                    << c.has_mean << ", dots " << c.dots);
  QueryCase host(c);
  const auto before = host.written();
  DeviceQueries device(host);
  device.enqueue();
  quantize_q(*host.q, host.out, host.params);
  const auto expected = host.written();
  EXPECT_NE(expected, before);
  device.download();
  EXPECT_EQ(host.written(), expected);
}

TEST(CudaQuantizeQ, WritesTheBytesOfTheCpu) {
  for (const DLDataType type : {kBF16, kF16, kF32}) {
    for (const bool has_gaps : {false, true}) {
      for (const int64_t d : {64, 128}) {
        Case c;
        c.type = type;
        c.has_gaps = has_gaps;
        c.head_dim = d;
        expect_bytes_of_cpu(c);
      }
    }
  }
}

TEST(CudaQuantizeQ, Options) {
  for (const bool has_mean : {false, true}) {
    for (const bool two_terms : {false, true}) {
      for (const bool dots : {false, true}) {
        for (const bool ragged : {false, true}) {
          Case c;
          c.has_mean = has_mean;
          c.two_terms = two_terms;
          c.dots = dots;
          c.ragged = ragged;
          c.rule = two_terms == dots ? ScaleRule::kPlain : ScaleRule::kSearch;
          c.rank = ragged ? 4 : 16;
          expect_bytes_of_cpu(c);
        }
      }
    }
  }
}

TEST(CudaQuantizeQ, EveryHeadDim) {
  for (const int64_t d : {16, 48, 256, 528, 1024}) {
    Case c;
    c.head_dim = d;
    c.dots = d == 16 || d == 256 || d == 1024;
    c.tokens = 7;
    expect_bytes_of_cpu(c);
  }
}

// stats_index without anything that it picks from is not looked at, as on the CPU.
TEST(CudaQuantizeQ, IndexWithoutStatistics) {
  Case c;
  c.has_mean = c.dots = false;
  QueryCase host(c);
  TestTensor index = int_tensor({7, -1, 9});
  host.params.stats_index = index.ptr();
  DeviceQueries device(host);
  device.enqueue();
  quantize_q(*host.q, host.out, host.params);
  const auto expected = host.written();
  device.download();
  EXPECT_EQ(host.written(), expected);
}

TEST(CudaQuantizeQ, NothingToDo) {
  for (const auto& [tokens, heads] : {std::pair<int64_t, int64_t>{0, 6}, {5, 0}}) {
    Case c;
    c.tokens = tokens;
    c.heads = heads;
    c.ragged = false;
    QueryCase host(c);
    DeviceQueries device(host);
    EXPECT_NO_THROW(device.enqueue());
    check(cudaDeviceSynchronize());
  }
  Case c;
  c.ragged = false;
  c.dots = false;
  QueryCase host(c);
  TestTensor none = int_tensor({0});  // no sequence, so that no token belongs to one
  host.params.cu_seqlens_q = none.ptr();
  const auto before = host.written();
  DeviceQueries device(host);
  device.enqueue();
  device.download();
  EXPECT_EQ(host.written(), before);
}

TEST(CudaQuantizeQ, GraphsFollowTheQueries) {
  const Case c;
  QueryCase host(c);
  DeviceQueries device(host);
  const Stream stream;
  const Graph graph(stream, [&] { device.enqueue(stream); });
  TestTensor other(c.type, {c.tokens, c.heads, c.head_dim});
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    other.fill_normal(seed);
    check(cudaMemcpy(static_cast<std::byte*>(device.q->data) + device.q->byte_offset,
                     internal::data_of(other.dl()),
                     static_cast<size_t>(c.tokens * c.heads * c.head_dim * 2),
                     cudaMemcpyHostToDevice));
    graph.launch(stream);
    check(cudaStreamSynchronize(stream));
    quantize_q(other.dl(), host.out, host.params);
    const auto expected = host.written();
    device.download();
    EXPECT_EQ(host.written(), expected);
  }
}

TEST(CudaQuantizeQErrors, RowsOutOfRangeAreCountedAndNotWritten) {
  Case c;
  QueryCase host(c);
  TestTensor index = int_tensor({4, -7, -1});
  host.params.stats_index = index.ptr();
  TestTensor count = int_tensor({3});
  const auto before = host.written();
  DeviceQueries device(host);
  device.params.error_count = device.copies.copy(count.ptr());
  device.enqueue();
  device.copies.download(device.params.error_count);
  EXPECT_EQ(count.at<int32_t>(0), 3 + 11);  // all tokens but the last two, which belong to none
  device.download();
  EXPECT_EQ(host.written(), before);
}

TEST(CudaQuantizeQErrors, LengthsBeyondTheTokensGoAsFarAsTheTokens) {
  Case c;
  QueryCase host(c);
  DeviceQueries device(host);
  TestTensor lengths = int_tensor({0, 5, 5, 1 << 30});
  device.params.cu_seqlens_q = device.copies.copy(lengths.ptr());
  device.enqueue();
  TestTensor valid = int_tensor({0, 5, 5, static_cast<int32_t>(c.tokens)});
  host.params.cu_seqlens_q = valid.ptr();
  quantize_q(*host.q, host.out, host.params);
  const auto expected = host.written();
  device.download();
  EXPECT_EQ(host.written(), expected);
}

TEST(CudaQuantizeQErrors, NameWhatIsWrong) {
  QueryCase host{Case()};
  DeviceQueries device(host);
  const QuantizedQ out = device.out;
  const QuantizeQParams params = device.params;
  const auto expect = [&](const std::string& start) {
    expect_error(start, [&] { device.enqueue(); });
    device.out = out;
    device.params = params;
  };
  device.out.scales2 = host.out.scales2;
  expect(
      "scales2 lies on DLPack device type 1, number 0: must be type 2 (CUDA), number 0, as that "
      "of q");
  device.params.k_mean = host.params.k_mean;
  expect("k_mean lies on DLPack device type 1");
  TestTensor count = int_tensor({0});
  device.params.error_count = count.ptr();
  expect("error_count lies on DLPack device type 1");
  device.out.codes = nullptr;
  expect("codes is missing: it is required");
  device.params.k_first = nullptr;
  expect("k_first is missing: it is required with first_key");
  device.params.cu_seqlens_q = nullptr;
  device.params.k_first = nullptr;
  device.out.first_key = nullptr;
  expect("cu_seqlens_q is missing: it is required to tell which of 3 sequences");
  TestTensor empty(kI32, {0});
  device.params.cu_seqlens_q = device.copies.copy(empty.ptr());
  expect("cu_seqlens_q is empty");
  device.out.codes2 = device.out.codes;
  expect("codes2 overlaps codes in memory");
  device.params.scale_rule = static_cast<ScaleRule>(9);
  expect("scale_rule = 9");
  TestTensor odd(kBF16, {13, 6, 72});
  expect_error("q has shape [13, 6, 72]: its last dimension, head_dim, must be a multiple of 16",
               [&] { quantize_q(*device.copies.copy(odd.ptr()), out, params); });
  // The device of q decides.
  expect_error("codes ", [&] { quantize_q(*host.q, out, host.params); });
}

}  // namespace
}  // namespace mpfa::testing
