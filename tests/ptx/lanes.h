// Tests of instructions that work lane by lane: a kernel a form, a thread an input.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness.h"

namespace mpfa::ptx_test {

// A thread's operands and results.
struct Lane {
  uint64_t a, b, c, d;
  uint64_t x, y;
};

// inputs[4 * i ...] of thread i; results[2 * i ...].
template <class Body>
__global__ void run_lanes(Body body, const uint64_t* inputs, uint64_t* results) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  Lane lane = {inputs[4 * i], inputs[4 * i + 1], inputs[4 * i + 2], inputs[4 * i + 3], 0, 0};
  body(lane);
  results[2 * i] = lane.x;
  results[2 * i + 1] = lane.y;
}

struct LaneForm {
  std::string name;
  std::vector<Kind> operands;
  int bits = 32;    // of a result
  int results = 1;  // of a lane
  size_t count = 1024;
  std::optional<Tolerance> tolerance;
};

inline std::string describe(const LaneForm& form, const std::vector<uint64_t>& inputs) {
  std::string text;
  for (size_t k = 0; k < form.operands.size(); ++k) {
    text +=
        (k == 0 ? "" : " ") + std::string(1, static_cast<char>('a' + k)) + "=" + hex(inputs[k], 4);
  }
  return text;
}

using Inputs = std::vector<std::vector<uint64_t>>;
// Starts the kernel of a form.
using LaneLaunch = std::function<void(unsigned blocks, const uint64_t* inputs, uint64_t* results)>;

inline constexpr unsigned kLanesOfBlock = 128;

// Runs a form for every one of `inputs`, whose number is a multiple of kLanesOfBlock.
inline void run_launch(Suite& suite, const LaneForm& form, const Inputs& inputs,
                       const LaneLaunch& launch) {
  std::vector<uint64_t> flat(inputs.size() * 4);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t k = 0; k < inputs[i].size(); ++k) {
      flat[4 * i + k] = inputs[i][k];
    }
  }
  const DeviceArray<uint64_t> device_inputs(flat);
  const DeviceArray<uint64_t> device_results(inputs.size() * 2);
  launch(static_cast<unsigned>(inputs.size() / kLanesOfBlock), device_inputs.data(),
         device_results.data());
  if (!finished(suite, form.name)) {
    return;
  }
  const auto per_lane = static_cast<size_t>(form.results);
  Results results;
  results.name = form.name;
  results.bits = form.bits;
  results.tolerance = form.tolerance;
  results.group *= per_lane;
  results.first *= per_lane;
  const std::vector<uint64_t> pairs = device_results.values();
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t r = 0; r < per_lane; ++r) {
      results.values.push_back(pairs[2 * i + r]);
    }
  }
  results.inputs_of = [&](size_t i) { return describe(form, inputs[i / per_lane]); };
  suite.add(results);
}

template <class Body>
LaneLaunch launch_of(Body body) {
  return [body](unsigned blocks, const uint64_t* inputs, uint64_t* results) {
    run_lanes<<<blocks, kLanesOfBlock>>>(body, inputs, results);
  };
}

// The inputs depend on the operands' kinds alone, so that forms of the same operands compare.
inline void run_inputs_of_kind(Suite& suite, const LaneForm& form, const LaneLaunch& launch) {
  if (suite.wants(form.name)) {
    run_launch(suite, form, make_inputs(form.operands, form.count, 20240901), launch);
  }
}

template <class Body>
void run_form(Suite& suite, const LaneForm& form, Body body) {
  run_inputs_of_kind(suite, form, launch_of(body));
}

}  // namespace mpfa::ptx_test

// Registers by their width, as inline PTX and C++ name them.
#define PTX_C16 "h"
#define PTX_C32 "r"
#define PTX_C64 "l"
#define PTX_T16 uint16_t
#define PTX_T32 uint32_t
#define PTX_T64 uint64_t

// Bodies of one instruction: a result of width X of operands of widths A, B, C, D. `text` names
// them %0, %1 ...; CLOSE ends it.
#define PTX_1(X, A, text)                                                           \
  [] __device__(::mpfa::ptx_test::Lane& lane) {                                     \
    PTX_T##X x;                                                                     \
    asm volatile(text : "=" PTX_C##X(x) : PTX_C##A(static_cast<PTX_T##A>(lane.a))); \
    lane.x = x;                                                                     \
  }
#define PTX_2(X, A, B, text)                                 \
  [] __device__(::mpfa::ptx_test::Lane& lane) {              \
    PTX_T##X x;                                              \
    asm volatile(text                                        \
                 : "=" PTX_C##X(x)                           \
                 : PTX_C##A(static_cast<PTX_T##A>(lane.a)),  \
                   PTX_C##B(static_cast<PTX_T##B>(lane.b))); \
    lane.x = x;                                              \
  }
#define PTX_3(X, A, B, C, text)                              \
  [] __device__(::mpfa::ptx_test::Lane& lane) {              \
    PTX_T##X x;                                              \
    asm volatile(text                                        \
                 : "=" PTX_C##X(x)                           \
                 : PTX_C##A(static_cast<PTX_T##A>(lane.a)),  \
                   PTX_C##B(static_cast<PTX_T##B>(lane.b)),  \
                   PTX_C##C(static_cast<PTX_T##C>(lane.c))); \
    lane.x = x;                                              \
  }
#define PTX_4(X, A, B, C, D, text)                                                           \
  [] __device__(::mpfa::ptx_test::Lane& lane) {                                              \
    PTX_T##X x;                                                                              \
    asm volatile(                                                                            \
        text                                                                                 \
        : "=" PTX_C##X(x)                                                                    \
        : PTX_C##A(static_cast<PTX_T##A>(lane.a)), PTX_C##B(static_cast<PTX_T##B>(lane.b)),  \
          PTX_C##C(static_cast<PTX_T##C>(lane.c)), PTX_C##D(static_cast<PTX_T##D>(lane.d))); \
    lane.x = x;                                                                              \
  }
// Two results, %0 and %1.
#define PTX_2_2(X, Y, A, B, text)                            \
  [] __device__(::mpfa::ptx_test::Lane& lane) {              \
    PTX_T##X x;                                              \
    PTX_T##Y y;                                              \
    asm volatile(text                                        \
                 : "=" PTX_C##X(x), "=" PTX_C##Y(y)          \
                 : PTX_C##A(static_cast<PTX_T##A>(lane.a)),  \
                   PTX_C##B(static_cast<PTX_T##B>(lane.b))); \
    lane.x = x;                                              \
    lane.y = y;                                              \
  }
#define PTX_2_3(X, Y, A, B, C, text)                         \
  [] __device__(::mpfa::ptx_test::Lane& lane) {              \
    PTX_T##X x;                                              \
    PTX_T##Y y;                                              \
    asm volatile(text                                        \
                 : "=" PTX_C##X(x), "=" PTX_C##Y(y)          \
                 : PTX_C##A(static_cast<PTX_T##A>(lane.a)),  \
                   PTX_C##B(static_cast<PTX_T##B>(lane.b)),  \
                   PTX_C##C(static_cast<PTX_T##C>(lane.c))); \
    lane.x = x;                                              \
    lane.y = y;                                              \
  }
#define PTX_2_4(X, Y, A, B, C, D, text)                                                      \
  [] __device__(::mpfa::ptx_test::Lane& lane) {                                              \
    PTX_T##X x;                                                                              \
    PTX_T##Y y;                                                                              \
    asm volatile(                                                                            \
        text                                                                                 \
        : "=" PTX_C##X(x), "=" PTX_C##Y(y)                                                   \
        : PTX_C##A(static_cast<PTX_T##A>(lane.a)), PTX_C##B(static_cast<PTX_T##B>(lane.b)),  \
          PTX_C##C(static_cast<PTX_T##C>(lane.c)), PTX_C##D(static_cast<PTX_T##D>(lane.d))); \
    lane.x = x;                                                                              \
    lane.y = y;                                                                              \
  }

// Forms `op` of one width throughout, whose operands are all of `kind`.
#define UNARY(op, W, kind)                                                   \
  ::mpfa::ptx_test::run_form(suite, {op, {::mpfa::ptx_test::Kind::kind}, W}, \
                             PTX_1(W, W, op " %0, %1;"))
#define BINARY(op, W, kind)                                                         \
  ::mpfa::ptx_test::run_form(                                                       \
      suite, {op, {::mpfa::ptx_test::Kind::kind, ::mpfa::ptx_test::Kind::kind}, W}, \
      PTX_2(W, W, W, op " %0, %1, %2;"))
#define TERNARY(op, W, kind)                                                                       \
  ::mpfa::ptx_test::run_form(                                                                      \
      suite,                                                                                       \
      {op,                                                                                         \
       {::mpfa::ptx_test::Kind::kind, ::mpfa::ptx_test::Kind::kind, ::mpfa::ptx_test::Kind::kind}, \
       W},                                                                                         \
      PTX_3(W, W, W, W, op " %0, %1, %2, %3;"))
