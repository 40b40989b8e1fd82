#include "core/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mpfa::internal {
namespace {

// Byte offsets of a view may be anything that its strides say; no product of them may overflow.
using Wide = __int128;

// Steps that one comparison may take: microseconds, and far more than layouts of one buffer need.
constexpr int64_t kMaxSteps = 4096;

bool is_empty(const DLTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t n) { return n == 0; });
}

Wide item_size(const DLTensor& tensor) {
  return (static_cast<Wide>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
}

struct ByteRange {
  Wide begin;
  Wide end;
};

// From the lowest byte of a tensor that is not empty to the one after its highest.
ByteRange byte_range(const DLTensor& tensor) {
  const Wide first = reinterpret_cast<uintptr_t>(data_of(tensor));
  ByteRange range{first, first + item_size(tensor)};
  for (int i = 0; i < tensor.ndim; ++i) {
    const Wide last =
        (static_cast<Wide>(tensor.shape[i]) - 1) * stride_of(tensor, i) * item_size(tensor);
    (last < 0 ? range.begin : range.end) += last;
  }
  return range;
}

bool ranges_meet(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.end && b.begin < a.end;
}

struct Dimension {
  Wide stride;  // above 0
  Wide size;
};

// Dimensions of more than one index, smallest stride first and strides positive: the same elements,
// as nothing here asks which index has which.
std::vector<Dimension> sorted_dimensions(const DLTensor& tensor, Wide unit) {
  std::vector<Dimension> dims;
  for (int i = 0; i < tensor.ndim; ++i) {
    const Wide stride = unit * stride_of(tensor, i);
    if (tensor.shape[i] > 1) dims.push_back({stride < 0 ? -stride : stride, tensor.shape[i]});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  return dims;
}

// A tensor's bytes as runs of spans[0] bytes, repeated by dims[0], that by dims[1], and so on;
// spans[k] is the extent of what the first k dimensions make of a run.
struct Footprint {
  std::vector<Dimension> dims;
  std::vector<Wide> spans;

  explicit Footprint(const DLTensor& tensor) : spans{item_size(tensor)} {
    for (const Dimension& dim : sorted_dimensions(tensor, item_size(tensor))) add(dim);
  }

 private:
  void add(Dimension dim) {
    if (dim.stride == 0) return;
    if (dims.empty() && dim.stride <= spans.back()) {
      spans.back() += (dim.size - 1) * dim.stride;  // touching runs are one
      return;
    }
    // Where a dimension goes on in the steps of the one below, both are one. The fewer levels, the
    // more often two views of a buffer step alike.
    if (!dims.empty() && dim.stride == dims.back().size * dims.back().stride) {
      dim = {dims.back().stride, dims.back().size * dim.size};
      dims.pop_back();
      spans.pop_back();
    }
    dims.push_back(dim);
    spans.push_back(spans.back() + (dim.size - 1) * dim.stride);
  }
};

// The largest t with t * step < bound.
Wide last_below(Wide bound, Wide step) {
  const Wide t = (bound - 1) / step;  // rounds towards 0
  return t * step < bound ? t : t - 1;
}

// Whether the first `ka` dimensions of a and `kb` of b share a byte, b beginning `shift` bytes
// after a. True when the steps run out.
bool meet(const Footprint& a, size_t ka, const Footprint& b, size_t kb, Wide shift,
          int64_t& steps) {
  if (shift >= a.spans[ka] || -shift >= b.spans[kb]) return false;
  if (ka == 0 && kb == 0) return true;
  if (--steps < 0) return true;
  const Wide step = ka > 0 ? a.dims[ka - 1].stride : 0;
  const Wide other_step = kb > 0 ? b.dims[kb - 1].stride : 0;
  if (step < other_step) return meet(b, kb, a, ka, -shift, steps);
  // Copy i of a is compared with all of b, or, where both step alike, with copy j: then only t = j
  // - i matters, and few t bring them together, however many copies there are.
  const bool alike = step == other_step;
  const size_t inner = alike ? kb - 1 : kb;
  const Wide most =
      std::min(alike ? b.dims[kb - 1].size - 1 : 0, last_below(a.spans[ka - 1] - shift, step));
  const Wide least = std::max(1 - a.dims[ka - 1].size, -last_below(b.spans[inner] + shift, step));
  for (Wide t = least; t <= most; ++t) {
    if (meet(a, ka - 1, b, inner, shift + t * step, steps)) return true;
  }
  return false;
}

}  // namespace

void check_distinct_elements(const DLTensor& tensor, std::string_view name) {
  if (is_empty(tensor)) return;
  Wide extent = 1;
  for (const auto& [stride, size] : sorted_dimensions(tensor, 1)) {
    MPFA_CHECK(stride >= extent, name, " has shape ", shape_string(tensor), " and a stride of ",
               static_cast<int64_t>(stride),
               " that makes its elements share memory: a written tensor must not overlap itself");
    extent += (size - 1) * stride;
  }
}

bool overlap(const DLTensor& a, const DLTensor& b) {
  if (is_empty(a) || is_empty(b)) return false;
  const ByteRange range_a = byte_range(a);
  const ByteRange range_b = byte_range(b);
  if (!ranges_meet(range_a, range_b)) return false;
  const Footprint footprint_a(a);
  const Footprint footprint_b(b);
  int64_t steps = kMaxSteps;
  return meet(footprint_a, footprint_a.dims.size(), footprint_b, footprint_b.dims.size(),
              range_b.begin - range_a.begin, steps);
}

void check_written(std::span<const NamedTensor> written, std::span<const NamedTensor> inputs) {
  const auto check_apart = [](const NamedTensor& output, const NamedTensor& other) {
    MPFA_CHECK(other.tensor == nullptr || !overlap(*output.tensor, *other.tensor), other.name,
               " overlaps ", output.name,
               " in memory: what is written must not share memory with another argument");
  };
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i].tensor == nullptr) continue;
    check_distinct_elements(*written[i].tensor, written[i].name);
    for (const NamedTensor& input : inputs) check_apart(written[i], input);
    for (const NamedTensor& other : written.subspan(i + 1)) check_apart(written[i], other);
  }
}

}  // namespace mpfa::internal
