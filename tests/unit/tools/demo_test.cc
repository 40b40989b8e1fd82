#include "cli_fixture.h"
#include "environment.h"

namespace mpfa::tools {
namespace {

class DemoCli : public CliTest {
 protected:
  // A small file, for what does not depend on real activations.
  std::string small_data() {
    return QkvFile().add_layer("x", 4, 2, 32, 64).add_layer("y", 4, 2, 32, 64).write(path("small"));
  }
  std::string fake_python(const std::string& script) {
    write_file(path("python"), "#!/bin/sh\n" + script);
    std::filesystem::permissions(path("python"), std::filesystem::perms::owner_all);
    return path("python");
  }
  std::string report(const std::string& name) const { return path("report/" + name); }
};

const nlohmann::json& method(const nlohmann::json& methods, const std::string& id) {
  for (const auto& item : methods) {
    if (item["method"] == id) return item;
  }
  throw std::runtime_error("no method " + id);
}

TEST_F(DemoCli, RealDataGivesTheSpecifiedErrorsAndRatios) {
  const std::string out =
      succeed({"demo", "--no-figures", "--report", path("report"), "--json", path("demo.json")})
          .out;
  const nlohmann::json demo = json(path("demo.json"));
  EXPECT_EQ(demo["command"], "demo");
  EXPECT_EQ(demo["prompt_tokens"], 448);
  EXPECT_EQ(demo["decode_steps"], 64);
  ASSERT_EQ(demo["layers"].size(), 3u);
  ASSERT_EQ(demo["policies"].size(), 19u);
  for (const auto& policy : demo["policies"]) {
    const double expected = policy["expected_relative_l2"];
    EXPECT_NEAR(policy["relative_l2"].get<double>(), expected, 0.05 * expected) << policy;
  }
  EXPECT_NEAR(method(demo["mean"], "mpfa_r0")["ratio"].get<double>(), 2.56, 1e-9);
  EXPECT_NEAR(method(demo["mean"], "mpfa_default")["ratio"].get<double>(), 256.0 / 108, 1e-9);
  for (const char* phase : {"prefill_relative_l2", "decode_relative_l2"}) {
    const auto error = [&](const char* id) {
      return method(demo["mean"], id)[phase].get<double>();
    };
    EXPECT_LT(error("bf16"), error("mpfa_default"));
    EXPECT_LT(error("mpfa_default"), error("mpfa_r0"));
    EXPECT_LT(error("mpfa_r0"), error("paper"));
    EXPECT_LT(error("paper"), error("nvfp4_naive"));
    EXPECT_LT(error("mpfa_default"), 0.045);
  }
  // The library's own path and its emulation differ in P's format and in the number of tokens.
  for (const auto& policy : demo["policies"]) {
    if (policy["policy"] != "default") continue;
    const double emulated = policy["relative_l2"];
    EXPECT_NEAR(method(demo["mean"], "mpfa_default")["prefill_relative_l2"].get<double>(), emulated,
                0.1 * emulated);
  }
  EXPECT_NE(out.find(" 64   256          100   2.56         108   2.37"), std::string::npos) << out;
  EXPECT_NE(out.find("128   512          200   2.56         208   2.46"), std::string::npos) << out;
}

TEST_F(DemoCli, JsonHasTheDocumentedKeys) {
  succeed({"demo", "--data", small_data(), "--no-figures", "--report", path("report"), "--json",
           path("demo.json")});
  const nlohmann::json demo = json(path("demo.json"));
  for (const char* key :
       {"command", "version", "data", "tokens", "prompt_tokens", "decode_steps", "num_q_heads",
        "num_kv_heads", "head_dim", "layers", "mean", "policies", "bytes", "channel", "machine"}) {
    EXPECT_TRUE(demo.contains(key)) << key;
  }
  for (const auto& item : demo["layers"][1]["methods"]) {
    for (const char* key :
         {"method", "name", "emulated", "bytes_per_token_and_kv_head", "ratio",
          "prefill_relative_l2", "prefill_cosine", "decode_relative_l2", "decode_cosine"}) {
      EXPECT_TRUE(item.contains(key)) << key;
    }
    EXPECT_EQ(item["decode_tokens_per_s"].get<double>() > 0.0, !item["emulated"].get<bool>());
  }
  // Nothing is expected of other data than the demo's own.
  EXPECT_FALSE(demo["policies"][0].contains("expected_relative_l2"));
  double total = 0.0;
  for (const char* part : {"k", "compensation", "v"}) total += demo["bytes"][5][part].get<double>();
  EXPECT_EQ(total, 108.0);
}

// A file may be named by any bytes, JSON holds UTF-8 only.
TEST_F(DemoCli, AnyNameOfTheDataWillDo) {
  const std::string data = path(
      "m\xf6"
      "del");
  std::filesystem::rename(small_data(), data);
  succeed(
      {"demo", "--data", data, "--no-figures", "--report", path("report"), "--json", path("j")});
  EXPECT_EQ(json(report("demo.json"))["data"],
            "m\ufffd"
            "del");
  EXPECT_EQ(json(path("j"))["data"],
            "m\ufffd"
            "del");
}

TEST_F(DemoCli, WithoutPythonThereAreTablesAndAdvice) {
  const ScopedEnvironment python("MPFA_PYTHON", path("no_such_python"));
  const std::string out = succeed({"demo", "--data", small_data(), "--report", path("report")}).out;
  EXPECT_NE(out.find("MpFA (default)"), std::string::npos);
  EXPECT_NE(out.find("without figures"), std::string::npos);
  EXPECT_NE(out.find("install matplotlib"), std::string::npos);
  const std::string page = read_file(report("demo.html"));
  EXPECT_NE(page.find("<table>"), std::string::npos);
  EXPECT_NE(page.find("install matplotlib"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
}

TEST_F(DemoCli, WithoutMatplotlibThereAreTablesAndAdvice) {
  const ScopedEnvironment python("MPFA_PYTHON", fake_python("exit 3\n"));
  const std::string out = succeed({"demo", "--data", small_data(), "--report", path("report")}).out;
  EXPECT_NE(out.find("has no matplotlib; install matplotlib"), std::string::npos) << out;
  EXPECT_TRUE(std::filesystem::exists(report("demo.html")));
}

TEST_F(DemoCli, AScriptThatFailsIsQuoted) {
  const ScopedEnvironment python("MPFA_PYTHON",
                                 fake_python("echo oops >&2; echo last words >&2; exit 1\n"));
  const std::string out = succeed({"demo", "--data", small_data(), "--report", path("report")}).out;
  EXPECT_NE(out.find("failed with code 1: 'last words'"), std::string::npos) << out;
  const ScopedEnvironment other("MPFA_PYTHON", fake_python("echo not json\n"));
  EXPECT_NE(succeed({"demo", "--data", small_data(), "--report", path("report")})
                .out.find("something else than figures"),
            std::string::npos);
}

TEST_F(DemoCli, FiguresStandInThePage) {
  const ScopedEnvironment python(
      "MPFA_PYTHON",
      fake_python("test -r \"$2\" && echo '[{\"id\": \"errors\", \"caption\": \"a < b\", "
                  "\"svg\": \"<svg/>\"}]'\n"));
  succeed({"demo", "--data", small_data(), "--report", path("report")});
  const std::string page = read_file(report("demo.html"));
  EXPECT_NE(page.find("data:image/svg+xml;base64,PHN2Zy8+\""), std::string::npos);
  EXPECT_NE(page.find("<figcaption>a &lt; b</figcaption>"), std::string::npos);
  EXPECT_NE(page.find("highlight"), std::string::npos);
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

TEST_F(DemoCli, RealScriptDrawsAllFigures) {
  const std::string venv = std::string(MPFA_DATA_DIR) + "/../.venv/bin/python";
  if (run_process({"/bin/sh", "-c", "'" + venv + "' -c 'import matplotlib'"}).exit_code != 0) {
    GTEST_SKIP() << "no matplotlib in .venv";
  }
  const ScopedEnvironment python("MPFA_PYTHON", venv);
  succeed({"demo", "--data", small_data(), "--report", path("report")});
  const std::string page = read_file(report("demo.html"));
  size_t images = 0;
  for (size_t at = page.find("<img"); at != std::string::npos; at = page.find("<img", at + 1)) {
    ++images;
  }
  EXPECT_EQ(images, 3u);
  const std::string script = std::string(MPFA_DATA_DIR) + "/../scripts/report.py";
  const ProcessResult picture =
      run_process({venv, script, report("demo.json"), "--png", path("demo.png")});
  EXPECT_EQ(picture.exit_code, 0) << picture.err;
  EXPECT_EQ(read_file(path("demo.png")).substr(1, 3), "PNG");
}

TEST_F(DemoCli, MistakesAreNamed) {
  fail(1, {"demo", "--data", path("none"), "--report", path("report")}, {"none", "No such file"});
  write_file(path("file"), "");
  fail(1, {"demo", "--data", small_data(), "--report", path("file/report")},
       {"file/report", "--report"});
  QkvFile().add_layer("", 4, 2, 8, 64).write(path("short"));
  fail(1,
       {"demo", "--data", path("short"), "--report", path("report"), "--no-figures", "--json",
        path("j")},
       {"short", "8 keys", "at least 16"});
  EXPECT_FALSE(std::filesystem::exists(report("demo.html")));
  EXPECT_FALSE(std::filesystem::exists(path("j")));
}

}  // namespace
}  // namespace mpfa::tools
