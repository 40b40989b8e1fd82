#include "core/cache_layout.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "core/shapes.h"
#include "core/value_checks.h"

namespace mpfa::internal {
namespace {

constexpr const char* kLikeCodes = "as k_codes has";

const DLTensor& required(const DLTensor* tensor, std::string_view name) {
  MPFA_CHECK(tensor != nullptr, name, " is missing: it is required");
  return *tensor;
}

void check_required_with(bool condition, const DLTensor* tensor, std::string_view name,
                         std::string_view reason) {
  MPFA_CHECK(!condition || tensor != nullptr, name, " is missing: it is required with ", reason);
}

// k_codes decides every size that the others must agree with.
void read_shape(const DLTensor& k_codes, CacheTensors& t) {
  t.num_pages = t.k_codes.size(0);
  t.num_kv_heads = t.k_codes.size(1);
  t.page_size = t.k_codes.size(2);
  const int64_t half = t.k_codes.size(3);
  MPFA_CHECK(half <= kHeadDims.back() && is_head_dim(2 * half), "k_codes has shape ",
             shape_string(k_codes), ": its last dimension is head_dim / 2, and head_dim must be ",
             alternatives(kHeadDims));
  t.head_dim = static_cast<int>(2 * half);
  MPFA_CHECK(t.num_kv_heads >= 1, "k_codes has shape ", shape_string(k_codes),
             ": needs at least one KV head");
  MPFA_CHECK(is_page_size(t.page_size), "page_size = ", t.page_size, " (k_codes has shape ",
             shape_string(k_codes), "): must be ", alternatives(kPageSizes));
}

void check_pages(const DLTensor& tensor, std::string_view name, const CacheTensors& t,
                 int64_t inner) {
  check_size(tensor, name, 0, t.num_pages, kLikeCodes);
  check_size(tensor, name, 1, t.num_kv_heads, kLikeCodes);
  check_size(tensor, name, 2, t.page_size, kLikeCodes);
  check_size(tensor, name, 3, inner, "to fit head_dim");
}

void check_residual(const KvCacheView& cache, CacheTensors& t) {
  if (cache.k_residual == nullptr) return;
  t.k_residual = Tensor<E4m3, 4>::from(cache.k_residual, "k_residual");
  const int64_t r = t.k_residual.size(3);
  MPFA_CHECK(is_residual_rank(r), "k_residual has shape ", shape_string(*cache.k_residual),
             ": its last dimension, the residual rank, must be ", alternatives(kResidualRanks));
  t.residual_rank = static_cast<int>(r);
  check_pages(*cache.k_residual, "k_residual", t, r);
}

void check_delta_s(const KvCacheView& cache, CacheTensors& t) {
  if (cache.delta_s == nullptr) return;
  t.delta_s = Tensor<Bf16, 3>::from(cache.delta_s, "delta_s");
  check_size(*cache.delta_s, "delta_s", 0, t.num_pages, kLikeCodes);
  check_size(*cache.delta_s, "delta_s", 2, t.page_size, kLikeCodes);
  t.num_q_heads = t.delta_s.size(1);
  MPFA_CHECK(t.num_q_heads >= 1 && t.num_q_heads % t.num_kv_heads == 0, "delta_s has shape ",
             shape_string(*cache.delta_s), ": its query heads must be a multiple of the ",
             t.num_kv_heads, " KV heads");
}

void check_stats_shape(const DLTensor* tensor, std::string_view name, const CacheTensors& t,
                       int64_t heads) {
  if (tensor == nullptr) return;
  check_size(*tensor, name, 0, t.num_stats, "as k_mean has");
  check_size(*tensor, name, 1, heads, "the number of heads");
}

void read_stats(const KvCacheView& cache, Values values, CacheTensors& t) {
  const StatsView& s = cache.stats;
  const DLTensor& k_mean = required(s.k_mean, "k_mean");
  t.stats.k_mean = Tensor<float, 3>::from(k_mean, "k_mean");
  t.num_stats = t.stats.k_mean.size(0);
  MPFA_CHECK(t.num_stats >= 1, "k_mean has shape ", shape_string(k_mean),
             ": needs at least one row of statistics");
  check_size(k_mean, "k_mean", 1, t.num_kv_heads, kLikeCodes);
  check_size(k_mean, "k_mean", 2, t.head_dim, "head_dim");

  check_required_with(static_cast<bool>(t.delta_s), s.q_mean, "q_mean", "delta_s");
  t.stats.q_mean = Tensor<float, 3>::from(s.q_mean, "q_mean");
  if (s.q_mean != nullptr) {
    if (t.num_q_heads == 0) t.num_q_heads = t.stats.q_mean.size(1);
    check_stats_shape(s.q_mean, "q_mean", t, t.num_q_heads);
    check_size(*s.q_mean, "q_mean", 2, t.head_dim, "head_dim");
    MPFA_CHECK(t.num_q_heads >= 1 && t.num_q_heads % t.num_kv_heads == 0, "q_mean has shape ",
               shape_string(*s.q_mean), ": its heads must be a multiple of the ", t.num_kv_heads,
               " KV heads");
  }
  t.stats.k_scale = Tensor<float, 2>::from(s.k_scale, "k_scale", false);
  t.stats.v_scale = Tensor<float, 2>::from(s.v_scale, "v_scale", false);
  check_stats_shape(s.k_scale, "k_scale", t, t.num_kv_heads);
  check_stats_shape(s.v_scale, "v_scale", t, t.num_kv_heads);
  if (values == Values::kOnDevice) return;
  check_positive(t.stats.k_scale, "k_scale");
  check_positive(t.stats.v_scale, "v_scale");
}

void read_residual_stats(const KvCacheView& cache, Values values, CacheTensors& t) {
  const StatsView& s = cache.stats;
  const bool needed = static_cast<bool>(t.k_residual);
  check_required_with(needed, s.residual_basis, "residual_basis", "k_residual");
  check_required_with(needed, s.residual_scale, "residual_scale", "k_residual");
  if (!needed) return;
  t.stats.residual_basis = Tensor<float, 4>::from(s.residual_basis, "residual_basis");
  t.stats.residual_scale = Tensor<float, 3>::from(s.residual_scale, "residual_scale");
  check_stats_shape(s.residual_basis, "residual_basis", t, t.num_kv_heads);
  check_stats_shape(s.residual_scale, "residual_scale", t, t.num_kv_heads);
  check_size(*s.residual_basis, "residual_basis", 2, t.residual_rank, "as k_residual has");
  check_size(*s.residual_basis, "residual_basis", 3, t.head_dim, "head_dim");
  check_size(*s.residual_scale, "residual_scale", 2, t.residual_rank, "as k_residual has");
  if (values == Values::kKnown) check_positive(t.stats.residual_scale, "residual_scale");
}

std::vector<NamedTensor> present(std::initializer_list<NamedTensor> tensors) {
  std::vector<NamedTensor> result;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(result),
               [](const NamedTensor& t) { return t.tensor != nullptr; });
  return result;
}

}  // namespace

CacheTensors check_cache(const KvCacheView& cache, Values values) {
  CacheTensors t;
  const DLTensor& k_codes = required(cache.k_codes, "k_codes");
  t.k_codes = Tensor<uint8_t, 4>::from(k_codes, "k_codes");
  read_shape(k_codes, t);
  t.k_scales = Tensor<E4m3, 4>::from(required(cache.k_scales, "k_scales"), "k_scales");
  t.v = Tensor<E4m3, 4>::from(required(cache.v, "v"), "v");
  check_pages(*cache.k_scales, "k_scales", t, t.head_dim / kNvfp4BlockSize);
  check_pages(*cache.v, "v", t, t.head_dim);
  check_delta_s(cache, t);
  check_residual(cache, t);
  if (cache.k_first != nullptr) {
    t.k_first = Tensor<Bf16, 3>::from(cache.k_first, "k_first");
    check_size(*cache.k_first, "k_first", 0, t.num_pages, kLikeCodes);
    check_size(*cache.k_first, "k_first", 1, t.num_kv_heads, kLikeCodes);
    check_size(*cache.k_first, "k_first", 2, t.head_dim, "head_dim");
  }
  read_stats(cache, values, t);
  read_residual_stats(cache, values, t);
  t.stats_index = Tensor<int32_t, 1>::from(cache.stats_index, "stats_index", false);
  return t;
}

std::vector<NamedTensor> page_tensors(const KvCacheView& cache) {
  return present({{cache.k_codes, "the cache's k_codes"},
                  {cache.k_scales, "the cache's k_scales"},
                  {cache.v, "the cache's v"},
                  {cache.delta_s, "the cache's delta_s"},
                  {cache.k_residual, "the cache's k_residual"},
                  {cache.k_first, "the cache's k_first"}});
}

std::vector<NamedTensor> stats_tensors(const KvCacheView& cache) {
  const StatsView& s = cache.stats;
  const bool residual = cache.k_residual != nullptr;
  return present({{s.k_mean, "k_mean"},
                  {s.q_mean, "q_mean"},
                  {residual ? s.residual_basis : nullptr, "residual_basis"},
                  {residual ? s.residual_scale : nullptr, "residual_scale"},
                  {s.k_scale, "k_scale"},
                  {s.v_scale, "v_scale"},
                  {cache.stats_index, "stats_index"}});
}

}  // namespace mpfa::internal
