// A fat binary is a header, then entries, each a header and a payload. All numbers are little
// endian; both headers say their own size, so that later versions can make them longer.
#include "sim/fatbin/fat_binary.h"

#include <cstring>

#include "mpfa/check.h"
#include "sim/fatbin/decompress.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kKindPtx = 1;
constexpr uint16_t kKindElf = 2;
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;
constexpr uint64_t kFlagArchSpecific = 0x100000;
constexpr uint64_t kFlagFamily = 0x200000;

struct FileHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all entries
};
static_assert(sizeof(FileHeader) == 16);

struct EntryHeader {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes;     // in the file, padding included
  uint32_t compressed_bytes;  // of the payload; 0: not compressed
  uint32_t options_offset;    // of ptxas's options, from the header's start
  uint16_t isa_minor;
  uint16_t isa_major;
  uint32_t capability;
  uint32_t name_offset;
  uint32_t name_bytes;
  uint64_t flags;
  uint64_t reserved;
  uint64_t uncompressed_bytes;
};
static_assert(sizeof(EntryHeader) == 64);

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
  throw IoError(internal::str_cat("fat binary: ", args...));
}

CodeVariant variant_of(uint64_t flags) {
  if ((flags & kFlagArchSpecific) != 0) return CodeVariant::kArchSpecific;
  if ((flags & kFlagFamily) != 0) return CodeVariant::kFamily;
  return CodeVariant::kPortable;
}

CodeCompression compression_of(uint64_t flags) {
  if ((flags & kFlagZstd) != 0) return CodeCompression::kZstd;
  if ((flags & kFlagLz4) != 0) return CodeCompression::kLz4;
  return CodeCompression::kNone;
}

// The entry at the start of `rest`, which is then moved past it.
FatBinaryEntry read_entry(std::span<const std::byte>& rest, uint16_t& kind) {
  EntryHeader header;
  if (rest.size() < sizeof header) {
    fail("an entry's header takes ", sizeof header, " bytes, and ", rest.size(), " are left");
  }
  std::memcpy(&header, rest.data(), sizeof header);
  if (header.header_bytes < sizeof header || header.header_bytes > rest.size()) {
    fail("an entry's header says that it has ", header.header_bytes, " bytes; ", sizeof header,
         " to ", rest.size(), " are possible");
  }
  rest = rest.subspan(header.header_bytes);
  if (header.payload_bytes > rest.size()) {
    fail("an entry's payload of ", header.payload_bytes, " bytes leaves the file, which has ",
         rest.size(), " more");
  }
  FatBinaryEntry entry;
  kind = header.kind;
  entry.kind = header.kind == kKindElf ? CodeKind::kElf : CodeKind::kPtx;
  entry.capability = static_cast<int>(header.capability);
  entry.variant = variant_of(header.flags);
  entry.compression = compression_of(header.flags);
  uint64_t bytes = header.payload_bytes;
  if (entry.compression != CodeCompression::kNone) {
    if (header.compressed_bytes > bytes) {
      fail("an entry's payload has ", bytes, " bytes, of which ", header.compressed_bytes,
           " are said to be compressed");
    }
    bytes = header.compressed_bytes;
    entry.uncompressed_bytes = header.uncompressed_bytes;
  }
  entry.payload = rest.first(bytes);
  rest = rest.subspan(header.payload_bytes);
  return entry;
}

}  // namespace

std::string FatBinaryEntry::target() const {
  std::string name = "sm_" + std::to_string(capability);
  if (variant == CodeVariant::kArchSpecific) name += 'a';
  if (variant == CodeVariant::kFamily) name += 'f';
  return name;
}

bool is_fat_binary(const void* start) { return std::memcmp(start, &kMagic, sizeof kMagic) == 0; }

std::vector<FatBinaryEntry> read_fat_binary(std::span<const std::byte> bytes) {
  FileHeader header;
  if (bytes.size() < sizeof header) {
    fail("its header takes ", sizeof header, " bytes, and there are ", bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) fail("it begins with ", header.magic, " instead of ", kMagic);
  if (header.version != 1) fail("its version is ", header.version, "; 1 is known");
  if (header.header_bytes < sizeof header || header.header_bytes > bytes.size()) {
    fail("its header says that it has ", header.header_bytes, " bytes; ", sizeof header, " to ",
         bytes.size(), " are possible");
  }
  std::span<const std::byte> rest = bytes.subspan(header.header_bytes);
  if (header.bytes > rest.size()) {
    fail("its header says that ", header.bytes, " bytes follow, and there are ", rest.size());
  }
  rest = rest.first(header.bytes);
  std::vector<FatBinaryEntry> entries;
  while (!rest.empty()) {
    uint16_t kind = 0;
    const FatBinaryEntry entry = read_entry(rest, kind);
    if (kind == kKindPtx || kind == kKindElf) entries.push_back(entry);
  }
  return entries;
}

uint64_t fat_binary_bytes(const void* start) {
  FileHeader header;
  std::memcpy(&header, start, sizeof header);
  if (header.magic != kMagic) fail("it begins with ", header.magic, " instead of ", kMagic);
  constexpr uint64_t kMax = uint64_t{1} << 40;  // so that the sum below cannot overflow
  if (header.bytes > kMax) fail("its header says that ", header.bytes, " bytes follow");
  return header.header_bytes + header.bytes;
}

std::vector<FatBinaryEntry> read_fat_binary(const void* start) {
  const auto* bytes = static_cast<const std::byte*>(start);
  return read_fat_binary(std::span(bytes, fat_binary_bytes(start)));
}

std::string ptx_text(const FatBinaryEntry& entry) {
  std::string text;
  switch (entry.compression) {
    case CodeCompression::kNone:
      text.assign(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
      break;
    case CodeCompression::kZstd:
      text = decompress_zstd(entry.payload, entry.uncompressed_bytes);
      break;
    case CodeCompression::kLz4:
      text = decompress_lz4(entry.payload, entry.uncompressed_bytes);
      break;
  }
  // The text ends at a NUL, after which there is padding.
  const size_t end = text.find('\0');
  if (end != std::string::npos) text.resize(end);
  return text;
}

}  // namespace mpfa::sim
