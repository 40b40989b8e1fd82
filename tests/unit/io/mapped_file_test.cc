#include "io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheWholeFile) {
  const TempFolder dir;
  std::string text(100'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  write_file(dir.file("a"), text);
  EXPECT_EQ(text_of(MappedFile(dir.file("a"))), text);
}

TEST(MappedFile, EmptyFile) {
  const TempFolder dir;
  write_file(dir.file("empty"), "");
  EXPECT_TRUE(MappedFile(dir.file("empty")).bytes().empty());
}

TEST(MappedFile, MovesKeepTheMapping) {
  const TempFolder dir;
  write_file(dir.file("a"), "first");
  write_file(dir.file("b"), "second");
  MappedFile a(dir.file("a"));
  MappedFile moved(std::move(a));
  EXPECT_EQ(text_of(moved), "first");
  MappedFile b(dir.file("b"));
  b = std::move(moved);
  EXPECT_EQ(text_of(b), "first");
}

TEST(MappedFile, OutlivesTheName) {
  const TempFolder dir;
  write_file(dir.file("a"), "still here");
  const MappedFile file(dir.file("a"));
  std::filesystem::remove(dir.file("a"));
  EXPECT_EQ(text_of(file), "still here");
}

TEST(MappedFile, ErrorsNameThePath) {
  const TempFolder dir;
  const auto error = [](const std::string& path) {
    return message_of<IoError>([&] { MappedFile file(path); });
  };
  expect_parts(error(dir.file("gone")), {dir.file("gone"), "No such file"});
  expect_parts(error(dir.path().string()), {dir.path().string(), "directory"});
  expect_parts(error(""), {"''", "No such file"});
  write_file(dir.file("plain"), "x");
  expect_parts(error(dir.file("plain/below")), {dir.file("plain/below"), "Not a directory"});
}

TEST(MappedFile, RejectsAFifoWithoutWaiting) {
  const TempFolder dir;
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  expect_parts(message_of<IoError>([&] { MappedFile file(dir.file("fifo")); }),
               {dir.file("fifo"), "not a regular file"});
}

}  // namespace
}  // namespace mpfa::internal
