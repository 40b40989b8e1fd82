#include "quant/residual_basis.h"

#include <Eigen/Eigenvalues>
#include <algorithm>

#include "mpfa/check.h"
#include "quant/row_math.h"

namespace mpfa::internal {
namespace {

// Queries that enter the second moments at once: 256 KiB of doubles at d = 128.
constexpr int64_t kBlockRows = 256;

// sum over queries of q q^T / n; only the lower triangle is filled. FP64 and a fixed order.
template <typename T>
Eigen::MatrixXd second_moments(const Tensor<T, 3>& q, int64_t first_head, int64_t group_size) {
  const int64_t d = q.size(2);
  const int64_t count = q.size(0) * group_size;
  Eigen::MatrixXd moments = Eigen::MatrixXd::Zero(d, d);
  Eigen::MatrixXd block(d, std::min(count, kBlockRows));
  for (int64_t start = 0; start < count; start += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, count - start);
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t index = start + j;
      const T* row = q.at(index / group_size, first_head + index % group_size);
      for (int64_t i = 0; i < d; ++i) block(i, j) = static_cast<double>(widen(row[i]));
    }
    moments.selfadjointView<Eigen::Lower>().rankUpdate(block.leftCols(rows));
  }
  return moments / static_cast<double>(count);
}

}  // namespace

template <typename T>
void compute_residual_basis(const Tensor<T, 3>& q, int64_t first_head, int64_t group_size,
                            int64_t rank, float* const* rows) {
  // Reads the lower triangle only; eigenvalues come in increasing order.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      second_moments(q, first_head, group_size));
  if (solver.info() != Eigen::Success) {
    throw_error<Error>(__FILE__, __LINE__, "the eigenvectors of the queries of heads ", first_head,
                       " to ", first_head + group_size - 1, " do not converge");
  }
  const int64_t d = q.size(2);
  for (int64_t j = 0; j < rank; ++j) {
    const Eigen::VectorXd u = solver.eigenvectors().col(d - 1 - j);
    Eigen::Index largest = 0;
    u.cwiseAbs().maxCoeff(&largest);
    const double sign = u[largest] < 0 ? -1.0 : 1.0;
    for (int64_t i = 0; i < d; ++i) rows[j][i] = static_cast<float>(sign * u[i]);
  }
}

template void compute_residual_basis(const Tensor<Bf16, 3>&, int64_t, int64_t, int64_t,
                                     float* const*);
template void compute_residual_basis(const Tensor<Fp16, 3>&, int64_t, int64_t, int64_t,
                                     float* const*);
template void compute_residual_basis(const Tensor<float, 3>&, int64_t, int64_t, int64_t,
                                     float* const*);

}  // namespace mpfa::internal
