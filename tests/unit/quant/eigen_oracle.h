// Eigenvalues and eigenvectors by cyclic Jacobi rotations: slow, simple, and nothing that the
// library uses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace mpfa::oracle {

using Matrix = std::vector<std::vector<double>>;

inline void rotate(double& a, double& b, double c, double s) {
  const double x = a;
  a = c * x - s * b;
  b = s * x + c * b;
}

// Eigenvalues of a symmetric matrix, largest first.
inline std::vector<double> eigenvalues(Matrix m) {
  const size_t n = m.size();
  for (int sweep = 0; sweep < 12; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (m[p][q] == 0) continue;
        const double theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0);
        const double s = t * c;
        for (size_t k = 0; k < n; ++k) rotate(m[k][p], m[k][q], c, s);
        for (size_t k = 0; k < n; ++k) rotate(m[p][k], m[q][k], c, s);
      }
    }
  }
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = m[i][i];
  std::sort(values.rbegin(), values.rend());
  return values;
}

inline std::vector<double> multiply(const Matrix& m, const std::vector<double>& x) {
  std::vector<double> y(m.size());
  for (size_t i = 0; i < m.size(); ++i) {
    y[i] = std::inner_product(x.begin(), x.end(), m[i].begin(), 0.0);
  }
  return y;
}

}  // namespace mpfa::oracle
