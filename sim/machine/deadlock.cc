#include "sim/machine/deadlock.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "mpfa/check.h"
#include "sim/machine/block.h"

namespace mpfa::sim {
namespace {

const Insn& waiting_insn(const Split& split) { return split.frame->code->insns[split.pc]; }

// bar and barrier, but not those of warps and clusters.
bool is_at_block_barrier(const Split& split) {
  const Instruction& source = split.frame->code->function->instructions[waiting_insn(split).source];
  if (source.opcode != "bar" && source.opcode != "barrier") return false;
  return std::none_of(
      source.modifiers.begin(), source.modifiers.end(),
      [](const std::string& modifier) { return modifier == "warp" || modifier == "cluster"; });
}

bool has_arrived(const Split& split) { return split.wait.stage != 0; }

std::string position_text(Dim3 at) {
  return internal::str_cat("(", at.x, ", ", at.y, ", ", at.z, ")");
}

// A warp whose threads have parted: some are at a barrier that all of them must reach together.
void explain_parted_warps(const Block& block, std::ostream& out) {
  for (const auto& warp : block.warps) {
    const auto& splits = warp->splits;
    const bool some_wait = std::any_of(splits.begin(), splits.end(), [](const auto& split) {
      return is_at_block_barrier(*split) && !has_arrived(*split);
    });
    if (!some_wait || splits.size() < 2) continue;
    out << "  barrier divergence: the threads of warp " << warp->index << " of block "
        << position_text(block.position)
        << " have parted; a barrier with .aligned (bar.sync, __syncthreads) needs them all at the "
           "same one\n";
  }
}

struct Waiting {
  size_t barrier = 0;
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0: all
};

std::string to_text(const Waiting& waiting) {
  std::string text = internal::str_cat("barrier ", waiting.barrier, " (", waiting.arrived);
  if (waiting.expected != 0) text += internal::str_cat(" of ", waiting.expected);
  return text + " threads)";
}

// A block whose warps are at barriers that do not fit together.
void explain_barriers(const Block& block, std::ostream& out) {
  std::vector<Waiting> all;
  for (size_t i = 0; i < block.barriers.size(); ++i) {
    const Barrier& barrier = block.barriers[i];
    if (barrier.arrived == 0) continue;
    // Where threads are numbered, warps count whole.
    all.push_back({i, barrier.expected != 0 ? barrier.counted : barrier.arrived, barrier.expected});
  }
  if (all.size() > 1) {
    out << "  barrier divergence: threads of block " << position_text(block.position)
        << " have arrived at different barriers:";
    for (const Waiting& waiting : all) {
      out << (&waiting == all.data() ? " " : ", ") << to_text(waiting);
    }
    out << "\n";
  }
  uint32_t threads = 0;
  for (const auto& warp : block.warps) {
    threads += static_cast<uint32_t>(std::popcount(warp->present));
  }
  const uint32_t ended = threads - block.live_threads();
  for (const Waiting& waiting : all) {
    if (waiting.expected == 0 || ended == 0) continue;
    out << "  barrier divergence: " << ended << " threads of block "
        << position_text(block.position) << " have ended; " << to_text(waiting)
        << " counts only those that arrive\n";
  }
}

void list_waits(const Cluster& cluster, std::ostream& out) {
  constexpr int kMostLines = 16;
  int lines = 0;
  for (const auto& block : cluster.blocks) {
    for (const auto& warp : block->warps) {
      for (const auto& split : warp->splits) {
        if (lines++ >= kMostLines) continue;
        warp->split = split.get();
        const Wait& wait = split->wait;
        out << "  " << (wait.describe != nullptr ? wait.describe(*warp, wait) : wait.reason) << ": "
            << warp->where(waiting_insn(*split), split->mask) << "\n";
      }
    }
  }
  if (lines > kMostLines) out << "  and " << lines - kMostLines << " more\n";
}

}  // namespace

void report_deadlock(const Cluster& cluster) {
  std::ostringstream out;
  out << "deadlock: every thread of the cluster waits\n";
  if (cluster.grid->checks.barriers) {
    for (const auto& block : cluster.blocks) {
      explain_parted_warps(*block, out);
      explain_barriers(*block, out);
    }
  }
  list_waits(cluster, out);
  throw Fault(FaultKind::kDeadlock, out.str());
}

}  // namespace mpfa::sim
