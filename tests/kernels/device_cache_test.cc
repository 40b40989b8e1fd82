// A KvCache on a GPU: what it starts as, its use by append_kv() and attention(), files of it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"
#include "mpfa/attention.h"
#include "mpfa/cache.h"
#include "mpfa/tensor.h"
#include "support/temp_folder.h"
#include "unit/cache/cache_file_parts.h"

namespace mpfa::testing {
namespace {

constexpr DLDevice kGpu{kDLCUDA, 0};

KvCacheConfig on_gpu(KvCacheConfig config) {
  config.device = kGpu;
  return config;
}

size_t bytes_of(const DLTensor& tensor) {
  return static_cast<size_t>(count_of(tensor) * item_size(tensor));
}

std::vector<std::byte> bytes_on_gpu(const DLTensor& tensor) {
  std::vector<std::byte> bytes(bytes_of(tensor));
  check(cudaMemcpy(bytes.data(), tensor.data, bytes.size(), cudaMemcpyDeviceToHost));
  return bytes;
}

// Everything of a host's cache into one of the same shape on a GPU.
void upload(const KvCache& host, const KvCache& device) {
  const std::vector<const DLTensor*> from = tensors_of(host);
  const std::vector<const DLTensor*> to = tensors_of(device);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == nullptr) continue;
    check(cudaMemcpy(to[i]->data, from[i]->data, bytes_of(*from[i]), cudaMemcpyHostToDevice));
  }
}

void expect_same_bytes(const KvCache& host, const KvCache& device) {
  const std::vector<const DLTensor*> want = tensors_of(host);
  const std::vector<const DLTensor*> got = tensors_of(device);
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(want[i] == nullptr, got[i] == nullptr);
    if (want[i] == nullptr) continue;
    EXPECT_EQ(internal::shape_string(*got[i]), internal::shape_string(*want[i]));
    EXPECT_EQ(internal::dtype_string(got[i]->dtype), internal::dtype_string(want[i]->dtype));
    EXPECT_EQ(got[i]->device.device_type, kDLCUDA);
    EXPECT_EQ(got[i]->device.device_id, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(got[i]->data) % 64, 0u);
    const std::vector<std::byte> bytes = bytes_on_gpu(*got[i]);
    EXPECT_EQ(std::memcmp(bytes.data(), want[i]->data, bytes.size()), 0);
  }
}

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

TEST(DeviceCache, StartsAsTheHostsDoes) {
  for (const KvCacheConfig& config : configs()) {
    const KvCache host(config);
    const KvCache device(on_gpu(config));
    expect_same_bytes(host, device);
    EXPECT_EQ(device.bytes(), host.bytes());
    EXPECT_EQ(device.config().device.device_type, kDLCUDA);
  }
}

TEST(DeviceCache, OwnsItsMemoryAndCanBeMoved) {
  { const KvCache first_use_of_the_gpu(on_gpu(full_config())); }
  const size_t before = free_bytes();
  {
    KvCacheConfig large = on_gpu(full_config());
    large.num_pages = 2000;
    KvCache cache(large);
    EXPECT_LE(free_bytes() + static_cast<size_t>(cache.bytes()), before);
    const DLTensor* codes = cache.view().k_codes;
    KvCache moved(std::move(cache));
    EXPECT_EQ(moved.view().k_codes, codes);
    KvCache assigned(on_gpu(full_config()));
    assigned = std::move(moved);
    EXPECT_EQ(assigned.view().k_codes, codes);
    KvCache on_host(full_config());
    on_host = std::move(assigned);  // neither has anything left to free
    EXPECT_EQ(on_host.view().k_codes, codes);
    cache = KvCache(full_config());  // what has been moved from can be used again
    EXPECT_EQ(cache.view().k_codes->device.device_type, kDLCPU);
  }
  // A driver may give back more than this cache had taken.
  EXPECT_GE(free_bytes(), before);
}

// Prompts of four sequences, and queries at their ends.
struct Prompts {
  Prompts() {
    k.fill_normal(1, 2.0f, 0.5f);
    v.fill_normal(2);
    q.fill_normal(3);
    int64_t token = 0;
    int32_t page = kPages;
    for (int32_t b = 0; b < kBatch; ++b) {
      ends.at<int32_t>(b + 1) = ends.at<int32_t>(b) + kLengths[b];
      for (int32_t i = 0; i < kLengths[b]; ++i) {
        if (i % kPageSize == 0) pages.push_back({b, i / kPageSize, --page});
        slots.at<int64_t>(token++) = page * kPageSize + i % kPageSize;
      }
    }
  }

  static KvCacheConfig config() {
    KvCacheConfig config = full_config();
    config.head_dim = 128;
    config.num_pages = kPages;
    return config;
  }

  // A cache on the host with the sequences' tables, means of its own and nothing appended.
  KvCache cache() const {
    KvCache cache(config());
    for (const auto& [row, column, page] : pages) {
      data_as<int32_t>(*cache.block_table())[row * config().max_pages_per_seq + column] = page;
    }
    for (int32_t b = 0; b < kBatch; ++b) {
      data_as<int32_t>(*cache.seq_lens())[b] = kLengths[b];
      data_as<int32_t>(*cache.view().stats_index)[b] = b % 2;
    }
    std::mt19937 random(4);
    std::normal_distribution<float> normal(0.5f, 0.2f);
    for (const DLTensor* mean : {cache.view().stats.k_mean, cache.view().stats.q_mean}) {
      for (int64_t i = 0; i < count_of(*mean); ++i) data_as<float>(*mean)[i] = normal(random);
    }
    return cache;
  }

  void append(const KvCacheView& cache) {
    AppendParams params;
    params.cu_seqlens = ends.ptr();
    append_kv(cache, k.dl(), v.dl(), slots.dl(), params);
  }
  void append_on_gpu(const KvCacheView& cache) {
    AppendParams params;
    params.cu_seqlens = copies.copy(ends.ptr());
    append_kv(cache, *copies.copy(k.ptr()), *copies.copy(v.ptr()), *copies.copy(slots.ptr()),
              params);
  }

  static Plan plan_for(DLDevice device) {
    PlanParams limits;
    limits.device = device;
    limits.batch_size = limits.total_seqlen_q = kBatch;
    limits.num_q_heads = config().num_q_heads;
    limits.num_kv_heads = config().num_kv_heads;
    limits.head_dim = config().head_dim;
    limits.max_seqlen_k = 80;
    return plan(limits);
  }
  TestTensor attend(const KvCacheView& cache, const DLTensor& block_table,
                    const DLTensor& seq_lens) {
    TestTensor out(kBF16, q.shape());
    attention(out.dl(), nullptr, q.dl(), cache, block_table, seq_lens, nullptr, {},
              plan_for({kDLCPU, 0}), nullptr);
    return out;
  }
  TestTensor attend_on_gpu(const KvCacheView& cache, const DLTensor& block_table,
                           const DLTensor& seq_lens) {
    const Plan steps = plan_for(kGpu);
    const DeviceMemory workspace(static_cast<size_t>(steps.workspace_bytes));
    const int64_t shape[] = {steps.workspace_bytes};
    const TensorView space(workspace.data(), kU8, shape, {}, kGpu);
    TestTensor out(kBF16, q.shape());
    const DLTensor* device_out = copies.copy(out.ptr());
    attention(*device_out, nullptr, *copies.copy(q.ptr()), cache, block_table, seq_lens, nullptr,
              {}, steps, &space);
    check(cudaDeviceSynchronize());
    copies.download(device_out);
    return out;
  }

  struct Page {
    int32_t row, column, page;
  };
  static constexpr int32_t kBatch = 4, kPages = 9, kPageSize = 16;
  static constexpr int32_t kLengths[kBatch] = {0, 33, 41, 7};
  static constexpr int64_t kTokens = 33 + 41 + 7;
  TestTensor k{kBF16, {kTokens, 2, 128}}, v{kBF16, {kTokens, 2, 128}}, q{kBF16, {kBatch, 6, 128}};
  TestTensor slots{{kDLInt, 64, 1}, {kTokens}};
  TestTensor ends = int_tensor({0, 0, 0, 0, 0});
  std::vector<Page> pages;
  DeviceCopies copies;
};

TEST(DeviceCache, IsWrittenAndReadAsTensorsMadeByHandAre) {
  Prompts prompts;
  const KvCache host = prompts.cache();
  const KvCache owned(on_gpu(Prompts::config()));
  upload(host, owned);
  const KvCacheView by_hand = prompts.copies.copy(host.view());
  prompts.append_on_gpu(by_hand);
  prompts.append_on_gpu(owned.view());
  prompts.append(host.view());
  check(cudaDeviceSynchronize());
  expect_same_bytes(host, owned);

  TestTensor from_hand = prompts.attend_on_gpu(by_hand, *prompts.copies.copy(host.block_table()),
                                               *prompts.copies.copy(host.seq_lens()));
  TestTensor from_owned =
      prompts.attend_on_gpu(owned.view(), *owned.block_table(), *owned.seq_lens());
  EXPECT_EQ(from_owned.snapshot(), from_hand.snapshot());
  TestTensor from_host = prompts.attend(host.view(), *host.block_table(), *host.seq_lens());
  from_host.for_each([&](const TestTensor::Shape& at) {
    ASSERT_NEAR(from_owned.get(at), from_host.get(at), 0.02);
  });
}

// ---- files --------------------------------------------------------------------------------------

class DeviceCacheFile : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("cache");
  std::string other = folder.file("other");
};

TEST_F(DeviceCacheFile, IsThatOfTheHost) {
  for (const KvCacheConfig& config : configs()) {
    const KvCache host = random_cache(config, 4);
    const KvCache device(on_gpu(config));
    upload(host, device);
    save_cache(path, {host.view(), host.block_table(), host.seq_lens(), {{"model", "x"}}});
    save_cache(other, {device.view(), device.block_table(), device.seq_lens(), {{"model", "x"}}});
    EXPECT_EQ(internal::read_file(other), internal::read_file(path));
    const KvCache loaded = load_cache(other);
    EXPECT_EQ(loaded.config().device.device_type, kDLCPU);
    expect_same(host, loaded);
  }
}

TEST_F(DeviceCacheFile, TensorsMayBeStrided) {
  const KvCache host = random_cache(full_config(), 5);
  save_cache(path, {host.view(), host.block_table(), host.seq_lens(), {}});
  for (const bool inner_gaps : {false, true}) {
    const StridedCopy strided(host, inner_gaps);
    DeviceCopies copies;
    save_cache(other, {copies.copy(strided.file().cache),
                       copies.copy(strided.file().block_table),
                       copies.copy(strided.file().seq_lens),
                       {}});
    EXPECT_EQ(internal::read_file(other), internal::read_file(path));
  }
}

TEST_F(DeviceCacheFile, HasWhatAStreamWasToldToWrite) {
  const KvCacheConfig config = full_config();
  const KvCache host = random_cache(config, 6);
  const KvCache device(on_gpu(config));
  upload(host, device);
  const Stream stream;
  check(cudaMemsetAsync(device.view().v->data, 0x11, bytes_of(*device.view().v), stream));
  save_cache(other, {device.view(), device.block_table(), device.seq_lens(), {}});
  std::memset(host.view().v->data, 0x11, bytes_of(*host.view().v));
  save_cache(path, {host.view(), host.block_table(), host.seq_lens(), {}});
  EXPECT_EQ(internal::read_file(other), internal::read_file(path));
}

TEST_F(DeviceCacheFile, LeavesOutWhatTheCacheDoesNotUse) {
  const KvCache host = random_cache(full_config(), 7);
  DeviceCopies copies;
  KvCacheFile file{host.view(), host.block_table(), host.seq_lens(), {}};
  KvCacheFile on_device{
      copies.copy(host.view()), copies.copy(host.block_table()), copies.copy(host.seq_lens()), {}};
  for (KvCacheFile* f : {&file, &on_device}) f->cache.delta_s = f->cache.k_residual = nullptr;
  DLTensor no_shape = *on_device.cache.stats.residual_scale;
  no_shape.ndim = 0;
  on_device.cache.stats.residual_scale = &no_shape;
  save_cache(path, file);
  save_cache(other, on_device);
  EXPECT_EQ(internal::read_file(other), internal::read_file(path));
}

TEST_F(DeviceCacheFile, RejectsWhatTheHostsWould) {
  const KvCache host = random_cache(full_config(), 8);
  const KvCache device(on_gpu(full_config()));
  upload(host, device);
  const KvCacheFile good{device.view(), device.block_table(), device.seq_lens(), {}};
  const auto expect = [&](const std::string& start, const KvCacheFile& file) {
    expect_error(start, [&] { save_cache(path, file); });
    EXPECT_TRUE(folder.entries().empty());
  };
  KvCacheFile file = good;
  file.cache.v = host.view().v;
  expect(
      "v lies on DLPack device type 1, number 0: must be type 2 (CUDA), number 0, as that of "
      "k_codes",
      file);
  file = good;
  file.seq_lens = host.seq_lens();
  expect("seq_lens lies on DLPack device type 1", file);
  file = good;
  file.seq_lens = nullptr;
  expect("seq_lens is missing: it is required with block_table", file);
  file = good;
  file.cache.k_scales = device.view().v;
  expect("k_scales has shape [3, 2, 16, 64]", file);
  // Values that only a copy shows.
  const int32_t too_long = 81;
  check(cudaMemcpy(device.seq_lens()->data, &too_long, sizeof(too_long), cudaMemcpyHostToDevice));
  expect("seq_lens[0] = 81", good);
  const int32_t none = 0;
  check(cudaMemcpy(device.seq_lens()->data, &none, sizeof(none), cudaMemcpyHostToDevice));
  const float negative = -1.0f;
  check(cudaMemcpy(device.view().stats.k_scale->data, &negative, sizeof(negative),
                   cudaMemcpyHostToDevice));
  expect("k_scale[0, 0] = -1", good);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(DeviceCacheErrors, NameWhatIsWrong) {
  KvCacheConfig config = on_gpu(full_config());
  config.device.device_id = 4711;
  expect_error("CUDA device 4711: there are ", [&] { KvCache{config}; });
  config.device = {kDLROCM, 0};
  expect_error("device.device_type = 10: must be 1 (CPU) or 2 (CUDA), DLPack's numbers",
               [&] { KvCache{config}; });
  config = on_gpu(full_config());
  config.num_pages = int64_t{1} << 30;
  config.num_kv_heads = config.num_q_heads = 1 << 10;
  const size_t before = free_bytes();
  try {
    const KvCache cache(config);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string start = "not enough memory for k_codes of shape [1073741824, 1024, 16, 32]";
    EXPECT_NE(std::string(error.what()).find(start), std::string::npos) << error.what();
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace
}  // namespace mpfa::testing
