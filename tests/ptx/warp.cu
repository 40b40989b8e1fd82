// Instructions among the lanes of a warp (PTX ISA, sections Data Movement's shfl.sync, Parallel
// Synchronization and Communication's vote, match, redux, elect, activemask).
#include "lanes.h"

namespace mpfa::ptx_test {
namespace {

constexpr size_t kLanes = 32;
constexpr size_t kWarps = 32;

// Inputs of one warp at a time: a and b are a lane's own, c and d the warp's.
struct WarpInputs {
  // What lane and warp get; the mask of d is that of the lanes that take part.
  std::function<uint64_t(size_t warp, size_t lane, Random&random)> a, b;
  std::function<uint64_t(size_t warp, Random& random)> c;
};

// Members: everyone, then other sets.
uint64_t members_of(size_t warp, Random& random) {
  static constexpr uint64_t kSets[] = {0xFFFFFFFF, 0x0000FFFF, 0x55555555,
                                       0x80000001, 0x00000010, 0xFFFFFFFE};
  const uint64_t mask = random.bits() & 0xFFFFFFFF;
  return warp % 2 == 0 ? 0xFFFFFFFF : warp < 12 ? kSets[warp / 2] : mask == 0 ? 1 : mask;
}

Inputs inputs_of_warps(const WarpInputs& parts) {
  Random random(77);
  Inputs inputs;
  for (size_t warp = 0; warp < kWarps; ++warp) {
    const uint64_t c = parts.c ? parts.c(warp, random) : 0;
    const uint64_t members = members_of(warp, random);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      inputs.push_back(
          {parts.a(warp, lane, random), parts.b ? parts.b(warp, lane, random) : 0, c, members});
    }
  }
  return inputs;
}

uint64_t any_value(size_t /*warp*/, size_t /*lane*/, Random& random) {
  return random_integer(32, random);
}

// Whether this lane takes part.
__device__ bool is_member(const Lane& lane) {
  uint32_t self;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(self));
  return (static_cast<uint32_t>(lane.d) >> self & 1) != 0;
}

template <class Body>
void run_warps(Suite& suite, const std::string& name, int bits, int results,
               const WarpInputs& parts, Body body) {
  const LaneForm form = {
      name, {Kind::kInt32, Kind::kInt32, Kind::kInt32, Kind::kInt32}, bits, results};
  if (suite.wants(name)) {
    run_launch(suite, form, inputs_of_warps(parts), launch_of(body));
  }
}

}  // namespace

// A member's result; the others keep 0xAAAA....
#define MEMBERS(statement)                              \
  [] __device__(Lane& lane) {                           \
    uint32_t x = 0xAAAAAAAA;                            \
    uint32_t y = 0xAAAAAAAA;                            \
    const auto a = static_cast<uint32_t>(lane.a);       \
    const auto b = static_cast<uint32_t>(lane.b);       \
    const auto c = static_cast<uint32_t>(lane.c);       \
    const auto members = static_cast<uint32_t>(lane.d); \
    if (is_member(lane)) {                              \
      statement;                                        \
    }                                                   \
    lane.x = x;                                         \
    lane.y = y;                                         \
    (void)a, (void)b, (void)c, (void)members;           \
  }

// A source lane that is not a member gives an undefined value (PTX ISA, shfl.sync), so all are.
#define SHUFFLE(mode)                                                                      \
  run_warps(suite, "shfl.sync." mode ".b32", 32, 2, parts, [] __device__(Lane& lane) {     \
    uint32_t x;                                                                            \
    uint32_t y;                                                                            \
    asm volatile("{ .reg .pred p; shfl.sync." mode                                         \
                 ".b32 %0|p, %2, %3, %4, 0xFFFFFFFF; selp.b32 %1, 1, 0, p; }"              \
                 : "=r"(x), "=r"(y)                                                        \
                 : "r"(static_cast<uint32_t>(lane.a)), "r"(static_cast<uint32_t>(lane.b)), \
                   "r"(static_cast<uint32_t>(lane.c)));                                    \
    lane.x = x;                                                                            \
    lane.y = y;                                                                            \
  });

void shuffles(Suite& suite) {
  WarpInputs parts;
  parts.a = any_value;
  // The same for the warp in its first half, a lane's own in the others.
  parts.b = [](size_t warp, size_t lane, Random& random) -> uint64_t {
    return warp < kWarps / 2 ? warp * 2 : warp < 24 ? random.below(64) : lane * 5;
  };
  // Segment masks of widths 32, 16, 8, 4, 2 and clamps, as the CUDA functions make them and others.
  parts.c = [](size_t warp, Random& random) -> uint64_t {
    static constexpr uint64_t kControls[] = {0x1F,   0x0,    0x101F, 0x1000, 0x181F,
                                             0x1800, 0x1C1F, 0x1C00, 0x1E1F};
    return warp % 3 == 0   ? kControls[warp % 9]
           : warp % 3 == 1 ? kControls[random.below(9)]
                           : random.bits() & 0xFFFFFFFF;
  };
  SHUFFLE("up");
  SHUFFLE("down");
  SHUFFLE("bfly");
  SHUFFLE("idx");
}

void votes(Suite& suite) {
  WarpInputs parts;
  // All, none, or some.
  parts.a = [](size_t warp, size_t /*lane*/, Random& random) -> uint64_t {
    const size_t kind = warp / 2 % 4;
    return kind == 0 ? 1 : kind == 1 ? 0 : random.below(2);
  };
#define VOTE(mode)                                                                          \
  run_warps(suite, "vote.sync." mode ".pred", 32, 1, parts,                                 \
            MEMBERS(asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync." mode \
                                 ".pred q, p, %2; selp.b32 %0, 1, 0, q; }"                  \
                                 : "=r"(x)                                                  \
                                 : "r"(a), "r"(members))));                                 \
  run_warps(suite, "vote.sync." mode ".pred !p", 32, 1, parts,                              \
            MEMBERS(asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync." mode \
                                 ".pred q, !p, %2; selp.b32 %0, 1, 0, q; }"                 \
                                 : "=r"(x)                                                  \
                                 : "r"(a), "r"(members))));
  VOTE("all");
  VOTE("any");
  VOTE("uni");
#undef VOTE
  run_warps(
      suite, "vote.sync.ballot.b32", 32, 1, parts,
      MEMBERS(asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
                           : "=r"(x)
                           : "r"(a), "r"(members))));
}

void matches(Suite& suite) {
  WarpInputs parts;
  parts.a = [](size_t warp, size_t /*lane*/, Random& random) -> uint64_t {
    return random.below(warp / 2 % 4 == 0 ? 1 : 4) * 0x100000001;
  };
  run_warps(suite, "match.any.sync.b32", 32, 1, parts,
            MEMBERS(asm volatile("match.any.sync.b32 %0, %1, %2;"
                                 : "=r"(x)
                                 : "r"(a), "r"(members))));
  run_warps(suite, "match.any.sync.b64", 32, 1, parts,
            MEMBERS(asm volatile("match.any.sync.b64 %0, %1, %2;"
                                 : "=r"(x)
                                 : "l"(lane.a), "r"(members))));
  run_warps(suite, "match.all.sync.b32", 32, 2, parts,
            MEMBERS(asm volatile(
                "{ .reg .pred p; match.all.sync.b32 %0|p, %2, %3; selp.b32 %1, 1, 0, p; }"
                : "=r"(x), "=r"(y)
                : "r"(a), "r"(members))));
  run_warps(suite, "match.all.sync.b64", 32, 2, parts,
            MEMBERS(asm volatile(
                "{ .reg .pred p; match.all.sync.b64 %0|p, %2, %3; selp.b32 %1, 1, 0, p; }"
                : "=r"(x), "=r"(y)
                : "l"(lane.a), "r"(members))));
}

void reductions(Suite& suite) {
  WarpInputs parts;
  parts.a = any_value;
#define REDUCE(op)                                               \
  run_warps(suite, "redux.sync." op, 32, 1, parts,               \
            MEMBERS(asm volatile("redux.sync." op " %0, %1, %2;" \
                                 : "=r"(x)                       \
                                 : "r"(a), "r"(members))));
  REDUCE("add.u32");
  REDUCE("add.s32");
  REDUCE("min.u32");
  REDUCE("min.s32");
  REDUCE("max.u32");
  REDUCE("max.s32");
  REDUCE("and.b32");
  REDUCE("or.b32");
  REDUCE("xor.b32");
#undef REDUCE
}

void elections(Suite& suite) {
  WarpInputs parts;
  parts.a = any_value;
  run_warps(suite, "elect.sync", 32, 2, parts,
            MEMBERS(asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.b32 %1, 1, 0, p; }"
                                 : "=r"(x), "=r"(y)
                                 : "r"(members))));
}

// Every barrier lets its warp's lanes see what the others wrote before.
void warp_barriers(Suite& suite) {
  WarpInputs parts;
  parts.a = any_value;
  run_warps(suite, "bar.warp.sync", 32, 1, parts, [] __device__(Lane & lane) {
    __shared__ uint32_t values[kLanesOfBlock];
    const uint32_t self = threadIdx.x;
    values[self] = static_cast<uint32_t>(lane.a);
    asm volatile("bar.warp.sync 0xFFFFFFFF;" ::: "memory");
    const uint32_t other = values[self ^ 13];
    asm volatile("bar.warp.sync 0xFFFFFFFF;" ::: "memory");
    values[self] = other * 3;
    asm volatile("bar.warp.sync 0xFFFFFFFF;" ::: "memory");
    lane.x = values[self ^ 6];
  });
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::shuffles(suite);
  mpfa::ptx_test::votes(suite);
  mpfa::ptx_test::matches(suite);
  mpfa::ptx_test::reductions(suite);
  mpfa::ptx_test::elections(suite);
  mpfa::ptx_test::warp_barriers(suite);
  return suite.finish();
}
