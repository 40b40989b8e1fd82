// CUB's device-wide algorithms and Thrust's sort, of several types and sizes, against a CPU's
// results. The values are such that every result is exact, whatever the order of additions.
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

#define CHECK_CUDA(call)                                                                  \
  do {                                                                                    \
    const cudaError_t error = (call);                                                     \
    if (error != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (false)

int failures = 0;
int comparisons = 0;

template <typename T>
void expect_equal(const std::string& what, const std::vector<T>& got, const std::vector<T>& want) {
  ++comparisons;
  if (got == want) return;
  ++failures;
  size_t at = 0;
  while (at < got.size() && at < want.size() && got[at] == want[at]) ++at;
  std::printf("%s: differs at %zu of %zu (expected %zu)\n", what.c_str(), at, got.size(),
              want.size());
}

// A device's array.
template <typename T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) {
    CHECK_CUDA(cudaMalloc(&data_, std::max<size_t>(count, 1) * sizeof(T)));
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    CHECK_CUDA(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const { return values(count_); }
  std::vector<T> values(size_t count) const {
    std::vector<T> result(count);
    CHECK_CUDA(cudaMemcpy(result.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Calls `algorithm(storage, bytes)` twice, as CUB wants: for the size of its storage, then to run.
template <typename Algorithm>
void run(const Algorithm& algorithm) {
  size_t bytes = 0;
  CHECK_CUDA(algorithm(nullptr, bytes));
  const Array<std::byte> storage(bytes);
  CHECK_CUDA(algorithm(static_cast<void*>(storage.data()), bytes));
  CHECK_CUDA(cudaDeviceSynchronize());
}

// Small integers, whose sums floating-point numbers hold exactly too.
template <typename T>
std::vector<T> small_values(size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 15) - 7);
  return values;
}

// Every bit pattern of an integer; for floating point, numbers of both signs without NaN.
template <typename T>
std::vector<T> any_values(size_t count) {
  std::mt19937_64 random(count + 1);
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(static_cast<int64_t>(random())) / T{1024};
    } else {
      value = static_cast<T>(random());
    }
  }
  return values;
}

template <typename T>
void test_reduce(const std::string& type, size_t count) {
  const std::vector<T> host = small_values<T>(count);
  const Array<T> in(host);
  const Array<T> out(1);
  const auto n = static_cast<int>(count);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceReduce::Sum(storage, bytes, in.data(), out.data(), n);
  });
  expect_equal("reduce sum " + type, out.values(),
               {std::accumulate(host.begin(), host.end(), T{0})});
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceReduce::Max(storage, bytes, in.data(), out.data(), n);
  });
  expect_equal("reduce max " + type, out.values(), {*std::max_element(host.begin(), host.end())});

  const Array<cub::KeyValuePair<int, T>> least(1);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceReduce::ArgMin(storage, bytes, in.data(), least.data(), n);
  });
  const auto place = std::min_element(host.begin(), host.end());
  const auto got = least.values().front();
  expect_equal<T>("reduce argmin value " + type, {got.value}, {*place});
  expect_equal<int>("reduce argmin place " + type, {got.key},
                    {static_cast<int>(place - host.begin())});
}

template <typename T>
void test_scan(const std::string& type, size_t count) {
  const std::vector<T> host = small_values<T>(count);
  const Array<T> in(host);
  const Array<T> out(count);
  const auto n = static_cast<int>(count);
  std::vector<T> want(count);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(storage, bytes, in.data(), out.data(), n);
  });
  std::inclusive_scan(host.begin(), host.end(), want.begin());
  expect_equal("inclusive scan " + type, out.values(), want);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(storage, bytes, in.data(), out.data(), n);
  });
  std::exclusive_scan(host.begin(), host.end(), want.begin(), T{0});
  expect_equal("exclusive scan " + type, out.values(), want);
}

template <typename T>
void test_radix_sort(const std::string& type, size_t count) {
  std::vector<T> host = any_values<T>(count);
  const Array<T> in(host);
  const Array<T> out(count);
  const auto n = static_cast<int>(count);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(storage, bytes, in.data(), out.data(), n);
  });
  std::sort(host.begin(), host.end());
  expect_equal("radix sort " + type, out.values(), host);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeysDescending(storage, bytes, in.data(), out.data(), n);
  });
  std::reverse(host.begin(), host.end());
  expect_equal("radix sort descending " + type, out.values(), host);
}

// Few different keys, so that the order of equal ones is seen.
void test_radix_sort_pairs(size_t count) {
  std::vector<uint32_t> keys = any_values<uint32_t>(count);
  for (uint32_t& key : keys) key %= 100;
  std::vector<uint64_t> places(count);
  std::iota(places.begin(), places.end(), uint64_t{1} << 40);
  const Array<uint32_t> keys_in(keys);
  const Array<uint32_t> keys_out(count);
  const Array<uint64_t> places_in(places);
  const Array<uint64_t> places_out(count);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(storage, bytes, keys_in.data(), keys_out.data(),
                                           places_in.data(), places_out.data(),
                                           static_cast<int>(count));
  });
  std::vector<std::pair<uint32_t, uint64_t>> pairs;
  for (size_t i = 0; i < count; ++i) pairs.emplace_back(keys[i], places[i]);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < count; ++i) std::tie(keys[i], places[i]) = pairs[i];
  expect_equal("radix sort pairs, keys", keys_out.values(), keys);
  expect_equal("radix sort pairs, values", places_out.values(), places);
}

void test_histogram(size_t count, int bins) {
  const std::vector<float> host = small_values<float>(count);
  const Array<float> in(host);
  const Array<int> out(bins);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(storage, bytes, in.data(), out.data(), bins + 1,
                                               -8.F, static_cast<float>(bins) - 8.F,
                                               static_cast<int>(count));
  });
  std::vector<int> want(bins);
  for (const float value : host) {
    const int bin = static_cast<int>(value) + 8;
    if (bin < bins) ++want[bin];
  }
  expect_equal("histogram even", out.values(), want);
}

void test_histogram_range(size_t count) {
  const std::vector<int> host = small_values<int>(count);
  const std::vector<int> levels = {-6, -5, -1, 0, 3, 7};
  const Array<int> in(host);
  const Array<int> edges(levels);
  const Array<int> out(levels.size() - 1);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceHistogram::HistogramRange(storage, bytes, in.data(), out.data(),
                                                static_cast<int>(levels.size()), edges.data(),
                                                static_cast<int>(count));
  });
  std::vector<int> want(levels.size() - 1);
  for (const int value : host) {
    for (size_t bin = 0; bin + 1 < levels.size(); ++bin) {
      if (value >= levels[bin] && value < levels[bin + 1]) ++want[bin];
    }
  }
  expect_equal("histogram range", out.values(), want);
}

struct IsOdd {
  template <typename T>
  __host__ __device__ bool operator()(T value) const {
    return (value & 1) != 0;
  }
};

template <typename T>
void test_select(const std::string& type, size_t count) {
  const std::vector<T> host = any_values<T>(count);
  const Array<T> in(host);
  const Array<T> out(count);
  const Array<int> selected(1);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceSelect::If(storage, bytes, in.data(), out.data(), selected.data(),
                                 static_cast<int>(count), IsOdd{});
  });
  std::vector<T> want;
  std::copy_if(host.begin(), host.end(), std::back_inserter(want), IsOdd{});
  expect_equal("select if " + type, out.values(selected.values().front()), want);
}

// Runs of equal values, of very different lengths.
std::vector<int> runs(size_t count) {
  std::mt19937 random(7);
  std::vector<int> values;
  while (values.size() < count) {
    const size_t length = size_t{1} << (random() % 9);
    values.insert(values.end(), length, static_cast<int>(random() % 1000));
  }
  values.resize(count);
  return values;
}

void test_run_lengths(size_t count) {
  const std::vector<int> host = runs(count);
  const Array<int> in(host);
  const Array<int> values(count);
  const Array<int> lengths(count);
  const Array<int> number(1);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(storage, bytes, in.data(), values.data(),
                                              lengths.data(), number.data(),
                                              static_cast<int>(count));
  });
  std::vector<int> want_values;
  std::vector<int> want_lengths;
  for (const int value : host) {
    if (want_values.empty() || want_values.back() != value) {
      want_values.push_back(value);
      want_lengths.push_back(0);
    }
    ++want_lengths.back();
  }
  const auto found = static_cast<size_t>(number.values().front());
  expect_equal("run lengths, values", values.values(found), want_values);
  expect_equal("run lengths, lengths", lengths.values(found), want_lengths);
}

// Segments of 0 to 999 elements.
void test_segmented_reduce(size_t count) {
  const std::vector<int64_t> host = small_values<int64_t>(count);
  std::mt19937 random(3);
  std::vector<int> starts = {0, 0};
  while (static_cast<size_t>(starts.back()) < count) {
    starts.push_back(
        std::min(starts.back() + static_cast<int>(random() % 1000), static_cast<int>(count)));
  }
  const auto segments = static_cast<int>(starts.size()) - 1;
  const Array<int64_t> in(host);
  const Array<int> offsets(starts);
  const Array<int64_t> out(segments);
  run([&](void* storage, size_t& bytes) {
    return cub::DeviceSegmentedReduce::Sum(storage, bytes, in.data(), out.data(), segments,
                                           offsets.data(), offsets.data() + 1);
  });
  std::vector<int64_t> want;
  for (int i = 0; i < segments; ++i) {
    want.push_back(
        std::accumulate(host.begin() + starts[i], host.begin() + starts[i + 1], int64_t{0}));
  }
  expect_equal("segmented reduce", out.values(), want);
}

void test_thrust_sort(size_t count) {
  std::vector<int> host = any_values<int>(count);
  thrust::device_vector<int> device(host.begin(), host.end());
  thrust::sort(device.begin(), device.end(), thrust::greater<int>());
  std::sort(host.begin(), host.end(), std::greater<int>());
  std::vector<int> got(count);
  thrust::copy(device.begin(), device.end(), got.begin());
  expect_equal("thrust sort", got, host);

  std::vector<double> doubles = any_values<double>(count);
  thrust::device_vector<double> on_device(doubles.begin(), doubles.end());
  // Not an order that Thrust knows, so that it merges instead of sorting by digits.
  thrust::sort(on_device.begin(), on_device.end(),
               [] __device__(double a, double b) { return a < b; });
  std::sort(doubles.begin(), doubles.end());
  std::vector<double> doubles_got(count);
  thrust::copy(on_device.begin(), on_device.end(), doubles_got.begin());
  expect_equal("thrust merge sort", doubles_got, doubles);
}

// One tile's part, some tiles, and enough for the algorithms of large inputs.
constexpr size_t kSizes[] = {1, 1000, 30000};

}  // namespace

int main() {
  for (const size_t count : kSizes) {
    test_reduce<int>("int", count);
    test_reduce<float>("float", count);
    test_reduce<double>("double", count);
    test_scan<int>("int", count);
    test_scan<int64_t>("int64", count);
    test_scan<float>("float", count);
    test_radix_sort<uint8_t>("uint8", count);
    test_radix_sort<int>("int", count);
    test_radix_sort<uint64_t>("uint64", count);
    test_radix_sort<float>("float", count);
    test_radix_sort_pairs(count);
    test_histogram(count, 16);
    test_histogram(count, 4);
    test_histogram_range(count);
    test_select<uint32_t>("uint32", count);
    test_select<int64_t>("int64", count);
    test_run_lengths(count);
    test_segmented_reduce(count);
    test_thrust_sort(count);
  }
  std::printf("%d of %d comparisons agree\n", comparisons - failures, comparisons);
  std::printf(failures == 0 ? "Passed\n" : "Failed\n");
  return failures == 0 ? 0 : 1;
}
