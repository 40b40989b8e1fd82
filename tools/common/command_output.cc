#include "common/command_output.h"

#include "common/output_guard.h"

namespace mpfa::tools {

std::string json_text(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

CommandOutput::CommandOutput(std::string command, std::string json_path)
    : command_(std::move(command)),
      json_path_(json_path == "-" ? "/dev/stdout" : std::move(json_path)),
      text_(json_path_ == "/dev/stdout" ? stderr : stdout) {
  if (!json_path_.empty()) check_writable(json_path_);
}

void CommandOutput::write_json(const Json& result) const {
  if (json_path_.empty()) return;
  Json document = {{"command", command_}, {"version", MPFA_VERSION}};
  document.update(result);
  std::fflush(text_);
  write_text_file(json_path_, json_text(document, 2));
}

}  // namespace mpfa::tools
