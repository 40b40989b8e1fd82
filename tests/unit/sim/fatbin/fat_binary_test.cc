#include "sim/fatbin/fat_binary.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <string>
#include <vector>

#include "mpfa/check.h"
#include "sim/fatbin/choose_ptx.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kLz4 = 0x2000;
constexpr uint64_t kZstd = 0x8000;
constexpr uint64_t kSuffixA = 0x100000;
constexpr uint64_t kSuffixF = 0x200000;

class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    const auto* raw = reinterpret_cast<const char*>(&value);
    text_.append(raw, sizeof value);
    return *this;
  }
  Bytes& put(const std::string& raw) {
    text_ += raw;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One entry's fields, right unless a test changes them.
struct Entry {
  uint16_t kind = 1;
  uint32_t header_bytes = 64;
  std::string payload;
  uint64_t payload_bytes = 0;  // 0: of the payload
  uint32_t compressed_bytes = 0;
  uint32_t capability = 90;
  uint64_t flags = 0x11;
  uint64_t uncompressed_bytes = 0;

  std::string text() const {
    return Bytes()
        .put(kind)
        .put<uint16_t>(0x101)
        .put(header_bytes)
        .put<uint64_t>(payload_bytes != 0 ? payload_bytes : payload.size())
        .put(compressed_bytes)
        .put<uint32_t>(0)
        .put<uint16_t>(0)
        .put<uint16_t>(9)
        .put(capability)
        .put<uint32_t>(0)
        .put<uint32_t>(0)
        .put(flags)
        .put<uint64_t>(0)
        .put(uncompressed_bytes)
        .put(std::string(header_bytes < 64 ? 0 : header_bytes - 64, '\0'))
        .put(payload)
        .text();
  }
};

std::string file_of(const std::vector<Entry>& entries) {
  std::string body;
  for (const Entry& entry : entries) body += entry.text();
  return Bytes()
      .put<uint32_t>(0xBA55ED50)
      .put<uint16_t>(1)
      .put<uint16_t>(16)
      .put<uint64_t>(body.size())
      .put(body)
      .text();
}

std::vector<FatBinaryEntry> read(const std::string& file) {
  return read_fat_binary(std::as_bytes(std::span(file)));
}

std::string error_of(const std::string& file) {
  try {
    for (const FatBinaryEntry& entry : read(file)) ptx_text(entry);
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

Entry ptx(uint32_t capability, uint64_t suffix = 0) {
  Entry entry;
  entry.capability = capability;
  entry.flags |= suffix;
  entry.payload = ".target " + std::to_string(capability);
  return entry;
}

Entry elf(uint32_t capability, uint64_t suffix = 0) {
  Entry entry = ptx(capability, suffix);
  entry.kind = 2;
  return entry;
}

const std::string kText = ".version 9.0\n" + std::string(3000, 'x') + "\nret;\n";

Entry compressed_zstd() {
  Entry entry;
  entry.payload.resize(ZSTD_compressBound(kText.size()));
  entry.payload.resize(
      ZSTD_compress(entry.payload.data(), entry.payload.size(), kText.data(), kText.size(), 3));
  entry.compressed_bytes = static_cast<uint32_t>(entry.payload.size());
  entry.payload += "123";  // padding
  entry.flags |= kZstd;
  entry.uncompressed_bytes = kText.size();
  return entry;
}

Entry compressed_lz4() {
  Entry entry;
  entry.payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(kText.size()))));
  entry.payload.resize(static_cast<size_t>(
      LZ4_compress_default(kText.data(), entry.payload.data(), static_cast<int>(kText.size()),
                           static_cast<int>(entry.payload.size()))));
  entry.compressed_bytes = static_cast<uint32_t>(entry.payload.size());
  entry.flags |= kLz4;
  entry.uncompressed_bytes = kText.size();
  return entry;
}

TEST(FatBinary, ReadsEntries) {
  Entry other = ptx(80);
  other.kind = 77;  // neither PTX nor machine code
  Entry named = ptx(100, kSuffixF);
  named.header_bytes = 104;
  const std::string file = file_of({ptx(80), elf(90, kSuffixA), other, named});
  const auto entries = read(file);  // into the file's bytes
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].kind, CodeKind::kPtx);
  EXPECT_EQ(entries[0].target(), "sm_80");
  EXPECT_EQ(ptx_text(entries[0]), ".target 80");
  EXPECT_EQ(entries[1].kind, CodeKind::kElf);
  EXPECT_EQ(entries[1].target(), "sm_90a");
  EXPECT_EQ(entries[2].target(), "sm_100f");
  EXPECT_EQ(ptx_text(entries[2]), ".target 100");
}

TEST(FatBinary, TextEndsAtNul) {
  Entry padded = ptx(90);
  padded.payload = std::string("ret;\0\0\0", 7);
  const std::string file = file_of({padded});
  EXPECT_EQ(ptx_text(read(file)[0]), "ret;");
}

TEST(FatBinary, Decompresses) {
  const std::string file = file_of({compressed_zstd(), compressed_lz4()});
  const auto entries = read(file);
  EXPECT_EQ(entries[0].compression, CodeCompression::kZstd);
  EXPECT_EQ(ptx_text(entries[0]), kText);
  EXPECT_EQ(entries[1].compression, CodeCompression::kLz4);
  EXPECT_EQ(ptx_text(entries[1]), kText);
}

TEST(FatBinary, SizesThatLieAreErrors) {
  Entry entry = ptx(90);
  entry.payload_bytes = entry.payload.size() + 1;
  EXPECT_NE(error_of(file_of({entry})), "");
  entry.payload_bytes = UINT64_MAX;
  EXPECT_NE(error_of(file_of({entry})), "");
  entry = ptx(90);
  entry.header_bytes = 63;
  EXPECT_NE(error_of(file_of({entry})), "");
  entry.header_bytes = UINT32_MAX;
  EXPECT_NE(error_of(file_of({ptx(80)}) + "x"), "x");
  for (const Entry& compressed : {compressed_zstd(), compressed_lz4()}) {
    for (const uint64_t bytes : {kText.size() - 1, kText.size() + 1, uint64_t{0}, UINT64_MAX}) {
      Entry lie = compressed;
      lie.uncompressed_bytes = bytes;
      EXPECT_NE(error_of(file_of({lie})), "") << bytes;
    }
    Entry lie = compressed;
    lie.compressed_bytes = static_cast<uint32_t>(lie.payload.size()) + 1;
    EXPECT_NE(error_of(file_of({lie})), "");
    lie.compressed_bytes = 5;
    EXPECT_NE(error_of(file_of({lie})), "");
    lie = compressed;
    lie.payload[0] = static_cast<char>(~lie.payload[0]);
    lie.payload[1] = static_cast<char>(~lie.payload[1]);
    EXPECT_NE(error_of(file_of({lie})), "");
  }
}

TEST(FatBinary, EveryTruncationIsAnError) {
  const std::string file = file_of({ptx(80), compressed_zstd()});
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_NE(error_of(file.substr(0, bytes)), "") << bytes;
  }
  EXPECT_EQ(error_of(file), "");
}

// Whatever the bytes are, reading them ends, in an error or not.
TEST(FatBinary, DamagedBytesDoNoHarm) {
  const std::string file = file_of({compressed_zstd(), compressed_lz4(), ptx(90)});
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(~damaged[at]);
    error_of(damaged);
  }
}

TEST(FatBinary, OtherFilesAreErrors) {
  std::string file = file_of({});
  EXPECT_EQ(error_of(file), "");
  file[0] = 0;
  EXPECT_NE(error_of(file), "");
  EXPECT_FALSE(is_fat_binary(file.data()));
  file = file_of({});
  file[4] = 2;  // a later version
  EXPECT_NE(error_of(file), "");
  file = file_of({});
  file[6] = 15;  // a header too short for itself
  EXPECT_NE(error_of(file), "");
}

TEST(FatBinary, InMemoryItEndsWhereItsHeaderSays) {
  const std::string file = file_of({ptx(90)});
  const std::string more = file + file_of({ptx(80)});
  EXPECT_EQ(fat_binary_bytes(more.data()), file.size());
  EXPECT_EQ(read_fat_binary(more.data()).size(), 1u);
}

std::string chosen(const std::vector<Entry>& entries, int capability) {
  const std::string file = file_of(entries);
  const auto all = read(file);
  const FatBinaryEntry* best = choose_ptx(all, capability);
  return best == nullptr ? "" : best->target();
}

TEST(ChoosePtx, TheLatestThatTheDeviceRuns) {
  const std::vector<Entry> portable = {ptx(75), ptx(90), ptx(80), ptx(100)};
  EXPECT_EQ(chosen(portable, 70), "");
  EXPECT_EQ(chosen(portable, 75), "sm_75");
  EXPECT_EQ(chosen(portable, 89), "sm_80");
  EXPECT_EQ(chosen(portable, 90), "sm_90");
  EXPECT_EQ(chosen(portable, 103), "sm_100");
}

TEST(ChoosePtx, ArchSpecificCodeRunsOnItsArchitectureOnly) {
  const std::vector<Entry> entries = {ptx(90, kSuffixA), ptx(80)};
  EXPECT_EQ(chosen(entries, 90), "sm_90a");
  EXPECT_EQ(chosen(entries, 100), "sm_80");
  EXPECT_EQ(chosen(entries, 89), "sm_80");
  EXPECT_EQ(chosen({ptx(90), ptx(90, kSuffixA)}, 90), "sm_90a");
  EXPECT_EQ(chosen({ptx(90, kSuffixA), ptx(90)}, 90), "sm_90a");
}

TEST(ChoosePtx, FamilySpecificCodeRunsInItsFamily) {
  const std::vector<Entry> entries = {ptx(100, kSuffixF), ptx(90)};
  EXPECT_EQ(chosen(entries, 100), "sm_100f");
  EXPECT_EQ(chosen(entries, 103), "sm_100f");
  EXPECT_EQ(chosen(entries, 120), "sm_90");
  EXPECT_EQ(chosen(entries, 90), "sm_90");
  EXPECT_EQ(chosen({ptx(103, kSuffixF)}, 100), "");
  EXPECT_EQ(chosen({ptx(100), ptx(100, kSuffixF), ptx(100, kSuffixA)}, 100), "sm_100a");
}

TEST(ChoosePtx, MachineCodeIsNotPtx) {
  EXPECT_EQ(chosen({elf(90, kSuffixA)}, 90), "");
  const std::string file = file_of({elf(90, kSuffixA), ptx(100)});
  const std::string why = explain_no_ptx(read(file), 90);
  EXPECT_NE(why.find("sm_90a machine code, sm_100 PTX"), std::string::npos) << why;
  EXPECT_NE(why.find("-gencode arch=compute_90a,code=compute_90a"), std::string::npos) << why;
  EXPECT_NE(explain_no_ptx({}, 80).find("no code at all"), std::string::npos);
}

}  // namespace
}  // namespace mpfa::sim
