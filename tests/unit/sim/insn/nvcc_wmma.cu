// Kernels with nvcuda::wmma and with wgmma, for nvcc_wmma_test.cc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

using namespace nvcuda;

// D = A * B + C through shared memory, C read by columns, D written by rows.
template <int kM, int kN, int kK, class T, class C>
__device__ void multiply(const T* a, const T* b, const C* c, C* d) {
  __shared__ alignas(32) T tile[kM * kK];
  for (unsigned i = threadIdx.x; i < kM * kK; i += 32) tile[i] = a[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, kM, kN, kK, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, kM, kN, kK, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, kM, kN, kK, C> fc;
  wmma::load_matrix_sync(fa, tile, kK);
  wmma::load_matrix_sync(fb, b, kK);
  wmma::load_matrix_sync(fc, c, kM, wmma::mem_col_major);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, kN, wmma::mem_row_major);
}

extern "C" __global__ void half_16_16(const half* a, const half* b, const float* c, float* d) {
  multiply<16, 16, 16>(a, b, c, d);
}
extern "C" __global__ void half_8_32(const half* a, const half* b, const half* c, half* d) {
  multiply<8, 32, 16>(a, b, c, d);
}
extern "C" __global__ void bf16_32_8(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c,
                                     float* d) {
  multiply<32, 8, 16>(a, b, c, d);
}
extern "C" __global__ void s8_16_16(const signed char* a, const signed char* b, const int* c,
                                    int* d) {
  multiply<16, 16, 16>(a, b, c, d);
}
extern "C" __global__ void f64_8_8(const double* a, const double* b, const double* c, double* d) {
  multiply<8, 8, 4>(a, b, c, d);
}

extern "C" __global__ void tf32_16_16(const float* a, const float* b, const float* c, float* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 8);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_col_major);
  for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
  for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

// An f16 sum, converted to f32 element by element.
extern "C" __global__ void converted(const half* a, const half* b, const half* c, float* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> fc;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fd;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_col_major);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fd.num_elements; ++i) fd.x[i] = __half2float(fc.x[i]);
  wmma::store_matrix_sync(d, fd, 16, wmma::mem_row_major);
}

extern "C" __global__ void xor_8_8(const unsigned* a, const unsigned* b, const int* c, int* d) {
  using b1 = wmma::experimental::precision::b1;
  wmma::fragment<wmma::matrix_a, 8, 8, 128, b1, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, b1, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
  wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpXOR);
  wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
}

// ---- two products one behind the other, as attention has them: the second one's A is in registers

__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ uint64_t descriptor(const void* tile, uint64_t next_rows) {
  const uint64_t at = __cvta_generic_to_shared(tile);
  return (at & 0x3FFFF) >> 4 | uint64_t{128 / 16} << 16 | next_rows / 16 << 32;
}

// D (64 x 8) = 2 (A (64 x 16) B^T) B2^T, with core matrices of 8 x 8; all of small integers.
extern "C" __global__ void chained(const half* a, const half* b, float* d, int repeats) {
  __shared__ alignas(128) half tile_a[64 * 16];
  __shared__ alignas(128) half tile_b[16 * 16];
  for (unsigned i = threadIdx.x; i < 64 * 16; i += 128) tile_a[i] = a[i];
  for (unsigned i = threadIdx.x; i < 16 * 16; i += 128) tile_b[i] = b[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint64_t desc_a = descriptor(tile_a, 256);
  const uint64_t desc_b = descriptor(tile_b, 256);
  float sum[4] = {};
  for (int r = 0; r < repeats; ++r) {
    float s[8] = {};
    fence();
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, p, 1, 1, 0, 0; }\n"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
          "+f"(s[7])
        : "l"(desc_a), "l"(desc_b), "r"(0));
    finish();
    uint32_t p[4];
    for (int i = 0; i < 4; ++i) {
      const half2 pair = __floats2half2_rn(2 * s[2 * i], 2 * s[2 * i + 1]);
      p[i] = reinterpret_cast<const uint32_t&>(pair);
    }
    fence();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "%8, 1, 1, 1, 0;\n"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(desc_b));
    finish();
  }
  const unsigned warp = threadIdx.x / 32;
  const unsigned row = 16 * warp + threadIdx.x % 32 / 4;
  const unsigned column = 2 * (threadIdx.x % 4);
  d[row * 8 + column] = sum[0];
  d[row * 8 + column + 1] = sum[1];
  d[(row + 8) * 8 + column] = sum[2];
  d[(row + 8) * 8 + column + 1] = sum[3];
}
