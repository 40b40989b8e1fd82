#include "sim/simrun/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

GpuOptions from(const std::map<std::string, std::string>& variables) {
  return options_from([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Settings, Defaults) {
  for (const auto& options : {from({}), from({{"MPFA_SIM_ARCH", ""}, {"MPFA_SIM_SEED", ""}})}) {
    EXPECT_EQ(options.arch, "sm_90a");
    EXPECT_EQ(options.seed, 0u);
    EXPECT_EQ(options.threads, 0);
    EXPECT_EQ(options.trace_file, "");
    EXPECT_TRUE(options.checks.races);
    EXPECT_TRUE(options.checks.bounds);
  }
}

TEST(Settings, AllOfThem) {
  const GpuOptions options = from({{"MPFA_SIM_ARCH", "sm_100a"},
                                   {"MPFA_SIM_SEED", "18446744073709551615"},
                                   {"MPFA_SIM_CHECK", "races,bounds"},
                                   {"MPFA_SIM_THREADS", "3"},
                                   {"MPFA_SIM_TRACE", "a file"}});
  EXPECT_EQ(options.arch, "sm_100a");
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.trace_file, "a file");
  EXPECT_TRUE(options.checks.races);
  EXPECT_FALSE(options.checks.uninitialized);
  EXPECT_FALSE(options.checks.async);
  EXPECT_FALSE(options.checks.barriers);
  EXPECT_TRUE(options.checks.bounds);
}

TEST(Settings, BadOnesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"MPFA_SIM_ARCH", "sm_70"},        {"MPFA_SIM_ARCH", "hopper"},
      {"MPFA_SIM_SEED", "-1"},           {"MPFA_SIM_SEED", "1x"},
      {"MPFA_SIM_SEED", " 1"},           {"MPFA_SIM_SEED", "18446744073709551616"},
      {"MPFA_SIM_CHECK", "races,"},      {"MPFA_SIM_CHECK", "all,races"},
      {"MPFA_SIM_CHECK", "race"},        {"MPFA_SIM_THREADS", "-2"},
      {"MPFA_SIM_THREADS", "100000000"},
  };
  for (const auto& [name, value] : cases) {
    try {
      from({{name, value}});
      ADD_FAILURE() << name << "=" << value;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(value), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(Settings, Checks) {
  const Checks none = parse_checks("none");
  EXPECT_FALSE(none.races || none.uninitialized || none.async || none.barriers || none.bounds);
  const Checks all = parse_checks("barriers,async,races,uninitialized,bounds");
  EXPECT_TRUE(all.races && all.uninitialized && all.async && all.barriers && all.bounds);
  EXPECT_TRUE(parse_checks("async").async);
  EXPECT_FALSE(parse_checks("async").barriers);
}

}  // namespace
}  // namespace mpfa::sim
