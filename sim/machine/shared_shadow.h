// What has happened to each byte of a block's shared memory: the accesses that later ones may race
// with, and whether anything was ever written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "sim/machine/happens_before.h"

namespace mpfa::sim {

constexpr uint32_t kCellBytes = 4;
constexpr uint8_t kWholeCell = 0xF;

// Bits of PastAccess::flags.
constexpr uint8_t kIsWrite = 1;
constexpr uint8_t kIsStrong = 2;      // volatile, relaxed, atomic: never races with its like
constexpr uint8_t kIsAsyncProxy = 4;  // by the asynchronous proxy
constexpr uint8_t kIsAsync = 8;       // by an operation that a thread has only started
constexpr uint8_t kIsStore = 16;      // by a weak st: may write what another of its kind has left
// Of a write: it has taken the place of a read, and of one by its own warp at its own clock.
constexpr uint8_t kHidesRead = 32;
constexpr uint8_t kHidesOwnRead = 64;
constexpr uint8_t kHides = kHidesRead | kHidesOwnRead;

struct PastAccess {
  // Lanes of the warp. Of an asynchronous operation: who started it (see pack_origin()).
  uint32_t lanes = 0;
  uint32_t clock = 0;
  uint32_t place = 0;  // FunctionCode::first_insn plus the instruction's
  Agent agent = 0;
  uint8_t bytes = 0;  // of the cell, a bit each; 0: there is no access here
  uint8_t flags = 0;

  bool is_write() const { return (flags & kIsWrite) != 0; }
  bool is_store() const { return (flags & kIsStore) != 0; }
  bool is_at_clock_of(const PastAccess& other) const {
    return agent == other.agent && clock == other.clock;
  }
  // What it hides of `past` when it takes its place.
  uint8_t hides(const PastAccess& past) const {
    const uint8_t has = past.is_write() ? past.flags : kHides;
    return has & (is_at_clock_of(past) ? kHides : kHidesRead);
  }
  // The same accesses, of lanes that may differ.
  bool is_like(const PastAccess& other) const {
    return is_at_clock_of(other) && bytes == other.bytes && ((flags ^ other.flags) & ~kHides) == 0;
  }
};

// For stores of which none writes what another one has left.
struct NeverSame {
  bool operator()(const PastAccess& /*past*/) const { return false; }
};

inline uint32_t pack_origin(Agent warp, uint32_t lane) { return uint32_t{warp} << 5 | lane; }

// A word of shared memory, on a cache line. Most words have been written by one thread and read by
// one or two warps since; more go to a chain. The write is the first one as a rule.
struct alignas(64) Cell {
  PastAccess first[3];
  uint32_t chain = 0;  // its first node; 0: none
};

class SharedShadow {
 public:
  explicit SharedShadow(uint64_t bytes);

  Cell& cell(uint32_t index) { return cells_[index]; }
  uint32_t cells() const { return count_; }

  // ---- written bytes, a bit each
  uint8_t written(uint32_t cell) const { return state_.get()[cell] & kWholeCell; }
  void mark(uint32_t cell, uint8_t bytes) { state_.get()[cell] |= bytes; }
  void unmark(uint32_t cell, uint8_t bytes) { state_.get()[cell] &= static_cast<uint8_t>(~bytes); }
  void mark_range(uint64_t offset, uint64_t bytes);

  // ---- accesses
  // The same as check_and_record() for the usual: a whole word that is written has no chain, and
  // whatever it knows is ordered; or a read's like is there already. False: nothing is done.
  template <class IsOrdered>
  bool record_read_quickly(uint32_t cell, const PastAccess& access, IsOrdered& is_ordered);
  template <class IsOrdered>
  bool record_write_quickly(uint32_t cell, const PastAccess& access, IsOrdered& is_ordered);

  // An access at `cell` that `access` conflicts with and that `is_ordered` denies to be before it;
  // nullptr if there is none, and then the cell knows of `access`. Of two stores, `is_same` is
  // asked whether they may be unordered.
  template <class IsOrdered, class IsSame = NeverSame>
  const PastAccess* check_and_record(uint32_t cell, const PastAccess& access, IsOrdered is_ordered,
                                     IsSame is_same = {});
  // The check alone, for stores of which lanes may hit the same bytes.
  template <class IsOrdered, class IsSame = NeverSame>
  const PastAccess* check(uint32_t cell, const PastAccess& access, IsOrdered is_ordered,
                          IsSame is_same = {});
  // A store that has been checked. Lanes of one instruction do not conflict with each other.
  template <class IsOrdered>
  void record(uint32_t cell, const PastAccess& access, IsOrdered is_ordered);

 private:
  static constexpr uint8_t kHasChain = 0x10;
  static constexpr uint8_t kChainHasWrite = 0x20;

  struct Node {
    PastAccess access;
    uint32_t next = 0;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  // What becomes of a past access when another one comes.
  enum class Fate : uint8_t { kStays, kMerges, kSuperseded, kConflicts };

  template <class IsOrdered, class IsSame>
  static Fate fate_of(const PastAccess& past, const PastAccess& access, IsOrdered& is_ordered,
                      IsSame& is_same);
  template <class Visit>
  void visit_chain(uint32_t cell, Visit visit);
  // The read of a whole word, in the chain, that differs from this one in lanes alone.
  PastAccess* find_like(const Cell& cell, const PastAccess& read);
  template <class IsOrdered>
  static bool gives_way(const PastAccess& past, IsOrdered& is_ordered) {
    return past.bytes == 0 || (past.bytes == kWholeCell && is_ordered(past));
  }
  void add(uint32_t cell, const PastAccess& access);

  uint32_t count_;
  // Zeros that take no memory before they are touched, and more than the cells need by as much as
  // aligns them.
  std::unique_ptr<std::byte, Free> cell_memory_;
  Cell* cells_;
  // Of each cell: the bytes that have been written, and kHasChain.
  std::unique_ptr<uint8_t, Free> state_;
  std::vector<Node> nodes_;
  uint32_t free_nodes_ = 0;
};

// ---- implementation

template <class IsOrdered, class IsSame>
SharedShadow::Fate SharedShadow::fate_of(const PastAccess& past, const PastAccess& access,
                                         IsOrdered& is_ordered, IsSame& is_same) {
  const uint8_t either = past.flags | access.flags;
  const bool both_read = (either & kIsWrite) == 0;
  if (!is_ordered(past)) {
    const uint8_t both = past.flags & access.flags;
    const bool may_meet =
        both_read || (both & kIsStrong) != 0 || ((both & kIsStore) != 0 && is_same(past));
    if (!may_meet) return Fate::kConflicts;
    const bool merges = access.is_like(past) && (access.flags & kIsAsync) == 0;
    return merges ? Fate::kMerges : Fate::kStays;
  }
  // What conflicts with the past access conflicts with this one, too, if it is a write or both are
  // reads; but a strong one does not conflict with others of its kind.
  const bool is_stronger = (access.flags & ~past.flags & kIsStrong) != 0;
  return (access.is_write() || both_read) && !is_stronger ? Fate::kSuperseded : Fate::kStays;
}

template <class Visit>
void SharedShadow::visit_chain(uint32_t cell, Visit visit) {
  uint32_t* link = &cells_[cell].chain;
  while (*link != 0) {
    Node& node = nodes_[*link];
    visit(node.access);
    if (node.access.bytes != 0) {
      link = &node.next;
      continue;
    }
    const uint32_t gone = *link;
    *link = node.next;
    node.next = free_nodes_;
    free_nodes_ = gone;
  }
  if (cells_[cell].chain == 0) {
    state_.get()[cell] &= static_cast<uint8_t>(~(kHasChain | kChainHasWrite));
  }
}

inline PastAccess* SharedShadow::find_like(const Cell& cell, const PastAccess& read) {
  for (uint32_t at = cell.chain; at != 0; at = nodes_[at].next) {
    if (nodes_[at].access.is_like(read)) return &nodes_[at].access;
  }
  return nullptr;
}

template <class IsOrdered>
bool SharedShadow::record_read_quickly(uint32_t cell, const PastAccess& access,
                                       IsOrdered& is_ordered) {
  const uint8_t state = state_.get()[cell];
  if ((state & ~kHasChain) != kWholeCell) return false;
  Cell& at = cells_[cell];
  const PastAccess& write = at.first[0];
  if (write.bytes != 0 && (!write.is_write() || !is_ordered(write))) return false;
  PastAccess& read = at.first[1];
  PastAccess& other = at.first[2];
  if (read.is_write() || other.is_write()) return false;
  PastAccess* like = read.is_like(access)    ? &read
                     : other.is_like(access) ? &other
                                             : find_like(at, access);
  if (like != nullptr) {
    like->lanes |= access.lanes;
    return true;
  }
  if ((state & kHasChain) != 0) return false;
  if (gives_way(read, is_ordered)) {
    read = access;
    if (gives_way(other, is_ordered)) other.bytes = 0;
    return true;
  }
  if (!gives_way(other, is_ordered)) return false;
  other = access;
  return true;
}

template <class IsOrdered>
bool SharedShadow::record_write_quickly(uint32_t cell, const PastAccess& access,
                                        IsOrdered& is_ordered) {
  if ((state_.get()[cell] & kHasChain) != 0) return false;
  Cell& at = cells_[cell];
  uint8_t hides = 0;
  for (const PastAccess& past : at.first) {
    if (past.bytes == 0) continue;
    if (!is_ordered(past)) return false;
    hides |= access.hides(past);
  }
  at.first[0] = access;
  at.first[0].flags |= hides;
  at.first[1].bytes = 0;
  at.first[2].bytes = 0;
  return true;
}

template <class IsOrdered, class IsSame>
const PastAccess* SharedShadow::check_and_record(uint32_t cell, const PastAccess& access,
                                                 IsOrdered is_ordered, IsSame is_same) {
  const PastAccess* conflict = nullptr;
  PastAccess* merged = nullptr;
  uint8_t hides = 0;
  const auto visit = [&](PastAccess& past) {
    if ((past.bytes & access.bytes) == 0) return;
    switch (fate_of(past, access, is_ordered, is_same)) {
      case Fate::kConflicts:
        conflict = &past;
        break;
      case Fate::kMerges:
        merged = &past;
        break;
      case Fate::kSuperseded:
        if (access.is_write()) hides |= access.hides(past);
        past.bytes &= static_cast<uint8_t>(~access.bytes);
        break;
      case Fate::kStays:
        break;
    }
  };
  Cell& at = cells_[cell];
  for (auto& past : at.first) visit(past);
  if (at.chain != 0) visit_chain(cell, visit);
  if (conflict != nullptr) return conflict;
  if (merged != nullptr) {
    merged->lanes |= access.lanes;
    merged->flags |= hides;
    return nullptr;
  }
  PastAccess now = access;
  now.flags |= hides;
  static constexpr int kOrder[2][3] = {{1, 2, 0}, {0, 2, 1}};
  for (const int place : kOrder[access.is_write() ? 1 : 0]) {
    if (at.first[place].bytes != 0) continue;
    at.first[place] = now;
    return nullptr;
  }
  add(cell, now);
  return nullptr;
}

template <class IsOrdered, class IsSame>
const PastAccess* SharedShadow::check(uint32_t cell, const PastAccess& access, IsOrdered is_ordered,
                                      IsSame is_same) {
  const PastAccess* conflict = nullptr;
  const auto visit = [&](const PastAccess& past) {
    if ((past.bytes & access.bytes) == 0) return;
    if (fate_of(past, access, is_ordered, is_same) == Fate::kConflicts) {
      conflict = &past;
    }
  };
  Cell& at = cells_[cell];
  for (auto& past : at.first) visit(past);
  if (at.chain != 0) visit_chain(cell, visit);
  return conflict;
}

template <class IsOrdered>
void SharedShadow::record(uint32_t cell, const PastAccess& access, IsOrdered is_ordered) {
  PastAccess sum = access;
  const auto gives_way = [&](const PastAccess& past) {
    const bool is_sibling =
        past.place == access.place && past.bytes == access.bytes && past.is_at_clock_of(access);
    if (is_sibling) sum.lanes |= past.lanes;
    return is_sibling || !past.is_store() || is_ordered(past);
  };
  check_and_record(cell, sum, gives_way, [](const PastAccess& /*past*/) { return true; });
}

}  // namespace mpfa::sim
