// What the tests of src/io share: bytes, hand-made files and the text of an exception.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/temp_folder.h"

namespace mpfa::internal {

using testing::read_file;
using testing::TempFolder;
using testing::write_file;

inline std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// A safetensors file put together by hand: length field, header, data.
inline std::string make_file(std::string_view header, std::string_view data = "") {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  }
  return file.append(header).append(data);
}

// The message of the ErrorType that the function throws; "" (and a failed test) if it does not.
template <typename ErrorType, typename Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos)
        << "message: " << message << "\nlacks:   " << part;
  }
}

}  // namespace mpfa::internal
