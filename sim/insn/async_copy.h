// cp.*: what the files of its variants offer each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/shared_place.h"
#include "sim/machine/async_groups.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {

// cp.async.bulk* and cp.reduce.async.bulk* with their first modifiers taken (bulk_copy.cc).
void decode_bulk_copy(InsnDecoder& decoder);
void decode_bulk_reduce(InsnDecoder& decoder);
// cp.async.bulk.tensor*, cp.reduce.async.bulk.tensor*, cp.async.bulk.prefetch.tensor*
// (tensor_copy.cc).
void decode_tensor_copy(InsnDecoder& decoder);
void decode_tensor_reduce(InsnDecoder& decoder);
void decode_tensor_prefetch(InsnDecoder& decoder);

// Takes .L2::cache_hint, and its policy away from the end of the operands: the number of the
// others.
size_t take_cache_policy(InsnDecoder& decoder);

enum class BulkDirection : uint8_t {
  kGlobalToBlock,    // .shared::cta.global
  kGlobalToCluster,  // .shared::cluster.global
  kBlockToCluster,   // .shared::cluster.shared::cta
  kBlockToGlobal,    // .global.shared::cta
};
// Takes .dst.src, which must be the first modifiers that are left, and the way of completion.
BulkDirection take_bulk_direction(InsnDecoder& decoder);
// .shared::cta or .shared::cluster, of the destination and its barrier.
MemorySpace destination_space(BulkDirection direction);

// ---- how the bytes move (copy_delivery.cc)
// ----------------------------------------------------------

// A block's shared memory that a copy writes, and the barrier that counts the bytes.
struct CopyTarget {
  SharedPlace data;
  SharedPlace barrier;
};

// The targets of a copy: `data` and `barrier`, or with `block_mask` (.multicast::cluster) the same
// offsets of all blocks in it. `pairs` is .cta_group::2: the barrier may lie in the other block of
// the target's pair.
std::vector<CopyTarget> copy_targets(const Issuer& issuer, const CopyTarget& first,
                                     bool is_multicast, uint32_t block_mask, bool pairs);

// A range [begin, end) of what a copy moves, counted in whatever units it has.
struct CopyRange {
  size_t begin = 0;
  size_t end = 0;
};

// [0, count) cut at random into 1 to 4 ranges, in random order.
std::vector<CopyRange> cut_at_random(Random& random, size_t count);

// Does a copy into `target`, a random piece after another, each at a time of its own: `move` moves
// a range of its `count` units into the target's block and returns the bytes that the barrier
// counts.
void deliver(const Issuer& issuer, const CopyTarget& target, size_t count,
             const std::function<uint32_t(const CopyTarget&, CopyRange)>& move);

// Does a copy out of shared memory likewise: first the pieces are read, later written. `read` puts
// a range into a buffer of its own choice, `write` takes it from there.
struct DrainSteps {
  std::function<void(CopyRange)> read;
  std::function<void(CopyRange)> write;
};
void drain(const Issuer& issuer, const Block& source, int lane, size_t count,
           const DrainSteps& steps);

}  // namespace mpfa::sim
