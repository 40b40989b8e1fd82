#include "sim/tensor_map/swizzle.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace mpfa::sim {
namespace {

// The tables of the PTX ISA, "Swizzling Modes": row by row, which 16-byte piece of a 128-byte line
// stands in each place.
struct Table {
  Swizzle swizzle;
  std::array<const char*, 8> rows;
};

const Table kTables[] = {{{SwizzleSpan::kNone, SwizzleAtom::k16B},
                          {"01234567", "01234567", "01234567", "01234567", "01234567", "01234567",
                           "01234567", "01234567"}},
                         {{SwizzleSpan::k32B, SwizzleAtom::k16B},
                          {"01234567", "10325476", "01234567", "10325476", "01234567", "10325476",
                           "01234567", "10325476"}},
                         {{SwizzleSpan::k64B, SwizzleAtom::k16B},
                          {"01234567", "10325476", "23016745", "32107654", "01234567", "10325476",
                           "23016745", "32107654"}},
                         {{SwizzleSpan::k128B, SwizzleAtom::k16B},
                          {"01234567", "10325476", "23016745", "32107654", "45670123", "54761032",
                           "67452301", "76543210"}},
                         {{SwizzleSpan::k128B, SwizzleAtom::k32B},
                          {"01234567", "23016745", "45670123", "67452301", "01234567", "23016745",
                           "45670123", "67452301"}},
                         {{SwizzleSpan::k128B, SwizzleAtom::k64B},
                          {"01234567", "45670123", "01234567", "45670123", "01234567", "45670123",
                           "01234567", "45670123"}}};

TEST(Swizzle, MatchesTheTablesOfTheIsa) {
  for (const Table& table : kTables) {
    for (uint32_t address = 0; address < 8192; ++address) {
      const uint32_t line = address / 128;
      const uint32_t piece = address % 128 / 16;
      // The source's piece p of the line stands where the table's row says p.
      const auto place = static_cast<uint32_t>(
          std::string(table.rows[line % 8]).find(static_cast<char>('0' + piece)));
      EXPECT_EQ(table.swizzle.apply(address), line * 128 + place * 16 + address % 16)
          << static_cast<int>(table.swizzle.span) << " " << address;
    }
  }
}

TEST(Swizzle, FlipSwapsEightBytesOfOddLines) {
  const Swizzle plain{SwizzleSpan::k128B, SwizzleAtom::k32B};
  const Swizzle flip{SwizzleSpan::k128B, SwizzleAtom::k32BFlip8B};
  for (uint32_t address = 0; address < 4096; ++address) {
    uint32_t expected = plain.apply(address);
    if (address / 128 % 2 == 1) expected += expected % 16 < 8 ? 8 : -8;
    EXPECT_EQ(flip.apply(address), expected) << address;
  }
}

// A pattern that begins on a line other than a multiple of eight is the same pattern, moved.
TEST(Swizzle, BaseOffsetMovesThePattern) {
  for (const Table& table : kTables) {
    for (uint32_t base = 0; base < 8; ++base) {
      for (uint32_t address = 0; address < 2048; ++address) {
        EXPECT_EQ(table.swizzle.apply(address + base * 128, base),
                  table.swizzle.apply(address) + base * 128);
      }
    }
  }
}

TEST(Swizzle, Sizes) {
  const Swizzle none;
  EXPECT_EQ(none.span_bytes(), 0u);
  EXPECT_EQ(none.period_bytes(), 128u);
  const Swizzle widest{SwizzleSpan::k128B, SwizzleAtom::k16B};
  EXPECT_EQ(widest.span_bytes(), 128u);
  EXPECT_EQ(widest.unit_bytes(), 16u);
  EXPECT_EQ(widest.period_bytes(), 1024u);
  EXPECT_EQ((Swizzle{SwizzleSpan::k128B, SwizzleAtom::k32BFlip8B}).unit_bytes(), 8u);
  EXPECT_EQ((Swizzle{SwizzleSpan::k32B, SwizzleAtom::k16B}).span_bytes(), 32u);
  EXPECT_EQ((Swizzle{SwizzleSpan::k64B, SwizzleAtom::k16B}).period_bytes(), 512u);
}

}  // namespace
}  // namespace mpfa::sim
