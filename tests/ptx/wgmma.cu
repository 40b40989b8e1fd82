// wgmma.mma_async: types, both sources of A, layouts in shared memory, negations, chains (PTX ISA,
// section Asynchronous Warpgroup Level Matrix Instructions).
#include <algorithm>

#include "matrix_inputs.h"
#include "wgmma_registers.h"

namespace mpfa::ptx_test {
namespace {

constexpr int kThreads = 128;   // a warpgroup
constexpr int kRows = 64;       // m of every shape
constexpr int kStepBytes = 32;  // of k in an instruction
constexpr size_t kImageBytes = 56 * 1024;
constexpr size_t kImageOfB = 16 * 1024;

struct WgmmaForm {
  std::string name;
  int n, k;
  Element a, b, d;
  bool a_in_registers = false;
  bool a_outer_major = false;  // M-major, as imm-trans-a = 1 says
  bool b_outer_major = false;  // N-major
  int sign = 1;                // of the products
};

// A case as the kernel sees it. Addresses of descriptors are relative to the image.
struct WgmmaCase {
  uint64_t a_descriptor, b_descriptor;
  uint64_t a_step, b_step;  // what the second instruction's descriptors have more
  int steps;                // instructions in the chain: 1 or 2
  int scale_d;              // of the first
};

// A block a case: its image goes to shared memory as it is.
template <int kSums, class Body>
__global__ void __launch_bounds__(kThreads)
    run_wgmma(Body body, const WgmmaCase* cases, const uint4* images, const uint32_t* a_registers,
              const uint32_t* c, uint32_t* d) {
  extern __shared__ uint4 dynamic[];
  // Swizzled layouts repeat every 1024 bytes of an address.
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic));
  const uint32_t image_start = (start + 1023) / 1024 * 1024;
  uint4* image = dynamic + (image_start - start) / sizeof(uint4);
  constexpr size_t kImageWords = kImageBytes / sizeof(uint4);
  for (size_t i = threadIdx.x; i < kImageWords; i += kThreads) {
    image[i] = images[blockIdx.x * kImageWords + i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  const WgmmaCase own = cases[blockIdx.x];
  const size_t thread = size_t{blockIdx.x} * kThreads + threadIdx.x;
  uint32_t sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = c[thread * kSums + i];
  uint32_t a[2][4];
#pragma unroll
  for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = a_registers[thread * 8 + i];
  const uint64_t base = image_start >> 4;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  body(sums, a[0], own.a_descriptor + base, own.b_descriptor + base, own.scale_d);
  if (own.steps == 2) {
    body(sums, a[1], own.a_descriptor + own.a_step + base, own.b_descriptor + own.b_step + base, 1);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kSums; ++i) d[thread * kSums + i] = sums[i];
}

// ---- layouts ------------------------------------------------------------------------------------

enum class Swizzle { kNone, k32, k64, k128 };

int width_of(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 16 : 16 << static_cast<int>(swizzle);
}

// The descriptor's field (PTX ISA, Matrix Descriptor Format).
uint64_t layout_type(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 0 : 4 - static_cast<uint64_t>(swizzle);
}

// How a matrix of `outer` rows (of A) or columns (of B) lies in shared memory (PTX ISA, Strides and
// Canonical Layouts).
struct Layout {
  Swizzle swizzle;
  bool outer_major;
  int leading, stride;  // byte offsets of the descriptor
  int step;             // bytes from an instruction's k to the next one's

  // Of 32 bytes of k or, in an outer-major matrix, of 16 values of k.
  int byte_of(int outer, int k, int element_bits) const {
    const int width = width_of(swizzle);
    int at = 0;
    if (outer_major) {
      const int outer_byte = outer * element_bits / 8;
      const int across = swizzle == Swizzle::kNone ? stride : leading;
      const int along = swizzle == Swizzle::kNone ? leading : stride;
      at = outer_byte / width * across + outer_byte % width + k % 8 * width + k / 8 * along;
    } else {
      const int k_byte = k * element_bits / 8;
      at = outer / 8 * stride + outer % 8 * width +
           (swizzle == Swizzle::kNone ? k_byte / 16 * leading + k_byte % 16 : k_byte);
    }
    return at;
  }

  int swizzled(int at) const {
    const int mask = width_of(swizzle) / 16 - 1;
    return at ^ ((at >> 7 & mask) << 4);
  }

  uint64_t descriptor(size_t start) const {
    return start >> 4 | static_cast<uint64_t>(leading / 16) << 16 |
           static_cast<uint64_t>(stride / 16) << 32 | layout_type(swizzle) << 62;
  }
};

Layout make_layout(Swizzle swizzle, bool outer_major, int outer, bool other_order, Random& random) {
  const int width = width_of(swizzle);
  Layout layout = {swizzle, outer_major, 16, 0, 0};
  if (outer_major) {
    // Groups of 8 values of k by as much of the outer dimension as the width holds.
    const int group = 8 * width;
    const int groups = std::max(1, outer * 2 / width);
    const int across = other_order ? 2 * group : group;
    const int along = other_order ? group : groups * group;
    layout.leading = swizzle == Swizzle::kNone ? along : across;
    layout.stride = swizzle == Swizzle::kNone ? across : along;
    layout.step = 2 * groups * group;
  } else if (swizzle == Swizzle::kNone) {
    const int groups = outer / 8;
    layout.leading = other_order ? 128 : groups * 128;
    layout.stride = other_order ? 256 : 128;
    layout.step = 2 * groups * 128;
  } else {
    layout.stride = 8 * width;
    // Further k within the rows, or another matrix behind this one.
    const int parts = width / kStepBytes;
    layout.step = parts == 1 ? outer * width : random.between(1, parts - 1) * kStepBytes;
  }
  return layout;
}

void put(std::vector<uint8_t>& image, size_t start, const Layout& layout, int step, int outer,
         int k, int bits, uint64_t value) {
  const int at = layout.swizzled(step * layout.step + layout.byte_of(outer, k, bits));
  for (int byte = 0; byte < (bits + 7) / 8; ++byte) {
    const int bit = bits < 8 ? k * bits % 8 : 0;
    image[start + static_cast<size_t>(at + byte)] |=
        static_cast<uint8_t>(value >> (8 * byte) << bit);
  }
}

// ---- registers ----------------------------------------------------------------------------------

struct Place {
  int thread;
  int bit;  // in the thread's registers
};

Place place_of_a(Element element, int row, int k) {
  const int in_word = 32 / bits_of(element);
  const int word = k / (4 * in_word) * 2 + row / 8 % 2;
  return {row / 16 * 32 + row % 8 * 4 + k / in_word % 4,
          word * 32 + k % in_word * bits_of(element)};
}

Place place_of_sum(Element element, int row, int column) {
  const int index = column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
  return {row / 16 * 32 + row % 8 * 4 + column % 8 / 2, index * bits_of(element)};
}

// ---- cases --------------------------------------------------------------------------------------

struct Operands {
  std::string name;
  Matrix a, b, c;  // k of both steps
  int steps;
  bool scale_d;
};

struct CaseData {
  std::vector<WgmmaCase> cases;
  std::vector<uint8_t> images;
  std::vector<uint32_t> a_registers, c_registers;
};

int sums_of(const WgmmaForm& form) { return kRows * form.n * bits_of(form.d) / 32 / kThreads; }

void lay_out(const WgmmaForm& form, const Operands& operands, const Layout& a_layout,
             const Layout& b_layout, CaseData& data) {
  const size_t index = data.cases.size();
  std::vector<uint8_t> image(kImageBytes);
  data.a_registers.resize((index + 1) * kThreads * 8);
  data.c_registers.resize((index + 1) * kThreads * static_cast<size_t>(sums_of(form)));
  for (int k = 0; k < form.k * operands.steps; ++k) {
    const int step = k / form.k;
    for (int row = 0; row < kRows; ++row) {
      const uint64_t value = operands.a.at(row, k);
      const Place place = place_of_a(form.a, row, k % form.k);
      const size_t word = (index * kThreads + static_cast<size_t>(place.thread)) * 8 +
                          static_cast<size_t>(step * 4 + place.bit / 32);
      data.a_registers[word] |= static_cast<uint32_t>(value << (place.bit % 32));
      if (!form.a_in_registers) {
        put(image, 0, a_layout, step, row, k % form.k, bits_of(form.a), value);
      }
    }
    for (int column = 0; column < form.n; ++column) {
      put(image, kImageOfB, b_layout, step, column, k % form.k, bits_of(form.b),
          operands.b.at(k, column));
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < form.n; ++column) {
      const Place place = place_of_sum(form.d, row, column);
      const size_t word = (index * kThreads + static_cast<size_t>(place.thread)) *
                              static_cast<size_t>(sums_of(form)) +
                          static_cast<size_t>(place.bit / 32);
      data.c_registers[word] |=
          static_cast<uint32_t>(operands.c.at(row, column) << (place.bit % 32));
    }
  }
  data.images.insert(data.images.end(), image.begin(), image.end());
  data.cases.push_back({a_layout.descriptor(0), b_layout.descriptor(kImageOfB),
                        static_cast<uint64_t>(a_layout.step / 16),
                        static_cast<uint64_t>(b_layout.step / 16), operands.steps,
                        operands.scale_d ? 1 : 0});
}

// Every set of operands twice, the integers in every swizzle.
std::vector<Operands> make_cases(const WgmmaForm& form, CaseData& data) {
  static constexpr const char* kNames[] = {"none", "32", "64", "128"};
  Random random(seed_of(form.name));
  std::vector<Operands> all;
  const size_t sets = operand_sets().size();
  for (size_t i = 0; i < 2 * sets + 6; ++i) {
    const OperandSet& set = operand_sets()[i < 2 * sets ? i % sets : 0];
    const auto a_swizzle = static_cast<Swizzle>(i % 4);
    const auto b_swizzle = static_cast<Swizzle>((i + i / 4) % 4);
    const bool other_order = i / 2 % 2 != 0;
    const int steps = i % 3 == 1 ? 2 : 1;
    const Layout a_layout = make_layout(a_swizzle, form.a_outer_major, kRows, other_order, random);
    const Layout b_layout = make_layout(b_swizzle, form.b_outer_major, form.n, other_order, random);
    all.push_back({std::string(set.name) + ", swizzle of A " + kNames[i % 4] + ", of B " +
                       kNames[(i + i / 4) % 4] + (steps == 2 ? ", two steps" : ""),
                   random_matrix(form.a, kRows, form.k * steps, set, set.spread, random),
                   random_matrix(form.b, form.k * steps, form.n, set, set.spread, random),
                   random_matrix(form.d, kRows, form.n, set, set.addend_spread, random), steps,
                   i % 5 != 3});
    lay_out(form, all.back(), a_layout, b_layout, data);
  }
  return all;
}

// ---- a form -------------------------------------------------------------------------------------

int64_t exact_sum(const WgmmaForm& form, const Operands& operands, int row, int column) {
  int64_t sum = operands.scale_d ? integer_value(form.d, operands.c.at(row, column)) : 0;
  for (int k = 0; k < operands.a.columns; ++k) {
    sum += form.sign * integer_value(form.a, operands.a.at(row, k)) *
           integer_value(form.b, operands.b.at(k, column));
  }
  return sum;
}

uint64_t sum_in(const WgmmaForm& form, const std::vector<uint32_t>& d, size_t index, int row,
                int column) {
  const Place place = place_of_sum(form.d, row, column);
  const size_t word =
      (index * kThreads + static_cast<size_t>(place.thread)) * static_cast<size_t>(sums_of(form)) +
      static_cast<size_t>(place.bit / 32);
  return d[word] >> (place.bit % 32) & ((uint64_t{1} << bits_of(form.d)) - 1);
}

void check_exact(Suite& suite, const WgmmaForm& form, const Operands& operands,
                 const std::vector<uint32_t>& d, size_t index) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < form.n; ++column) {
      const uint64_t got = sum_in(form, d, index, row, column);
      const FloatFormat* format = format_of(form.d);
      const double value = format != nullptr ? to_double(*format, got) : static_cast<int32_t>(got);
      const int64_t exact = exact_sum(form, operands, row, column);
      if (value != static_cast<double>(exact)) {
        suite.fail(form.name, "(" + operands.name + ") the sum of integers at row " +
                                  std::to_string(row) + ", column " + std::to_string(column) +
                                  " is " + std::to_string(value) + ", not " +
                                  std::to_string(exact));
        return;
      }
    }
  }
}

// The values go by tiles of 8 by 8, which a check character covers.
struct TileElement {
  size_t index;
  int row, column;
};

TileElement tile_element(const WgmmaForm& form, size_t i) {
  const auto in_case = static_cast<int>(i % static_cast<size_t>(kRows * form.n));
  const int tile = in_case / 64;
  const int tiles_across = form.n / 8;
  return {i / static_cast<size_t>(kRows * form.n), tile / tiles_across * 8 + in_case % 64 / 8,
          tile % tiles_across * 8 + in_case % 8};
}

using WgmmaLaunch = std::function<void(unsigned blocks, size_t shared_bytes, const WgmmaCase* cases,
                                       const uint4* images, const uint32_t* a_registers,
                                       const uint32_t* c, uint32_t* d)>;

void run_wgmma_form(Suite& suite, const WgmmaForm& form, const WgmmaLaunch& launch) {
  if (!suite.wants(form.name)) {
    return;
  }
  CaseData data;
  const std::vector<Operands> operands = make_cases(form, data);
  const DeviceArray<WgmmaCase> cases(data.cases);
  const DeviceArray<uint8_t> images(data.images);
  const DeviceArray<uint32_t> a_registers(data.a_registers), c(data.c_registers);
  const DeviceArray<uint32_t> device_d(data.c_registers.size());
  launch(static_cast<unsigned>(operands.size()), kImageBytes + 1024, cases.data(),
         reinterpret_cast<const uint4*>(images.data()), a_registers.data(), c.data(),
         device_d.data());
  if (!finished(suite, form.name)) {
    return;
  }
  const std::vector<uint32_t> d = device_d.values();
  Results results;
  results.name = form.name;
  results.bits = bits_of(form.d);
  results.group = form.n == 256 ? 256 : 64;
  results.first = 8;
  for (size_t i = 0; i < operands.size() * static_cast<size_t>(kRows * form.n); ++i) {
    const TileElement at = tile_element(form, i);
    results.values.push_back(sum_in(form, d, at.index, at.row, at.column));
  }
  results.inputs_of = [&](size_t i) {
    const TileElement at = tile_element(form, i);
    const Operands& own = operands[at.index];
    const std::string addend =
        own.scale_d ? hex(own.c.at(at.row, at.column), bits_of(form.d)) : "none";
    return "(" + own.name + ") " + describe_sum(own.a, own.b, addend, at.row, at.column);
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].name.starts_with("integers")) {
      check_exact(suite, form, operands[i], d, i);
    }
  }
  suite.add(results);
}

// Allows the kernel the memory and starts it.
template <int kSums, class Body>
WgmmaLaunch launch_of(Body body) {
  return [body](unsigned blocks, size_t shared_bytes, const WgmmaCase* cases, const uint4* images,
                const uint32_t* a_registers, const uint32_t* c, uint32_t* d) {
    const auto kernel = run_wgmma<kSums, Body>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
    kernel<<<blocks, kThreads, shared_bytes>>>(body, cases, images, a_registers, c, d);
  };
}

}  // namespace

// `types` after the shape, `immediates` after scale-d. A from shared memory (SS) or registers (RS).
#define WGMMA_SS(N, K, SUMS, types, immediates, EA, EB, ED, a_outer_major, b_outer_major, sign) \
  run_wgmma_form(suite,                                                                         \
                 {"wgmma.m64n" #N "k" #K "." types immediates " A shared", N, K, Element::EA,   \
                  Element::EB, Element::ED, false, a_outer_major, b_outer_major, sign},         \
                 launch_of<SUMS>([] __device__(uint32_t * d, const uint32_t*, uint64_t a,       \
                                               uint64_t b, int scale_d) {                       \
                   asm volatile("{ .reg .pred p; setp.ne.b32 p, " WGMMA_AFTER_##SUMS##_2        \
                                ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." types    \
                                " {" WGMMA_LIST_##SUMS "}, " WGMMA_AFTER_##SUMS##_0             \
                                ", " WGMMA_AFTER_##SUMS##_1 ", p" immediates "; }"              \
                                : WGMMA_SUMS_##SUMS(d)                                          \
                                : "l"(a), "l"(b), "r"(scale_d));                                \
                 }));
#define WGMMA_RS(N, K, SUMS, types, immediates, EA, EB, ED, b_outer_major, sign)                   \
  run_wgmma_form(                                                                                  \
      suite,                                                                                       \
      {"wgmma.m64n" #N "k" #K "." types immediates " A registers", N, K, Element::EA, Element::EB, \
       Element::ED, true, false, b_outer_major, sign},                                             \
      launch_of<SUMS>([] __device__(uint32_t * d, const uint32_t* a, uint64_t, uint64_t b,         \
                                    int scale_d) {                                                 \
        asm volatile(                                                                              \
            "{ .reg .pred p; setp.ne.b32 p, " WGMMA_AFTER_##SUMS##_5                               \
            ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." types " {" WGMMA_LIST_##SUMS    \
            "}, {" WGMMA_AFTER_##SUMS##_0 ", " WGMMA_AFTER_##SUMS##_1 ", " WGMMA_AFTER_##SUMS##_2  \
            ", " WGMMA_AFTER_##SUMS##_3 "}, " WGMMA_AFTER_##SUMS##_4 ", p" immediates "; }"        \
            : WGMMA_SUMS_##SUMS(d)                                                                 \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d));                   \
      }));

// M of n and the registers of sums of 32 or 16 bits.
#define FOR_N_32(M, ...) M(8, 4, __VA_ARGS__) M(64, 32, __VA_ARGS__) M(256, 128, __VA_ARGS__)
#define FOR_N_16(M, ...) M(8, 2, __VA_ARGS__) M(64, 16, __VA_ARGS__) M(256, 64, __VA_ARGS__)

void half_factors(Suite& suite) {
#define FORMS(N, SUMS, types, E, ED)                                      \
  WGMMA_SS(N, 16, SUMS, types, ", 1, 1, 0, 0", E, E, ED, false, false, 1) \
  WGMMA_SS(N, 16, SUMS, types, ", 1, 1, 1, 1", E, E, ED, true, true, 1)   \
  WGMMA_RS(N, 16, SUMS, types, ", 1, 1, 0", E, E, ED, false, 1)           \
  WGMMA_RS(N, 16, SUMS, types, ", 1, 1, 1", E, E, ED, true, 1)
  FOR_N_32(FORMS, "f32.f16.f16", kF16, kF32);
  FOR_N_32(FORMS, "f32.bf16.bf16", kBf16, kF32);
  FOR_N_16(FORMS, "f16.f16.f16", kF16, kF16);
#undef FORMS
#define FORMS(SUMS, types, E, ED)                                            \
  WGMMA_SS(64, 16, SUMS, types, ", 1, 1, 0, 1", E, E, ED, false, true, 1)    \
  WGMMA_SS(64, 16, SUMS, types, ", 1, 1, 1, 0", E, E, ED, true, false, 1)    \
  WGMMA_SS(64, 16, SUMS, types, ", -1, 1, 0, 0", E, E, ED, false, false, -1) \
  WGMMA_SS(64, 16, SUMS, types, ", 1, -1, 0, 0", E, E, ED, false, false, -1) \
  WGMMA_SS(64, 16, SUMS, types, ", -1, -1, 0, 0", E, E, ED, false, false, 1) \
  WGMMA_RS(64, 16, SUMS, types, ", -1, 1, 0", E, E, ED, false, -1)           \
  WGMMA_RS(64, 16, SUMS, types, ", 1, -1, 0", E, E, ED, false, -1)
  FORMS(32, "f32.f16.f16", kF16, kF32);
  FORMS(32, "f32.bf16.bf16", kBf16, kF32);
  FORMS(16, "f16.f16.f16", kF16, kF16);
#undef FORMS
}

void tf32_factors(Suite& suite) {
#define FORMS(N, SUMS, types)                                                \
  WGMMA_SS(N, 8, SUMS, types, ", 1, 1", kTf32, kTf32, kF32, false, false, 1) \
  WGMMA_RS(N, 8, SUMS, types, ", 1, 1", kTf32, kTf32, kF32, false, 1)
  FOR_N_32(FORMS, "f32.tf32.tf32");
#undef FORMS
  WGMMA_SS(64, 8, 32, "f32.tf32.tf32", ", -1, 1", kTf32, kTf32, kF32, false, false, -1);
  WGMMA_RS(64, 8, 32, "f32.tf32.tf32", ", 1, -1", kTf32, kTf32, kF32, false, -1);
}

void fp8_factors(Suite& suite) {
#define FORMS(N, SUMS, types, EA, EB, ED)                             \
  WGMMA_SS(N, 32, SUMS, types, ", 1, 1", EA, EB, ED, false, false, 1) \
  WGMMA_RS(N, 32, SUMS, types, ", 1, 1", EA, EB, ED, false, 1)
  FOR_N_32(FORMS, "f32.e4m3.e4m3", kE4m3, kE4m3, kF32);
  FOR_N_32(FORMS, "f32.e5m2.e5m2", kE5m2, kE5m2, kF32);
  FOR_N_16(FORMS, "f16.e4m3.e4m3", kE4m3, kE4m3, kF16);
  FOR_N_16(FORMS, "f16.e5m2.e5m2", kE5m2, kE5m2, kF16);
  FORMS(64, 32, "f32.e4m3.e5m2", kE4m3, kE5m2, kF32);
  FORMS(64, 32, "f32.e5m2.e4m3", kE5m2, kE4m3, kF32);
  FORMS(64, 16, "f16.e4m3.e5m2", kE4m3, kE5m2, kF16);
  FORMS(64, 16, "f16.e5m2.e4m3", kE5m2, kE4m3, kF16);
#undef FORMS
  WGMMA_SS(64, 32, 32, "f32.e4m3.e4m3", ", -1, 1", kE4m3, kE4m3, kF32, false, false, -1);
  WGMMA_RS(64, 32, 32, "f32.e5m2.e5m2", ", 1, -1", kE5m2, kE5m2, kF32, false, -1);
}

void integer_factors(Suite& suite) {
#define FORMS(N, SUMS, types, EA, EB)                             \
  WGMMA_SS(N, 32, SUMS, types, "", EA, EB, kS32, false, false, 1) \
  WGMMA_RS(N, 32, SUMS, types, "", EA, EB, kS32, false, 1)
  FOR_N_32(FORMS, "s32.s8.s8", kS8, kS8);
  FOR_N_32(FORMS, "s32.u8.u8", kU8, kU8);
  FORMS(64, 32, "s32.s8.u8", kS8, kU8);
  FORMS(64, 32, "s32.u8.s8", kU8, kS8);
  FORMS(64, 32, "s32.s8.s8.satfinite", kS8, kS8);
  FORMS(64, 32, "s32.s8.u8.satfinite", kS8, kU8);
  FORMS(64, 32, "s32.u8.s8.satfinite", kU8, kS8);
  FORMS(64, 32, "s32.u8.u8.satfinite", kU8, kU8);
#undef FORMS
#define FORMS(N, SUMS, types)                                        \
  WGMMA_SS(N, 256, SUMS, types, "", kB1, kB1, kS32, false, false, 1) \
  WGMMA_RS(N, 256, SUMS, types, "", kB1, kB1, kS32, false, 1)
  FOR_N_32(FORMS, "s32.b1.b1.and.popc");
#undef FORMS
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::half_factors(suite);
  mpfa::ptx_test::tf32_factors(suite);
  mpfa::ptx_test::fp8_factors(suite);
  mpfa::ptx_test::integer_factors(suite);
  return suite.finish();
}
