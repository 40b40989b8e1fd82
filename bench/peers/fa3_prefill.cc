// Times FlashAttention-3's forward kernels in the harness of `mpfa bench prefill --backend cuda`.
//
//   fa3_prefill [REPEAT [FLUSH_MIB [IDLE_S [SUSTAINED_S]]]] < cases > rows
//
// A case is a line of numbers: query heads, KV heads, head dimension, 1 for causal or 0, then for
// each sequence its query rows and its keys. A row is a JSON object on a line of its own: "case"
// (counted from 0), "dtype" of Q, K and V, and what was measured, or "skipped" with a reason.
// prefill_fa3.py calls it. Exits with 3 where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "bench/compute_times.h"
#include "bench/gpu.h"
#include "bench/sm_clock.h"
#include "fa3_forward.h"
#include "peer.h"
#include "prefill.h"

namespace mpfa::peers {
namespace {

using internal::check_cuda;
using internal::str_cat;
using tools::allocate_gpu_memory;
using tools::ComputeTimes;
using tools::ComputeTimesOptions;
using tools::GpuGraph;
using tools::GpuMemory;
using tools::GpuStream;
using tools::GpuTensor;
using tools::GpuTimer;
using tools::SmClock;

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int kNoGpu = 3;  // exit code
constexpr int kCheckedRows = 64;
// Relative L2. BF16 rounds P, FP8 rounds P to three bits of mantissa.
constexpr double kMostError = 0.01;
constexpr double kMostErrorE4m3 = 0.1;

struct Options {
  int64_t flush_mib = 256;
  ComputeTimesOptions times;
};

GpuTensor starts_on_gpu(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> starts = {0};
  for (const int32_t length : lengths) starts.push_back(starts.back() + length);
  return GpuTensor(TensorView(starts, {static_cast<int64_t>(starts.size())}));
}

// One case's tensors of one type, with random values.
class Inputs {
 public:
  Inputs(const PrefillShape& shape, bool is_e4m3, cudaStream_t stream)
      : starts_q_(starts_on_gpu(shape.seqlens_q)), starts_k_(starts_on_gpu(shape.seqlens_k)) {
    const auto q_elements =
        static_cast<size_t>(shape.total_q()) * shape.num_q_heads * shape.head_dim;
    const auto kv_elements =
        static_cast<size_t>(shape.total_k()) * shape.num_kv_heads * shape.head_dim;
    const size_t bytes = is_e4m3 ? 1 : 2;
    tensors_.is_e4m3 = is_e4m3;
    tensors_.q = allocate(q_elements * bytes);
    tensors_.k = allocate(kv_elements * bytes);
    tensors_.v = allocate(kv_elements * bytes);
    tensors_.out = allocate(q_elements * 2);
    tensors_.lse = static_cast<float*>(allocate(q_elements / shape.head_dim * sizeof(float)));
    tensors_.cu_seqlens_q = static_cast<int32_t*>(starts_q_.data());
    tensors_.cu_seqlens_k = static_cast<int32_t*>(starts_k_.data());
    check_cuda(fill_random(tensors_.k, kv_elements, is_e4m3, 1, stream), "fill_random");
    check_cuda(fill_random(tensors_.v, kv_elements, is_e4m3, 2, stream), "fill_random");
    check_cuda(fill_random(tensors_.q, q_elements, is_e4m3, 3, stream), "fill_random");
  }

  const PrefillTensors& get() const { return tensors_; }

 private:
  void* allocate(size_t bytes) {
    memory_.push_back(allocate_gpu_memory(bytes));
    return memory_.back().get();
  }

  std::vector<GpuMemory> memory_;
  GpuTensor starts_q_, starts_k_;
  PrefillTensors tensors_;
};

// The members of a row that say what was measured. Throws Unsupported.
std::string measure(const PrefillShape& shape, bool is_e4m3, const Options& options,
                    GpuTimer& timer) {
  const Inputs inputs(shape, is_e4m3, timer.stream());
  Fa3Forward forward(shape, inputs.get());
  forward.run(timer.stream());  // loads code and sets attributes, outside any capture
  check_cuda(cudaStreamSynchronize(timer.stream()), "the kernel");
  const double error = error_of_out(shape, inputs.get(), kCheckedRows, timer.stream());
  if (!(error <= (is_e4m3 ? kMostErrorE4m3 : kMostError))) {
    throw Unsupported(str_cat("its result is ", error, " off the exact one"));
  }
  const GpuGraph graph(timer.stream(), [&] { forward.run(timer.stream()); });
  const ComputeTimes times = time_compute(timer, graph, options.times);
  const double flops = shape.flops();
  std::string row = str_cat("\"median_s\": ", times.call.median(),
                            ", \"min_s\": ", times.call.min(), ", \"max_s\": ", times.call.max(),
                            ", \"tflops\": ", flops * 1e-12 / times.call.median(),
                            ", \"clock_mhz\": ", times.clock_mhz, ", \"error\": ", error,
                            ", \"pack_gqa\": ", forward.packs_gqa() ? "true" : "false");
  if (times.sustained_s > 0.0) {
    row += str_cat(", \"sustained_s\": ", times.sustained_s,
                   ", \"sustained_tflops\": ", flops * 1e-12 / times.sustained_s,
                   ", \"sustained_clock_mhz\": ", times.sustained_clock_mhz);
  }
  return row;
}

PrefillShape parse_case(const std::string& line) {
  std::istringstream in(line);
  PrefillShape shape;
  int causal = -1;
  in >> shape.num_q_heads >> shape.num_kv_heads >> shape.head_dim >> causal;
  shape.is_causal = causal == 1;
  bool is_valid = in && (causal == 0 || causal == 1) && shape.num_kv_heads > 0 &&
                  shape.num_q_heads > 0 && shape.num_q_heads % shape.num_kv_heads == 0;
  for (int32_t seqlen_q = 0, seqlen_k = 0; is_valid && in >> seqlen_q;) {
    // A causal row without keys has no exact result to compare with.
    is_valid = in >> seqlen_k && seqlen_q > 0 && seqlen_k >= (shape.is_causal ? seqlen_q : 1);
    shape.seqlens_q.push_back(seqlen_q);
    shape.seqlens_k.push_back(seqlen_k);
  }
  if (!is_valid || !in.eof() || shape.seqlens_q.empty()) {
    throw std::runtime_error("no case: '" + line + "'");
  }
  return shape;
}

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void run(const Options& options) {
  const GpuStream stream;
  SmClock clock;
  GpuTimer timer(stream.get(), options.flush_mib * kMib, &clock);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const PrefillShape shape = parse_case(line);
    for (const bool is_e4m3 : {false, true}) {
      std::cout << "{\"case\": " << number << ", \"dtype\": \"" << (is_e4m3 ? "e4m3" : "bf16")
                << "\", ";
      try {
        std::cout << measure(shape, is_e4m3, options, timer) << "}" << std::endl;
      } catch (const Unsupported& reason) {
        std::cout << "\"skipped\": \"" << reason.what() << "\"}" << std::endl;
      }
    }
  }
}

}  // namespace
}  // namespace mpfa::peers

int main(int argc, char** argv) {
  try {
    mpfa::peers::Options options;
    if (argc > 1) options.times.repeat = std::stoll(argv[1]);
    if (argc > 2) options.flush_mib = std::stoll(argv[2]);
    if (argc > 3) options.times.idle_s = std::stod(argv[3]);
    if (argc > 4) options.times.sustained_s = std::stod(argv[4]);
    if (!mpfa::peers::has_gpu()) return mpfa::peers::kNoGpu;
    mpfa::peers::run(options);
  } catch (const std::exception& error) {
    std::cerr << "fa3_prefill: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
