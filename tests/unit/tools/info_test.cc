#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class InfoCli : public CliTest {};

TEST_F(InfoCli, PrintsBuildMachineAndKernels) {
  const std::string out = succeed({"info"}).out;
  for (const char* part : {"mpfa 0.", "build  ", "CPU  ", "threads  ", "GPUs  ", "append_kv",
                           "attention", "merge_states"}) {
    EXPECT_NE(out.find(part), std::string::npos) << part;
  }
}

TEST_F(InfoCli, JsonHasTheDocumentedKeys) {
  succeed({"info", "--json", path("info.json"), "--threads", "1"});
  const nlohmann::json info = json(path("info.json"));
  EXPECT_EQ(info["command"], "info");
  EXPECT_EQ(info["version"], MPFA_VERSION);
  EXPECT_EQ(info["machine"]["threads"], 1);
  for (const char* key :
       {"cpu", "cores", "simd_target", "attention_target", "compiler", "build_type"}) {
    EXPECT_TRUE(info["machine"].contains(key)) << key;
  }
  EXPECT_TRUE(info["gpus"].is_array());
  EXPECT_TRUE(info["gpu_support"].is_boolean());
  size_t gpu_kernels = 0;
  for (const auto& kernel : info["kernels"]) {
    EXPECT_NE(kernel["detail"], "") << kernel;  // which target, or why not
    const bool is_available = kernel["available"];
    if (kernel["device"] == "GPU") {
      ++gpu_kernels;
      EXPECT_TRUE(info["gpu_support"] || !is_available) << kernel;
    } else {
      EXPECT_TRUE(is_available) << kernel;
    }
  }
  EXPECT_GT(gpu_kernels, 0u);
  EXPECT_GT(info["kernels"].size(), gpu_kernels);
}

}  // namespace
}  // namespace mpfa::tools
