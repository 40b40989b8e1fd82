// Damaged files: cut anywhere, with flipped bytes, with wrong numbers. The only outcomes allowed
// are an IoError and a reader all of whose tensors can be read; a sanitizer build watches the
// memory.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

SafetensorsReader read(std::string_view bytes) {
  return SafetensorsReader::from_bytes(as_span(bytes));
}

// A valid file with every feature: padding, metadata, a scalar, an empty tensor, several dtypes.
std::string sample_file() {
  std::string header = R"({"__metadata__":{"k\u00e9y":"v"},)"
                       R"("f":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                       R"("empty":{"dtype":"I16","shape":[0,3],"data_offsets":[8,8]},)"
                       R"("scalar":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return make_file(header, "01234567x");
}

TEST(SafetensorsDamage, TheSampleIsValid) {
  const std::string bytes = sample_file();
  const SafetensorsReader reader = read(bytes);
  ASSERT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.metadata().at("k\u00e9y"), "v");
}

TEST(SafetensorsDamage, TruncatedAnywhereIsAnError) {
  const std::string whole = sample_file();
  const TempFolder dir;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A fresh exact copy, so that a sanitizer sees any read past the end.
    const std::vector<char> prefix(whole.begin(),
                                   whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(read({prefix.data(), prefix.size()}), IoError) << size << " bytes";
    write_file(dir.file("cut"), {prefix.data(), prefix.size()});
    EXPECT_THROW(SafetensorsReader::open(dir.file("cut")), IoError) << size << " bytes";
  }
  EXPECT_THROW(read(whole + "x"), IoError) << "one byte too many";
}

// Reads every byte that a reader hands out.
std::uint64_t touch_all(const SafetensorsReader& reader) {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : reader.tensors()) {
    const DLTensor view = reader.view(tensor.name);
    const auto* data = static_cast<const unsigned char*>(view.data);
    for (std::uint64_t i = 0; i < tensor.end - tensor.begin; ++i) sum += data[i];
  }
  return sum;
}

TEST(SafetensorsDamage, DamagedBytesNeverCrash) {
  const std::string whole = sample_file();
  std::mt19937 random(20240607);
  int accepted = 0;
  constexpr int kRounds = 40'000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<char> bytes(whole.begin(), whole.end());
    const unsigned flips = 1 + random() % 3;
    for (unsigned i = 0; i < flips; ++i) {
      char& byte = bytes[random() % bytes.size()];
      byte = static_cast<char>(random() % 2 ? byte ^ (1 << random() % 8) : random());
    }
    try {
      const SafetensorsReader reader = read({bytes.data(), bytes.size()});
      touch_all(reader);
      ++accepted;
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(accepted, kRounds / 100) << "flips in data, names and metadata leave a valid file";
  EXPECT_LT(accepted, kRounds * 3 / 4);
}

// The same with damage that keeps the JSON well formed, which reaches the checks behind it.
TEST(SafetensorsDamage, WrongNumbersNeverCrash) {
  std::istringstream list(
      "0 1 2 3 4 7 8 9 12 -1 4294967296 4611686018427387904 9223372036854775807 "
      "9223372036854775808 18446744073709551608 18446744073709551615");
  const std::vector<std::string> numbers{std::istream_iterator<std::string>(list), {}};
  std::mt19937 random(7);
  const auto pick = [&] { return numbers[random() % numbers.size()]; };
  int accepted = 0;
  for (int round = 0; round < 25'000; ++round) {
    std::string header = "{";
    std::string position = "0";  // where the next tensor would rightly begin
    const unsigned count = 1 + random() % 3;
    for (unsigned i = 0; i < count; ++i) {
      const std::string extent = pick();
      const std::string begin = random() % 4 ? position : pick();
      position = random() % 4 && begin == "0" ? extent : pick();
      header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":")";
      header += random() % 2 ? "U8" : dtype_name(static_cast<Dtype>(random() % 15));
      header += R"(","shape":[)" + extent;
      if (random() % 2) header.append(",").append(pick());
      header += R"(],"data_offsets":[)" + begin + "," + position + "]}";
    }
    const bool fits = random() % 2 && position.size() < 3 && position != "-1";
    const std::size_t data_bytes = fits ? std::stoul(position) : random() % 13;
    const std::string file = make_file(header + "}", std::string(data_bytes, 'd'));
    try {
      const SafetensorsReader reader = read(file);
      touch_all(reader);
      ++accepted;
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(accepted, 250) << "some of the files must be valid, or the checks were not reached";
  EXPECT_LT(accepted, 12'500);
}

}  // namespace
}  // namespace mpfa::internal
