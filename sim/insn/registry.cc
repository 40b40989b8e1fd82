#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"

namespace mpfa::sim {
namespace {

const std::unordered_map<std::string_view, DecodeFunction>& table() {
  static const std::unordered_map<std::string_view, DecodeFunction> kTable = {
#define INSN(opcode, decode) {#opcode, &(decode)},
#include "sim/insn/insn.def"
#undef INSN
  };
  return kTable;
}

}  // namespace

DecodeFunction find_decode_function(std::string_view opcode) {
  const auto found = table().find(opcode);
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string_view> known_opcodes() {
  std::vector<std::string_view> names;
  for (const auto& row : table()) names.push_back(row.first);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mpfa::sim
