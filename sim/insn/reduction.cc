#include "sim/insn/reduction.h"

#include <array>
#include <atomic>
#include <cstring>
#include <span>

namespace mpfa::sim {
namespace {

template <class T>
void reduce_elements(ReduceOp op, TensorMapType type, std::byte* to, const std::byte* from,
                     size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    std::atomic_ref<T> element(*reinterpret_cast<T*>(to + at));
    T old = element.load(std::memory_order_relaxed);
    T sum = old;
    do {
      sum = old;
      reduce(op, type, std::as_writable_bytes(std::span(&sum, 1)), std::span(from + at, sizeof(T)));
    } while (!element.compare_exchange_weak(old, sum, std::memory_order_relaxed));
  }
}

}  // namespace

ReduceOp take_reduce_op(InsnDecoder& d) {
  static constexpr std::array kOps = {ReduceOp::kAdd, ReduceOp::kMin, ReduceOp::kMax,
                                      ReduceOp::kInc, ReduceOp::kDec, ReduceOp::kAnd,
                                      ReduceOp::kOr,  ReduceOp::kXor};
  const int op = d.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  if (op < 0) d.fail("the operation is missing");
  return kOps[static_cast<size_t>(op)];
}

std::optional<TensorMapType> reduction_type(ScalarType type) {
  switch (type) {
    case ScalarType::kB32:
    case ScalarType::kU32:
      return TensorMapType::kU32;
    case ScalarType::kS32:
      return TensorMapType::kS32;
    case ScalarType::kB64:
    case ScalarType::kU64:
      return TensorMapType::kU64;
    case ScalarType::kS64:
      return TensorMapType::kS64;
    case ScalarType::kF16:
      return TensorMapType::kF16;
    case ScalarType::kBf16:
      return TensorMapType::kBf16;
    case ScalarType::kF32:
      // The PTX ISA says of cp.reduce.async.bulk.add.f32 that it flushes subnormal inputs and
      // results, but an H200 does not.
      return TensorMapType::kF32;
    case ScalarType::kF64:
      return TensorMapType::kF64;
    default:
      return std::nullopt;
  }
}

void reduce_atomically(ReduceOp op, TensorMapType type, std::byte* to, const std::byte* from,
                       size_t bytes) {
  switch (global_bytes_of(type, 1)) {
    case 2:
      return reduce_elements<uint16_t>(op, type, to, from, bytes);
    case 4:
      return reduce_elements<uint32_t>(op, type, to, from, bytes);
    default:
      return reduce_elements<uint64_t>(op, type, to, from, bytes);
  }
}

}  // namespace mpfa::sim
