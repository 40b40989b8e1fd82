// Tensor core products of one warp (PTX ISA, "mma.sync.aligned.m16n8k16"). With g = lane / 4 and
// t = lane % 4 a lane holds
//   a[0] A[g][2t, 2t+1]   a[1] A[g+8][2t, 2t+1]   a[2] A[g][2t+8, 2t+9]   a[3] A[g+8][2t+8, 2t+9]
//   b[0] B[2t, 2t+1][g]   b[1] B[2t+8, 2t+9][g]
//   c[0], c[1] C[g][2t, 2t+1]   c[2], c[3] C[g+8][2t, 2t+1]
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

// c += a b, FP16 with FP32 sums.
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Transposes an 8 x 8 matrix of 16-bit elements: a lane gives row g, columns 2t and 2t+1.
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t row) {
  uint32_t column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}

// Four 8 x 8 matrices of 16-bit elements out of shared memory: lane 8 i + r gives the address of
// row r of matrix i, and lane (g, t) gets columns 2t, 2t+1 of row g of each.
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(address));
}

// Likewise, transposed: lane (g, t) gets rows 2t, 2t+1 of column g of each.
__device__ __forceinline__ void load_matrices_transposed(uint32_t address,
                                                         uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(address));
}

}  // namespace mpfa::kernels::ptx
