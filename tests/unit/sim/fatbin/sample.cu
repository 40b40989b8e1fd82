// A kernel for the tests of fat binaries, long enough that compression pays.
extern "C" __global__ void sample(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 16; ++k) sum += in[i * 16 + k] * static_cast<float>(k);
  out[i] = sum;
}
