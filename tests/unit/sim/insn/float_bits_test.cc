// copysign and testp.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/machine/fault.h"
#include "unit/sim/insn/expect_fault.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::one_kernel;
using testing::PtxProgram;

template <class F>
std::vector<F> samples() {
  using Limits = std::numeric_limits<F>;
  std::vector<F> values = {0,
                           1,
                           F(1.5),
                           Limits::min(),
                           std::nextafter(Limits::min(), F(0)),
                           Limits::denorm_min(),
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::signaling_NaN(),
                           F(3)};
  for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  values.resize(32, F(2));
  return values;
}

template <class F>
bool holds(const std::string& property, F x) {
  if (property == "finite") return std::isfinite(x);
  if (property == "infinite") return std::isinf(x);
  if (property == "number") return !std::isnan(x);
  if (property == "notanumber") return std::isnan(x);
  if (property == "normal") return std::isnormal(x) || x == 0;
  return std::fpclassify(x) == FP_SUBNORMAL;
}

template <class F>
void check_tests(const std::string& type) {
  for (const std::string property :
       {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    PtxProgram program(one_kernel("  .reg ." + type + " %a;\n  .reg .pred %p;\n  .reg .b32 %r1;",
                                  "ld.global." + type + " %a, [%rd1];\n" + "testp." + property +
                                      "." + type + " %p, %a;\nselp.u32 %r1, 1, 0, %p;\n" +
                                      "st.global.u32 [%rd2], %r1;",
                                  sizeof(F)));
    const std::vector<F> values = samples<F>();
    const uint64_t in = program.upload(values);
    const uint64_t out = program.upload(std::vector<uint32_t>(32));
    program.run("test", {}, in, out);
    const auto result = program.download<uint32_t>(out, 32);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(result[i], holds(property, values[i]) ? 1u : 0u) << property << " " << values[i];
    }
  }
}

TEST(FloatBits, TestsOfProperties) {
  check_tests<float>("f32");
  check_tests<double>("f64");
}

template <class F, class Bits>
void check_copysign(const std::string& type) {
  const std::vector<F> values = samples<F>();
  PtxProgram program(one_kernel("  .reg ." + type + " %a, %b;",
                                "ld.global." + type + " %a, [%rd1];\nld.global." + type +
                                    " %b, [%rd2];\ncopysign." + type + " %a, %a, %b;\nst.global." +
                                    type + " [%rd2], %a;",
                                sizeof(F), sizeof(F)));
  for (size_t shift = 0; shift < 32; ++shift) {
    std::vector<F> magnitudes = values;
    std::rotate(magnitudes.begin(), magnitudes.begin() + static_cast<int64_t>(shift),
                magnitudes.end());
    const uint64_t in = program.upload(values);
    const uint64_t out = program.upload(magnitudes);
    program.run("test", {}, in, out);
    const auto result = program.download<Bits>(out, 32);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(result[i], std::bit_cast<Bits>(std::copysign(magnitudes[i], values[i]))) << i;
    }
  }
}

TEST(FloatBits, CopySignTakesTheFirstOperandsSign) {
  check_copysign<float, uint32_t>("f32");
  check_copysign<double, uint64_t>("f64");
}

TEST(FloatBits, ErrorsNameWhatIsWrong) {
  const auto decode = [](const std::string& text) {
    PtxProgram program(one_kernel("  .reg .pred %p;\n  .reg .b16 %h;\n  .reg .f32 %f;", text));
    const uint64_t memory = program.upload(std::vector<uint32_t>(32));
    program.run("test", {}, memory, memory);
  };
  const auto wrong = [&](const std::string& text, const std::string& part) {
    expect_fault(FaultKind::kIllegalInstruction, part, [&] { decode(text); });
  };
  wrong("testp.finite.f16 %p, %h;", ".f32 or .f64");
  wrong("testp.f32 %p, %f;", "property");
  wrong("testp.finite.zero.f32 %p, %f;", ".zero");
  wrong("copysign.f16 %h, %h, %h;", ".f32 or .f64");
  wrong("copysign.rn.f32 %f, %f, %f;", ".rn");
}

}  // namespace
}  // namespace mpfa::sim
