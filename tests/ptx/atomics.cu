// atom and red on memory of each lane's own: what the memory held, and what it holds then (PTX ISA,
// sections atom and red). Operations that meet are what the simulator's own tests are for.
#include "lanes.h"

namespace mpfa::ptx_test {
namespace {

constexpr size_t kMostLanes = 1024;

// 16 bytes a lane.
struct alignas(16) Cell {
  uint32_t words[4];
};

__device__ Cell global_cells[kMostLanes];

__device__ Cell* global_cell() { return &global_cells[blockIdx.x * blockDim.x + threadIdx.x]; }

__device__ Cell* shared_cell() {
  __shared__ Cell cells[kLanesOfBlock];
  return &cells[threadIdx.x];
}

template <class T>
__device__ T* as(Cell* cell) {
  return reinterpret_cast<T*>(cell);
}

}  // namespace

// Addresses as the space's instructions take them.
#define ADDRESS_global(cell) "l"(cell)
#define ADDRESS_shared(cell) "r"(static_cast<uint32_t>(__cvta_generic_to_shared(cell)))
#define SPACE_global "global"
#define SPACE_shared "shared"

// The memory is a, the operand b. `op` as after the space.
#define ATOM(space, op, W, kind)                                                           \
  run_form(suite, {"atom." SPACE_##space "." op, {Kind::kind, Kind::kind}, W, 2},          \
           [] __device__(Lane& lane) {                                                     \
             Cell* cell = space##_cell();                                                  \
             *as<PTX_T##W>(cell) = static_cast<PTX_T##W>(lane.a);                          \
             PTX_T##W x;                                                                   \
             asm volatile("atom." SPACE_##space "." op " %0, [%1], %2;"                    \
                          : "=" PTX_C##W(x)                                                \
                          : ADDRESS_##space(cell), PTX_C##W(static_cast<PTX_T##W>(lane.b)) \
                          : "memory");                                                     \
             lane.x = x;                                                                   \
             lane.y = *as<PTX_T##W>(cell);                                                 \
           });
#define RED(space, op, W, kind)                                                            \
  run_form(suite, {"red." SPACE_##space "." op, {Kind::kind, Kind::kind}, W},              \
           [] __device__(Lane& lane) {                                                     \
             Cell* cell = space##_cell();                                                  \
             *as<PTX_T##W>(cell) = static_cast<PTX_T##W>(lane.a);                          \
             asm volatile("red." SPACE_##space "." op " [%0], %1;"                         \
                          :                                                                \
                          : ADDRESS_##space(cell), PTX_C##W(static_cast<PTX_T##W>(lane.b)) \
                          : "memory");                                                     \
             lane.x = *as<PTX_T##W>(cell);                                                 \
           });
#define BOTH(op, W, kind)   \
  ATOM(global, op, W, kind) \
  ATOM(shared, op, W, kind) RED(global, op, W, kind) RED(shared, op, W, kind)

void integers(Suite& suite) {
  BOTH("and.b32", 32, kInt32);
  BOTH("or.b32", 32, kInt32);
  BOTH("xor.b32", 32, kInt32);
  BOTH("and.b64", 64, kInt64);
  BOTH("or.b64", 64, kInt64);
  BOTH("xor.b64", 64, kInt64);
  BOTH("add.u32", 32, kInt32);
  BOTH("add.s32", 32, kInt32);
  BOTH("add.u64", 64, kInt64);
  BOTH("min.u32", 32, kInt32);
  BOTH("min.s32", 32, kInt32);
  BOTH("max.u32", 32, kInt32);
  BOTH("max.s32", 32, kInt32);
  BOTH("min.u64", 64, kInt64);
  BOTH("min.s64", 64, kInt64);
  BOTH("max.u64", 64, kInt64);
  BOTH("max.s64", 64, kInt64);
  BOTH("inc.u32", 32, kShift);
  BOTH("dec.u32", 32, kShift);
  ATOM(global, "exch.b32", 32, kInt32);
  ATOM(shared, "exch.b32", 32, kInt32);
  ATOM(global, "exch.b64", 64, kInt64);
  ATOM(shared, "exch.b64", 64, kInt64);
}

void floats(Suite& suite) {
  BOTH("add.f32", 32, kF32);
  BOTH("add.f64", 64, kF64);
  BOTH("add.noftz.f16", 16, kF16);
  BOTH("add.noftz.bf16", 16, kBf16);
  BOTH("add.noftz.f16x2", 32, kF16x2);
  BOTH("add.noftz.bf16x2", 32, kBf16x2);
}

// By the orders and scopes that there are, which do not change a lane's own.
void orders(Suite& suite) {
  ATOM(global, "relaxed.gpu.add.u32", 32, kInt32);
  ATOM(global, "acquire.cta.add.u32", 32, kInt32);
  ATOM(global, "release.cluster.add.u32", 32, kInt32);
  ATOM(global, "acq_rel.sys.add.f32", 32, kF32);
  RED(global, "relaxed.gpu.add.u32", 32, kInt32);
  RED(global, "release.sys.add.f32", 32, kF32);
}

// The memory is a, what it is compared with b, the new value c.
void compare_and_swap(Suite& suite) {
#define CAS(space, W)                                                                             \
  if (suite.wants("atom." SPACE_##space ".cas.b" #W)) {                                           \
    Inputs inputs = make_inputs({Kind::kInt##W, Kind::kInt##W, Kind::kInt##W}, kMostLanes, 3);    \
    for (size_t i = 0; i < inputs.size(); i += 2) {                                               \
      inputs[i][1] = inputs[i][0];                                                                \
    }                                                                                             \
    run_launch(                                                                                   \
        suite,                                                                                    \
        {"atom." SPACE_##space ".cas.b" #W, {Kind::kInt##W, Kind::kInt##W, Kind::kInt##W}, W, 2}, \
        inputs, launch_of([] __device__(Lane& lane) {                                             \
          Cell* cell = space##_cell();                                                            \
          *as<PTX_T##W>(cell) = static_cast<PTX_T##W>(lane.a);                                    \
          PTX_T##W x;                                                                             \
          asm volatile("atom." SPACE_##space ".cas.b" #W " %0, [%1], %2, %3;"                     \
                       : "=" PTX_C##W(x)                                                          \
                       : ADDRESS_##space(cell), PTX_C##W(static_cast<PTX_T##W>(lane.b)),          \
                         PTX_C##W(static_cast<PTX_T##W>(lane.c))                                  \
                       : "memory");                                                               \
          lane.x = x;                                                                             \
          lane.y = *as<PTX_T##W>(cell);                                                           \
        }));                                                                                      \
  }
  CAS(global, 16);
  CAS(global, 32);
  CAS(global, 64);
  CAS(shared, 16);
  CAS(shared, 32);
  CAS(shared, 64);
#undef CAS
}

// 128 bits: the memory is a and b, the new value c and d; cas finds it equal where c is even.
#define WIDE(space, name, instruction, show)                                          \
  run_form(suite,                                                                     \
           {"atom." SPACE_##space "." name,                                           \
            {Kind::kInt64, Kind::kInt64, Kind::kInt64, Kind::kInt64},                 \
            64,                                                                       \
            2},                                                                       \
           [] __device__(Lane& lane) {                                                \
             Cell* cell = space##_cell();                                             \
             uint64_t* memory = as<uint64_t>(cell);                                   \
             memory[0] = lane.a;                                                      \
             memory[1] = lane.b;                                                      \
             uint64_t old[2];                                                         \
             asm volatile(                                                            \
                 "{ .reg .b128 o, n, w; mov.b128 n, {%3, %4}; mov.b128 w, {%5, %6}; " \
                 "atom." SPACE_##space "." instruction " mov.b128 {%0, %1}, o; }"     \
                 : "=l"(old[0]), "=l"(old[1])                                         \
                 : ADDRESS_##space(cell), "l"(lane.c), "l"(lane.d), "l"(lane.a),      \
                   "l"((lane.c & 1) != 0 ? ~lane.b : lane.b)                          \
                 : "memory");                                                         \
             (void)old;                                                               \
             lane.x = show[0];                                                        \
             lane.y = show[1];                                                        \
           });

void wide(Suite& suite) {
  WIDE(global, "exch.b128 old", "exch.b128 o, [%2], n;", old);
  WIDE(global, "exch.b128 new", "exch.b128 o, [%2], n;", memory);
  WIDE(global, "cas.b128 old", "cas.b128 o, [%2], w, n;", old);
  WIDE(global, "cas.b128 new", "cas.b128 o, [%2], w, n;", memory);
  WIDE(shared, "exch.b128 old", "exch.b128 o, [%2], n;", old);
  WIDE(shared, "exch.b128 new", "exch.b128 o, [%2], n;", memory);
  WIDE(shared, "cas.b128 old", "cas.b128 o, [%2], w, n;", old);
  WIDE(shared, "cas.b128 new", "cas.b128 o, [%2], w, n;", memory);
}

namespace {

// Two values of 32 bits to each operand.
Inputs vector_inputs(Kind kind) {
  const Inputs halves =
      make_inputs({kind, kind, kind, kind, kind, kind, kind, kind}, kMostLanes, 4);
  Inputs inputs;
  for (const std::vector<uint64_t>& half : halves) {
    inputs.push_back({half[0] | half[1] << 32, half[2] | half[3] << 32, half[4] | half[5] << 32,
                      half[6] | half[7] << 32});
  }
  return inputs;
}

}  // namespace

// Vectors: the memory is a and b, the operand c and d. `text` has the memory's address in %4, the
// operand in %5 ... %8 and gives the old values in %0 ... %3.
#define VECTOR_OF(name, kind, text, shown)                                             \
  if (suite.wants(name)) {                                                             \
    run_launch(suite, {name, {Kind::kind, Kind::kind, Kind::kind, Kind::kind}, 64, 2}, \
               vector_inputs(Kind::kind), launch_of([] __device__(Lane& lane) {        \
                 Cell* cell = global_cell();                                           \
                 uint64_t* memory = as<uint64_t>(cell);                                \
                 memory[0] = lane.a;                                                   \
                 memory[1] = lane.b;                                                   \
                 uint32_t old[4] = {};                                                 \
                 asm volatile(text                                                     \
                              : "+r"(old[0]), "+r"(old[1]), "+r"(old[2]), "+r"(old[3]) \
                              : "l"(cell), "r"(static_cast<uint32_t>(lane.c)),         \
                                "r"(static_cast<uint32_t>(lane.c >> 32)),              \
                                "r"(static_cast<uint32_t>(lane.d)),                    \
                                "r"(static_cast<uint32_t>(lane.d >> 32))               \
                              : "memory");                                             \
                 const uint64_t before[2] = {old[0] | uint64_t{old[1]} << 32,          \
                                             old[2] | uint64_t{old[3]} << 32};         \
                 (void)before;                                                         \
                 lane.x = shown[0];                                                    \
                 lane.y = shown[1];                                                    \
               }));                                                                    \
  }
#define ATOM_VECTOR(op, kind, text)                       \
  VECTOR_OF("atom.global." op " old", kind, text, before) \
  VECTOR_OF("atom.global." op " new", kind, text, memory)

#define UNPACK \
  "mov.b32 {h0, h1}, %5; mov.b32 {h2, h3}, %6; mov.b32 {h4, h5}, %7; mov.b32 {h6, h7}, %8; "
#define HALVES(op, list, pack) \
  "{ .reg .b16 h<8>; " UNPACK "atom.global." op " {" list "}, [%4], {" list "}; " pack " }"
#define PACK2 "mov.b32 %0, {h0, h1};"
#define PACK4 PACK2 " mov.b32 %1, {h2, h3};"
#define PACK8 PACK4 " mov.b32 %2, {h4, h5}; mov.b32 %3, {h6, h7};"

void vectors(Suite& suite) {
  ATOM_VECTOR("add.v2.f32", kF32, "atom.global.add.v2.f32 {%0, %1}, [%4], {%5, %6};");
  ATOM_VECTOR("add.v4.f32", kF32,
              "atom.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};");

#define FORMS(op, T, kind)                                                                     \
  ATOM_VECTOR(#op ".noftz.v2." #T, kind, HALVES(#op ".noftz.v2." #T, "h0, h1", PACK2))         \
  ATOM_VECTOR(#op ".noftz.v4." #T, kind, HALVES(#op ".noftz.v4." #T, "h0, h1, h2, h3", PACK4)) \
  ATOM_VECTOR(#op ".noftz.v8." #T, kind,                                                       \
              HALVES(#op ".noftz.v8." #T, "h0, h1, h2, h3, h4, h5, h6, h7", PACK8))            \
  ATOM_VECTOR(#op ".noftz.v2." #T "x2", kind,                                                  \
              "atom.global." #op ".noftz.v2." #T "x2 {%0, %1}, [%4], {%5, %6};")               \
  ATOM_VECTOR(#op ".noftz.v4." #T "x2", kind,                                                  \
              "atom.global." #op ".noftz.v4." #T "x2 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};")
  FORMS(add, f16, kF16x2);
  FORMS(min, f16, kF16x2);
  FORMS(max, f16, kF16x2);
  FORMS(add, bf16, kBf16x2);
  FORMS(min, bf16, kBf16x2);
  FORMS(max, bf16, kBf16x2);
#undef FORMS
#define RED_VECTOR(op, kind, list) \
  VECTOR_OF("red.global." op, kind, "red.global." op " [%4], {" list "};", memory)
  RED_VECTOR("add.v2.f32", kF32, "%5, %6");
  RED_VECTOR("add.v4.f32", kF32, "%5, %6, %7, %8");
  RED_VECTOR("add.noftz.v4.f16x2", kF16x2, "%5, %6, %7, %8");
  RED_VECTOR("min.noftz.v4.f16x2", kF16x2, "%5, %6, %7, %8");
  RED_VECTOR("max.noftz.v2.bf16x2", kBf16x2, "%5, %6");
#undef RED_VECTOR
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::integers(suite);
  mpfa::ptx_test::floats(suite);
  mpfa::ptx_test::orders(suite);
  mpfa::ptx_test::compare_and_swap(suite);
  mpfa::ptx_test::wide(suite);
  mpfa::ptx_test::vectors(suite);
  return suite.finish();
}
