// What the checks of shared memory say when they have found something.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <string>

#include "mpfa/check.h"
#include "sim/machine/demangle.h"
#include "sim/machine/monitor.h"
#include "sim/ptx/module.h"

namespace mpfa::sim {
namespace {

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// Bytes of the shared variable that shared_offsets names by `key`: "function::variable", or the
// name alone for the module's own; 0 for what the launch sizes.
uint64_t bytes_of(const KernelCode& code, const std::string& key) {
  const size_t colons = key.find("::");
  const Function* function =
      colons == std::string::npos ? nullptr : code.module->find_function(key.substr(0, colons));
  const std::string name = colons == std::string::npos ? key : key.substr(colons + 2);
  const std::vector<Variable>& variables =
      function == nullptr ? code.module->variables : function->variables;
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const Variable& each) { return each.name == name; });
  return found == variables.end() ? 0 : static_cast<uint64_t>(found->bytes());
}

// " (tile + 12)"; empty where no variable lies.
std::string variable_at(const KernelCode& code, uint64_t offset) {
  for (const auto& [key, begin] : code.shared_offsets) {
    const uint64_t bytes = bytes_of(code, key);
    if (offset < begin || (bytes != 0 && offset >= begin + bytes)) continue;
    const size_t colons = key.find("::");
    const std::string name = colons == std::string::npos ? key : key.substr(colons + 2);
    const std::string more =
        offset == begin ? "" : internal::str_cat(" + ", offset - begin, " bytes");
    return " (" + demangled(name) + more + ")";
  }
  return {};
}

// "0x420 of block 1 of its cluster (tile + 32)"
std::string address_text(const Block& block, uint32_t cell, uint8_t bytes) {
  const uint64_t offset =
      uint64_t{cell} * kCellBytes + static_cast<uint64_t>(std::countr_zero(unsigned{bytes}));
  std::string text = hexadecimal(offset);
  if (block.cluster->blocks.size() > 1) {
    text += internal::str_cat(" of block ", block.rank, " of the cluster");
  }
  return text + variable_at(*block.grid->code, offset);
}

std::string with_article(const std::string& noun) {
  return (noun.front() == 'a' ? "an " : "a ") + noun;
}

}  // namespace

const FunctionCode& Monitor::code_of(uint32_t place) const {
  const auto& functions = cluster_.grid->code->functions;
  const auto found = std::find_if(functions.begin(), functions.end(), [&](const auto& each) {
    return place - each->first_insn < each->insns.size();
  });
  return **found;
}

std::string Monitor::verb(const PastAccess& access) const {
  if (is_async(access.agent)) return access.is_write() ? "asynchronous write" : "asynchronous read";
  if ((access.flags & kIsStrong) != 0) {
    return access.is_write() ? "volatile or atomic write" : "volatile or relaxed read";
  }
  return access.is_write() ? "write" : "read";
}

std::string Monitor::where(const PastAccess& access) const {
  const bool by_async = is_async(access.agent);
  const uint32_t agent = by_async ? access.lanes >> 5 : access.agent;
  const uint32_t lanes = by_async ? 1u << (access.lanes & 31) : access.lanes;
  const FunctionCode& code = code_of(access.place);
  const Block& block = *cluster_.blocks[agent / warps_per_block_];
  return (by_async ? "started " : "") + block.warps[agent % warps_per_block_]->where(
                                            code.insns[access.place - code.first_insn], lanes);
}

void Monitor::report_race(const Block& block, uint32_t cell, const PastAccess& now,
                          const PastAccess& before, bool lacks_proxy_fence) const {
  const std::string at = address_text(block, cell, static_cast<uint8_t>(now.bytes & before.bytes));
  const std::string what =
      lacks_proxy_fence
          ? internal::str_cat("no fence.proxy.async between ", with_article(verb(before)),
                              " of shared memory and ", with_article(verb(now)), " at ", at)
          : internal::str_cat("race in shared memory at ", at, ": ", with_article(verb(now)),
                              " and ", with_article(verb(before)), " that nothing orders");
  throw Fault(FaultKind::kCheck, internal::str_cat(what, "\n  ", verb(now), " ", where(now), "\n  ",
                                                   verb(before), " ", where(before)));
}

std::string Monitor::unwritten_text(const Block& block, uint32_t cell,
                                    const PastAccess& now) const {
  return internal::str_cat("read of shared memory that nothing has written, at ",
                           address_text(block, cell, now.bytes), "\n  ", where(now));
}

void Monitor::report_unwritten(const Block& block, uint32_t cell, const PastAccess& now) const {
  throw Fault(FaultKind::kCheck, unwritten_text(block, cell, now));
}

void Monitor::report_early_end(const Warp& warp, const PastAccess& visit) const {
  const Split& split = *warp.split;
  const std::string what =
      is_async(visit.agent)
          ? "the block ends, but an asynchronous operation on its shared memory may still run: its "
            "threads have not waited for it"
          : "the block ends, but a peer of its cluster may still access its shared memory: a "
            "barrier.cluster is missing";
  throw Fault(FaultKind::kCheck,
              internal::str_cat(what, "\n  end ",
                                warp.where(split.frame->code->insns[split.pc], split.mask), "\n  ",
                                verb(visit), " ", where(visit)));
}

}  // namespace mpfa::sim
