// What goes wrong while a kernel runs.
#pragma once

#include <cstdint>
#include <string>

#include "mpfa/check.h"

namespace mpfa::sim {

// The kinds that the CUDA runtime tells apart.
enum class FaultKind : uint8_t {
  kIllegalAddress,      // cudaErrorIllegalAddress
  kMisalignedAddress,   // cudaErrorMisalignedAddress
  kIllegalInstruction,  // cudaErrorIllegalInstruction: also one that the simulator lacks
  kInvalidAddressSpace,
  kInvalidPc,
  kAssert,         // cudaErrorAssert
  kTrap,           // cudaErrorLaunchFailure
  kDeadlock,       // all threads wait: hardware would hang (cudaErrorLaunchTimeout here)
  kCheck,          // a finding of the simulator's checks: races, uninitialised reads, ...
  kInvalidLaunch,  // cudaErrorInvalidValue / InvalidConfiguration, found before anything ran
};

// A kernel's end by fault. The message names kernel, source line, block, thread and address.
class Fault : public Error {
 public:
  Fault(FaultKind kind, const std::string& message) : Error(message), kind_(kind) {}
  FaultKind kind() const { return kind_; }

 private:
  FaultKind kind_;
};

}  // namespace mpfa::sim
