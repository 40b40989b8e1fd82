#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "mpfa/quant.h"
#include "unit/quant/calibrate_util.h"
#include "unit/quant/eigen_oracle.h"

namespace mpfa {
namespace {

using testing::Calibration;
using testing::expect_orthonormal;
using testing::expect_scales;
using testing::TestTensor;

// Queries and keys whose directions differ in strength, so that the top eigenvectors stand out.
void fill_decaying(TestTensor& x, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  x.fill([&](const TestTensor::Shape& at) {
    return normal(random) * 4.0f / (1.0f + 0.25f * static_cast<float>((at[2] * 29) % 64)) + 0.5f;
  });
}

oracle::Matrix second_moments(const TestTensor& q, int64_t kv_head, int64_t group) {
  const auto d = static_cast<size_t>(q.shape()[2]);
  oracle::Matrix m(d, std::vector<double>(d));
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int64_t t = 0; t < q.shape()[0]; ++t) {
      std::vector<double> row(d);
      for (size_t i = 0; i < d; ++i)
        row[i] = static_cast<double>(q.get({t, h, static_cast<int64_t>(i)}));
      for (size_t i = 0; i < d; ++i) {
        for (size_t j = 0; j < d; ++j) m[i][j] += row[i] * row[j];
      }
    }
  }
  for (auto& row : m) {
    for (double& x : row) x /= static_cast<double>(q.shape()[0] * group);
  }
  return m;
}

void expect_sign_rule(const Calibration& c) {
  for (int64_t h = 0; h < c.basis.shape()[0]; ++h) {
    for (int64_t j = 0; j < c.basis.shape()[1]; ++j) {
      const std::vector<float> u = c.u(h, j);
      const float largest = *std::max_element(u.begin(), u.end());
      const float smallest = *std::min_element(u.begin(), u.end());
      EXPECT_GT(largest, -smallest * 0.999999f);
    }
  }
}

// Each row is an eigenvector, and of the largest eigenvalues in order.
void expect_top_eigenvectors(const TestTensor& q, const Calibration& c) {
  const int64_t group = q.shape()[1] / c.basis.shape()[0];
  for (int64_t h = 0; h < c.basis.shape()[0]; ++h) {
    const oracle::Matrix m = second_moments(q, h, group);
    const std::vector<double> values = oracle::eigenvalues(m);
    for (int64_t j = 0; j < c.basis.shape()[1]; ++j) {
      const std::vector<float> row = c.u(h, j);
      const std::vector<double> u(row.begin(), row.end());
      const std::vector<double> mu = oracle::multiply(m, u);
      const double quotient = std::inner_product(u.begin(), u.end(), mu.begin(), 0.0);
      EXPECT_NEAR(quotient, values[static_cast<size_t>(j)], 1e-6 * values[0])
          << "head " << h << " j " << j;
      for (size_t i = 0; i < u.size(); ++i) EXPECT_NEAR(mu[i], quotient * u[i], 1e-6 * values[0]);
    }
  }
}

struct Case {
  int64_t group;
  int64_t d;
  int64_t rank;
  DLDataType type;
};

class CalibrateTest : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Cases, CalibrateTest,
    ::testing::Values(Case{1, 64, 4, testing::kF32}, Case{2, 64, 8, testing::kBF16},
                      Case{3, 64, 16, testing::kF16}, Case{4, 128, 8, testing::kBF16},
                      Case{5, 64, 4, testing::kBF16}, Case{6, 64, 8, testing::kF32},
                      Case{7, 128, 16, testing::kF16}, Case{8, 64, 8, testing::kBF16},
                      Case{16, 64, 16, testing::kBF16}),
    [](const auto& info) {
      return "g" + std::to_string(info.param.group) + "_d" + std::to_string(info.param.d) + "_r" +
             std::to_string(info.param.rank) + "_" + internal::dtype_string(info.param.type);
    });

TEST_P(CalibrateTest, MatchesTheDefinitions) {
  const Case& p = GetParam();
  TestTensor q = TestTensor::heads_first(p.type, {300 / p.group + 5, 2 * p.group, p.d});
  TestTensor k = TestTensor::with_gaps(p.type, {97, 2, p.d});
  fill_decaying(q, 1);
  fill_decaying(k, 2);
  const std::vector<std::byte> q_before = q.snapshot();
  const std::vector<std::byte> k_before = k.snapshot();
  Calibration c(2 * p.group, 2, p.rank, p.d);
  calibrate(q.dl(), k.dl(), c.out());
  EXPECT_EQ(q.snapshot(), q_before);
  EXPECT_EQ(k.snapshot(), k_before);

  const auto expect_mean = [](const TestTensor& x, const TestTensor& mean) {
    mean.for_each([&](const TestTensor::Shape& at) {
      long double sum = 0;
      for (int64_t t = 0; t < x.shape()[0]; ++t) {
        sum += static_cast<long double>(x.get({t, at[0], at[1]}));
      }
      const auto expected = static_cast<float>(sum / static_cast<long double>(x.shape()[0]));
      EXPECT_NEAR(mean.get(at), expected, std::abs(expected) * 1.2e-7f);
    });
  };
  expect_mean(k, c.k_mean);
  expect_mean(q, c.q_mean);
  expect_orthonormal(c);
  expect_sign_rule(c);
  expect_top_eigenvectors(q, c);
  expect_scales(k, 97, c, {1, 1}, ScaleRule::kSearch);
}

TEST_P(CalibrateTest, SameBytesForAnyThreadCount) {
  const Case& p = GetParam();
  TestTensor q(p.type, {120, 3 * p.group, p.d});
  TestTensor k(p.type, {150, 3, p.d});
  q.fill_normal(11);
  k.fill_normal(12);
  Calibration expected(3 * p.group, 3, p.rank, p.d);
  calibrate(q.dl(), k.dl(), expected.out());
  testing::for_thread_counts([&] {
    Calibration c(3 * p.group, 3, p.rank, p.d);
    calibrate(q.dl(), k.dl(), c.out());
    EXPECT_TRUE(c == expected);
  });
}

// Queries along planted orthogonal directions of known strength: 0.8 e_2m - 0.6 e_2m+1, given with
// the other sign, which the rule must turn round.
TEST(CalibrateKnownAnswerTest, PlantedDirectionsComeBackInOrder) {
  constexpr int64_t kDirections = 5;
  const int64_t place[kDirections] = {7, 0, 31, 2, 12};
  const float strength[kDirections] = {1, 16, 2, 8, 4};
  TestTensor q(testing::kBF16, {kDirections, 1, 64});
  q.fill([&](const TestTensor::Shape& at) {
    const int64_t m = place[at[0]];
    if (at[2] == 2 * m) return -4 * strength[at[0]];
    return at[2] == 2 * m + 1 ? 3 * strength[at[0]] : 0.0f;
  });
  TestTensor k(testing::kBF16, {4, 1, 64});
  k.fill_normal(5);
  Calibration c(1, 1, 8, 64);
  calibrate(q.dl(), k.dl(), c.out());
  const int64_t order[kDirections] = {0, 2, 12, 31, 7};  // strengths 16, 8, 4, 2, 1
  for (int64_t j = 0; j < kDirections; ++j) {
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t m = order[j];
      const float expected = i == 2 * m ? 0.8f : i == 2 * m + 1 ? -0.6f : 0.0f;
      EXPECT_NEAR(c.basis.get({0, j, i}), expected, 1e-7f) << j << " " << i;
    }
  }
  expect_orthonormal(c);  // the other three as well
}

TEST(CalibrateKnownAnswerTest, MeanQueryIsTheTopDirectionWhereItDominates) {
  TestTensor q(testing::kF32, {200, 2, 64});
  q.fill_normal(3, 0.1f, 2);
  TestTensor k(testing::kF32, {8, 1, 64});
  k.fill_normal(4);
  Calibration c(2, 1, 4, 64);
  calibrate(q.dl(), k.dl(), c.out());
  for (int64_t i = 0; i < 64; ++i) EXPECT_NEAR(c.basis.get({0, 0, i}), 0.125f, 0.01f);
}

TEST(CalibrateRankTest, FewerQueriesThanDirections) {
  TestTensor q(testing::kBF16, {3, 2, 128});
  q.fill_normal(5);
  TestTensor k(testing::kBF16, {20, 2, 128});
  k.fill_normal(6);
  Calibration c(2, 2, 16, 128);
  calibrate(q.dl(), k.dl(), c.out());
  expect_orthonormal(c);
  expect_scales(k, 20, c, {1, 1}, ScaleRule::kSearch);
  // The first three span the queries: nothing of a query is left outside.
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t t = 0; t < 3; ++t) {
      double length = 0;
      double inside = 0;
      for (int64_t i = 0; i < 128; ++i)
        length += std::pow(static_cast<double>(q.get({t, h, i})), 2);
      for (int64_t j = 0; j < 3; ++j) {
        double dot = 0;
        for (int64_t i = 0; i < 128; ++i) {
          dot +=
              static_cast<double>(q.get({t, h, i})) * static_cast<double>(c.basis.get({h, j, i}));
        }
        inside += dot * dot;
      }
      EXPECT_NEAR(inside / length, 1, 1e-6);
    }
  }
}

TEST(CalibrateRankTest, ZeroQueriesStillGiveAnOrthonormalBasis) {
  for (const int64_t d : {64, 128}) {
    TestTensor q(testing::kBF16, {9, 4, d});
    q.fill([](const TestTensor::Shape&) { return 0.0f; });
    TestTensor k(testing::kBF16, {20, 2, d});
    k.fill_normal(6);
    Calibration c(4, 2, 16, d);
    calibrate(q.dl(), k.dl(), c.out());
    expect_orthonormal(c);
    expect_sign_rule(c);
    expect_scales(k, 20, c, {1, 1}, ScaleRule::kSearch);
  }
}

TEST(CalibrateRaggedTest, TokensOutsideCuSeqlensAreNotRead) {
  TestTensor q(testing::kBF16, {40, 4, 64});
  q.fill_normal(9);
  TestTensor k(testing::kBF16, {50, 2, 64});
  k.fill_normal(10);
  for (int64_t t = 43; t < 50; ++t) {
    for (int64_t i = 0; i < 64; ++i) k.set({t, 1, i}, std::nanf(""));
  }
  TestTensor cu = testing::int_tensor({0, 0, 12, 12, 43, 43});
  Calibration c(4, 2, 8, 64);
  CalibrateParams params;
  params.cu_seqlens = cu.ptr();
  calibrate(q.dl(), k.dl(), c.out(), params);

  DLTensor used = k.dl();
  int64_t shape[3] = {43, 2, 64};
  used.shape = shape;
  Calibration expected(4, 2, 8, 64);
  calibrate(q.dl(), used, expected.out());
  EXPECT_TRUE(c == expected);
  expect_scales(k, 43, c, {1, 1}, ScaleRule::kSearch);
}

TEST(CalibrateOptionalTest, AbsentOutputsChangeNothingElse) {
  TestTensor q(testing::kBF16, {40, 4, 64});
  TestTensor k(testing::kF32, {50, 2, 64});
  q.fill_normal(9);
  k.fill_normal(10);
  Calibration all(4, 2, 8, 64);
  calibrate(q.dl(), k.dl(), all.out());
  Calibration c(4, 2, 8, 64);
  const Calibration untouched = c;
  calibrate(q.dl(), k.dl(), {c.k_mean.ptr(), nullptr, c.basis.ptr(), nullptr});
  EXPECT_EQ(c.k_mean.snapshot(), all.k_mean.snapshot());
  EXPECT_EQ(c.basis.snapshot(), all.basis.snapshot());
  EXPECT_EQ(c.q_mean.snapshot(), untouched.q_mean.snapshot());
  EXPECT_EQ(c.scale.snapshot(), untouched.scale.snapshot());
  // Without q_mean and a basis no query is needed.
  TestTensor no_queries(testing::kBF16, {0, 4, 64});
  Calibration only(4, 2, 8, 64);
  calibrate(no_queries.dl(), k.dl(), {only.k_mean.ptr(), nullptr, nullptr, nullptr});
  EXPECT_EQ(only.k_mean.snapshot(), all.k_mean.snapshot());
}

// On real activations eight directions hold most of what the queries are made of.
TEST(CalibrateRealDataTest, EightDirectionsHoldMostOfTheQueries) {
  const auto file = internal::SafetensorsReader::open(MPFA_DATA_DIR "/smollm2_qkv_512.safetensors");
  for (const std::string layer : {"layer00", "layer15", "layer29"}) {
    DLTensor q = file.view(layer + ".q");
    DLTensor k = file.view(layer + ".k");
    int64_t q_shape[3] = {q.shape[1], q.shape[0], 64};
    int64_t q_strides[3] = {64, 64 * q.shape[1], 1};
    int64_t k_shape[3] = {k.shape[1], k.shape[0], 64};
    int64_t k_strides[3] = {64, 64 * k.shape[1], 1};
    q.shape = q_shape, q.strides = q_strides, k.shape = k_shape, k.strides = k_strides;
    Calibration c(9, 3, 8, 64);
    calibrate(q, k, c.out());
    expect_orthonormal(c);
    const auto queries = internal::Tensor<Bf16, 3>::from(q, "q");
    for (int64_t h = 0; h < 3; ++h) {
      double total = 0;
      double inside = 0;
      for (int64_t t = 0; t < queries.size(0); ++t) {
        for (int64_t g = 3 * h; g < 3 * h + 3; ++g) {
          for (int64_t i = 0; i < 64; ++i) total += std::pow(bf16_to_float(queries.at(t, g)[i]), 2);
          for (int64_t j = 0; j < 8; ++j) {
            double dot = 0;
            for (int64_t i = 0; i < 64; ++i) {
              dot += static_cast<double>(bf16_to_float(queries.at(t, g)[i])) *
                     static_cast<double>(c.basis.get({h, j, i}));
            }
            inside += dot * dot;
          }
        }
      }
      EXPECT_GT(inside / total, 0.6) << layer << " head " << h;
    }
  }
}

}  // namespace
}  // namespace mpfa
