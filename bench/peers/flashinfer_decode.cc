// Times FlashInfer's decode kernels in the harness of `mpfa bench decode --backend cuda`.
//
//   flashinfer_decode [REPEAT [CACHES [FLUSH_MIB]]] < cases > rows
//
// A case is a line of numbers: batch size, query heads, KV heads, head dimension, page size, query
// rows of a sequence, and the length of each sequence. A row is a JSON object on a line of its own:
// "case" (counted from 0), "kernel", "kv", and times in seconds, or "skipped" with a reason.
// decode_flashinfer.py calls it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>

#include "bench/gpu.h"
#include "bench/pages.h"
#include "peer.h"

namespace mpfa::peers {
namespace {

using internal::check_cuda;
using internal::str_cat;
using tools::allocate_gpu_memory;
using tools::GpuGraph;
using tools::GpuMemory;
using tools::GpuStream;
using tools::GpuTimer;
using tools::Samples;

constexpr double kUsableMemory = 0.9;  // of what is free: workspaces of the kernels besides
constexpr int64_t kMib = int64_t{1} << 20;
// Between kernels over the same cache, relative L2; an FP8 kernel may round Q and P to FP8.
constexpr double kMostDifference = 0.1;

struct Options {
  int64_t repeat = 20;
  int64_t num_caches = 16;
  int64_t flush_mib = 256;
};

// ---- a step's tensors ---------------------------------------------------------------------------

template <typename T>
T* upload(const std::vector<T>& values, std::vector<GpuMemory>& memory) {
  memory.push_back(allocate_gpu_memory(values.size() * sizeof(T)));
  check_cuda(cudaMemcpy(memory.back().get(), values.data(), values.size() * sizeof(T),
                        cudaMemcpyHostToDevice),
             "cudaMemcpy");
  return static_cast<T*>(memory.back().get());
}

// Everything of a step but the caches.
class Step {
 public:
  Step(const PeerShape& shape, cudaStream_t stream) {
    step_.shape = shape;
    make_pages();
    const size_t rows = static_cast<size_t>(shape.batch_size) * shape.seqlen_q;
    elements_ = rows * shape.num_q_heads * shape.head_dim;
    step_.q = allocate(elements_ * 2);
    step_.out = allocate(elements_ * 2);
    check_cuda(fill_random(step_.q, elements_, false, 3, stream), "fill_random");
  }

  const PeerStep& get() const { return step_; }
  int64_t num_pages() const { return step_.page_indptr.back(); }

  std::vector<float> result() const {
    std::vector<uint16_t> bits(elements_);
    check_cuda(cudaMemcpy(bits.data(), step_.out, elements_ * 2, cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    std::vector<float> values(elements_);
    std::transform(bits.begin(), bits.end(), values.begin(), [](uint16_t half) {
      return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    });
    return values;
  }

 private:
  void* allocate(size_t bytes) {
    memory_.push_back(allocate_gpu_memory(bytes));
    return memory_.back().get();
  }

  void make_pages() {
    const PeerShape& shape = step_.shape;
    std::vector<int32_t> last_page_len;
    step_.page_indptr = {0};
    step_.q_indptr = {0};
    for (const int32_t length : shape.seqlens_k) {
      const int32_t pages = (length + shape.page_size - 1) / shape.page_size;
      step_.page_indptr.push_back(step_.page_indptr.back() + pages);
      step_.q_indptr.push_back(step_.q_indptr.back() + shape.seqlen_q);
      step_.max_pages = std::max(step_.max_pages, pages);
      last_page_len.push_back(length - (pages - 1) * shape.page_size);
    }
    const std::vector<int32_t> pages = tools::shuffled_pages(num_pages());
    std::vector<int32_t> table(static_cast<size_t>(shape.batch_size) * step_.max_pages, 0);
    for (int b = 0; b < shape.batch_size; ++b) {
      std::copy(pages.begin() + step_.page_indptr[b], pages.begin() + step_.page_indptr[b + 1],
                table.begin() + static_cast<int64_t>(b) * step_.max_pages);
    }
    step_.page_indptr_gpu = upload(step_.page_indptr, memory_);
    step_.q_indptr_gpu = upload(step_.q_indptr, memory_);
    step_.page_indices = upload(pages, memory_);
    step_.last_page_len = upload(last_page_len, memory_);
    step_.block_table = upload(table, memory_);
    step_.seq_lens =
        upload(std::vector<uint32_t>(shape.seqlens_k.begin(), shape.seqlens_k.end()), memory_);
  }

  PeerStep step_;
  size_t elements_ = 0;
  std::vector<GpuMemory> memory_;
};

template <class Cache>
class Caches {
 public:
  Caches(const Step& step, int64_t wanted, cudaStream_t stream) {
    const PeerShape& shape = step.get().shape;
    const size_t elements = static_cast<size_t>(step.num_pages()) * shape.num_kv_heads *
                            shape.page_size * shape.head_dim;
    size_t free = 0;
    size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const double fit = kUsableMemory * static_cast<double>(free) /
                       static_cast<double>(2 * elements * Cache::kBytes);
    const int64_t count = std::min(wanted, static_cast<int64_t>(fit));
    if (count < 1) throw Unsupported("the cache does not fit into the GPU's memory");
    for (int64_t i = 0; i < count; ++i) {
      memory_.push_back(allocate_gpu_memory(elements * Cache::kBytes));
      memory_.push_back(allocate_gpu_memory(elements * Cache::kBytes));
      caches_.push_back({memory_[2 * i].get(), memory_[2 * i + 1].get()});
      constexpr bool kIsE4m3 = Cache::kBytes == 1;
      check_cuda(fill_random(caches_.back().k, elements, kIsE4m3, 1, stream), "fill_random");
      check_cuda(fill_random(caches_.back().v, elements, kIsE4m3, 2, stream), "fill_random");
    }
  }

  const std::vector<PeerCache>& get() const { return caches_; }

 private:
  std::vector<GpuMemory> memory_;
  std::vector<PeerCache> caches_;
};

// ---- measuring ----------------------------------------------------------------------------------

// Norm of the difference over that of `expected`; infinite where a result is not finite.
double relative_l2(const std::vector<float>& result, const std::vector<float>& expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < result.size(); ++i) {
    difference += std::pow(static_cast<double>(result[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  const double relative = std::sqrt(difference / norm);
  return std::isfinite(relative) ? relative : HUGE_VAL;
}

// One case over one type of cache.
template <class Cache>
class Measurement {
 public:
  Measurement(int number, const Step& step, const Options& options, GpuTimer& timer,
              cudaStream_t stream)
      : number_(number),
        step_(step),
        options_(options),
        timer_(timer),
        stream_(stream),
        caches_(step, options.num_caches, stream) {}

  void measure(const char* name, const std::function<std::unique_ptr<PeerKernel>()>& make) {
    std::cout << "{\"case\": " << number_ << ", \"kernel\": \"" << name << "\", \"kv\": \""
              << Cache::kName << "\", ";
    try {
      std::cout << time(*make()) << "}" << std::endl;
    } catch (const Unsupported& reason) {
      std::cout << "\"skipped\": \"" << reason.what() << "\"}" << std::endl;
    }
  }

 private:
  std::string time(PeerKernel& kernel) {
    const std::vector<PeerCache>& caches = caches_.get();
    kernel.run(caches[0], stream_);  // loads code and sets attributes, outside any capture
    check_cuda(cudaStreamSynchronize(stream_), "the kernel");
    const double difference = difference_from_first();
    if (difference > kMostDifference) {
      throw Unsupported(str_cat("its result is ", difference, " off the first kernel's"));
    }
    const GpuGraph once(stream_, [&] { kernel.run(caches[0], stream_); });
    const Samples samples = timer_.time(options_.repeat, once);
    const GpuGraph in_a_row(stream_, [&] {
      for (const PeerCache& cache : caches) kernel.run(cache, stream_);
    });
    const Samples all = timer_.time(options_.repeat, in_a_row);
    const PeerShape& shape = step_.get().shape;
    const int64_t tokens =
        std::accumulate(shape.seqlens_k.begin(), shape.seqlens_k.end(), int64_t{0});
    const int64_t bytes =
        tokens * shape.num_kv_heads * shape.head_dim * 2 * static_cast<int64_t>(Cache::kBytes);
    return str_cat("\"median_s\": ", samples.median(), ", \"min_s\": ", samples.min(),
                   ", \"max_s\": ", samples.max(), ", \"cache_bytes\": ", bytes,
                   ", \"back_to_back_s\": ", all.median() / static_cast<double>(caches.size()),
                   ", \"num_caches\": ", caches.size(), ", \"difference\": ", difference);
  }

  double difference_from_first() {
    std::vector<float> result = step_.result();
    if (!first_) {
      first_ = result;
    }
    return relative_l2(result, *first_);
  }

  int number_;
  const Step& step_;
  const Options& options_;
  GpuTimer& timer_;
  cudaStream_t stream_;
  Caches<Cache> caches_;
  std::optional<std::vector<float>> first_;
};

template <class Cache, int kHeadDim>
void measure_cache(int number, const Step& step, const Options& options, GpuTimer& timer,
                   cudaStream_t stream) {
  Measurement<Cache> measurement(number, step, options, timer, stream);
  measurement.measure("fa2 tensor",
                      [&] { return make_fa2_tensor_cores<Cache, kHeadDim>(step.get(), stream); });
  measurement.measure("fa2 CUDA",
                      [&] { return make_fa2_cuda_cores<Cache, kHeadDim>(step.get(), stream); });
  measurement.measure("XQA", [&] { return make_xqa(step.get(), Cache::kName); });
}

template <int kHeadDim>
void measure_caches(int number, const Step& step, const Options& options, GpuTimer& timer,
                    cudaStream_t stream) {
  measure_cache<Bf16Cache, kHeadDim>(number, step, options, timer, stream);
  measure_cache<E4m3Cache, kHeadDim>(number, step, options, timer, stream);
}

PeerShape parse_case(const std::string& line) {
  std::istringstream in(line);
  PeerShape shape;
  in >> shape.batch_size >> shape.num_q_heads >> shape.num_kv_heads >> shape.head_dim >>
      shape.page_size >> shape.seqlen_q;
  for (int32_t length = 0; in >> length;) shape.seqlens_k.push_back(length);
  const bool is_valid =
      shape.batch_size > 0 && shape.num_kv_heads > 0 && shape.num_q_heads > 0 &&
      shape.num_q_heads % shape.num_kv_heads == 0 && shape.page_size > 0 && shape.seqlen_q > 0 &&
      (shape.head_dim == 64 || shape.head_dim == 128) &&
      shape.seqlens_k.size() == static_cast<size_t>(shape.batch_size) &&
      std::all_of(shape.seqlens_k.begin(), shape.seqlens_k.end(), [](int n) { return n > 0; });
  if (!is_valid) throw std::runtime_error("no case: '" + line + "'");
  return shape;
}

void run(const Options& options) {
  const GpuStream stream;
  GpuTimer timer(stream.get(), options.flush_mib * kMib);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const PeerShape shape = parse_case(line);
    const Step step(shape, stream.get());
    if (shape.head_dim == 64) {
      measure_caches<64>(number, step, options, timer, stream.get());
    } else {
      measure_caches<128>(number, step, options, timer, stream.get());
    }
  }
}

}  // namespace
}  // namespace mpfa::peers

int main(int argc, char** argv) {
  try {
    mpfa::peers::Options options;
    if (argc > 1) options.repeat = std::stoll(argv[1]);
    if (argc > 2) options.num_caches = std::stoll(argv[2]);
    if (argc > 3) options.flush_mib = std::stoll(argv[3]);
    mpfa::peers::run(options);
  } catch (const std::exception& error) {
    std::cerr << "flashinfer_decode: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
