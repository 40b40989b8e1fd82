#include "common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

constexpr size_t kGap = 2;  // spaces between columns

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

}  // namespace

void Table::add_row(std::vector<std::string> cells, bool highlight) {
  MPFA_CHECK(cells.size() == columns_.size() && cells.size() > 1, cells.size(),
             " cells in a table of ", columns_.size(), " columns");
  rows_.push_back({std::move(cells), highlight});
}

void Table::add_group(std::string title) { rows_.push_back({{std::move(title)}, false}); }

std::vector<size_t> Table::widths() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t c = 0; c < columns_.size(); ++c) {
    for (const std::string& text : split_lines(columns_[c].header)) {
      widths[c] = std::max(widths[c], text.size());
    }
    for (const Row& row : rows_) {
      if (!row.is_group()) widths[c] = std::max(widths[c], row.cells[c].size());
    }
  }
  return widths;
}

std::string Table::header(const std::vector<size_t>& widths) const {
  std::vector<std::vector<std::string>> headers;
  size_t height = 0;
  for (const Column& column : columns_) {
    headers.push_back(split_lines(column.header));
    height = std::max(height, headers.back().size());
  }
  std::string text;
  for (size_t i = 0; i < height; ++i) {
    std::vector<std::string> cells;
    for (const auto& lines : headers) {
      const size_t skipped = height - lines.size();
      cells.push_back(i < skipped ? "" : lines[i - skipped]);
    }
    text += line(cells, widths);
  }
  return text;
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<size_t>& widths) const {
  std::string text;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) text.append(kGap, ' ');
    const size_t padding = widths[c] - cells[c].size();
    if (columns_[c].align == Align::kRight) text.append(padding, ' ');
    text += cells[c];
    if (columns_[c].align == Align::kLeft) text.append(padding, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string Table::str() const {
  const std::vector<size_t> all_widths = widths();
  size_t total = 0;
  for (const size_t width : all_widths) total += width + kGap;
  std::string text = header(all_widths) + std::string(total - std::min(total, kGap), '-') + '\n';
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].is_group()) {
      text += (i > 0 ? "\n" : "") + rows_[i].cells[0] + "\n";
    } else {
      text += line(rows_[i].cells, all_widths);
    }
  }
  return text;
}

std::string Table::html() const {
  const auto cell = [](const std::string& tag, const Column& column, const std::string& text) {
    const char* align = column.align == Align::kRight ? " class=\"number\"" : "";
    return fmt::format("<{0}{1}>{2}</{0}>", tag, align, html_escape(text));
  };
  std::string text = "<table>\n<thead><tr>";
  for (const Column& column : columns_) {
    std::string header = column.header;
    std::replace(header.begin(), header.end(), '\n', ' ');
    text += cell("th", column, header);
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows_) {
    if (row.is_group()) {
      text += fmt::format("<tr class=\"group\"><th colspan=\"{}\">{}</th></tr>\n", columns_.size(),
                          html_escape(row.cells[0]));
      continue;
    }
    text += row.highlight ? "<tr class=\"highlight\">" : "<tr>";
    for (size_t c = 0; c < columns_.size(); ++c) text += cell("td", columns_[c], row.cells[c]);
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n";
}

std::string html_escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string group_digits(double value) {
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  if (std::isfinite(value)) {
    for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, 1, ',');
  }
  return (value < 0 && digits != "0" ? "-" : "") + digits;
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace mpfa::tools
