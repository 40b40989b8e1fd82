// Memory that a call writes must belong to one element of one argument, or results would depend on
// the order of threads.
#pragma once

#include <dlpack/dlpack.h>

#include <span>
#include <string_view>

namespace mpfa::internal {

// A tensor whose shape and strides have been checked (core/tensor.h). Null: an absent argument.
struct NamedTensor {
  const DLTensor* tensor;
  std::string_view name;
};

// Refuses a tensor in which two indices mean one element. Every stride must step over all smaller
// dimensions; strides that interleave without meeting otherwise ({3, 2} for shape {2, 3}) are
// refused as well: nobody lays out a tensor that way, and telling them apart is a search.
void check_distinct_elements(const DLTensor& tensor, std::string_view name);

// Whether two tensors share a byte. Exact, not by their extents alone: views that interleave in one
// buffer (K and V side by side in a token's record) share nothing. Strides of no common step whose
// exact comparison would take too long count as sharing.
bool overlap(const DLTensor& a, const DLTensor& b);

// Checks all that a call writes: distinct elements, and nothing shared with an input or with
// another output. Inputs may overlap each other.
void check_written(std::span<const NamedTensor> written, std::span<const NamedTensor> inputs);

}  // namespace mpfa::internal
