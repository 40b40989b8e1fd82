// Runs the mpfa command as a user does.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/subprocess.h"
#include "qkv_file.h"
#include "temp_folder.h"

namespace mpfa::tools {

inline std::string real_data() {
  return std::string(MPFA_DATA_DIR) + "/smollm2_qkv_512.safetensors";
}

class CliTest : public ::testing::Test {
 protected:
  static ProcessResult mpfa(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MPFA_CLI);
    ProcessResult result = run_process(arguments);
    // A ThreadSanitizer build says so whenever it looks at a stack that leads into the vDSO.
    const std::string noise = "LLVMSymbolizer: error reading file: No such file or directory\n";
    for (size_t at; (at = result.err.find(noise)) != std::string::npos;) {
      result.err.erase(at, noise.size());
    }
    return result;
  }
  // Succeeds, and says nothing on standard error.
  static ProcessResult succeed(const std::vector<std::string>& arguments) {
    ProcessResult result = mpfa(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result;
  }
  // Fails with this code and a message that has all these parts; prints nothing else.
  static void fail(int exit_code, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& parts) {
    const ProcessResult result = mpfa(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("error: "), std::string::npos) << result.err;
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << " is not in: " << result.err;
    }
  }
  static nlohmann::json json(const std::string& path) {
    return nlohmann::json::parse(read_file(path));
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

  TempFolder folder_;
};

}  // namespace mpfa::tools
