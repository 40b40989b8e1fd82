// Which shapes of a cache fit together. The rest of check_cache is in cache_layout_test.cc.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/cache_layout.h"
#include "unit/core/expect_invalid.h"
#include "unit/core/test_cache.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::TestCache;

// Every dimension of every tensor but stats_index is fixed by the others: one more is an error that
// names a tensor, its shape and the dimension. Which tensor is at fault cannot always be known:
// k_codes, delta_s, k_residual and k_mean are taken at their word.
TEST(CheckCache, EveryDimensionOfEveryTensorIsChecked) {
  TestCache reference;
  const size_t count = reference.all().size() - 1;
  for (size_t i = 0; i < count; ++i) {
    const int rank = (*reference.all()[i].tensor)->ndim;
    for (int dim = 0; dim < rank; ++dim) {
      TestCache cache;
      const auto [name, tensor] = cache.all()[i];
      SCOPED_TRACE(std::string(name) + ", dimension " + std::to_string(dim));
      tensor->set_size(dim, (*tensor)->shape[dim] + 1);
      expect_invalid([&] { check_cache(cache.view); }, {"has shape [", "]", "must be"});
    }
  }
}

struct ShapeCase {
  const char* name;
  int dim;
  int64_t size;
  const char* allowed;
};

void expect_shape_error(const ShapeCase& c) {
  SCOPED_TRACE(std::string(c.name) + ", dimension " + std::to_string(c.dim));
  TestCache cache;
  for (const auto& [name, tensor] : cache.all()) {
    if (name != c.name) continue;
    tensor->set_size(c.dim, c.size);
    expect_invalid([&] { check_cache(cache.view); },
                   {c.name, "has shape", std::to_string(c.size), c.allowed});
    return;
  }
  FAIL() << "no such tensor";
}

TEST(CheckCache, WrongSizesNameTensorShapeAndWhatIsAllowed) {
  const ShapeCase cases[] = {
      {"k_scales", 0, 2, "dimension 0 must be 3 (as k_codes has)"},
      {"k_scales", 1, 4, "dimension 1 must be 2 (as k_codes has)"},
      {"k_scales", 2, 8, "dimension 2 must be 16 (as k_codes has)"},
      {"k_scales", 3, 8, "dimension 3 must be 4 (to fit head_dim)"},
      {"v", 0, 2, "dimension 0 must be 3"},
      {"v", 1, 1, "dimension 1 must be 2"},
      {"v", 2, 15, "dimension 2 must be 16"},
      {"v", 3, 32, "dimension 3 must be 64 (to fit head_dim)"},
      {"delta_s", 0, 2, "dimension 0 must be 3"},
      {"delta_s", 1, 5, "query heads must be a multiple of the 2 KV heads"},
      {"delta_s", 1, 0, "query heads must be a multiple of the 2 KV heads"},
      {"delta_s", 2, 8, "dimension 2 must be 16"},
      {"k_residual", 0, 2, "dimension 0 must be 3"},
      {"k_residual", 1, 1, "dimension 1 must be 2"},
      {"k_residual", 2, 8, "dimension 2 must be 16"},
      {"k_residual", 3, 7, "residual rank, must be 4, 8 or 16"},
      {"k_residual", 3, 0, "residual rank, must be 4, 8 or 16"},
      {"k_residual", 3, 32, "residual rank, must be 4, 8 or 16"},
      {"k_first", 0, 2, "dimension 0 must be 3"},
      {"k_first", 1, 1, "dimension 1 must be 2"},
      {"k_first", 2, 32, "dimension 2 must be 64 (head_dim)"},
  };
  for (const ShapeCase& c : cases) expect_shape_error(c);
}

TEST(CheckCache, WrongSizesOfStatisticsAreNamed) {
  const ShapeCase cases[] = {
      {"k_mean", 0, 0, "at least one row of statistics"},
      {"k_mean", 1, 1, "dimension 1 must be 2 (as k_codes has)"},
      {"k_mean", 2, 32, "dimension 2 must be 64 (head_dim)"},
      {"q_mean", 0, 1, "dimension 0 must be 2 (as k_mean has)"},
      {"q_mean", 1, 4, "dimension 1 must be 6 (the number of heads)"},
      {"q_mean", 2, 32, "dimension 2 must be 64 (head_dim)"},
      {"residual_basis", 0, 1, "dimension 0 must be 2 (as k_mean has)"},
      {"residual_basis", 1, 1, "dimension 1 must be 2 (the number of heads)"},
      {"residual_basis", 2, 4, "dimension 2 must be 8 (as k_residual has)"},
      {"residual_basis", 3, 32, "dimension 3 must be 64 (head_dim)"},
      {"residual_scale", 0, 1, "dimension 0 must be 2 (as k_mean has)"},
      {"residual_scale", 1, 1, "dimension 1 must be 2 (the number of heads)"},
      {"residual_scale", 2, 4, "dimension 2 must be 8 (as k_residual has)"},
      {"k_scale", 0, 1, "dimension 0 must be 2 (as k_mean has)"},
      {"k_scale", 1, 1, "dimension 1 must be 2 (the number of heads)"},
      {"v_scale", 0, 3, "dimension 0 must be 2 (as k_mean has)"},
      {"v_scale", 1, 6, "dimension 1 must be 2 (the number of heads)"},
  };
  for (const ShapeCase& c : cases) expect_shape_error(c);
}

TEST(CheckCache, QMeanHeadsMustFitWithoutDeltaS) {
  TestCache cache;
  cache.view.delta_s = nullptr;
  for (const int64_t heads : {5, 1, 0}) {
    cache.q_mean.set_size(1, heads);
    expect_invalid(
        [&] { check_cache(cache.view); },
        {"q_mean", "[2, " + std::to_string(heads) + ", 64]", "multiple of the 2 KV heads"});
  }
}

TEST(CheckCache, OtherPageSizesAreRejected) {
  for (const int64_t page_size : {0, 1, 8, 15, 17, 48, 96, 256}) {
    TestCache cache;
    cache.k_codes.set_size(2, page_size);
    expect_invalid([&] { check_cache(cache.view); },
                   {"page_size = " + std::to_string(page_size), "k_codes", "16, 32, 64 or 128"});
  }
}

TEST(CheckCache, OtherHeadDimsAreRejected) {
  for (const int64_t head_dim : {0, 2, 32, 62, 80, 96, 192, 256, 512}) {
    TestCache cache;
    cache.k_codes.set_size(3, head_dim / 2);
    expect_invalid([&] { check_cache(cache.view); },
                   {"k_codes has shape", std::to_string(head_dim / 2),
                    "last dimension is head_dim / 2, and head_dim must be 64 or 128"});
  }
}

// Sizes that would wrap round to an allowed one.
TEST(CheckCache, HugeDimensionsAreRejected) {
  for (const int64_t half : {(int64_t{1} << 32) + 32, (int64_t{1} << 62) + 32, INT64_MAX}) {
    TestCache cache;
    cache.k_codes.set_shape({1, 1, 1, half});
    expect_invalid([&] { check_cache(cache.view); },
                   {"k_codes", std::to_string(half), "head_dim must be 64 or 128"});
  }
  TestCache cache;
  cache.k_residual.set_size(3, (int64_t{1} << 32) + 8);
  expect_invalid([&] { check_cache(cache.view); }, {"k_residual", "4294967304", "must be"});
}

TEST(CheckCache, NoKvHeadsIsRejected) {
  TestCache cache;
  cache.k_codes.set_size(1, 0);
  expect_invalid([&] { check_cache(cache.view); }, {"k_codes", "at least one KV head"});
}

}  // namespace
}  // namespace mpfa::internal
