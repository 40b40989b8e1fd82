// Tests that run once for each precision of prefill. On most GPUs there is but one.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/stream_and_graph.h"
#include "mpfa/attention.h"

namespace mpfa::testing {

class PrefillPrecisionTest : public ::testing::TestWithParam<PrefillPrecision> {
 public:
  static std::string name(const ::testing::TestParamInfo<PrefillPrecision>& info) {
    switch (info.param) {
      case PrefillPrecision::kFp16:
        return "Fp16";
      case PrefillPrecision::kFp8:
        return "Fp8";
      case PrefillPrecision::kFp8Fp16Scores:
        return "Fp8Fp16Scores";
      default:
        return "Auto";
    }
  }

 protected:
  void SetUp() override {
    if (GetParam() == PrefillPrecision::kFp16) return;
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major != 9) GTEST_SKIP() << "computes as kFp16 on this GPU";
  }

  static PlanParams limits() {
    PlanParams limits;
    limits.prefill_precision = GetParam();
    return limits;
  }
};

}  // namespace mpfa::testing
