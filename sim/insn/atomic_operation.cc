#include "sim/insn/atomic_operation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "mpfa/formats.h"
#include "sim/numerics/half.h"
#include "sim/numerics/min_max.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {
namespace {

using Word128 = unsigned __int128;

template <size_t kBytes>
struct WordOfSize;
template <>
struct WordOfSize<2> {
  using Type = uint16_t;
};
template <>
struct WordOfSize<4> {
  using Type = uint32_t;
};
template <>
struct WordOfSize<8> {
  using Type = uint64_t;
};
template <>
struct WordOfSize<16> {
  using Type = Word128;
};

template <class V>
V read(const std::byte* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

// Writes `next` if `expected` is there; else false, with what is there in `expected`.
template <class Word>
bool exchange_if(Word* at, Word& expected, Word next) {
  return std::atomic_ref<Word>(*at).compare_exchange_strong(expected, next);
}

// GCC calls a library for std::atomic_ref of 16 bytes, but has the instruction behind the older
// function; every 64-bit processor since 2008 has it.
#if defined(__x86_64__)
[[gnu::target("cx16")]]
#endif
bool exchange_if(Word128* at, Word128& expected, Word128 next) {
  const Word128 found = __sync_val_compare_and_swap(at, expected, next);
  const bool done = found == expected;
  expected = found;
  return done;
}

// A first guess of what is there. It may be torn: the exchange finds that out.
template <class Word>
Word glance(Word* at) {
  return std::atomic_ref<Word>(*at).load(std::memory_order_relaxed);
}
Word128 glance(Word128* at) {
  Word128 value = 0;
  exchange_if(at, value, value);
  return value;
}

// ---- the operations (PTX ISA, section atom, Semantics) ------------------------------------------

template <class V>
struct And {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) { return old & b; }
};
template <class V>
struct Or {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) { return old | b; }
};
template <class V>
struct Xor {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) { return old ^ b; }
};
template <class V>
struct Exchange {
  using Value = V;
  static V run(V /*old*/, V b, const AtomicStep& /*step*/) { return b; }
};
template <class V>
struct CompareAndSwap {
  using Value = V;
  static V run(V old, V b, const AtomicStep& step) { return old == b ? read<V>(step.c) : old; }
};
template <class V>
struct Inc {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) { return old >= b ? 0 : old + 1; }
};
template <class V>
struct Dec {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) { return old == 0 || old > b ? b : old - 1; }
};

// Integers are added as unsigned ones: they wrap. Floats are rounded to nearest even.
template <class V>
struct Add {
  using Value = V;
  static V run(V old, V b, const AtomicStep& step) {
    if constexpr (std::is_integral_v<V>) {
      return old + b;
    } else if constexpr (std::is_same_v<V, float>) {
      constexpr ArithmeticOptions kFlushed = {.ftz = true};
      return step.in_global ? float_add<kFlushed>(old, b) : float_add<>(old, b);
    } else if constexpr (std::is_same_v<V, double>) {
      // Two NaNs: as on an H200, b's in global memory and the old one in shared memory.
      if (!step.in_global) return float_add<>(b, old);
      if (is_nan(b)) return b;
      return is_nan(old) ? old : float_add<>(old, b);
    } else {
      return half_add<>(old, b);
    }
  }
};

// Of floats: as the instructions min and max, where a number wins over a NaN.
template <class V, bool kMax>
struct Extreme {
  using Value = V;
  static V run(V old, V b, const AtomicStep& /*step*/) {
    if constexpr (std::is_integral_v<V>) {
      return kMax ? std::max(old, b) : std::min(old, b);
    } else {
      return kMax ? float_max<>(old, b) : float_min<>(old, b);
    }
  }
};

template <class Op>
void run_atomic(const AtomicStep& step) {
  using V = typename Op::Value;
  using Word = typename WordOfSize<sizeof(V)>::Type;
  const V b = read<V>(step.b);
  auto* at = reinterpret_cast<Word*>(step.place);
  Word old = glance(at);
  while (!exchange_if(at, old, std::bit_cast<Word>(Op::run(std::bit_cast<V>(old), b, step)))) {
  }
  std::memcpy(step.old, &old, sizeof(Word));
}

struct Row {
  std::string_view op;
  ScalarType type;
  AtomicFunction function;
};

constexpr std::array kRows = {
    Row{"and", ScalarType::kB32, &run_atomic<And<uint32_t>>},
    Row{"and", ScalarType::kB64, &run_atomic<And<uint64_t>>},
    Row{"or", ScalarType::kB32, &run_atomic<Or<uint32_t>>},
    Row{"or", ScalarType::kB64, &run_atomic<Or<uint64_t>>},
    Row{"xor", ScalarType::kB32, &run_atomic<Xor<uint32_t>>},
    Row{"xor", ScalarType::kB64, &run_atomic<Xor<uint64_t>>},
    Row{"exch", ScalarType::kB32, &run_atomic<Exchange<uint32_t>>},
    Row{"exch", ScalarType::kB64, &run_atomic<Exchange<uint64_t>>},
    Row{"exch", ScalarType::kB128, &run_atomic<Exchange<Word128>>},
    Row{"cas", ScalarType::kB16, &run_atomic<CompareAndSwap<uint16_t>>},
    Row{"cas", ScalarType::kB32, &run_atomic<CompareAndSwap<uint32_t>>},
    Row{"cas", ScalarType::kB64, &run_atomic<CompareAndSwap<uint64_t>>},
    Row{"cas", ScalarType::kB128, &run_atomic<CompareAndSwap<Word128>>},
    Row{"inc", ScalarType::kU32, &run_atomic<Inc<uint32_t>>},
    Row{"dec", ScalarType::kU32, &run_atomic<Dec<uint32_t>>},
    Row{"add", ScalarType::kU32, &run_atomic<Add<uint32_t>>},
    Row{"add", ScalarType::kS32, &run_atomic<Add<uint32_t>>},
    Row{"add", ScalarType::kU64, &run_atomic<Add<uint64_t>>},
    Row{"add", ScalarType::kF32, &run_atomic<Add<float>>},
    Row{"add", ScalarType::kF64, &run_atomic<Add<double>>},
    Row{"add", ScalarType::kF16, &run_atomic<Add<Fp16>>},
    Row{"add", ScalarType::kBf16, &run_atomic<Add<Bf16>>},
    Row{"min", ScalarType::kU32, &run_atomic<Extreme<uint32_t, false>>},
    Row{"min", ScalarType::kS32, &run_atomic<Extreme<int32_t, false>>},
    Row{"min", ScalarType::kU64, &run_atomic<Extreme<uint64_t, false>>},
    Row{"min", ScalarType::kS64, &run_atomic<Extreme<int64_t, false>>},
    Row{"min", ScalarType::kF16, &run_atomic<Extreme<Fp16, false>>},
    Row{"min", ScalarType::kBf16, &run_atomic<Extreme<Bf16, false>>},
    Row{"max", ScalarType::kU32, &run_atomic<Extreme<uint32_t, true>>},
    Row{"max", ScalarType::kS32, &run_atomic<Extreme<int32_t, true>>},
    Row{"max", ScalarType::kU64, &run_atomic<Extreme<uint64_t, true>>},
    Row{"max", ScalarType::kS64, &run_atomic<Extreme<int64_t, true>>},
    Row{"max", ScalarType::kF16, &run_atomic<Extreme<Fp16, true>>},
    Row{"max", ScalarType::kBf16, &run_atomic<Extreme<Bf16, true>>},
};

}  // namespace

AtomicFunction find_atomic_function(std::string_view op, ScalarType type) {
  const auto* found = std::find_if(
      kRows.begin(), kRows.end(), [&](const Row& row) { return row.op == op && row.type == type; });
  return found == kRows.end() ? nullptr : found->function;
}

}  // namespace mpfa::sim
