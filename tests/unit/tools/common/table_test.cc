#include "common/table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

Table sample() {
  Table table({{"name", Align::kLeft}, {"long\nheader"}});
  table.add_group("first <group>");
  table.add_row({"a", "1"});
  table.add_row({"longer", "12345678"}, true);
  table.add_group("second");
  table.add_row({"b", "2"});
  return table;
}

TEST(Table, AlignsColumnsUnderTheirHeaders) {
  EXPECT_EQ(sample().str(),
            "            long\n"
            "name      header\n"
            "----------------\n"
            "first <group>\n"
            "a              1\n"
            "longer  12345678\n"
            "\n"
            "second\n"
            "b              2\n");
}

TEST(Table, NoLineEndsInASpace) {
  Table table({{"a", Align::kLeft}, {"b", Align::kLeft}});
  table.add_row({"x", ""});
  table.add_row({"y", "long text"});
  EXPECT_EQ(table.str().find(" \n"), std::string::npos);
}

TEST(Table, HtmlIsEscapedAndHighlighted) {
  const std::string html = sample().html();
  EXPECT_NE(html.find("<th colspan=\"2\">first &lt;group&gt;</th>"), std::string::npos);
  EXPECT_NE(html.find("<th class=\"number\">long header</th>"), std::string::npos);
  EXPECT_NE(html.find("<tr class=\"highlight\"><td>longer</td>"), std::string::npos);
  EXPECT_NE(html.find("<tr><td>a</td><td class=\"number\">1</td></tr>"), std::string::npos);
}

TEST(Table, ARowOfAnotherWidthIsAnError) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1", "2", "3"}), InvalidArgument);
  EXPECT_THROW(table.add_row({"1"}), InvalidArgument);
}

TEST(GroupDigits, CommasEveryThreeDigits) {
  EXPECT_EQ(group_digits(0.0), "0");
  EXPECT_EQ(group_digits(999.4), "999");
  EXPECT_EQ(group_digits(999.6), "1,000");
  EXPECT_EQ(group_digits(1234567.0), "1,234,567");
  EXPECT_EQ(group_digits(-123456.0), "-123,456");
  EXPECT_EQ(group_digits(-0.2), "0");
  EXPECT_EQ(group_digits(INFINITY), "inf");
}

TEST(BytesText, ChoosesTheUnit) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_EQ(bytes_text(5000.0 * 1024 * 1024 * 1024 * 1024), "5000.0 TiB");
}

TEST(HtmlEscape, MakesMarkupHarmless) {
  EXPECT_EQ(html_escape("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
}

}  // namespace
}  // namespace mpfa::tools
