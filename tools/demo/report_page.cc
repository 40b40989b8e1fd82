#include "demo/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base64.h"
#include "common/machine.h"
#include "common/table.h"
#include "common/threads.h"
#include "demo/tables.h"

namespace mpfa::tools {
namespace {

constexpr const char* kStyle = R"(
:root { --ink: #1f2933; --soft: #5b6673; --line: #e3e7eb; --accent: #00798c; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #f6f8f9;
       font: 15px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 36px 24px 56px; }
h1 { font-size: 27px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 40px 0 8px; }
p { margin: 6px 0 12px; color: var(--soft); max-width: 104ch; }
ul { margin: 6px 0 12px; padding-left: 20px; color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 14px;
         margin: 22px 0; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 14px 18px; }
.card b { display: block; font-size: 28px; line-height: 1.25; color: var(--accent); }
.card span { color: var(--soft); font-size: 14px; }
.box { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px;
       margin: 12px 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px;
        font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: left; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
thead th { vertical-align: bottom; white-space: normal; font-size: 13px; color: var(--soft); }
tbody tr:last-child td { border-bottom: 0; }
.number { text-align: right; }
.group th { padding-top: 14px; font-size: 14px; }
.highlight td { background: #e6f3f5; font-weight: 600; }
figure { margin: 12px 0; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 14px; padding: 6px 2px 4px; }
)";

std::string card(const std::string& value, const std::string& text) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", html_escape(value),
                     html_escape(text));
}

size_t method_index(const DemoResult& result, const std::string& id) {
  const auto found = std::find_if(result.methods.begin(), result.methods.end(),
                                  [&](const DemoMethod& method) { return method.id == id; });
  return static_cast<size_t>(found - result.methods.begin());
}

std::string cards(const DemoResult& result) {
  const std::vector<DemoScore> means = result.means();
  const auto error = [&](const char* id) { return means[method_index(result, id)].decode_error; };
  const double bf16 = 4.0 * static_cast<double>(result.shape.head_dim);
  const auto ratio = [&](const char* id) {
    return bf16 / result.methods[method_index(result, id)].bytes;
  };
  const DemoScore& ours = means[method_index(result, kDefaultMethod)];
  return "<div class=\"cards\">\n" +
         card(fmt::format("{:.2f}\u00d7 smaller", ratio(kDefaultMethod)),
              fmt::format("KV cache than in BF16; {:.2f}\u00d7 without the residual, "
                          "{:.2f}\u00d7 in FP8",
                          ratio("mpfa_r0"), ratio("fp8_k"))) +
         card(fmt::format("{:.4f} error", error(kDefaultMethod)),
              fmt::format("in decode; FP8 {:.4f}, the paper {:.4f}, naive NVFP4 {:.4f}",
                          error("fp8_k"), error("paper"), error("nvfp4_naive"))) +
         card(group_digits(ours.decode_tokens_per_s) + " tokens/s",
              fmt::format("decode of one layer on {} threads: append and attention; prefill {}",
                          active_threads(), group_digits(ours.prefill_tokens_per_s))) +
         "</div>\n";
}

std::string box(const std::string& html) { return "<div class=\"box\">\n" + html + "</div>\n"; }

std::string figure_html(const Figures& figures, const std::string& id) {
  for (const Figure& figure : figures.list) {
    if (figure.id != id) continue;
    return fmt::format(
        "<figure class=\"box\"><img alt=\"{0}\" src=\"data:image/svg+xml;base64,{1}\">"
        "<figcaption>{0}</figcaption></figure>\n",
        html_escape(figure.caption), base64_encode(figure.svg));
  }
  return "";
}

std::string introduction(const DemoResult& result, const Figures& figures) {
  const DemoShape& shape = result.shape;
  std::string text = fmt::format(
      "<h1>MpFA: attention over a smaller KV cache</h1>\n"
      "<p>{} tokens of prompt in one causal prefill, then {} decode steps, on {} layers of real "
      "activations: {} query heads, {} KV heads, d = {}. Every output is compared with FP64 "
      "attention over the unquantised input.</p>\n",
      shape.prompt, shape.steps, result.layers.size(), shape.num_q_heads, shape.num_kv_heads,
      shape.head_dim);
  if (figures.list.empty()) {
    text += fmt::format("<p>This page has no figures: {}.</p>\n", html_escape(figures.problem));
  }
  return text;
}

std::string methods_list(const DemoResult& result) {
  std::string text = "<ul>\n";
  for (const DemoMethod& method : result.methods) {
    text += fmt::format("<li><b>{}</b>: {}</li>\n", html_escape(method.name),
                        html_escape(method.description));
  }
  return text + "</ul>\n";
}

std::string method_section(const DemoResult& result, const Figures& figures) {
  return "<h2>Memory, accuracy and speed</h2>\n" + figure_html(figures, "errors") +
         "<p>Bytes are K and V per token and KV head. Error is the relative L2 distance, cosine "
         "the cosine similarity; both are means over heads. Means are frozen at the prompt, the "
         "residual basis comes from the first 128 queries. Speed is of one layer, the "
         "fastest of several runs; emulated methods have none.</p>\n" +
         box(method_table(result).html()) + methods_list(result);
}

std::string policy_section(const DemoResult& result, bool expected) {
  return fmt::format(
             "<h2>Precision assignments</h2>\n<p>Emulated over all {} tokens, V and P in "
             "e4m3{}.</p>\n",
             result.shape.tokens,
             expected ? "; \"expected\" is the table in docs/spec.md, section 2" : "") +
         box(policy_table(result, expected).html());
}

std::string footer() {
  return fmt::format("<p>mpfa {}, {}, {}; {}; {} threads; attention by {}.</p>\n", MPFA_VERSION,
                     html_escape(compiler()), html_escape(build_type()), html_escape(cpu_model()),
                     active_threads(), machine_json()["attention_target"].get<std::string>());
}

}  // namespace

std::string report_page(const DemoResult& result, const Figures& figures, bool expected) {
  const std::string centring = figure_html(figures, "channel");
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>MpFA demo</title>\n<style>" +
         std::string(kStyle) + "</style>\n</head>\n<body>\n<main>\n" +
         introduction(result, figures) + cards(result) + method_section(result, figures) +
         (centring.empty() ? "" : "<h2>Why K is centred</h2>\n" + centring) +
         policy_section(result, expected) + "<h2>Bytes</h2>\n" + figure_html(figures, "bytes") +
         box(bytes_table().html()) + footer() + "</main>\n</body>\n</html>\n";
}

}  // namespace mpfa::tools
