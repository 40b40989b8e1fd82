// Atomic operations as nvcc compiles them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::PtxProgram;

constexpr uint32_t kBlocks = 4;
constexpr uint32_t kBlockThreads = 96;
constexpr uint32_t kThreads = kBlocks * kBlockThreads;
const PtxProgram::Shape kShape = {.grid = {kBlocks, 1, 1}, .block = {kBlockThreads, 1, 1}};

PtxProgram load(uint64_t seed = 0) {
  std::ifstream file(MPFA_ATOMICS_PTX);
  GpuOptions options;
  options.seed = seed;
  options.checks = Checks::none();
  return PtxProgram({std::istreambuf_iterator<char>(file), {}}, options);
}

TEST(NvccAtomics, Integers) {
  PtxProgram program = load();
  std::vector<uint32_t> words(11);
  words[4] = words[6] = ~0u;
  const uint64_t at = program.upload(words);
  const uint64_t numbers = program.upload(std::vector<int32_t>(4));
  std::vector<uint64_t> longs(7);
  longs[1] = longs[3] = ~uint64_t{0};
  const uint64_t longs_at = program.upload(longs);
  program.run("integers", kShape, at, numbers, longs_at);

  uint32_t all_threads = 0;  // or, xor of the thread numbers
  for (uint32_t thread = 0; thread < kThreads; ++thread) all_threads ^= thread;
  words = program.download<uint32_t>(at, 11);
  EXPECT_EQ(words[0], kThreads * (kThreads - 1) / 2);
  EXPECT_EQ(words[1], 0u - 2 * kThreads);
  EXPECT_EQ(words[2], kThreads % 7);
  EXPECT_EQ(words[3], (7 - kThreads % 7) % 7);
  EXPECT_EQ(words[4], ~(kThreads - 1));
  EXPECT_EQ(words[5], kThreads - 1);
  EXPECT_EQ(words[6], 0x80000000u);
  EXPECT_EQ(words[7], 0x7FFFFFFFu);
  EXPECT_EQ(words[8], all_threads);
  EXPECT_GE(words[9], 1u);  // as many as came in their order
  EXPECT_LE(words[9], kThreads);
  EXPECT_GE(words[10], 1u);
  EXPECT_LE(words[10], kThreads);
  EXPECT_EQ(
      program.download<int32_t>(numbers, 4),
      (std::vector<int32_t>{-static_cast<int32_t>(kThreads) + 1, 0, static_cast<int32_t>(kThreads),
                            -static_cast<int32_t>(kThreads)}));
  longs = program.download<uint64_t>(longs_at, 7);
  EXPECT_EQ(longs[0], uint64_t{kThreads} << 40);
  EXPECT_EQ(longs[1], ~uint64_t{0} - (kThreads - 1));
  EXPECT_EQ(longs[2], uint64_t{kThreads - 1} << 33);
  EXPECT_EQ(longs[3], 0u);
  EXPECT_EQ(longs[4], ~uint64_t{0} >> 1);
  EXPECT_EQ(longs[5], uint64_t{all_threads} << 20);
  EXPECT_EQ(longs[6], 0 - uint64_t{kThreads - 1});
}

TEST(NvccAtomics, Floats) {
  PtxProgram program = load();
  const uint64_t f = program.upload(std::vector<float>(2));
  const uint64_t d = program.upload(std::vector<double>(2));
  const uint64_t f2 = program.upload(std::vector<float>(2));
  const uint64_t f4 = program.upload(std::vector<float>(4));
  const uint64_t h = program.upload(std::vector<uint16_t>(3));
  const uint64_t h2 = program.upload(std::vector<uint16_t>(6));
  const uint64_t b = program.upload(std::vector<uint16_t>(3));
  const uint64_t b2 = program.upload(std::vector<uint16_t>(6));
  program.run("floats", kShape, f, d, f2, f4, h, h2, b, b2);
  const auto n = static_cast<float>(kThreads);
  EXPECT_EQ(program.download<float>(f, 2), (std::vector<float>{n / 4, n}));
  EXPECT_EQ(program.download<double>(d, 2), (std::vector<double>{n / 8, n / 2}));
  EXPECT_EQ(program.download<float>(f2, 2), (std::vector<float>{n, 2 * n}));
  EXPECT_EQ(program.download<float>(f4, 4), (std::vector<float>{n, 2 * n, 3 * n, 4 * n}));
  // 128 and 256, which bf16 still holds.
  EXPECT_EQ(program.download<uint16_t>(h, 3), std::vector<uint16_t>(3, 0x5800));
  EXPECT_EQ(program.download<uint16_t>(b, 3), std::vector<uint16_t>(3, 0x4300));
  const std::vector<uint16_t> halves = {0x5800, 0x5C00, 0x5800, 0x5C00, 0x5800, 0x5C00};
  EXPECT_EQ(program.download<uint16_t>(h2, 6), halves);
  const std::vector<uint16_t> bfloats = {0x4300, 0x4380, 0x4300, 0x4380, 0x4300, 0x4380};
  EXPECT_EQ(program.download<uint16_t>(b2, 6), bfloats);
}

TEST(NvccAtomics, References) {
  PtxProgram program = load();
  const uint64_t words = program.upload(std::vector<int32_t>(5));
  const uint64_t bytes = program.upload(std::vector<uint8_t>{1, 2, 3, 4});
  const uint64_t shorts = program.upload(std::vector<int16_t>{1, 2});
  const uint64_t d = program.upload(std::vector<double>(1));
  program.run("references", kShape, words, bytes, shorts, d);
  const auto n = static_cast<int32_t>(kThreads);
  EXPECT_EQ(program.download<int32_t>(words, 5),
            (std::vector<int32_t>{2 * n, -3 * n, 127, kBlockThreads - 1, 5 * n}));
  EXPECT_EQ(program.download<uint8_t>(bytes, 4),
            (std::vector<uint8_t>{1, static_cast<uint8_t>(2 + 3 * n), 3, 4}));
  EXPECT_EQ(program.download<int16_t>(shorts, 2),
            (std::vector<int16_t>{1, static_cast<int16_t>(2 - 2 * n)}));
  EXPECT_EQ(program.download<double>(d, 1)[0], n * 0.5);
}

TEST(NvccAtomics, ALockLetsOneThreadIn) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    PtxProgram program = load(seed);
    const uint64_t lock = program.upload(std::vector<int32_t>(1));
    const uint64_t counter = program.upload(std::vector<int32_t>(1));
    program.run("locked", kShape, lock, counter);
    EXPECT_EQ(program.download<int32_t>(counter, 1)[0], static_cast<int32_t>(kThreads));
  }
}

TEST(NvccAtomics, WordsOfBytes) {
  PtxProgram program = load();
  std::vector<uint32_t> in;
  for (uint32_t i = 0; i < 64; ++i) in.push_back(i * 0x9E3779B9u + (i % 2) * 0x80);
  const uint64_t at = program.upload(in);
  const uint64_t out = program.upload(std::vector<uint32_t>(64));
  const uint64_t signs = program.upload(std::vector<float>(32));
  program.run("words_of_bytes", {}, at, out, signs);
  const auto result = program.download<uint32_t>(out, 64);
  for (size_t i = 0; i < 32; ++i) {
    uint32_t differences = 0;
    uint32_t sum = 0;
    for (int k = 0; k < 32; k += 8) {
      const int x = static_cast<int>(in[2 * i] >> k & 0xFF);
      const int y = static_cast<int>(in[2 * i + 1] >> k & 0xFF);
      differences |= static_cast<uint32_t>(std::abs(x - y)) << k;
      sum += static_cast<uint32_t>(std::abs(x - y));
    }
    EXPECT_EQ(result[2 * i], differences) << i;
    EXPECT_EQ(result[2 * i + 1], sum) << i;
    EXPECT_EQ(program.download<float>(signs, 32)[i], (in[2 * i] >> 31) != 0 ? -1.5F : 1.5F) << i;
  }
}

}  // namespace
}  // namespace mpfa::sim
