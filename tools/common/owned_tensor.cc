#include "common/owned_tensor.h"

namespace mpfa::tools {

OwnedTensor::OwnedTensor(std::string_view name, DLDataType dtype,
                         std::initializer_list<int64_t> shape)
    : memory_(std::make_unique<internal::AllocatedTensor>()) {
  memory_->allocate(name, dtype, shape);
}

}  // namespace mpfa::tools
