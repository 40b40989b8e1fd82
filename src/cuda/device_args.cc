#include "cuda/device_args.h"

#include "core/tensor.h"

namespace mpfa::internal {

DeviceArgs::DeviceArgs(const DLTensor& first, std::string_view name)
    : device_(first.device.device_id), first_name_(name) {}

const DLTensor& DeviceArgs::take(const DLTensor& tensor, std::string_view name) {
  MPFA_CHECK(tensor.device.device_type == kDLCUDA && tensor.device.device_id == device_, name,
             " lies on DLPack device type ", static_cast<int>(tensor.device.device_type),
             ", number ", tensor.device.device_id, ": must be type 2 (CUDA), number ", device_,
             ", as that of ", first_name_);
  DLTensor& view = views_.emplace_back(tensor);
  view.device = {kDLCPU, 0};
  return view;
}

const DLTensor* DeviceArgs::take(const DLTensor* tensor, std::string_view name) {
  return tensor == nullptr ? nullptr : &take(*tensor, name);
}

KvCacheView DeviceArgs::take(const KvCacheView& cache) {
  KvCacheView view;
  view.k_codes = take(cache.k_codes, "k_codes");
  view.k_scales = take(cache.k_scales, "k_scales");
  view.v = take(cache.v, "v");
  view.delta_s = take(cache.delta_s, "delta_s");
  view.k_residual = take(cache.k_residual, "k_residual");
  view.k_first = take(cache.k_first, "k_first");
  view.stats.k_mean = take(cache.stats.k_mean, "k_mean");
  view.stats.q_mean = take(cache.stats.q_mean, "q_mean");
  view.stats.residual_basis = take(cache.stats.residual_basis, "residual_basis");
  view.stats.residual_scale = take(cache.stats.residual_scale, "residual_scale");
  view.stats.k_scale = take(cache.stats.k_scale, "k_scale");
  view.stats.v_scale = take(cache.stats.v_scale, "v_scale");
  view.stats_index = take(cache.stats_index, "stats_index");
  return view;
}

int32_t* DeviceArgs::error_counter(const DLTensor* error_count) {
  if (error_count == nullptr) return nullptr;
  const auto counter = Tensor<int32_t, 1>::from(take(*error_count, "error_count"), "error_count");
  MPFA_CHECK(counter.size(0) == 1, "error_count has ", counter.size(0), " elements: must have 1");
  return counter.at();
}

}  // namespace mpfa::internal
