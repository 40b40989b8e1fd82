// cp.async.bulk.tensor and tensormap.*: what moves where. The boxes themselves are tested in
// tests/unit/sim/tensor_map/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "sim/tensor_map/tensor_map.h"
#include "unit/sim/support/fault_of.h"
#include "unit/sim/support/ptx_program.h"

namespace mpfa::sim {
namespace {

using testing::fault_of;
using ::testing::HasSubstr;
using testing::one_kernel;
using testing::PtxProgram;
using testing::with_seed;

constexpr uint64_t kSeeds = 12;
constexpr size_t kRows = 20;
constexpr size_t kColumns = 48;  // 4 bytes each
constexpr size_t kWords = kRows * kColumns;

constexpr const char* kDeclarations = R"(
  .shared .align 1024 .b8 data[4096];
  .shared .align 8 .b64 bar[8];
  .shared .align 128 .b8 map_copy[128];
  .reg .b32 %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10;
  .reg .b16 %h<4>;
  .reg .b64 %s<12>;
  .reg .pred %p<8>;
  .reg .pred %leader;
)";

// A tensor of u32, kRows x kColumns, and a box of 8 rows of 32 words.
TensorMap words_map(uint64_t address) {
  TensorMap map;
  map.type = TensorMapType::kU32;
  map.rank = 2;
  map.global_address = address;
  map.global_dim = {kColumns, kRows, 1, 1, 1};
  map.global_stride[0] = kColumns * 4;
  map.box_dim = {32, 8, 1, 1, 1};
  return map;
}

uint32_t word(size_t row, size_t column) { return static_cast<uint32_t>(row * 100 + column); }

struct RunOptions {
  uint64_t seed = 0;
  uint32_t threads = 32;
  uint32_t blocks = 1;
  Swizzle swizzle = {};
  TensorFill fill = TensorFill::kZero;
  TensorMapType type = TensorMapType::kU32;
  bool has_map = true;
  uint32_t box_rows = 8;
  uint32_t columns = kColumns;  // that the map has
};

struct Result {
  std::vector<uint32_t> tensor;
  std::vector<uint32_t> out;
};

// Runs `body` with the map's address in %rd1 and the output's in %rd2 + 4 * tid.
Result run(const std::string& body, const RunOptions& how = {}) {
  PtxProgram program(one_kernel(kDeclarations, body, 0, 4), with_seed(how.seed));
  std::vector<uint32_t> tensor(kWords);
  for (size_t i = 0; i < kWords; ++i) tensor[i] = word(i / kColumns, i % kColumns);
  const uint64_t address = program.upload(tensor);
  TensorMap map = words_map(address);
  map.swizzle = how.swizzle;
  map.fill = how.fill;
  map.type = how.type;
  map.box_dim[1] = how.box_rows;
  map.global_dim[0] = how.columns;
  const TensorMapBytes encoded = how.has_map ? encode(map) : TensorMapBytes{};
  const uint64_t map_address =
      program.upload(std::vector<std::byte>(encoded.begin(), encoded.end()));
  const uint64_t out = program.upload(std::vector<uint32_t>(1024 * how.blocks));
  program.run(
      "test",
      {.grid = {how.blocks, 1, 1}, .block = {how.threads, 1, 1}, .cluster = {how.blocks, 1, 1}},
      map_address, out);
  return {program.download<uint32_t>(address, kWords),
          program.download<uint32_t>(out, 1024 * how.blocks)};
}

// Thread 0 loads a box by `instruction`; all threads copy 1024 bytes of it to the output.
std::string load(const std::string& instruction) {
  return R"(
    setp.eq.u32 %leader, %r0, 0;
    mov.u32 %r6, data;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    bar.sync 0;
    @!%leader bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
    )" + instruction +
         R"(
  WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    mov.u32 %r1, 0;
  COPY:
    mad.lo.u32 %r2, %r0, 4, %r6;
    mad.lo.u32 %r2, %r1, 128, %r2;
    ld.shared.u32 %r3, [%r2];
    mad.wide.u32 %s2, %r1, 128, %rd2;
    st.global.u32 [%s2], %r3;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 8;
    @%p1 bra COPY;)";
}

std::string load_at(const std::string& column, const std::string& row) {
  return load(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], "
      "[%rd1, {" +
      column + ", " + row + "}], [bar];");
}

TEST(TensorCopy, LoadsABox) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto out = run(load_at("8", "3"), {.seed = seed}).out;
    for (size_t i = 0; i < 256; ++i) ASSERT_EQ(out[i], word(3 + i / 32, 8 + i % 32)) << i;
  }
}

// 128-byte rows: the 16-byte chunk of a row lies where its number XOR the row says.
TEST(TensorCopy, LoadsSwizzled) {
  const auto out = run(load_at("0", "0"), {.swizzle = {.span = SwizzleSpan::k128B}}).out;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 32; ++column) {
      const size_t chunk = (column / 4) ^ row;
      EXPECT_EQ(out[row * 32 + chunk * 4 + column % 4], word(row, column));
    }
  }
}

TEST(TensorCopy, FillsOutOfBounds) {
  const auto out = run(load_at("-4", "14"), {.seed = 5}).out;
  for (size_t i = 0; i < 256; ++i) {
    const size_t row = 14 + i / 32;
    const auto column = static_cast<int64_t>(i % 32) - 4;
    const bool inside = row < kRows && column >= 0;
    EXPECT_EQ(out[i], inside ? word(row, static_cast<size_t>(column)) : 0) << i;
  }
  // The last 16 columns lie beyond the tensor.
  const auto right = run(load_at("32", "0")).out;
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(right[i], i % 32 < 16 ? word(i / 32, 32 + i % 32) : 0);
}

TEST(TensorCopy, LoadsIntoTheOwnBlockAndWithAPolicy) {
  const std::string body = load(
      "createpolicy.fractional.L2::evict_last.b64 %s3, 1.0;\n"
      "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%r6], [%rd1, {%r0, 2}], [bar], %s3;");
  const auto out = run(body).out;
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], word(2 + i / 32, i % 32));
}

TEST(TensorCopy, MulticastReachesAllBlocks) {
  const std::string body = R"(
    mov.u32 %r5, %cluster_ctarank;
    setp.eq.u32 %leader, %r0, 0;
    mov.u32 %r6, data;
    @%leader mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!%leader bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
    // Each block sends one half of what all receive.
    mad.lo.u32 %r7, %r5, 1024, %r6;
    mad.lo.u32 %r8, %r5, 8, 0;
    mov.b16 %h1, 3;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r7], [%rd1, {4, %r8}], [bar], %h1;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    mad.wide.u32 %s4, %r5, 4096, %rd2;
    mov.u32 %r1, 0;
  COPY:
    mad.lo.u32 %r2, %r0, 4, %r6;
    mad.lo.u32 %r2, %r1, 128, %r2;
    ld.shared.u32 %r3, [%r2];
    mad.wide.u32 %s2, %r1, 128, %s4;
    st.global.u32 [%s2], %r3;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra COPY;
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto out = run(body, {.seed = seed, .blocks = 2}).out;
    for (size_t block = 0; block < 2; ++block) {
      for (size_t i = 0; i < 512; ++i) {
        ASSERT_EQ(out[block * 1024 + i], word(i / 32, 4 + i % 32)) << block << ": " << i;
      }
    }
  }
}

// Shared words 5000, 5001, ... go to the tensor by `instruction`.
std::string store(const std::string& instruction) {
  return R"(
    setp.eq.u32 %leader, %r0, 0;
    mov.u32 %r6, data;
    mov.u32 %r1, 0;
  FILL:
    mad.lo.u32 %r3, %r1, 32, %r0;
    mad.lo.u32 %r2, %r3, 4, %r6;
    add.u32 %r3, %r3, 5000;
    st.shared.u32 [%r2], %r3;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 8;
    @%p1 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%leader bra DONE;
    )" + instruction +
         R"(
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  DONE:
    bar.sync 0;)";
}

TEST(TensorCopy, StoresABoxWithinBounds) {
  const std::string body =
      store("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {28, 15}], [%r6];");
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto tensor = run(body, {.seed = seed}).tensor;
    for (size_t i = 0; i < kWords; ++i) {
      const size_t row = i / kColumns;
      const size_t column = i % kColumns;
      const bool inside = row >= 15 && column >= 28;
      const size_t from = (row - 15) * 32 + (column - 28);
      EXPECT_EQ(tensor[i], inside ? 5000 + from : word(row, column)) << i;
    }
  }
}

// Only the words of the box that the tensor has need be written: 5 rows of the 8, 20 columns of 32.
TEST(TensorCopy, MayStoreABoxWhoseOutsideIsNotWritten) {
  const auto store_after_writing = [](int rows, int columns) {
    return R"(
    mov.u32 %r6, data;
    mad.lo.u32 %r2, %r0, 4, %r6;
    mov.u32 %r1, 0;
    setp.lt.u32 %p3, %r0, )" +
           std::to_string(columns) + R"(;
  FILL:
    @%p3 st.shared.u32 [%r2], 5000;
    add.u32 %r2, %r2, 128;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, )" +
           std::to_string(rows) + R"(;
    @%p1 bra FILL;
    fence.proxy.async;
    bar.sync 0;
    setp.eq.u32 %leader, %r0, 0;
    @!%leader bra DONE;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {28, 15}], [%r6];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  DONE:
    bar.sync 0;)";
  };
  EXPECT_EQ(run(store_after_writing(5, 20)).tensor.back(), 5000);
  // What the engine writes up to a multiple of 16 bytes is not the tensor's.
  EXPECT_EQ(run(store_after_writing(5, 19), {.columns = kColumns - 1}).tensor[kWords - 2], 5000);
  const auto lacks = [&](int rows, int columns) {
    return fault_of(FaultKind::kCheck, [&] { run(store_after_writing(rows, columns)); });
  };
  EXPECT_THAT(lacks(4, 20), HasSubstr("that nothing has written"));
  EXPECT_THAT(lacks(5, 19), HasSubstr("that nothing has written"));
}

TEST(TensorCopy, StoresSwizzled) {
  const std::string body =
      store("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r6];");
  const auto tensor = run(body, {.swizzle = {.span = SwizzleSpan::k128B}}).tensor;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 32; ++column) {
      const size_t chunk = (column / 4) ^ row;
      EXPECT_EQ(tensor[row * kColumns + column], 5000 + row * 32 + chunk * 4 + column % 4);
    }
  }
}

TEST(TensorCopy, ReducesABox) {
  const auto reduce = [](const std::string& op) {
    return store("cp.reduce.async.bulk.tensor.2d.global.shared::cta." + op +
                 ".tile.bulk_group [%rd1, {0, 0}], [%r6];");
  };
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto sums = run(reduce("add"), {.seed = seed}).tensor;
    const auto bits = run(reduce("or"), {.seed = seed}).tensor;
    for (size_t row = 0; row < 8; ++row) {
      for (size_t column = 0; column < 32; ++column) {
        const auto value = static_cast<uint32_t>(5000 + row * 32 + column);
        EXPECT_EQ(sums[row * kColumns + column], word(row, column) + value);
        EXPECT_EQ(bits[row * kColumns + column], word(row, column) | value);
      }
    }
  }
  EXPECT_THAT(
      fault_of(FaultKind::kCheck, [&] { run(reduce("inc"), {.type = TensorMapType::kS32}); }),
      HasSubstr("elemtype = s32: .inc does not exist for it"));
}

TEST(TensorCopy, GathersFourRows) {
  const std::string body = load(
      "mbarrier.complete_tx.shared::cta.b64 [bar], 512;\n"
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
      "[%r6], [%rd1, {4, 9, 1, 19, 4}], [bar];");
  std::string only = body;
  const std::string rest = "setp.lt.u32 %p1, %r1, 8;";
  only.replace(only.find(rest), rest.size(), "setp.lt.u32 %p1, %r1, 4;");
  const auto out = run(only, {.box_rows = 1}).out;
  const size_t rows[] = {9, 1, 19, 4};
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], word(rows[i / 32], 4 + i % 32));
}

// A kernel changes a map in shared memory and publishes it.
TEST(TensorMapEdit, ReplacedFieldsCount) {
  const std::string body = R"(
    setp.eq.u32 %leader, %r0, 0;
    shl.b32 %r1, %r0, 2;
    cvt.u64.u32 %s5, %r1;
    add.u64 %s5, %rd1, %s5;
    ld.global.u32 %r2, [%s5];
    mov.u32 %r3, map_copy;
    add.u32 %r1, %r3, %r1;
    st.shared.u32 [%r1], %r2;
    bar.warp.sync 0xFFFFFFFF;
    @!%leader bra EDITED;
    ld.shared.u32 %r4, [%r3];
    mov.u32 %r4, 24;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0, %r4;
    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r3], 3;
  EDITED:
    bar.warp.sync 0xFFFFFFFF;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r3], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;)" +
                           load_at("0", "0");
  const auto out = run(body).out;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 32; ++column) {
      const size_t chunk = (column / 4) ^ row;
      EXPECT_EQ(out[row * 32 + chunk * 4 + column % 4], column < 24 ? word(row, column) : 0);
    }
  }
}

TEST(TensorMapEdit, Errors) {
  const std::string start = R"(setp.ne.u32 %p1, %r0, 0;
    @%p1 bra DONE;
    mov.u32 %r4, 5;
    )";
  const auto edit = [&](const std::string& line) { return start + line + "\nDONE:\n"; };
  run(edit("tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 1, %r4;"));
  EXPECT_THAT(
      fault_of(FaultKind::kCheck,
               [&] { run(edit("tensormap.replace.tile.rank.global.b1024.b32 [%rd1], %r4;")); }),
      HasSubstr("rank"));
  EXPECT_THAT(
      fault_of(FaultKind::kIllegalInstruction,
               [&] { run(edit("tensormap.replace.tile.color.global.b1024.b32 [%rd1], %r4;")); }),
      HasSubstr("the field is not known"));
}

TEST(TensorCopyErrors, NamesWhatIsWrong) {
  const auto check = [](const std::string& body, const RunOptions& how = {}) {
    return fault_of(FaultKind::kCheck, [&] { run(body, how); });
  };
  EXPECT_THAT(check(load_at("0", "0"), {.has_map = false}), HasSubstr("tensor map"));
  const std::string three = load(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], "
      "[%rd1, {0, 0, 0}], [bar];");
  EXPECT_THAT(check(three), HasSubstr("3 coordinates: must be 2"));
  const std::string misaligned = load(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6+16], "
      "[%rd1, {0, 0}], [bar];");
  EXPECT_THAT(check(misaligned), HasSubstr("must be a multiple of 128"));
  EXPECT_THAT(check(store("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
                          "[%rd1, {-1, 0}], [%r6];")),
              HasSubstr("coordinate 0 = -1"));
  const std::string no_map = load(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], "
      "[%s1, {0, 0}], [bar];");
  EXPECT_THAT(fault_of(FaultKind::kIllegalAddress, [&] { run(no_map); }),
              HasSubstr("read of 128 bytes"));
  // Fewer bytes arrive than are expected.
  std::string more = load_at("0", "0");
  more.replace(more.find("1024;"), 5, "1040;");
  EXPECT_THAT(fault_of(FaultKind::kDeadlock, [&] { run(more); }), HasSubstr("tx-count 16"));
}

// Every form that the PTX ISA lists for sm_90 is read, and what CUTLASS writes.
TEST(TensorCopy, AllFormsAreKnown) {
  std::string body = "setp.eq.u32 %p1, %r0, %r0;\n@%p1 bra END;\n";
  std::string coordinates;
  for (int rank = 1; rank <= 5; ++rank) {
    coordinates += rank == 1 ? "%r1" : ", %r2";
    const std::string dim = "." + std::to_string(rank) + "d";
    const std::string map = "[%s1, {" + coordinates + "}]";
    for (const std::string hint : {"", ".L2::cache_hint"}) {
      const std::string policy = hint.empty() ? "" : ", %s3";
      for (const std::string mode : {"", ".tile"}) {
        for (const std::string to : {".shared::cta", ".shared::cluster"}) {
          body += "cp.async.bulk.tensor" + dim + to + ".global" + mode +
                  ".mbarrier::complete_tx::bytes" + hint + " [%r1], " + map + ", [%r3]" + policy +
                  ";\n";
        }
        body += "cp.async.bulk.tensor" + dim + ".shared::cluster.global" + mode +
                ".mbarrier::complete_tx::bytes.multicast::cluster" + hint + " [%r1], " + map +
                ", [%r3], %h1" + policy + ";\n";
        body += "cp.async.bulk.tensor" + dim + ".global.shared::cta" + mode + ".bulk_group" + hint +
                " " + map + ", [%r1]" + policy + ";\n";
        for (const std::string op : {"add", "min", "max", "inc", "dec", "and", "or", "xor"}) {
          body += "cp.reduce.async.bulk.tensor" + dim + ".global.shared::cta." + op + mode +
                  ".bulk_group" + hint + " " + map + ", [%r1]" + policy + ";\n";
        }
        body += "cp.async.bulk.prefetch.tensor" + dim + ".L2.global" + mode + hint + " " + map +
                policy + ";\n";
      }
    }
  }
  body +=
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], "
      "[%s1, {%r1, %r2, %r3}], [%r4], {%h1};\n"
      "cp.async.bulk.tensor.5d.im2col.cta_group::2.shared::cluster.global."
      "mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], "
      "[%s1, {%r1, %r2, %r3, %r4, %r5}], [%r6], {%h1, %h2, %h3}, %h1, %s2;\n"
      "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group "
      "[%s1, {%r1, %r2, %r3, %r4}], [%r5];\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
      "[%s1, {%r1, %r2, %r3, %r4, %r5}], [%r6];\n"
      "prefetch.tensormap [%s1];\n"
      "fence.proxy.tensormap::generic.release.gpu;\n";
  for (const std::string space : {"", ".global", ".shared::cta"}) {
    for (const std::string field :
         {"global_address.S.b1024.b64 [%s1], %s2", "rank.S.b1024.b32 [%s1], %r1",
          "box_dim.S.b1024.b32 [%s1], 1, %r1", "global_dim.S.b1024.b32 [%s1], 4, %r1",
          "global_stride.S.b1024.b64 [%s1], 3, %s2", "element_stride.S.b1024.b32 [%s1], 0, %r1",
          "elemtype.S.b1024.b32 [%s1], 6", "interleave_layout.S.b1024.b32 [%s1], 0",
          "swizzle_mode.S.b1024.b32 [%s1], 3", "swizzle_atomicity.S.b1024.b32 [%s1], 1",
          "fill_mode.S.b1024.b32 [%s1], 1"}) {
      std::string line = "tensormap.replace.tile." + field + ";\n";
      line.replace(line.find(".S"), 2, space);
      body += line;
    }
  }
  run(body + "END:\n");
}

}  // namespace
}  // namespace mpfa::sim
