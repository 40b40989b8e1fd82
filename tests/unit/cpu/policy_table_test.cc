// The named precision assignments on the sample activations: the table of docs/spec.md, section 2,
// and what the paper finds about its own.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/policy.h"
#include "io/safetensors.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {
namespace {

// A layer of the sample activations as [tokens, heads, d] views of the file's [heads, tokens, d].
class Layer {
 public:
  Layer(const SafetensorsReader& reader, const std::string& name)
      : q_(reader.view(name + ".q")), k_(reader.view(name + ".k")), v_(reader.view(name + ".v")) {}
  const DLTensor& q() const { return q_.get(); }
  const DLTensor& k() const { return k_.get(); }
  const DLTensor& v() const { return v_.get(); }

 private:
  StridedView q_, k_, v_;
};

const std::vector<Layer>& sample_layers() {
  static const SafetensorsReader reader =
      SafetensorsReader::open(std::string(MPFA_DATA_DIR) + "/smollm2_qkv_512.safetensors");
  static const std::vector<Layer> layers = [] {
    std::vector<Layer> list;
    for (const char* name : {"layer00", "layer15", "layer29"}) list.emplace_back(reader, name);
    return list;
  }();
  return layers;
}

// Mean over the heads of all three layers, for each policy.
std::vector<double> mean_errors(const std::vector<Policy>& policies) {
  std::vector<double> sums(policies.size(), 0.0);
  for (const Layer& layer : sample_layers()) {
    const auto results = run_policies(policies, layer.q(), layer.k(), layer.v(), table_inputs());
    for (size_t n = 0; n < policies.size(); ++n) sums[n] += results[n].mean_relative_l2() / 3.0;
  }
  return sums;
}

// The project promises 5%; what is left here is the order of the key blocks (the table was measured
// with the final maximum) and of FP32 sums.
TEST(PolicyTable, EveryRowIsWithinTwoPercent) {
  std::vector<Policy> policies;
  for (const TableRow& row : table_rows()) policies.push_back(row.policy);
  const std::vector<double> errors = mean_errors(policies);
  ASSERT_EQ(table_rows().size(), 19U);
  for (size_t n = 0; n < policies.size(); ++n) {
    const double expected = table_rows()[n].error;
    RecordProperty(policies[n].name, std::to_string(errors[n]));
    EXPECT_NEAR(errors[n], expected, 0.02 * expected) << policies[n].name;
  }
}

TEST(PolicyTable, UncentredFp8KeysAreWithinFivePercentToo) {
  EXPECT_NEAR(mean_errors({fp8_k_policy()})[0], 0.0374, 0.05 * 0.0374);
}

TEST(PolicyTable, BytesAreTheTables) {
  for (const TableRow& row : table_rows()) {
    if (row.k_bytes == 0) continue;
    EXPECT_EQ(policy_k_bytes(row.policy, 64, 3), row.k_bytes) << row.policy.name;
  }
  EXPECT_EQ(policy_k_bytes(paper_policy(), 128, 4), 72 + 8);
  EXPECT_EQ(policy_k_bytes(default_policy(), 128, 4), 80);
  EXPECT_EQ(policy_k_bytes(fp8_k_policy(), 128, 4), 128);
  EXPECT_EQ(policy_v_bytes(default_policy(), 128), 128);
  EXPECT_EQ(policy_v_bytes(*find_policy("bf16_bf16"), 128), 256);
  EXPECT_EQ(policy_v_bytes(*find_policy("nvfp4_nvfp4"), 128), 72);
}

TEST(PolicyTable, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const Policy& policy : all_policies()) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_FALSE(policy.description.empty()) << policy.name;
    ASSERT_NE(find_policy(policy.name), nullptr);
    EXPECT_EQ(*find_policy(policy.name), policy);
  }
  for (const Policy& policy : paper_policies()) EXPECT_EQ(names.count(policy.name), 1U);
  for (const TableRow& row : table_rows()) EXPECT_EQ(names.count(row.policy.name), 1U);
  EXPECT_EQ(find_policy("nothing"), nullptr);
}

// What the paper finds about its assignments, on the sample activations.
TEST(PaperPolicies, OrderOfErrors) {
  const std::vector<double> e = mean_errors(paper_policies());
  const auto error = [&](std::string_view name) {
    for (size_t n = 0; n < paper_policies().size(); ++n) {
      if (paper_policies()[n].name == name) return e[n];
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_LT(error("bf16_bf16"), 0.005);
  EXPECT_LT(error("bf16_bf16"), error("nvfp4_bf16"));
  EXPECT_LT(error("nvfp4_bf16"), error("mpfa"));
  EXPECT_LT(error("mpfa"), error("nvfp4_nvfp4"));
  EXPECT_LT(error("nvfp4_bf16_direct"), error("nvfp4_fp8_direct"));
  EXPECT_LT(error("nvfp4_fp8_direct"), error("nvfp4_nvfp4_direct"));
  EXPECT_LT(1.5 * error("mpfa"), error("nvfp4_fp8_direct"));
  // The two placements compute the same term, in another order of FP32 additions.
  EXPECT_NEAR(error("nvfp4_fp8_softmax"), error("mpfa"), 0.002 * error("mpfa"));
}

}  // namespace
}  // namespace mpfa::internal
