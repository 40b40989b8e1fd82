// Strided DLPack tensors for tests. Memory between and around the elements holds 0xFF bytes: a NaN
// in every float type, so that a read outside the tensor shows in the result and a write outside
// shows in snapshot().
#pragma once

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "mpfa/check.h"
#include "mpfa/formats.h"

namespace mpfa::testing {

inline constexpr DLDataType kU8{kDLUInt, 8, 1};
inline constexpr DLDataType kI32{kDLInt, 32, 1};
inline constexpr DLDataType kF32{kDLFloat, 32, 1};
inline constexpr DLDataType kF16{kDLFloat, 16, 1};
inline constexpr DLDataType kBF16{kDLBfloat, 16, 1};
inline constexpr DLDataType kF8{kDLFloat8_e4m3fn, 8, 1};

class TestTensor {
 public:
  using Shape = std::vector<int64_t>;

  // Compact, or with the given strides (in elements).
  TestTensor(DLDataType dtype, Shape shape, Shape strides = {})
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)) {
    if (strides_.empty()) strides_ = row_major(shape_);
    int64_t last = 0;
    for (size_t i = 0; i < shape_.size(); ++i)
      last += std::max<int64_t>(shape_[i] - 1, 0) * strides_[i];
    memory_.assign(static_cast<size_t>((last + 1) * item_size() + 2 * kMargin), std::byte{0xFF});
  }

  // Gaps after every row of the last dimension and after every outer one.
  static TestTensor with_gaps(DLDataType dtype, const Shape& shape, int64_t gap = 3) {
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1] + gap;
    return TestTensor(dtype, shape, strides);
  }

  // The last two outer dimensions swapped in memory: [tokens, heads, d] over [heads, tokens, d].
  static TestTensor heads_first(DLDataType dtype, const Shape& shape) {
    return TestTensor(dtype, shape, {shape[2], shape[0] * shape[2], 1});
  }

  DLTensor dl() {
    DLTensor t{};
    t.data = memory_.data();
    t.byte_offset = kMargin;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape_.size());
    t.dtype = dtype_;
    t.shape = shape_.data();
    t.strides = strides_.data();
    return t;
  }
  // For parameters that are pointers; valid until the next call or a move.
  const DLTensor* ptr() {
    view_ = dl();
    return &view_;
  }

  const Shape& shape() const { return shape_; }
  int64_t item_size() const { return dtype_.bits * dtype_.lanes / 8; }

  template <typename T, typename... Index>
  T& at(Index... index) {
    return *reinterpret_cast<T*>(memory_.data() + kMargin + offset({index...}) * item_size());
  }

  float get(const Shape& index) const {
    const std::byte* p = memory_.data() + kMargin + offset(index) * item_size();
    if (dtype_.bits == 32) return read<float>(p);
    return dtype_.code == kDLBfloat ? bf16_to_float({read<uint16_t>(p)})
                                    : fp16_to_float({read<uint16_t>(p)});
  }
  void set(const Shape& index, float value) {
    std::byte* p = memory_.data() + kMargin + offset(index) * item_size();
    if (dtype_.bits == 32) {
      std::memcpy(p, &value, 4);
    } else {
      const uint16_t bits =
          dtype_.code == kDLBfloat ? bf16_from_float(value).bits : fp16_from_float(value).bits;
      std::memcpy(p, &bits, 2);
    }
  }

  // Calls fn(index) for every element in row-major order.
  void for_each(const std::function<void(const Shape&)>& fn) const {
    Shape index(shape_.size(), 0);
    int64_t count = 1;
    for (int64_t n : shape_) count *= n;
    for (int64_t i = 0; i < count; ++i) {
      fn(index);
      for (size_t dim = shape_.size(); dim-- > 0 && ++index[dim] == shape_[dim];) index[dim] = 0;
    }
  }
  void fill(const std::function<float(const Shape&)>& value) {
    for_each([&](const Shape& index) { set(index, value(index)); });
  }
  void fill_normal(uint32_t seed, float scale = 1, float mean = 0) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(mean, scale);
    fill([&](const Shape&) { return normal(random); });
  }

  // All bytes, gaps and margins included.
  const std::vector<std::byte>& snapshot() const { return memory_; }

 private:
  static constexpr int64_t kMargin = 64;

  static Shape row_major(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
  }
  template <typename T>
  static T read(const std::byte* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
  }
  int64_t offset(const Shape& index) const {
    int64_t result = 0;
    for (size_t i = 0; i < index.size(); ++i) result += index[i] * strides_[i];
    return result;
  }

  DLDataType dtype_;
  Shape shape_;
  Shape strides_;
  std::vector<std::byte> memory_;
  DLTensor view_{};
};

// Another type and shape over the memory where a tensor begins: what an overlapping argument is.
class ViewOver {
 public:
  ViewOver(const DLTensor& memory, DLDataType dtype, std::vector<int64_t> shape,
           std::vector<int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)), view_(memory) {
    view_.dtype = dtype;
    view_.ndim = static_cast<int32_t>(shape_.size());
  }
  const DLTensor* ptr() {
    view_.shape = shape_.data();
    view_.strides = strides_.empty() ? nullptr : strides_.data();
    return &view_;
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  DLTensor view_;
};

// Room for a large output, with the values of a small input at its start.
template <typename T>
TestTensor large_memory(DLDataType dtype, const std::vector<T>& values) {
  TestTensor memory(dtype, {4096});
  for (size_t i = 0; i < values.size(); ++i) {
    memory.at<T>(static_cast<int64_t>(i)) = values[i];
  }
  return memory;
}

inline TestTensor int_tensor(const std::vector<int32_t>& values) {
  TestTensor t(kI32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.at<int32_t>(static_cast<int64_t>(i)) = values[i];
  return t;
}

// The message of the InvalidArgument that fn throws.
inline std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Fails unless fn throws an InvalidArgument whose message starts with `start`.
inline void expect_error(const std::string& start, const std::function<void()>& fn) {
  const std::string message = error_of(fn);
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
}

// Runs fn with 1, 2 and 5 threads.
inline void for_thread_counts(const std::function<void()>& fn) {
  for (const size_t threads : {1, 2, 5}) {
    SCOPED_TRACE("threads: " + std::to_string(threads));
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena(static_cast<int>(threads)).execute(fn);
  }
}

// FP32 sum by halves of products, written as the recursion that it is: elements that are i modulo
// `step` are summed into one. Each operation is done in FP64 and rounded, which for + and * is the
// FP32 result.
inline float dot_oracle(const std::vector<float>& a, const std::vector<float>& b, size_t first = 0,
                        size_t step = 1) {
  if (step == a.size()) {
    return static_cast<float>(static_cast<double>(a[first]) * static_cast<double>(b[first]));
  }
  return static_cast<float>(static_cast<double>(dot_oracle(a, b, first, 2 * step)) +
                            static_cast<double>(dot_oracle(a, b, first + step, 2 * step)));
}

}  // namespace mpfa::testing
