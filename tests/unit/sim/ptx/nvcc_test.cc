// The PTX of nvcc, read and printed back: no instruction may be lost or changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/ptx/parser.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {
namespace {

std::string read_ptx() {
  std::ifstream file(MPFA_NVCC_PTX);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One statement's tokens as text; "+-8" is "-8", and "+0" is nothing.
std::string normalised(std::string_view statement) {
  std::string text;
  for (const Token& token : tokenize(statement)) {
    if (token.kind == TokenKind::kEnd) break;
    if (token.is("-") && text.ends_with("+ ")) text.resize(text.size() - 2);
    if (token.kind == TokenKind::kInteger) {
      text += std::to_string(static_cast<int64_t>(token.bits));
    } else if (token.kind == TokenKind::kDotted) {
      text += "." + std::string(token.text);
    } else {
      text += token.text;
    }
    text += ' ';
  }
  const std::string nothing = "+ 0 ]";
  for (size_t at; (at = text.find(nothing)) != std::string::npos;) {
    text.replace(at, nothing.size(), "]");
  }
  return text;
}

// The instructions of a source, found by another way than the parser's: in nvcc's layout a
// statement begins a line with a letter or a guard, and ends one with a semicolon.
std::vector<std::string> statements(const std::string& source) {
  std::vector<std::string> result;
  std::istringstream lines(source);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find("//"), line.size()));
    const size_t first = line.find_first_not_of(" \t");
    const size_t last = line.find_last_not_of(" \t");
    if (first == std::string::npos) continue;
    line = line.substr(first, last + 1 - first);
    const bool begins = std::isalpha(static_cast<unsigned char>(line[0])) != 0 || line[0] == '@';
    // Labels, and the prototypes behind them, are no instructions.
    const bool labelled =
        line.find(':') != std::string::npos && line.find("::") == std::string::npos;
    if (text.empty() && (!begins || labelled)) continue;
    text += line + " ";
    // Inline assembly may have several statements in a line: those are left out.
    if (line.back() != ';') continue;
    if (std::count(text.begin(), text.end(), ';') == 1) result.push_back(normalised(text));
    text.clear();
  }
  return result;
}

TEST(NvccPtx, EveryInstructionIsReadAsItStands) {
  const std::string source = read_ptx();
  const Module module = parse_ptx(source);
  std::set<std::string> opcodes;
  std::multiset<std::string> read;
  for (const Function& function : module.functions) {
    for (const Instruction& instruction : function.instructions) {
      read.insert(normalised(print_instruction(function, instruction)));
      opcodes.insert(instruction.opcode);
    }
  }
  EXPECT_GT(read.size(), 5000u);
  for (const char* opcode : {"call", "bra", "atom", "bar", "setp", "shfl", "ld", "cvta"}) {
    EXPECT_TRUE(opcodes.contains(opcode)) << opcode;
  }
  const size_t all = read.size();
  const std::vector<std::string> expected = statements(source);
  for (const std::string& statement : expected) {
    const auto at = read.find(statement);
    ASSERT_NE(at, read.end()) << statement;
    read.erase(at);
  }
  // What is left stands in lines with several statements.
  EXPECT_GT(expected.size() * 100, all * 90) << read.size() << " more, first: " << *read.begin();
}

TEST(NvccPtx, LinesLeadToTheSource) {
  const Module module = parse_ptx(read_ptx());
  size_t with_line = 0;
  size_t all = 0;
  for (const Function& function : module.functions) {
    for (const Instruction& instruction : function.instructions) {
      ++all;
      with_line +=
          instruction.location.line > 0 && module.files.contains(instruction.location.file);
    }
  }
  EXPECT_GT(with_line * 10, all * 9);
  bool has_sample = false;
  for (const auto& [number, name] : module.files) {
    has_sample = has_sample || name.ends_with("nvcc_sample.cu");
  }
  EXPECT_TRUE(has_sample);
}

}  // namespace
}  // namespace mpfa::sim
