#include "sim/cudart/api.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "sim/cudart/runtime.h"
#include "sim/machine/fault.h"
#include "sim/ptx/lexer.h"

namespace mpfa::sim::cudart {
namespace {

// Never destroyed: programs may call the runtime from destructors that run at exit.
std::mutex& api_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

cudaError_t fault = cudaSuccess;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool is_within_host_function = false;

// The errors of an H200 for callers who may not use the device. A fork's child inherits no device
// from a parent who has used it.
cudaError_t error_of_caller() {
  static const pid_t user = getpid();
  if (getpid() != user) return cudaErrorInitializationError;
  return is_within_host_function ? cudaErrorNotPermitted : cudaSuccess;
}

cudaError_t refusal(Needs needs) {
  if (needs == Needs::kNothing) return cudaSuccess;
  const cudaError_t caller = error_of_caller();
  if (caller != cudaSuccess) return caller;
  return needs == Needs::kDevice ? fault : cudaSuccess;
}

cudaError_t error_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kIllegalAddress:
      return cudaErrorIllegalAddress;
    case FaultKind::kMisalignedAddress:
      return cudaErrorMisalignedAddress;
    case FaultKind::kIllegalInstruction:
      return cudaErrorIllegalInstruction;
    case FaultKind::kInvalidAddressSpace:
      return cudaErrorInvalidAddressSpace;
    case FaultKind::kInvalidPc:
      return cudaErrorInvalidPc;
    case FaultKind::kAssert:
      return cudaErrorAssert;
    case FaultKind::kDeadlock:
      return cudaErrorLaunchTimeout;
    case FaultKind::kInvalidLaunch:
      return cudaErrorInvalidValue;
    case FaultKind::kTrap:
    case FaultKind::kCheck:
      return cudaErrorLaunchFailure;
  }
  return cudaErrorLaunchFailure;
}

// CUDA_LOG_FILE is the real driver's variable too: stdout, stderr or a file, to which the reasons
// of errors are written.
void log_error(const char* name, cudaError_t code, const char* reason) {
  const char* target = std::getenv("CUDA_LOG_FILE");
  if (target == nullptr) return;
  const std::string_view where = target;
  std::FILE* file = where == "stdout"   ? stdout
                    : where == "stderr" ? stderr
                                        : std::fopen(target, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s: %s: %s\n", name, cudaGetErrorName(code), reason);
  if (file != stdout && file != stderr) std::fclose(file);
}

// The code for the exception in flight.
cudaError_t error_of_exception(const char* name) {
  try {
    throw;
  } catch (const ApiError& error) {
    log_error(name, error.code(), error.what());
    return error.code();
  } catch (const Fault& error) {
    const cudaError_t code = error_of(error.kind());
    if (error.kind() == FaultKind::kInvalidLaunch) {
      log_error(name, code, error.what());
    } else {
      fault = code;
      say(error.what());
    }
    return code;
  } catch (const PtxError& error) {
    say(error.what());
    return cudaErrorInvalidPtx;
  } catch (const std::bad_alloc&) {
    log_error(name, cudaErrorMemoryAllocation, "the host has no memory left");
    return cudaErrorMemoryAllocation;
  } catch (const std::exception& error) {
    say(std::string(name) + ": " + error.what());
    return cudaErrorUnknown;
  }
}

}  // namespace

cudaError_t api_call(const char* name, Needs needs, const std::function<void()>& body) {
  const std::lock_guard lock(api_mutex());
  cudaError_t result = refusal(needs);
  if (result == cudaSuccess) {
    try {
      if (needs == Needs::kDevice) model();  // fails where the simulator's settings are wrong
      body();
    } catch (...) {
      result = error_of_exception(name);
    }
  }
  if (result != cudaSuccess) last_error = result;
  return result;
}

Unlocked::Unlocked() { api_mutex().unlock(); }
Unlocked::~Unlocked() { api_mutex().lock(); }

WithinHostFunction::WithinHostFunction()
    : last_error_before_(std::exchange(last_error, cudaSuccess)) {
  is_within_host_function = true;
}
WithinHostFunction::~WithinHostFunction() {
  is_within_host_function = false;
  last_error = last_error_before_;
}

cudaError_t device_fault() { return fault; }

// As an H200 does: what had faulted stays out of reach for the process.
void reset_after_fault() {
  if (fault != cudaSuccess) fault = cudaErrorDevicesUnavailable;
}

cudaError_t peek_last_error() { return last_error; }

cudaError_t take_last_error() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

void set_last_error(cudaError_t error) { last_error = error; }

void say(const std::string& message) {
  std::fprintf(stderr, "simulated GPU: %s\n", message.c_str());
}

}  // namespace mpfa::sim::cudart
