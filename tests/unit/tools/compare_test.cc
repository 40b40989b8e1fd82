#include <algorithm>
#include <map>

#include "cli_fixture.h"

namespace mpfa::tools {
namespace {

class CompareCli : public CliTest {};

TEST_F(CompareCli, JsonHoldsEveryHeadAndItsSummary) {
  QkvFile().add_layer("a", 4, 2, 40, 64).add_layer("b", 2, 2, 40, 128).write(path("in"));
  succeed({"compare", path("in"), "--json", path("out.json")});
  const nlohmann::json result = json(path("out.json"));
  EXPECT_EQ(result["command"], "compare");
  EXPECT_EQ(result["causal"], true);
  ASSERT_EQ(result["layers"].size(), 2u);
  EXPECT_EQ(result["layers"][0]["group_size"], 2);
  EXPECT_EQ(result["layers"][1]["head_dim"], 128);
  for (const auto& policy : result["layers"][0]["policies"]) {
    const auto errors = policy["relative_l2"].get<std::vector<double>>();
    ASSERT_EQ(errors.size(), 4u);
    ASSERT_EQ(policy["cosine"].size(), 4u);
    double sum = 0.0;
    for (const double error : errors) sum += error;
    EXPECT_NEAR(policy["mean_relative_l2"].get<double>(), sum / 4.0, 1e-12);
    EXPECT_EQ(policy["worst_relative_l2"].get<double>(),
              *std::max_element(errors.begin(), errors.end()));
    EXPECT_GT(policy["k_bytes"].get<double>(), 0.0);
  }
}

// The order that everything here is about.
TEST_F(CompareCli, RealDataRanksTheAssignments) {
  succeed({"compare", real_data(), "--json", path("out.json"), "--policy",
           "bf16_bf16,default,search,mpfa,nvfp4_fp8_direct"});
  const nlohmann::json result = json(path("out.json"));
  for (const auto& layer : result["layers"]) {
    std::map<std::string, double> error;
    for (const auto& policy : layer["policies"]) {
      error[policy["policy"]] = policy["mean_relative_l2"];
    }
    ASSERT_EQ(error.size(), 5u);
    EXPECT_LT(error["bf16_bf16"], 0.003);
    EXPECT_LT(error["bf16_bf16"], error["default"]);
    EXPECT_LT(error["default"], error["search"]);
    EXPECT_LT(error["default"], error["mpfa"]);
    EXPECT_LT(error["mpfa"], error["nvfp4_fp8_direct"]);
  }
}

TEST_F(CompareCli, FiltersChooseLayersAndPolicies) {
  const std::string out = succeed({"compare", real_data(), "--layer", "layer1*", "--policy",
                                   "fp8_*,mpfa", "--per-head"})
                              .out;
  EXPECT_NE(out.find("fp8_k_centred"), std::string::npos);
  EXPECT_NE(out.find("mpfa"), std::string::npos);
  EXPECT_EQ(out.find("search"), std::string::npos);
  EXPECT_NE(out.find("layer15"), std::string::npos);
  EXPECT_EQ(out.find("layer00"), std::string::npos);
  EXPECT_NE(out.find("head 8"), std::string::npos);
}

TEST_F(CompareCli, NoCausalChangesTheResult) {
  QkvFile().add_layer("", 2, 1, 40, 64).write(path("in"));
  const auto run = [&](const std::vector<std::string>& extra) {
    std::vector<std::string> arguments = {"compare", path("in"), "--policy",
                                          "default", "--json",   path("out.json")};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    succeed(arguments);
    return json(path("out.json"))["layers"][0]["policies"][0]["relative_l2"];
  };
  const auto causal = run({});
  EXPECT_NE(causal, run({"--no-causal"}));
  EXPECT_NE(causal, run({"--basis-queries", "2"}));
  EXPECT_EQ(causal, run({"--threads", "1"}));
}

TEST_F(CompareCli, HelpListsEveryPolicy) {
  QkvFile().add_layer("", 2, 1, 32, 64).write(path("in"));
  succeed({"compare", path("in"), "--json", path("out.json")});
  const std::string help = succeed({"compare", "--help"}).out;
  const nlohmann::json result = json(path("out.json"));
  for (const auto& policy : result["layers"][0]["policies"]) {
    EXPECT_NE(help.find("\n  " + policy["policy"].get<std::string>() + " "), std::string::npos);
  }
}

TEST_F(CompareCli, MistakesAreNamed) {
  fail(2, {"compare", real_data(), "--policy", "nosuch"}, {"no policy fits 'nosuch'", "'default'"});
  fail(2, {"compare", real_data(), "--basis-queries", "0"}, {"--basis-queries"});
  fail(1, {"compare", real_data(), "--layer", "x"}, {"no layer fits 'x'", "'layer15'"});
  fail(1, {"compare", path("none")}, {"none", "No such file"});
  QkvFile().add("q", 2, 41, 64).add("k", 1, 40, 64).add("v", 1, 40, 64).write(path("long_q"));
  fail(1, {"compare", path("long_q")}, {"long_q"});
  QkvFile().add_layer("", 2, 1, 40, 24).write(path("d24"));
  fail(1, {"compare", path("d24")}, {"d24", "[2, 40, 24]", "d a multiple of 16"});
}

}  // namespace
}  // namespace mpfa::tools
