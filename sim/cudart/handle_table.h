// The live objects of one kind, by the addresses that programs hold as handles.
#pragma once

#include <map>
#include <memory>
#include <utility>

namespace mpfa::sim::cudart {

template <typename T>
class HandleTable {
 public:
  T* add(std::shared_ptr<T> object) {
    T* address = object.get();
    live_[address] = std::move(object);
    return address;
  }

  // nullptr if there is none at this address.
  T* find(const void* handle) const {
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second.get();
  }

  std::shared_ptr<T> share(const void* handle) const {
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
  }

  // What was there; nullptr if nothing was.
  std::shared_ptr<T> remove(const void* handle) {
    const auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    live_.erase(found);
    return object;
  }

  const auto& all() const { return live_; }

 private:
  std::map<const void*, std::shared_ptr<T>> live_;
};

// Between objects and the opaque pointers that CUDA's headers declare for them.
template <typename Handle>
Handle to_handle(const void* object) {
  return static_cast<Handle>(const_cast<void*>(object));
}

}  // namespace mpfa::sim::cudart
