// Reading of files put together by hand, byte for byte, and files that travel writer to reader.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

std::string bytes_of(const TensorInfo& tensor) {
  return {reinterpret_cast<const char*>(tensor.data),
          static_cast<std::size_t>(tensor.end - tensor.begin)};
}

TEST(SafetensorsReader, ListsTensorsInTheOrderOfTheirBytes) {
  // Neither the header's order nor that of names.
  const std::string bytes = make_file(R"({"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]},)"
                                      R"("a":{"data_offsets":[8,10],"shape":[1],"dtype":"F16"},)"
                                      R"("c":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )",
                                      "cccc0123aa");
  const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes), "label");
  EXPECT_EQ(reader.path(), "label");
  ASSERT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.tensors()[0].name, "c");
  EXPECT_EQ(reader.tensors()[1].name, "b");
  EXPECT_EQ(reader.tensors()[2].name, "a");
  const TensorInfo& b = reader.at("b");
  EXPECT_EQ(b.dtype, Dtype::U8);
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(b.strides, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(b.begin, 4u);
  EXPECT_EQ(b.end, 8u);
  EXPECT_EQ(bytes_of(b), "0123");
  EXPECT_EQ(bytes_of(reader.at("a")), "aa");
  EXPECT_EQ(reader.find("c"), &reader.tensors()[0]);
  EXPECT_EQ(reader.find("d"), nullptr);
  EXPECT_EQ(reader.find(""), nullptr);
  EXPECT_TRUE(reader.metadata().empty());
}

TEST(SafetensorsReader, EmptyFiles) {
  for (const char* header : {"{}", "{}      ", "{ }\n\t\r ", R"({"__metadata__":{}})"}) {
    const std::string bytes = make_file(header);
    const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes));
    EXPECT_TRUE(reader.tensors().empty());
    EXPECT_TRUE(reader.metadata().empty());
    expect_parts(message_of<IoError>([&] { reader.at("x"); }), {"'<memory>'", "'x'", "none"});
  }
}

TEST(SafetensorsReader, MissingTensorNamesFileTensorAndPresentOnes) {
  std::string header = "{";
  for (int i = 10; i < 40; ++i) {
    header += (i > 10 ? ",\"t" : "\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string bytes = make_file(header + "}");
  const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes), "f.safetensors");
  const std::string message = message_of<IoError>([&] { reader.at("layer00.q"); });
  expect_parts(message, {"'f.safetensors'", "'layer00.q'", "'t10', 't11'", "and 18 more"});
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message_of<IoError>([&] { reader.view("layer00.q"); }), message);
}

TEST(SafetensorsReader, ViewsOfScalarsAndEmptyTensors) {
  const std::string bytes =
      make_file(R"({"scalar":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                R"("empty":{"dtype":"F64","shape":[3,0],"data_offsets":[1,1]}})",
                "s");
  const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes));
  const DLTensor scalar = reader.view("scalar");
  EXPECT_EQ(scalar.ndim, 0);
  EXPECT_EQ(*static_cast<const char*>(scalar.data), 's');
  const DLTensor empty = reader.view("empty");
  EXPECT_EQ(empty.data, nullptr);
  ASSERT_EQ(empty.ndim, 2);
  EXPECT_EQ(empty.shape[0], 3);
  EXPECT_EQ(empty.shape[1], 0);
  EXPECT_NE(empty.strides, nullptr);
}

TEST(SafetensorsReader, MetadataWithUnicodeAndEscapes) {
  const std::string bytes = make_file(
      "{\"__metadata__\":{\"plain\":\"\u65e5\u672c\",\"\\u00e9\\n\\\"\\\\\\/\":\"\\ud83d\\ude00\","
      "\"nul\":\"a\\u0000b\",\"\":\"\"}}");
  const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes));
  const std::map<std::string, std::string> expected = {
      {"plain", "\u65e5\u672c"},
      {"\u00e9\n\"\\/", "\U0001f600"},
      {"nul", std::string("a\0b", 3)},
      {"", ""},
  };
  EXPECT_EQ(reader.metadata(), expected);
}

TEST(SafetensorsReader, MisalignedTensorsAreReadThroughACopy) {
  // A 3-byte tensor first, and a header length of no multiple of 8: nothing is aligned.
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"F64","shape":[2],"data_offsets":[3,19]}})";
  const double values[2] = {1.5, -2.25};
  std::string data = "abc";
  data.append(reinterpret_cast<const char*>(values), sizeof values);
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const std::string bytes = make_file(header + std::string(padding, ' '), data);
    const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes));
    const DLTensor view = reader.view("b");
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % sizeof(double), 0u);
    EXPECT_EQ(static_cast<const double*>(view.data)[0], 1.5);
    EXPECT_EQ(static_cast<const double*>(view.data)[1], -2.25);
    EXPECT_EQ(reader.view("b").data, view.data) << "one copy for all views";
    EXPECT_EQ(reader.view("a").data, reader.at("a").data) << "no copy where none is needed";
  }
}

TEST(SafetensorsReader, MisalignedViewsFromSeveralThreads) {
  const std::string bytes = make_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                      R"("b":{"dtype":"I32","shape":[2],"data_offsets":[1,9]}})",
                                      "abbbbbbbb");
  const SafetensorsReader reader = SafetensorsReader::from_bytes(as_span(bytes));
  std::vector<const void*> seen(4);
  std::vector<std::thread> threads;
  threads.reserve(seen.size());
  for (const void*& data : seen) {
    threads.emplace_back([&reader, &data] { data = reader.view("b").data; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const void* data : seen) EXPECT_EQ(data, seen[0]);
}

TEST(SafetensorsReader, ViewsSurviveAMove) {
  const TempFolder dir;
  write_file(dir.file("a"),
             make_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "data"));
  SafetensorsReader first = SafetensorsReader::open(dir.file("a"));
  const DLTensor view = first.view("a");
  const SafetensorsReader second = std::move(first);
  EXPECT_EQ(second.view("a").data, view.data);
  EXPECT_EQ(second.view("a").shape, view.shape);
  EXPECT_EQ(std::memcmp(view.data, "data", 4), 0);
  EXPECT_EQ(view.shape[0], 4);
}

TEST(SafetensorsReader, OpenErrorsNameThePath) {
  const TempFolder dir;
  const auto error = [](const std::string& path) {
    return message_of<IoError>([&] { SafetensorsReader::open(path); });
  };
  expect_parts(error(dir.file("gone")), {dir.file("gone"), "No such file"});
  expect_parts(error(dir.path().string()), {dir.path().string(), "directory"});
  write_file(dir.file("empty"), "");
  expect_parts(error(dir.file("empty")), {dir.file("empty"), "0 bytes are too short"});
  write_file(dir.file("text"), "This is no file of tensors.");
  expect_parts(error(dir.file("text")), {dir.file("text"), "over the limit"});
}

TEST(SafetensorsReader, OffsetsBeyond32BitsInASparseFile) {
  const TempFolder dir;
  const std::uint64_t first = (std::uint64_t{1} << 33) + 8;  // more than 2^33 bytes before the last
  const std::string f = std::to_string(first);
  std::string file = make_file(R"({"big":{"dtype":"U8","shape":[)" + f + R"(],"data_offsets":[0,)" +
                               f + R"(]},"last":{"dtype":"U8","shape":[4],"data_offsets":[)" + f +
                               "," + std::to_string(first + 4) + "]}}");
  {
    std::ofstream out(dir.file("sparse"), std::ios::binary);
    out << file;
    out.seekp(static_cast<std::streamoff>(file.size() + first));
    out << "tail";
    if (!out.good()) GTEST_SKIP() << "no room for a sparse file";
  }
  const SafetensorsReader reader = SafetensorsReader::open(dir.file("sparse"));
  EXPECT_EQ(bytes_of(reader.at("last")), "tail");
  EXPECT_EQ(reader.view("big").shape[0], static_cast<std::int64_t>(first));
  EXPECT_EQ(reader.at("big").data[first - 1], std::byte{0});
}

TEST(SafetensorsReader, TheProjectsOwnData) {
  const SafetensorsReader reader =
      SafetensorsReader::open(MPFA_DATA_DIR "/smollm2_qkv_512.safetensors");
  ASSERT_EQ(reader.tensors().size(), 9u);
  const DLTensor q = reader.view("layer15.q");
  ASSERT_EQ(q.ndim, 3);
  EXPECT_EQ(q.shape[0], 9);
  EXPECT_EQ(q.shape[1], 512);
  EXPECT_EQ(q.shape[2], 64);
  EXPECT_EQ(q.dtype.code, kDLBfloat);
  EXPECT_EQ(q.dtype.bits, 16);
  EXPECT_EQ(q.strides[0], 512 * 64);
}

}  // namespace
}  // namespace mpfa::internal
