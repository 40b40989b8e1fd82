// Written files, against bytes put together by hand and against the reader.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::uint8_t kData[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
                                    33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
                                    49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64};

TEST(SafetensorsWriter, ExactBytes) {
  const TempFolder dir;
  SafetensorsWriter writer;
  writer.add("z\"\u00e9", Dtype::U8, Shape{3}, "xyz");
  writer.add("b", Dtype::U16, Shape{2, 1}, "bbbb");
  writer.add("a", Dtype::BF16, Shape{}, "aa");
  writer.add("c", Dtype::U16, Shape{0}, nullptr);
  writer.add_metadata("format", "mpfa\n\x01");
  writer.write(dir.file("out"));
  // BF16 is later in the format's list of types than U16, which is later than U8.
  std::string header = R"({"__metadata__":{"format":"mpfa\n\u0001"},)"
                       R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
                       R"("b":{"dtype":"U16","shape":[2,1],"data_offsets":[2,6]},)"
                       R"("c":{"dtype":"U16","shape":[0],"data_offsets":[6,6]},)"
                       "\"z\\\"\u00e9\":"
                       R"({"dtype":"U8","shape":[3],"data_offsets":[6,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(dir.file("out")), make_file(header, "aabbbbxyz"));
}

TEST(SafetensorsWriter, EmptyFile) {
  const TempFolder dir;
  SafetensorsWriter().write(dir.file("out"));
  EXPECT_EQ(read_file(dir.file("out")), make_file("{}      "));
}

TEST(SafetensorsWriter, OrderOfCallsDoesNotMatter) {
  const TempFolder dir;
  std::vector<int> order = {0, 1, 2, 3};
  std::string first;
  do {
    SafetensorsWriter writer;
    for (const int i : order) {
      const Dtype dtype = i % 2 ? Dtype::F32 : Dtype::U8;
      writer.add("t" + std::to_string(i), dtype, Shape{i + 1}, kData + i);
      writer.add_metadata("m" + std::to_string(i), "v");
    }
    writer.write(dir.file("out"));
    const std::string bytes = read_file(dir.file("out"));
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SafetensorsWriter, RoundTripOfEveryDtypeAndRank) {
  const TempFolder dir;
  const std::vector<Shape> shapes = {{}, {1}, {5}, {0}, {2, 3}, {1, 2, 1, 2}, {4, 0, 2}};
  SafetensorsWriter writer;
  for (int d = 0; d < 15; ++d) {
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      const std::string name = std::to_string(d) + "/" + std::to_string(s);
      writer.add(name, static_cast<Dtype>(d), shapes[s], kData + s);
    }
  }
  writer.write(dir.file("out"));
  const SafetensorsReader reader = SafetensorsReader::open(dir.file("out"));
  ASSERT_EQ(reader.tensors().size(), 15 * shapes.size());
  for (int d = 0; d < 15; ++d) {
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      const TensorInfo& tensor = reader.at(std::to_string(d) + "/" + std::to_string(s));
      EXPECT_EQ(tensor.dtype, static_cast<Dtype>(d));
      EXPECT_EQ(tensor.shape, shapes[s]);
      EXPECT_EQ(std::memcmp(tensor.data, kData + s, tensor.end - tensor.begin), 0) << tensor.name;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % dtype_size(tensor.dtype), 0u)
          << "a written tensor is aligned: " << tensor.name;
    }
  }
}

TEST(SafetensorsWriter, RoundTripOfNamesAndMetadata) {
  const TempFolder dir;
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "a.b/c",
                                          "\"\\/\b\f\n\r\t",
                                          std::string("\0x\x1f\x7f", 4),
                                          "\u65e5\u672c\u8a9e",
                                          "\U0001f600",
                                          "__metadata",
                                          "{\"dtype\":1}"};
  SafetensorsWriter writer;
  for (const std::string& text : texts) {
    writer.add(text, Dtype::U8, Shape{1}, kData);
    writer.add_metadata(text, text + "!");
  }
  writer.add_metadata("__metadata__", "reserved for tensors, not here");
  writer.write(dir.file("out"));
  const SafetensorsReader reader = SafetensorsReader::open(dir.file("out"));
  EXPECT_EQ(reader.tensors().size(), texts.size());
  for (const std::string& text : texts) {
    EXPECT_NE(reader.find(text), nullptr) << text;
    EXPECT_EQ(reader.metadata().at(text), text + "!");
  }
  EXPECT_EQ(reader.metadata().size(), texts.size() + 1);
}

TEST(SafetensorsWriter, RejectsBadNamesShapesAndData) {
  SafetensorsWriter writer;
  writer.add("a", Dtype::U8, Shape{1}, kData);
  const auto error = [&](const std::string& name, const Shape& shape, const void* data) {
    return message_of<InvalidArgument>([&] { writer.add(name, Dtype::F32, shape, data); });
  };
  expect_parts(error("a", {1}, kData), {"'a'", "added twice"});
  expect_parts(error("__metadata__", {1}, kData), {"'__metadata__'", "reserved"});
  expect_parts(error("\xff", {1}, kData), {"'\\xff'", "not UTF-8"});
  expect_parts(error("b", {2, -1}, kData), {"'b'", "[2, -1]", "negative"});
  expect_parts(error("b", {std::int64_t{1} << 61}, kData), {"'b'", "too large", "F32"});
  expect_parts(error("b", Shape(65, 1), kData), {"'b'", "65 extents", "64"});
  expect_parts(error("b", {2}, nullptr), {"'b'", "null", "[2]"});
  writer.add_metadata("k", "v");
  const auto metadata_error = [&](const std::string& key, const std::string& value) {
    return message_of<InvalidArgument>([&] { writer.add_metadata(key, value); });
  };
  expect_parts(metadata_error("k", "w"), {"'k'", "added twice"});
  expect_parts(metadata_error("\xc0\x80", "w"), {"key", "not UTF-8"});
  expect_parts(metadata_error("x", "\xed\xa0\x80"), {"value", "not UTF-8"});
  // What was rejected has left no trace.
  const TempFolder dir;
  writer.write(dir.file("out"));
  const SafetensorsReader reader = SafetensorsReader::open(dir.file("out"));
  EXPECT_EQ(reader.tensors().size(), 1u);
  EXPECT_EQ(reader.metadata(), (std::map<std::string, std::string>{{"k", "v"}}));
}

DLTensor tensor_of(Shape* shape, Shape* strides) {
  DLTensor tensor = {};
  tensor.data = const_cast<std::uint8_t*>(kData);
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<std::int32_t>(shape->size());
  tensor.dtype = {kDLInt, 16, 1};
  tensor.shape = shape->data();
  tensor.strides = strides ? strides->data() : nullptr;
  return tensor;
}

TEST(SafetensorsWriter, DlTensors) {
  Shape shape = {2, 1, 3};
  Shape strides = {3, 77, 1};  // the stride of an extent of 1 means nothing
  Shape empty_shape = {0, 3};
  Shape empty_strides = {1, 55};
  DLTensor offset = tensor_of(&shape, nullptr);
  offset.byte_offset = 4;
  DLTensor scalar = {
      const_cast<std::uint8_t*>(kData), {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, nullptr, nullptr, 8};
  DLTensor empty = tensor_of(&empty_shape, &empty_strides);
  empty.data = nullptr;
  const TempFolder dir;
  SafetensorsWriter writer;
  writer.add("strided", tensor_of(&shape, &strides));
  writer.add("offset", offset);
  writer.add("scalar", scalar);
  writer.add("empty", empty);
  writer.write(dir.file("out"));
  const SafetensorsReader reader = SafetensorsReader::open(dir.file("out"));
  EXPECT_EQ(std::memcmp(reader.at("strided").data, kData, 12), 0);
  EXPECT_EQ(std::memcmp(reader.at("offset").data, kData + 4, 12), 0);
  EXPECT_EQ(std::memcmp(reader.at("scalar").data, kData + 8, 4), 0);
  EXPECT_EQ(reader.at("scalar").dtype, Dtype::F32);
  EXPECT_EQ(reader.at("offset").dtype, Dtype::I16);
  EXPECT_EQ(reader.at("empty").shape, empty_shape);
}

TEST(SafetensorsWriter, RejectsDlTensorsThatItCannotWrite) {
  Shape shape = {2, 3};
  Shape transposed = {1, 2};
  SafetensorsWriter writer;
  const auto error = [&](const DLTensor& tensor) {
    return message_of<InvalidArgument>([&] { writer.add("t", tensor); });
  };
  expect_parts(error(tensor_of(&shape, &transposed)), {"'t'", "strides", "[1, 2]", "[2, 3]"});
  DLTensor tensor = tensor_of(&shape, nullptr);
  tensor.device = {kDLCUDA, 0};
  expect_parts(error(tensor), {"'t'", "device", "= 2", "host"});
  tensor = tensor_of(&shape, nullptr);
  tensor.dtype = {kDLFloat4_e2m1fn, 4, 1};
  expect_parts(error(tensor), {"code 17", "BF16"});
  tensor = tensor_of(&shape, nullptr);
  tensor.ndim = -1;
  expect_parts(error(tensor), {"'t'", "ndim", "-1"});
  tensor = tensor_of(&shape, nullptr);
  tensor.shape = nullptr;
  expect_parts(error(tensor), {"'t'", "shape", "null"});
  tensor = tensor_of(&shape, nullptr);
  tensor.data = nullptr;
  tensor.byte_offset = 16;
  expect_parts(error(tensor), {"'t'", "data", "null"});
}

TEST(SafetensorsWriter, ReplacesAFileWhileItIsMapped) {
  const TempFolder dir;
  SafetensorsWriter before;
  before.add("a", Dtype::U8, Shape{64}, kData);
  before.write(dir.file("out"));
  const SafetensorsReader old_reader = SafetensorsReader::open(dir.file("out"));
  SafetensorsWriter after;
  after.add("b", old_reader.view("a"));  // even from the very file that is replaced
  after.write(dir.file("out"));
  EXPECT_EQ(std::memcmp(old_reader.at("a").data, kData, 64), 0);
  EXPECT_EQ(std::memcmp(SafetensorsReader::open(dir.file("out")).at("b").data, kData, 64), 0);
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(SafetensorsWriter, FailureInTheMiddleLeavesTheOldFile) {
  const TempFolder dir;
  write_file(dir.file("out"), "old");
  const std::string data(1 << 20, 'd');
  SafetensorsWriter writer;
  writer.add("a", Dtype::U8, Shape{1 << 20}, data.data());
  auto* old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit limit = {100'000, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = message_of<IoError>([&] { writer.write(dir.file("out")); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  expect_parts(message, {dir.file("out"), "File too large"});
  EXPECT_EQ(read_file(dir.file("out")), "old");
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(SafetensorsWriter, MissingFolderIsAnError) {
  const TempFolder dir;
  expect_parts(message_of<IoError>([&] { SafetensorsWriter().write(dir.file("no/out")); }),
               {dir.file("no/out"), "No such file"});
}

TEST(SafetensorsWriter, HeaderOverTheLimitIsRejectedBeforeAnythingIsWritten) {
  const TempFolder dir;
  SafetensorsWriter writer;
  std::string name;
  name.resize(100'000'000, 'n');
  writer.add(name, Dtype::U8, Shape{0}, nullptr);
  expect_parts(message_of<InvalidArgument>([&] { writer.write(dir.file("out")); }),
               {"header", "100000000"});
  EXPECT_TRUE(dir.entries().empty());
}

}  // namespace
}  // namespace mpfa::internal
