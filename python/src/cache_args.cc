#include "cache_args.h"

namespace mpfa::python {

const std::array<CacheField, 13> kCacheFields = {{
    {"k_codes", [](KvCacheView& c) -> const DLTensor*& { return c.k_codes; }},
    {"k_scales", [](KvCacheView& c) -> const DLTensor*& { return c.k_scales; }},
    {"v", [](KvCacheView& c) -> const DLTensor*& { return c.v; }},
    {"delta_s", [](KvCacheView& c) -> const DLTensor*& { return c.delta_s; }},
    {"k_residual", [](KvCacheView& c) -> const DLTensor*& { return c.k_residual; }},
    {"k_first", [](KvCacheView& c) -> const DLTensor*& { return c.k_first; }},
    {"k_mean", [](KvCacheView& c) -> const DLTensor*& { return c.stats.k_mean; }},
    {"q_mean", [](KvCacheView& c) -> const DLTensor*& { return c.stats.q_mean; }},
    {"residual_basis", [](KvCacheView& c) -> const DLTensor*& { return c.stats.residual_basis; }},
    {"residual_scale", [](KvCacheView& c) -> const DLTensor*& { return c.stats.residual_scale; }},
    {"k_scale", [](KvCacheView& c) -> const DLTensor*& { return c.stats.k_scale; }},
    {"v_scale", [](KvCacheView& c) -> const DLTensor*& { return c.stats.v_scale; }},
    {"stats_index", [](KvCacheView& c) -> const DLTensor*& { return c.stats_index; }},
}};

KvCacheView cache_view(const Array<OptionalTensor>& tensors) {
  MPFA_CHECK(tensors.size() == kCacheFields.size(), "cache has ", tensors.size(),
             " tensors: must have ", kCacheFields.size());
  KvCacheView cache;
  for (size_t i = 0; i < kCacheFields.size(); ++i) {
    kCacheFields[i].slot(cache) = view_or_null(tensors[static_cast<int64_t>(i)]);
  }
  return cache;
}

}  // namespace mpfa::python
