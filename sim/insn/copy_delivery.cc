// How bulk copies move their bytes: in pieces, each at a time of its own.
#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "mpfa/check.h"
#include "sim/insn/async_copy.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/mbarrier.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kMostPieces = 4;

// The barrier of the copy into block `rank`: of the same block, or of a pair's block of the parity
// that the named barrier's block has (PTX ISA, cp.async.bulk.tensor: .cta_group::2).
uint32_t barrier_rank(uint32_t rank, const SharedPlace& named, bool pairs) {
  return pairs ? (rank & ~1u) | (named.block->rank & 1u) : rank;
}

void check_mask(const Issuer& issuer, const Cluster& cluster, uint32_t block_mask) {
  const size_t blocks = cluster.blocks.size();
  if (block_mask != 0 && block_mask >> blocks == 0) return;
  issuer.fail(FaultKind::kCheck,
              internal::str_cat("the mask of blocks is ", block_mask, "; it must name some of the ",
                                blocks, " blocks of the cluster, and no others"));
}

}  // namespace

std::vector<CopyTarget> copy_targets(const Issuer& issuer, const CopyTarget& first,
                                     bool is_multicast, uint32_t block_mask, bool pairs) {
  const Cluster& cluster = *first.data.block->cluster;
  std::vector<CopyTarget> targets;
  if (!is_multicast) {
    const uint32_t rank = first.data.block->rank;
    const bool is_right =
        pairs ? (rank ^ first.barrier.block->rank) <= 1 : first.barrier.block == first.data.block;
    if (!is_right) {
      issuer.fail(FaultKind::kCheck,
                  internal::str_cat("the mbarrier is in the shared memory of block ",
                                    first.barrier.block->rank, ", the destination in block ", rank,
                                    "'s; it must be in the same", pairs ? " pair of blocks" : ""));
    }
    return {first};
  }
  check_mask(issuer, cluster, block_mask);
  for_each_lane(block_mask, [&](int rank) {
    const uint32_t to = barrier_rank(static_cast<uint32_t>(rank), first.barrier, pairs);
    targets.push_back({.data = {cluster.blocks[rank].get(), first.data.offset},
                       .barrier = {cluster.blocks.at(to).get(), first.barrier.offset}});
  });
  return targets;
}

std::vector<CopyRange> cut_at_random(Random& random, size_t count) {
  std::vector<size_t> cuts = {0, count};
  for (uint64_t more = random.below(kMostPieces); more > 0; --more) {
    cuts.push_back(random.below(count + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<CopyRange> ranges;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] < cuts[i + 1]) ranges.push_back({cuts[i], cuts[i + 1]});
  }
  for (size_t i = ranges.size(); i > 1; --i) std::swap(ranges[i - 1], ranges[random.below(i)]);
  return ranges;
}

void deliver(const Issuer& issuer, const CopyTarget& target, size_t count,
             const std::function<uint32_t(const CopyTarget&, CopyRange)>& move) {
  Cluster& cluster = *target.data.block->cluster;
  for (const CopyRange range : cut_at_random(cluster.random, count)) {
    cluster.defer([issuer, target, range, move] {
      require_running(issuer, *target.data.block, "an asynchronous copy writes");
      const uint32_t bytes = move(target, range);
      MBarrierAccess(*target.barrier.block, target.barrier.offset, issuer).complete_tx(bytes);
    });
  }
}

void drain(const Issuer& issuer, const Block& source, int lane, size_t count,
           const DrainSteps& steps) {
  Cluster& cluster = *source.cluster;
  const std::vector<CopyRange> ranges = cut_at_random(cluster.random, count);
  const std::shared_ptr<BulkOperation> operation =
      async_groups(*issuer.warp)
          .add_bulk(lane, static_cast<uint32_t>(ranges.size()), issuer.operation);
  for (const CopyRange range : ranges) {
    cluster.defer([issuer, &source, &cluster, range, steps, operation] {
      require_running(issuer, source, "an asynchronous copy reads");
      steps.read(range);
      --operation->unread;
      cluster.defer([range, write = steps.write, operation] {
        write(range);
        --operation->unwritten;
      });
    });
  }
}

}  // namespace mpfa::sim
