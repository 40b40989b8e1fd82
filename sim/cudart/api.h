// How every function of the runtime begins and ends: one lock, a look at whether the device has
// faulted, exceptions turned into error codes, the thread's last error.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <mutex>
#include <string>

#include "mpfa/check.h"

namespace mpfa::sim::cudart {

// Ends an API call with `code`. The message is for CUDA_LOG_FILE (see log_error).
class ApiError : public Error {
 public:
  ApiError(cudaError_t code, const std::string& message) : Error(message), code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

template <typename... Args>
[[noreturn]] void fail(cudaError_t code, const Args&... reason) {
  throw ApiError(code, internal::str_cat(reason...));
}

template <typename... Args>
void require(bool condition, cudaError_t code, const Args&... reason) {
  if (!condition) [[unlikely]]
    fail(code, reason...);
}

// For pointers through which a function returns or takes something.
inline void require_pointer(const void* pointer, const char* what) {
  require(pointer != nullptr, cudaErrorInvalidValue, what, " is null");
}

// What an API function needs before its body runs.
enum class Needs : uint8_t {
  kDevice,   // a device that has not faulted: after a fault the call fails with it
  kCaller,   // a caller who may use the device: no host function, and no child of a fork
  kNothing,  // answers always
};

// The body of API function `name`, under the runtime's lock. Returns what cudaGetLastError will say
// if it is not success.
cudaError_t api_call(const char* name, Needs needs, const std::function<void()>& body);

inline cudaError_t api_call(const char* name, const std::function<void()>& body) {
  return api_call(name, Needs::kDevice, body);
}

// The lock that api_call holds. Work that may last or call back into the program runs without it.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
};

// While it lives, the thread runs a host function of a stream or graph, which must not call the
// runtime (cudaLaunchHostFunc: "The host function must not make any CUDA API calls"). The last
// error is then that of a thread of its own, as on an H200, where another thread runs it.
class WithinHostFunction {
 public:
  WithinHostFunction();
  ~WithinHostFunction();
  WithinHostFunction(const WithinHostFunction&) = delete;
  WithinHostFunction& operator=(const WithinHostFunction&) = delete;

 private:
  cudaError_t last_error_before_;
};

// The error that later calls get, until the process ends; cudaSuccess if the device is well.
cudaError_t device_fault();
// Of cudaDeviceReset.
void reset_after_fault();

// The calling thread's last error.
cudaError_t peek_last_error();
cudaError_t take_last_error();
void set_last_error(cudaError_t error);

// Says on stderr what the user has to know in any case.
void say(const std::string& message);

}  // namespace mpfa::sim::cudart
