// Where a command's results go: text for people, JSON for programs.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace mpfa::tools {

using Json = nlohmann::ordered_json;

// The document and a line's end. Bytes that are not UTF-8, as names of files may have, become
// U+FFFD: JSON has no others.
std::string json_text(const Json& document, int indent);

class CommandOutput {
 public:
  // `json_path`: empty for no JSON, "-" for standard output, where the text then goes to standard
  // error. Throws IoError if the file could not be written later. `command` heads the JSON.
  CommandOutput(std::string command, std::string json_path);

  // A failure shows in the stream's error flag, which the program looks at before it ends.
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), text_);
  }

  // Writes {"command", "version", ...result}, whole or not at all. Does nothing without a path.
  // NaN and infinities become null: JSON has no others.
  void write_json(const Json& result) const;

 private:
  std::string command_;
  std::string json_path_;
  std::FILE* text_;
};

}  // namespace mpfa::tools
