// The frame of the instruction tests: PROGRAM --record FILE writes what every form of instruction
// gave, PROGRAM --check FILE compares with that.
//
// A record is a line a form: its name, how many values it gave, their hash, the first of them, and
// a character a group of values by which a mismatch among the others is found. With --all every
// value is written, to see the expected ones.
#pragma once

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "inputs.h"

namespace mpfa::ptx_test {

// How far an approximation may be from the recorded one, which may be as far from the exact value:
// twice the documented error. The larger of the two bounds holds.
struct Tolerance {
  FloatFormat format;
  int elements = 1;  // in a value
  double relative = 0;
  double absolute = 0;
};

// What one form of instruction gave.
struct Results {
  std::string name;
  int bits = 32;  // of a value
  std::vector<uint64_t> values;
  std::function<std::string(size_t)> inputs_of;  // those that gave values[i]
  size_t group = 4;                              // values that share a check character
  size_t first = 16;                             // values recorded as they are
  std::optional<Tolerance> tolerance;            // none: bit for bit
};

inline std::string hex(uint64_t value, int bits) {
  char text[20];
  std::snprintf(text, sizeof text, "%0*llx", (bits + 3) / 4,
                static_cast<unsigned long long>(value));
  return text;
}

inline double to_double(const FloatFormat& format, uint64_t bits) {
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits & format.top_exponent());
  const auto mantissa = static_cast<double>(bits & format.mantissa_mask());
  const bool special = format.infinities && exponent == static_cast<int>(format.top_exponent());
  double value = 0;
  if (special) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + std::ldexp(1.0, format.mantissa_bits),
                       exponent - format.bias() - format.mantissa_bits);
  }
  return (bits & format.sign()) != 0 ? -value : value;
}

class Hash {
 public:
  void add(uint64_t value) {
    state_ = (state_ ^ value) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 29;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x243F6A8885A308D3u;
};

inline uint64_t hash_of(const std::vector<uint64_t>& values) {
  Hash hash;
  for (const uint64_t value : values) {
    hash.add(value);
  }
  return hash.value();
}

// A character for each group of values.
inline std::string check_characters(const Results& results) {
  static constexpr char kAlphabet[] =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";
  std::string characters;
  for (size_t i = 0; i < results.values.size(); i += results.group) {
    Hash hash;
    for (size_t j = i; j < i + results.group && j < results.values.size(); ++j) {
      hash.add(results.values[j]);
    }
    characters += kAlphabet[hash.value() >> 58];
  }
  return characters;
}

// A line of a record.
struct Recorded {
  size_t count = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> first;
  std::string checks;
};

class Suite {
 public:
  Suite(int argc, char** argv) : arguments_(argv, argv + argc) {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--all") {
        all_values_ = true;
      } else if (i + 1 < argc && option == "--record") {
        record_.open(argv[++i]);
        ready_ = record_.good();
      } else if (i + 1 < argc && option == "--check") {
        read_record(argv[++i]);
      } else if (i + 1 < argc && option == "--only") {
        only_ = argv[++i];
      } else if (i + 3 < argc && option == "--after") {  // as continue_after() says
        after_ = argv[++i];
        forms_ = std::atoi(argv[++i]);
        failed_ = std::atoi(argv[++i]);
      } else {
        ready_ = false;
        break;
      }
    }
    if (!ready_) {
      std::fprintf(stderr,
                   "usage: %s --record FILE [--all] | --check FILE  [--only PART_OF_A_NAME]\n",
                   argv[0]);
      std::exit(2);
    }
    if (record_.is_open()) {
      write_header();
    }
  }

  // Whether to run a form; asked once of each, in their order.
  bool wants(const std::string& name) {
    if (!after_.empty()) {
      if (name == after_) {
        after_.clear();
      }
      return false;
    }
    return name.find(only_) != std::string::npos;
  }

  // Records or checks.
  void add(const Results& results) {
    ++forms_;
    if (!names_.insert(results.name).second) {
      fail(results.name, "two forms have this name");
      return;
    }
    if (record_.is_open()) {
      write(results);
      return;
    }
    const auto found = recorded_.find(results.name);
    if (found == recorded_.end()) {
      fail(results.name, "is not in the record");
    } else if (found->second.count != results.values.size()) {
      fail(results.name, "gave " + std::to_string(results.values.size()) + " values, not " +
                             std::to_string(found->second.count));
    } else if (results.tolerance) {
      check_near(results, found->second);
    } else if (found->second.hash != hash_of(results.values)) {
      report_mismatches(results, found->second);
    }
  }

  // Reports what is wrong with a form other than its recorded values.
  void fail(const std::string& name, const std::string& what) {
    ++failed_;
    std::printf("FAILED %s: %s\n", name.c_str(), what.c_str());
    std::fflush(stdout);
  }

  // A kernel that faults takes the device from the process, so another checks the forms that
  // follow.
  [[noreturn]] void continue_after(const std::string& name) {
    if (record_.is_open()) {
      std::exit(1);
    }
    ++forms_;
    std::vector<std::string> arguments;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i] == "--after") {
        i += 3;
      } else {
        arguments.push_back(arguments_[i]);
      }
    }
    for (const std::string& more :
         {std::string("--after"), name, std::to_string(forms_), std::to_string(failed_)}) {
      arguments.push_back(more);
    }
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    execv("/proc/self/exe", pointers.data());
    std::exit(1);
  }

  int finish() {
    std::printf("%d forms, %d failed\n", forms_, failed_);
    return failed_ == 0 && forms_ != 0 ? 0 : 1;
  }

 private:
  static constexpr int kShown = 6;  // mismatches of a form

  void write_header() {
    cudaDeviceProp properties{};
    int driver = 0;
    int runtime = 0;
    cudaGetDeviceProperties(&properties, 0);
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    record_ << "# " << properties.name << ", CUDA driver " << driver << ", runtime " << runtime
            << "\n";
  }

  void write(const Results& results) {
    const size_t first = all_values_ || results.tolerance
                             ? results.values.size()
                             : std::min(results.first, results.values.size());
    record_ << results.name << '\t' << results.values.size() << '\t'
            << hex(hash_of(results.values), 64) << '\t';
    for (size_t i = 0; i < first; ++i) {
      record_ << (i == 0 ? "" : " ") << hex(results.values[i], results.bits);
    }
    record_ << '\t' << (first == results.values.size() ? "" : check_characters(results)) << '\n';
  }

  void read_record(const char* path) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      ready_ = true;
      if (line.empty() || line[0] == '#') {
        continue;
      }
      std::istringstream fields(line);
      std::string name;
      std::string field;
      Recorded recorded;
      std::getline(fields, name, '\t');
      std::getline(fields, field, '\t');
      recorded.count = std::stoull(field);
      std::getline(fields, field, '\t');
      recorded.hash = std::stoull(field, nullptr, 16);
      std::getline(fields, field, '\t');
      std::istringstream values(field);
      while (values >> field) {
        recorded.first.push_back(std::stoull(field, nullptr, 16));
      }
      std::getline(fields, recorded.checks, '\t');
      recorded_.emplace(std::move(name), std::move(recorded));
    }
  }

  void show(const Results& results, size_t i, const std::string& expected) {
    std::printf("  %s [%zu] %s: expected %s, got %s\n", results.name.c_str(), i,
                results.inputs_of(i).c_str(), expected.c_str(),
                hex(results.values[i], results.bits).c_str());
  }

  void report_mismatches(const Results& results, const Recorded& recorded) {
    fail(results.name, "values differ");
    int found = 0;
    for (size_t i = 0; i < recorded.first.size(); ++i) {
      if (recorded.first[i] != results.values[i] && ++found <= kShown) {
        show(results, i, hex(recorded.first[i], results.bits));
      }
    }
    const std::string checks = recorded.checks.empty() ? "" : check_characters(results);
    for (size_t g = recorded.first.size() / results.group; g < checks.size(); ++g) {
      if (checks[g] == recorded.checks[g] || ++found > kShown) {
        continue;
      }
      for (size_t i = g * results.group;
           i < std::min((g + 1) * results.group, results.values.size()) &&
           i < g * results.group + 4;
           ++i) {
        show(results, i, "another (here or beside)");
      }
    }
    std::printf("  %s: %d places differ\n", results.name.c_str(), found);
  }

  // Whether `got` is as near to `expected` as it has to be; keeps the largest difference in ulp.
  static bool near(const Tolerance& tolerance, uint64_t expected, uint64_t got, double& worst_ulp) {
    double wanted = to_double(tolerance.format, expected);
    double value = to_double(tolerance.format, got);
    if (std::isnan(wanted) || std::isnan(value)) {
      return std::isnan(wanted) && std::isnan(value);
    }
    if (wanted == value) {
      return std::signbit(wanted) == std::signbit(value) || tolerance.absolute > 0;
    }
    // An infinity is what the next number after the largest would be.
    const double beyond = std::ldexp(1.0, tolerance.format.bias() + 1);
    wanted = std::clamp(wanted, -beyond, beyond);
    value = std::clamp(value, -beyond, beyond);
    const double difference = std::fabs(wanted - value);
    const int exponent = wanted == 0 ? 1 - tolerance.format.bias()
                                     : std::max(std::ilogb(wanted), 1 - tolerance.format.bias());
    worst_ulp =
        std::max(worst_ulp, std::ldexp(difference, tolerance.format.mantissa_bits - exponent));
    return difference <= std::max(tolerance.absolute, tolerance.relative * std::fabs(wanted));
  }

  void check_near(const Results& results, const Recorded& recorded) {
    const Tolerance& tolerance = *results.tolerance;
    const int width = results.bits / tolerance.elements;
    const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    double worst_ulp = 0;
    int found = 0;
    for (size_t i = 0; i < results.values.size(); ++i) {
      for (int e = 0; e < tolerance.elements; ++e) {
        const uint64_t expected = recorded.first[i] >> (e * width) & mask;
        const uint64_t got = results.values[i] >> (e * width) & mask;
        if (near(tolerance, expected, got, worst_ulp)) {
          continue;
        }
        if (found == 0) {
          fail(results.name, "values are too far away");
        }
        if (++found <= kShown) {
          show(results, i, hex(recorded.first[i], results.bits));
        }
      }
    }
    std::printf("  %s: largest difference %g ulp, %s\n", results.name.c_str(), worst_ulp,
                recorded.hash == hash_of(results.values) ? "all bits equal" : "some bits differ");
  }

  bool ready_ = false;
  bool all_values_ = false;
  std::vector<std::string> arguments_;
  std::string only_;
  std::string after_;  // the last form that another process ran
  std::ofstream record_;
  std::map<std::string, Recorded> recorded_;
  std::set<std::string> names_;
  int forms_ = 0;
  int failed_ = 0;
};

// Memory of the device for `count` T, filled with `values` where there are some.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    cudaMalloc(&data_, count * sizeof(T));
    cudaMemset(data_, 0, count * sizeof(T));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Waits for a kernel. False, and the form has failed, if it could not start; one that faulted ends
// this process.
inline bool finished(Suite& suite, const std::string& name) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) {
    error = cudaDeviceSynchronize();
  }
  if (error == cudaSuccess) {
    return true;
  }
  suite.fail(name, cudaGetErrorString(error));
  cudaGetLastError();
  if (cudaDeviceSynchronize() != cudaSuccess) {
    suite.continue_after(name);
  }
  return false;
}

}  // namespace mpfa::ptx_test
