// Much of what nvcc emits: calls, indirect calls, shared, constant and local memory,
// atomics, control flow, printf, inline assembly with labels, and device-wide
// algorithms of CCCL.
#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <cstdio>
#include <cub/cub.cuh>

namespace {

__constant__ float table[4] = {1.5f, 2.0f, -0.0f, 1e30f};
__device__ int counters[16];
__device__ const char* message = "text";
extern __shared__ char dynamic[];

struct Arguments {
  double a;
  int b;
  void (*callback)(int);
};

__device__ void count(int x) { atomicAdd(&counters[x & 15], x); }

__global__ void __launch_bounds__(128, 2)
    mixed(Arguments arguments, float* out, const int* in, int n) {
  __shared__ int staged[64];
  const int t = static_cast<int>(threadIdx.x);
  staged[t & 63] = in[t];
  dynamic[t] = static_cast<char>(t);
  __syncthreads();
  if (t < n) out[t] = static_cast<float>(staged[63 - (t & 63)]) * table[t & 3];
  void (*target)(int) = arguments.b > 3 ? arguments.callback : count;
  target(t);
  switch (in[t]) {
    case 0:
      out[0] = 1;
      break;
    case 1:
      out[5] = 2;
      break;
    case 2:
      out[7] = 4;
      break;
    case 3:
      out[3] = 9;
      break;
    case 4:
      out[2] = 3;
      break;
    case 5:
      out[1] = 8;
      break;
    case 6:
      out[4] = 7;
      break;
    default:
      out[9] = static_cast<float>(arguments.a);
      break;
  }
  printf("%d %f %s\n", t, out[t], message);
  asm volatile("{ .reg .pred p; LAB: setp.eq.s32 p, %0, 0; @p bra DONE; bra LAB; DONE: }" ::"r"(n));
  asm volatile("{ .reg .pred p; LAB: setp.ne.s32 p, %0, 0; @p bra DONE; bra LAB; DONE: }" ::"r"(n));
}

}  // namespace

int main() {
  mixed<<<1, 128, 128>>>({}, nullptr, nullptr, 0);
  thrust::device_vector<int> values(1000);
  thrust::sort(values.begin(), values.end());
  float* floats = nullptr;
  int* counts = nullptr;
  size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, floats, floats, 1000);
  cub::DeviceReduce::Sum(nullptr, bytes, floats, floats, 1000);
  cub::DeviceHistogram::HistogramEven(nullptr, bytes, floats, counts, 10, 0.0f, 1.0f, 1000);
}
