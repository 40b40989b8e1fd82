// Malformed files: each must be an IoError that says which file and tensor, what was found and what
// was expected; none may crash, overflow or take more memory than the file's size warrants.
#include "io/safetensors_header.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

SafetensorsReader read(std::string_view bytes) {
  return SafetensorsReader::from_bytes(as_span(bytes), "weights.safetensors");
}

std::string error_of(const std::string& bytes) {
  std::string message = message_of<IoError>([&] { read(bytes); });
  expect_parts(message, {"'weights.safetensors'"});
  EXPECT_LT(message.size(), 600u) << "a hostile file must not choose the message's length";
  for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
  return message;
}

// One entry named "a" in a file with `data_bytes` bytes of data.
std::string entry_file(const std::string& entry, std::size_t data_bytes) {
  return make_file(R"({"a":)" + entry + "}", std::string(data_bytes, 'd'));
}

std::string u8(const std::string& shape, const std::string& offsets) {
  return R"({"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

struct Case {
  std::string name;
  std::string bytes;
  std::vector<std::string> parts;
};

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    expect_parts(error_of(c.bytes), c.parts);
  }
}

std::string length_only(std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

TEST(SafetensorsHeader, LengthField) {
  expect_errors({
      {"empty file", "", {"0 bytes are too short"}},
      {"seven bytes", std::string(7, '\0'), {"7 bytes are too short", "8-byte length"}},
      {"no header", length_only(0), {"starts with ''", "expected '{'"}},
      {"past the file", length_only(3) + "{}", {"length 3", "past the end", "has 2 bytes"}},
      {"at the limit", length_only(100'000'000) + "{}", {"length 100000000", "past the end"}},
      {"over the limit", length_only(100'000'001) + "{}", {"100000001", "over the limit"}},
      {"all ones", length_only(~std::uint64_t{0}) + "{}", {"18446744073709551615", "limit"}},
      {"wraps around", length_only(~std::uint64_t{0} - 7) + "{}", {"over the limit"}},
  });
}

TEST(SafetensorsHeader, NotJson) {
  expect_errors({
      {"array", make_file("[]"), {"starts with '[]'", "expected '{'"}},
      {"string", make_file(R"("x")"), {"expected '{'"}},
      {"space first", make_file(" {}"), {"starts with ' {}'", "expected '{'"}},
      {"byte order mark", make_file("\xef\xbb\xbf{}"), {"expected '{'"}},
      {"binary", make_file("\x80\x02}q"), {"starts with '\\x80\\x02}q'"}},
      {"unclosed", make_file("{"), {"not valid JSON at byte"}},
      {"unclosed string", make_file(R"({"a)"), {"not valid JSON", "missing closing quote"}},
      {"trailing comma", make_file(R"({"__metadata__":{},})"), {"not valid JSON at byte"}},
      {"trailing text", make_file("{} {}"), {"not valid JSON at byte 4"}},
      {"single quotes", make_file("{'a':1}"), {"not valid JSON at byte 2"}},
      {"comment", make_file("{/**/}"), {"not valid JSON"}},
      {"NaN", make_file(R"({"a":NaN})"), {"not valid JSON"}},
      {"bad escape", make_file(R"({"\q":1})"), {"not valid JSON"}},
      {"lone surrogate", make_file(R"({"\ud800":1})"), {"not valid JSON", "surrogate"}},
      {"raw newline in a string", make_file("{\"a\nb\":1}"), {"not valid JSON", "control"}},
      {"bad UTF-8", make_file("{\"a\xff\":1}"), {"not valid JSON at byte 4", "UTF-8", "\\xff"}},
      {"overlong UTF-8", make_file("{\"\xc0\x80\":1}"), {"not valid JSON", "UTF-8"}},
      {"number too large", make_file(R"({"a":1e999})"), {"not valid JSON", "out of range"}},
      {"NUL after the end", make_file(std::string("{}\0{{{", 6)), {"NUL byte at byte 2"}},
      {"NUL padding", make_file(std::string("{}\0\0", 4)), {"NUL byte at byte 2", "spaces"}},
  });
}

TEST(SafetensorsHeader, WrongTypes) {
  const std::string object = "an object with dtype, shape and data_offsets";
  const std::string extents = "an array of non-negative integers";
  const std::string offsets = "an array of two non-negative integers";
  expect_errors({
      {"null entry", entry_file("null", 0), {"tensor 'a'", "found null", object}},
      {"number entry", entry_file("7", 0), {"tensor 'a'", "the number 7", object}},
      {"string entry", entry_file(R"("x")", 0), {"tensor 'a'", "the string 'x'", object}},
      {"array entry", entry_file(R"(["U8",[1],[0,1]])", 1), {"found an array", object}},
      {"dtype number", entry_file(R"({"dtype":8})", 0), {"'a', dtype", "number 8", "a string"}},
      {"dtype object", entry_file(R"({"dtype":{}})", 0), {"'a', dtype", "an object", "a string"}},
      {"dtype array", entry_file(R"({"dtype":[]})", 0), {"'a', dtype", "an array", "a string"}},
      {"shape number", entry_file(u8("4", "[0,4]"), 4), {"'a', shape", "number 4", extents}},
      {"shape null", entry_file(u8("null", "[0,4]"), 4), {"'a', shape", "null", extents}},
      {"shape object", entry_file(u8("{}", "[0,4]"), 4), {"'a', shape", "an object", extents}},
      {"nested", entry_file(u8("[[4]]", "[0,4]"), 4), {"'a', shape", "an array", extents}},
      {"object in shape", entry_file(u8("[{}]", "[0,4]"), 4), {"shape", "an object", extents}},
      {"negative", entry_file(u8("[-1]", "[0,4]"), 4), {"'a', shape", "number -1", extents}},
      {"minus zero", entry_file(u8("[-0]", "[0,0]"), 0), {"'a', shape", "number -0", extents}},
      {"float", entry_file(u8("[4.0]", "[0,4]"), 4), {"'a', shape", "number '4.0'", extents}},
      {"exponent", entry_file(u8("[4e0]", "[0,4]"), 4), {"'a', shape", "number '4e0'", extents}},
      {"text", entry_file(u8(R"(["4"])", "[0,4]"), 4), {"shape", "the string '4'", extents}},
      {"boolean", entry_file(u8("[true]", "[0,1]"), 1), {"'a', shape", "found true", extents}},
      {"offsets null", entry_file(u8("[4]", "null"), 4), {"data_offsets", "null", offsets}},
      {"offsets number", entry_file(u8("[4]", "4"), 4), {"data_offsets", "number 4", offsets}},
      {"no offset", entry_file(u8("[4]", "[]"), 4), {"data_offsets", "array of 0", offsets}},
      {"one offset", entry_file(u8("[4]", "[0]"), 4), {"data_offsets", "array of 1", offsets}},
      {"three", entry_file(u8("[4]", "[0,4,4]"), 4), {"data_offsets", "third", offsets}},
      {"minus", entry_file(u8("[4]", "[-4,0]"), 4), {"data_offsets", "number -4", offsets}},
      {"float offset", entry_file(u8("[4]", "[0,4.5]"), 4), {"data_offsets", "4.5", offsets}},
      {"2^64", entry_file(u8("[4]", "[0,18446744073709551616]"), 4), {"18446744073709551616"}},
  });
}

TEST(SafetensorsHeader, KeysOfAnEntry) {
  const auto file = [](const std::string& entry) { return entry_file(entry, 1); };
  expect_errors({
      {"empty", file("{}"), {"tensor 'a', dtype: the key is missing"}},
      {"no dtype", file(R"({"shape":[1],"data_offsets":[0,1]})"), {"dtype: the key is missing"}},
      {"no shape", file(R"({"dtype":"U8","data_offsets":[0,1]})"), {"shape: the key is missing"}},
      {"no offsets", file(R"({"dtype":"U8","shape":[1]})"), {"data_offsets: the key is missing"}},
      {"dtype twice",
       file(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"dtype":"U8"})"),
       {"tensor 'a', dtype: the key occurs twice"}},
      {"shape twice",
       file(R"({"dtype":"U8","shape":[9],"shape":[1],"data_offsets":[0,1]})"),
       {"tensor 'a', shape: the key occurs twice"}},
      {"offsets twice",
       file(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]})"),
       {"tensor 'a', data_offsets: the key occurs twice"}},
      {"twice, once escaped",
       file(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"\u0064type":"U8"})"),
       {"tensor 'a', dtype: the key occurs twice"}},
      {"unknown",
       file(R"({"dtype":"U8","offsets":[0,1]})"),
       {"tensor 'a'", "unknown key 'offsets'"}},
      {"unknown dtype",
       file(R"({"dtype":"F4","shape":[1],"data_offsets":[0,1]})"),
       {"tensor 'a', dtype", "'F4' is not supported", "BOOL, U8, I8,", "BF16", "U64"}},
      {"lower case", file(R"({"dtype":"u8"})"), {"'u8' is not supported"}},
  });
}

TEST(SafetensorsHeader, Metadata) {
  const auto file = [](const std::string& m) { return make_file(R"({"__metadata__":)" + m + "}"); };
  const std::string map = "an object that maps strings to strings";
  expect_errors({
      {"null", file("null"), {"__metadata__", "found null", map}},
      {"string", file(R"("x")"), {"__metadata__", "the string 'x'", map}},
      {"array", file("[]"), {"__metadata__", "an array", map}},
      {"number value", file(R"({"k":1})"), {"__metadata__, key 'k'", "number 1", "a string"}},
      {"null value", file(R"({"k":null})"), {"__metadata__, key 'k'", "null", "a string"}},
      {"object value", file(R"({"k":{}})"), {"__metadata__, key 'k'", "an object", "a string"}},
      {"array value", file(R"({"k":[]})"), {"__metadata__, key 'k'", "an array", "a string"}},
      {"key twice", file(R"({"k":"1","k":"1"})"), {"__metadata__, key 'k'", "occurs twice"}},
      {"map twice",
       make_file(R"({"__metadata__":{},"__metadata__":{}})"),
       {"__metadata__: the key occurs twice"}},
      {"an entry in its place", file(u8("[0]", "[0,0]")), {"key 'shape'", "an array", "a string"}},
  });
}

TEST(SafetensorsHeader, ShapesAndSizes) {
  const std::string huge = "4611686018427387904";  // 2^62
  std::string ones;
  for (int i = 0; i < 64; ++i) ones += ",1";
  expect_errors({
      {"2^63 extent",
       entry_file(u8("[9223372036854775808]", "[0,1]"), 1),
       {"'a', shape", "9223372036854775808", "63 bits"}},
      {"2^64 extent", entry_file(u8("[18446744073709551616]", "[0,1]"), 1), {"'a', shape"}},
      {"product 2^64",
       entry_file(u8("[" + huge + ",4]", "[0,0]"), 0),
       {"tensor 'a'", "[4611686018427387904, 4]", "too large"}},
      {"product 2^63", entry_file(u8("[" + huge + ",2]", "[0,0]"), 0), {"too large"}},
      {"bytes 2^64",
       make_file(R"({"a":{"dtype":"F32","shape":[)" + huge + R"(],"data_offsets":[0,0]}})"),
       {"dtype F32", "too large"}},
      {"a zero hides it",
       entry_file(u8("[0," + huge + "," + huge + "]", "[0,0]"), 0),
       {"too large"}},
      {"a zero after it",
       entry_file(u8("[" + huge + "," + huge + ",0]", "[0,0]"), 0),
       {"too large"}},
      {"rank 65",
       entry_file(u8("[1" + ones + "]", "[0,1]"), 1),
       {"'a', shape", "more than 64 extents"}},
      {"too few bytes",
       entry_file(u8("[2,3]", "[0,5]"), 5),
       {"tensor 'a'", "[0, 5] hold 5 bytes", "U8 with shape [2, 3] takes 6"}},
      {"too many bytes", entry_file(u8("[2,3]", "[0,7]"), 7), {"hold 7 bytes", "takes 6"}},
      {"scalar of 2", entry_file(u8("[]", "[0,2]"), 2), {"shape [] takes 1"}},
      {"empty with bytes", entry_file(u8("[0]", "[0,1]"), 1), {"hold 1 bytes", "takes 0"}},
  });
}

TEST(SafetensorsHeader, Offsets) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data) {
    return make_file(R"({"a":)" + a + R"(,"b":)" + b + "}", std::string(data, 'd'));
  };
  expect_errors({
      {"reversed",
       entry_file(u8("[4]", "[4,0]"), 4),
       {"tensor 'a'", "[4, 0] begin past their end"}},
      {"outside",
       entry_file(u8("[5]", "[0,5]"), 4),
       {"tensor 'a'", "[0, 5] are outside the file", "4 bytes of data"}},
      {"far outside",
       entry_file(u8("[4]", "[18446744073709551611,18446744073709551615]"), 4),
       {"outside the file"}},
      {"hole first", entry_file(u8("[4]", "[2,6]"), 6), {"'a'", "leave 2 bytes", "data's start"}},
      {"trailing",
       entry_file(u8("[4]", "[0,4]"), 6),
       {"cover 4 bytes of data", "the file has 6", "2 trailing"}},
      {"no tensor", make_file("{}", "dd"), {"cover 0 bytes", "2 trailing bytes"}},
      {"overlap",
       two(u8("[4]", "[0,4]"), u8("[4]", "[2,6]"), 6),
       {"tensor 'b'", "[2, 6] overlap tensor 'a' at [0, 4]"}},
      {"same bytes", two(u8("[4]", "[0,4]"), u8("[4]", "[0,4]"), 4), {"overlap tensor 'a'"}},
      {"contained", two(u8("[8]", "[0,8]"), u8("[2]", "[2,4]"), 8), {"'b'", "overlap tensor 'a'"}},
      {"hole",
       two(u8("[4]", "[0,4]"), u8("[2]", "[6,8]"), 8),
       {"tensor 'b'", "[6, 8] leave 2 bytes", "after tensor 'a'"}},
      {"empty tensor inside another",
       two(u8("[4]", "[0,4]"), u8("[0]", "[2,2]"), 4),
       {"'b'", "overlap tensor 'a'"}},
      {"empty tensor past the end",
       two(u8("[4]", "[0,4]"), u8("[0]", "[9,9]"), 4),
       {"'b'", "outside the file"}},
      {"same name",
       make_file(R"({"a":)" + u8("[4]", "[0,4]") + R"(,"b":)" + u8("[4]", "[4,8]") + R"(,"a":)" +
                     u8("[4]", "[8,12]") + "}",
                 std::string(12, 'd')),
       {"tensor 'a' occurs twice"}},
      {"same name, once escaped",
       make_file(R"({"a":)" + u8("[4]", "[0,4]") + R"(,"\u0061":)" + u8("[4]", "[4,8]") + "}",
                 std::string(8, 'd')),
       {"tensor 'a' occurs twice"}},
  });
}

TEST(SafetensorsHeader, NestingBombs) {
  constexpr std::size_t kDepth = 1'000'000;
  std::string objects = R"({"a":)";
  for (std::size_t i = 0; i < kDepth; ++i) objects += R"({"a":)";
  expect_errors({
      {"arrays in the root", make_file(R"({"a":)" + std::string(kDepth, '[')), {"an array"}},
      {"objects", make_file(objects), {"tensor 'a'", "unknown key 'a'"}},
      {"arrays in a shape", entry_file(u8(std::string(kDepth, '['), "[0,1]"), 1), {"an array"}},
      {"arrays in metadata",
       make_file(R"({"__metadata__":{"k":)" + std::string(kDepth, '[')),
       {"key 'k'", "an array"}},
  });
}

TEST(SafetensorsHeader, HostileNamesDoNotReachTheMessage) {
  const std::string name(1'000'000, 'n');
  expect_parts(error_of(make_file(R"({")" + name + R"(":1})")), {"nnn...'", "the number 1"});
  expect_parts(error_of(make_file(R"({"\u001b[2J\n":1})")), {"'\\x1b[2J\\x0a'"});
  expect_parts(error_of(make_file(R"({"a":)" + std::string(1'000'000, '1') + "}")), {"not valid"});
  expect_parts(error_of(make_file(R"({"a":1.)" + std::string(1'000'000, '1') + "}")), {"1111...'"});
  expect_parts(error_of(make_file(R"({")" + name + "\xff\":1}")), {"not valid JSON", "nn\\xff'"});
}

TEST(SafetensorsHeader, ManyTensorsTakeLittleMemoryAndTime) {
  std::string header = "{";
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    header += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + "\":" + u8("[0]", "[0,0]");
  }
  const std::string file = make_file(header + "}");
  const SafetensorsReader reader = read(file);
  EXPECT_EQ(reader.tensors().size(), static_cast<std::size_t>(kCount));
  EXPECT_NE(reader.find("t99999"), nullptr);
  EXPECT_EQ(reader.find("t100000"), nullptr);
}

TEST(SafetensorsShape, ProblemAndStrides) {
  const std::vector<std::int64_t> shape = {2, 3, 4};
  EXPECT_EQ(shape_problem(shape, Dtype::F32), "");
  EXPECT_EQ(row_major_strides(shape), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ(tensor_bytes(shape, Dtype::F32), 96u);
  const std::vector<std::int64_t> with_zero = {5, 0, 7};
  EXPECT_EQ(row_major_strides(with_zero), (std::vector<std::int64_t>{7, 7, 1}));
  EXPECT_EQ(tensor_bytes(with_zero, Dtype::F64), 0u);
  EXPECT_EQ(tensor_bytes({}, Dtype::F64), 8u);
  const std::vector<std::int64_t> largest = {std::int64_t{1} << 62, 1};
  EXPECT_EQ(shape_problem(largest, Dtype::U8), "");
  expect_parts(shape_problem(largest, Dtype::F16), {"too large"});
  const std::vector<std::int64_t> negative = {3, -1};
  expect_parts(shape_problem(negative, Dtype::U8), {"[3, -1]", "negative"});
  EXPECT_EQ(shape_problem(std::vector<std::int64_t>(64, 1), Dtype::U8), "");
  expect_parts(shape_problem(std::vector<std::int64_t>(65, 1), Dtype::U8), {"65 extents"});
}

}  // namespace
}  // namespace mpfa::internal
