// Tables, as plain text and as HTML.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mpfa::tools {

enum class Align { kLeft, kRight };

struct Column {
  std::string header;  // lines separated by '\n'; the last lines of all headers stand on one line
  Align align = Align::kRight;
};

// Collects rows, then prints them with every column as wide as its widest cell. Cells are ASCII.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column.
  void add_row(std::vector<std::string> cells, bool highlight = false);
  // A line of its own above the rows that belong to it.
  void add_group(std::string title);

  // Every line ends in '\n', and none in a space.
  std::string str() const;
  // A <table>. Highlighted rows get the class "highlight".
  std::string html() const;

 private:
  std::vector<size_t> widths() const;
  std::string header(const std::vector<size_t>& widths) const;
  std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  struct Row {
    std::vector<std::string> cells;  // one: a group's title
    bool highlight = false;

    bool is_group() const { return cells.size() == 1; }
  };
  std::vector<Row> rows_;
};

// "1234567" -> "1,234,567"; rounded to a whole number.
std::string group_digits(double value);
// Text with <, >, & and quotes made harmless.
std::string html_escape(const std::string& text);
// 512 -> "512 B", 3355443 -> "3.2 MiB".
std::string bytes_text(double bytes);

}  // namespace mpfa::tools
