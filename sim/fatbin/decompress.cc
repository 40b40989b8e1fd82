#include "sim/fatbin/decompress.h"

#include <lz4.h>
#include <zstd.h>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

// More than any PTX has. A damaged size must not ask for all memory there is.
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

[[noreturn]] void fail(const char* method, uint64_t compressed, uint64_t bytes,
                       const std::string& why) {
  throw IoError(internal::str_cat("fat binary: ", compressed, " bytes compressed with ", method,
                                  " do not give the ", bytes,
                                  " bytes that the header says: ", why));
}

}  // namespace

std::string decompress_zstd(std::span<const std::byte> compressed, uint64_t bytes) {
  if (bytes > kMaxBytes) fail("zstd", compressed.size(), bytes, "too large");
  std::string text(bytes, '\0');
  const size_t got = ZSTD_decompress(text.data(), bytes, compressed.data(), compressed.size());
  if (ZSTD_isError(got) != 0) {
    fail("zstd", compressed.size(), bytes, ZSTD_getErrorName(got));
  }
  if (got != bytes) fail("zstd", compressed.size(), bytes, std::to_string(got));
  return text;
}

std::string decompress_lz4(std::span<const std::byte> compressed, uint64_t bytes) {
  if (bytes > kMaxBytes || compressed.size() > kMaxBytes) {
    fail("LZ4", compressed.size(), bytes, "too large");
  }
  std::string text(bytes, '\0');
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(compressed.data()), text.data(),
                                      static_cast<int>(compressed.size()), static_cast<int>(bytes));
  if (got < 0) fail("LZ4", compressed.size(), bytes, "damaged");
  if (static_cast<uint64_t>(got) != bytes) {
    fail("LZ4", compressed.size(), bytes, std::to_string(got));
  }
  return text;
}

}  // namespace mpfa::sim
