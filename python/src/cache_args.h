// A cache as the Python side passes it: an array of tensors in a fixed order.
#pragma once

#include <array>
#include <string_view>

#include "args.h"
#include "mpfa/cache.h"

namespace mpfa::python {

// One member of KvCacheView and its name in docs/spec.md, section 4.
struct CacheField {
  std::string_view name;
  const DLTensor*& (*slot)(KvCacheView& cache);
};

// The array's order.
extern const std::array<CacheField, 13> kCacheFields;

// `tensors` has one element a field, None where the cache lacks it; the view is valid as long as
// the array. Errors: InvalidArgument for another number of elements.
KvCacheView cache_view(const Array<OptionalTensor>& tensors);

}  // namespace mpfa::python
