#include "common/tensor_view.h"

#include <algorithm>
#include <utility>

#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

int64_t count(const DLTensor& tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor.ndim; ++i) n *= tensor.shape[i];
  return n;
}

}  // namespace

TensorView::TensorView(const DLTensor& tensor)
    : shape_(tensor.shape, tensor.shape + tensor.ndim), tensor_(tensor) {
  for (int i = 0; i < tensor.ndim; ++i) strides_.push_back(internal::stride_of(tensor, i));
  tensor_.data = tensor.data == nullptr ? nullptr : internal::data_of(tensor);
  tensor_.byte_offset = 0;
}

int64_t TensorView::elements() const { return count(dl()); }

TensorView TensorView::slice(int dim, int64_t begin, int64_t end) const {
  const auto i = static_cast<size_t>(dim);
  MPFA_CHECK(0 <= begin && begin <= end && end <= shape_[i], "rows ", begin, " to ", end,
             ": must lie within 0 to ", shape_[i]);
  TensorView result = *this;
  result.shape_[i] = end - begin;
  if (result.tensor_.data != nullptr) {
    result.tensor_.data = data<std::byte>() + begin * strides_[i] * (tensor_.dtype.bits / 8);
  }
  return result;
}

TensorView TensorView::transposed(int dim0, int dim1) const {
  TensorView result = *this;
  std::swap(result.shape_[static_cast<size_t>(dim0)], result.shape_[static_cast<size_t>(dim1)]);
  std::swap(result.strides_[static_cast<size_t>(dim0)], result.strides_[static_cast<size_t>(dim1)]);
  return result;
}

TensorView TensorView::reshaped(std::vector<int64_t> shape) const {
  TensorView result = *this;
  result.shape_ = std::move(shape);
  result.strides_.assign(result.shape_.size(), 1);
  for (size_t i = result.shape_.size(); i-- > 1;) {
    result.strides_[i - 1] = result.strides_[i] * result.shape_[i];
  }
  MPFA_CHECK(result.elements() == elements(), "a tensor of ", elements(),
             " elements cannot have the shape ", internal::shape_string(result.dl()));
  return result;
}

const DLTensor& TensorView::dl() const {
  tensor_.ndim = rank();
  tensor_.shape = const_cast<int64_t*>(shape_.data());
  tensor_.strides = const_cast<int64_t*>(strides_.data());
  return tensor_;
}

OwnedTensor::OwnedTensor(std::string_view name, DLDataType dtype,
                         std::initializer_list<int64_t> shape)
    : memory_(std::make_unique<internal::HostTensor>()) {
  memory_->allocate(name, dtype, shape);
}

void copy_floats(const DLTensor& from, const DLTensor& to) {
  MPFA_CHECK(count(from) == count(to), "copying ", internal::shape_string(from), " to ",
             internal::shape_string(to), ": shapes must hold as many elements");
  std::copy_n(reinterpret_cast<const float*>(internal::data_of(from)), count(from),
              reinterpret_cast<float*>(internal::data_of(to)));
}

}  // namespace mpfa::tools
