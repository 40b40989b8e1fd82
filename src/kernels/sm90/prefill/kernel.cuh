// Attention for long queries on sm_90a. A CTA stays on its multiprocessor and takes tiles of query
// rows, of one sequence and KV head each (a group's heads side by side), one after the other. One
// warpgroup finds work, loads queries and brings tiles of unpacked keys and values by the copy
// engine; two attend, with wgmma: scores in FP32 or FP16, probabilities in e4m3.
#pragma once

#include <type_traits>

#include "kernels/sm90/prefill/consumer_fp16.cuh"
#include "kernels/sm90/prefill/consumer_fp32.cuh"
#include "kernels/sm90/prefill/producer.cuh"

namespace mpfa::kernels::sm90 {

// Ones behind the values of every stage, and zeros behind them: rows of 128 bytes, of which all in
// one are equal, so that the swizzle does not matter.
template <class Config>
__device__ void write_ones(std::byte* shared) {
  for (int i = static_cast<int>(threadIdx.x); i < Config::kStages * 64; i += Config::kThreads) {
    const uint32_t byte4 = i % 64 < 8 ? 0x38383838u : 0;
    std::byte* rows =
        shared + Config::kValueTiles + i / 64 * Config::kValueTileBytes + Config::kHeadDim * 128;
    *reinterpret_cast<uint4*>(rows + i % 64 * 16) = make_uint4(byte4, byte4, byte4, byte4);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_prefill_kernel(const __grid_constant__ Sm90PrefillParams params) {
#if __CUDA_ARCH__ >= 900
  const SharedPlan<Config> plan{ptx::shared_address(shared_memory())};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) plan.init_barriers();
  if (warp == 1 && blockIdx.x == 0 && params.first_head == 0 &&
      params.common.step.error_count != nullptr) {
    count_wrong_sequences(params.common, Config::kRows, static_cast<int>(threadIdx.x) % 32);
  }
  write_ones<Config>(shared_memory());
  ptx::fence_async_proxy();
  __syncthreads();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Config::kBringerRegisters));
    if (threadIdx.x == 0) copy_all_keys(params, plan);
    if (threadIdx.x == 32) copy_all_values(params, plan);
    if (warp >= 2) bring_work(params, plan);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Config::kConsumerRegisters));
    using Consumer = std::conditional_t<Config::kScoreType == ScoreType::kFp32,
                                        ConsumerFp32<Config>, ConsumerFp16<Config>>;
    Consumer(params).run();
  }
#endif
}

}  // namespace mpfa::kernels::sm90
