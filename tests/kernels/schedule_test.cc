// How the schedule kernel cuts the work, against what the decode kernel relies on: every tile of
// keys is somebody's, once; parts, their CTAs and their partial states agree; what is out of range
// is clamped and counted once.
#include "kernels/any/decode/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/device_case.h"
#include "kernels/stream_and_graph.h"

namespace mpfa::testing {
namespace {

using kernels::DecodeRecord;
using kernels::DecodeSegment;
using kernels::kTileTokens;
using kernels::ScheduleParams;

struct Problem {
  std::vector<int32_t> seqlens_k;
  std::vector<int32_t> cu_seqlens_q;  // empty: one row each
  int num_ctas = 7;
  int num_kv_heads = 2;
  int group_size = 4;
  int rows_per_tile = 8;
  int page_size = 64;
  int window_left = -1;
  int split_tiles = 0;
  int max_seqlen_q = 1;
  int room_for_pairs = 0;  // 0: enough
  int32_t limit = 4096;    // max_seqlen_k; 2^31 - 1 makes the kernel count in 64 bits
};

// A sequence as the kernel is to take it.
struct Expected {
  int32_t q_begin, seqlen_q, seqlen_k;
  int32_t row_tiles, tile_begin, tile_end;
  bool is_wrong;
};

class Schedule {
 public:
  explicit Schedule(const Problem& problem) : problem_(problem) {
    set_step();
    set_layout();
    run();
  }

  void check_all() {
    read();
    check_pairs();
    check_places();
    if (problem_.split_tiles == 0) check_balance();
    EXPECT_EQ(errors_, std::count_if(expected_.begin(), expected_.end(),
                                     [](const Expected& e) { return e.is_wrong; }));
  }
  int errors() const { return errors_; }
  size_t num_segments() {
    read();
    size_t count = 0;
    for (const auto& list : segments_) count += list.size();
    return count;
  }

 private:
  using Key = std::array<int32_t, 3>;  // sequence, KV head, first row

  template <class T>
  std::byte* upload(const std::vector<T>& values) {
    memory_.push_back(std::make_unique<DeviceMemory>(values.size() * sizeof(T)));
    check(cudaMemcpy(memory_.back()->data(), values.data(), values.size() * sizeof(T),
                     cudaMemcpyHostToDevice));
    return memory_.back()->data();
  }

  Expected expect(size_t b) const {
    Expected e = {};
    const int32_t given = problem_.seqlens_k[b];
    e.seqlen_k = std::clamp(given, 0, std::min(max_pages_ * problem_.page_size, problem_.limit));
    e.is_wrong = e.seqlen_k != given;
    e.q_begin = static_cast<int32_t>(b);
    e.seqlen_q = 1;
    if (const std::vector<int32_t>& cu = problem_.cu_seqlens_q; !cu.empty()) {
      e.q_begin = std::clamp(cu[b], 0, total_q_);
      const int64_t rows = int64_t{cu[b + 1]} - e.q_begin;
      const int64_t most = std::min(total_q_ - e.q_begin, problem_.max_seqlen_q);
      e.seqlen_q = static_cast<int32_t>(std::clamp<int64_t>(rows, 0, most));
      e.is_wrong = e.is_wrong || e.q_begin != cu[b] || e.seqlen_q != rows;
    }
    const int rows = e.seqlen_q * problem_.group_size;
    e.row_tiles = (rows + problem_.rows_per_tile - 1) / problem_.rows_per_tile;
    int32_t first_key = 0;
    if (problem_.window_left >= 0) {
      first_key = std::max(0, e.seqlen_k - e.seqlen_q - problem_.window_left);
    }
    e.tile_begin = first_key / kTileTokens;
    e.tile_end = std::max(e.tile_begin, (e.seqlen_k + kTileTokens - 1) / kTileTokens);
    return e;
  }

  void set_step() {
    const auto batch = static_cast<int32_t>(problem_.seqlens_k.size());
    max_pages_ = 1;
    for (const int32_t length : problem_.seqlens_k) {
      if (length < 1 << 20) max_pages_ = std::max(max_pages_, length / problem_.page_size + 1);
    }
    total_q_ = problem_.cu_seqlens_q.empty() ? batch : kRowsOfQ;
    for (size_t b = 0; b < problem_.seqlens_k.size(); ++b) expected_.push_back(expect(b));
    table_.resize(static_cast<size_t>(batch) * max_pages_);
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<int32_t>(7 * i + 3);
    params_.seq_lens = reinterpret_cast<int32_t*>(upload(problem_.seqlens_k));
    if (!problem_.cu_seqlens_q.empty()) {
      params_.cu_seqlens_q = reinterpret_cast<int32_t*>(upload(problem_.cu_seqlens_q));
    }
    params_.block_table = reinterpret_cast<int32_t*>(upload(table_));
    params_.block_table_stride = max_pages_;
    params_.error_count = reinterpret_cast<int32_t*>(upload(std::vector<int32_t>{0}));
    params_.batch_size = batch;
    params_.max_pages = max_pages_;
    params_.page_size = problem_.page_size;
    params_.num_kv_heads = problem_.num_kv_heads;
    params_.group_size = problem_.group_size;
    params_.total_seqlen_q = total_q_;
    params_.max_seqlen_q = problem_.max_seqlen_q;
    params_.max_seqlen_k = problem_.limit;
    params_.window_left = problem_.window_left;
    params_.rows_per_tile = problem_.rows_per_tile;
    params_.split_tiles = problem_.split_tiles;
  }

  void set_layout() {
    int64_t pairs = 0;
    int64_t parts = 0;
    for (const Expected& e : expected_) {
      const int64_t own = int64_t{problem_.num_kv_heads} * e.row_tiles;
      pairs += own;
      if (problem_.split_tiles > 0) {
        parts += own * std::max(1, (e.tile_end - e.tile_begin + problem_.split_tiles - 1) /
                                       problem_.split_tiles);
      }
    }
    if (problem_.room_for_pairs > 0) pairs = problem_.room_for_pairs;
    params_.layout =
        kernels::layout_workspace(problem_.num_ctas, pairs, parts, problem_.rows_per_tile, 64);
  }

  // Over a workspace that is not clean.
  void run() {
    const auto bytes = static_cast<size_t>(params_.layout.total_bytes);
    workspace_.assign(bytes, std::byte{0x5A});
    params_.workspace = upload(workspace_);
    check(kernels::launch_schedule(params_, nullptr));
    check(cudaMemcpy(workspace_.data(), params_.workspace, bytes, cudaMemcpyDeviceToHost));
    check(cudaMemcpy(&errors_, params_.error_count, sizeof(errors_), cudaMemcpyDeviceToHost));
  }

  template <class T>
  T at(int64_t offset, int64_t index) const {
    T value;
    std::memcpy(&value, workspace_.data() + offset + index * static_cast<int64_t>(sizeof(T)),
                sizeof(T));
    return value;
  }

  void read() {
    std::set<int32_t> places;
    segments_.clear();
    for (int cta = 0; cta < problem_.num_ctas; ++cta) {
      const auto record = at<DecodeRecord>(0, cta);
      std::vector<DecodeSegment>& own = segments_.emplace_back();
      for (int i = 0; i < record.head.num_segments; ++i) {
        const int32_t place = record.head.first_segment + i;
        EXPECT_TRUE(places.insert(place).second) << "two segments at " << place;
        own.push_back(at<DecodeSegment>(params_.layout.segments, place));
      }
      if (!own.empty()) check_record(record, own);
    }
  }

  int32_t page_of(int32_t sequence, int32_t token) const {
    const int32_t last = std::max(0, expected_[sequence].seqlen_k - 1);
    return table_[static_cast<size_t>(sequence) * max_pages_ +
                  std::min(token, last) / problem_.page_size];
  }

  void check_record(const DecodeRecord& record, const std::vector<DecodeSegment>& own) const {
    const DecodeSegment& first = own.front();
    const DecodeSegment& last = own.back();
    EXPECT_EQ(words_of(record.segment), words_of(first));
    EXPECT_EQ(record.head.num_launches, 0);
    EXPECT_EQ(record.head.last_slot, last.first_slot);
    EXPECT_EQ(record.head.last_sharers, key_of(last) == key_of(first) ? 1 : last.num_sharers);
    const int per_tile = std::max(1, kTileTokens / problem_.page_size);
    const int known = std::min(first.num_tiles * per_tile, kernels::kRecordPages);
    for (int i = 0; i < known; ++i) {
      const int32_t token =
          (first.tile_begin + i / per_tile) * kTileTokens + i % per_tile * problem_.page_size;
      EXPECT_EQ(record.pages[i], page_of(first.sequence, token)) << i;
    }
    // Only the first and the last pair are looked after where others share them.
    for (const DecodeSegment& segment : own) {
      if (key_of(segment) == key_of(first) || key_of(segment) == key_of(last)) continue;
      EXPECT_EQ(segment.num_sharers, 1);
    }
  }

  // All that is said of a segment.
  using Words = std::array<int32_t, offsetof(DecodeSegment, unused) / sizeof(int32_t)>;
  static Words words_of(const DecodeSegment& segment) {
    Words words;
    std::memcpy(words.data(), &segment, sizeof(words));
    return words;
  }

  static Key key_of(const DecodeSegment& segment) {
    return {segment.sequence, segment.kv_head, segment.first_row};
  }

  // All parts of a pair, in the order of CTAs.
  void check_parts(const Expected& e, const std::vector<const DecodeSegment*>& parts,
                   const std::set<int>& ctas) const {
    int32_t tile = e.tile_begin;
    for (size_t i = 0; i < parts.size(); ++i) {
      const DecodeSegment& part = *parts[i];
      EXPECT_EQ(part.part, static_cast<int32_t>(i));
      EXPECT_EQ(part.num_parts, static_cast<int32_t>(parts.size()));
      EXPECT_EQ(part.num_sharers, static_cast<int32_t>(ctas.size()));
      EXPECT_EQ(part.first_slot, parts[0]->first_slot);
      EXPECT_EQ(part.seqlen_k, e.seqlen_k);
      EXPECT_EQ(part.seqlen_q, e.seqlen_q);
      EXPECT_EQ(part.q_begin, e.q_begin);
      EXPECT_EQ(part.first_position, part.first_row / problem_.group_size);
      EXPECT_EQ(part.first_head, part.first_row % problem_.group_size);
      if (part.num_tiles > 0) {
        EXPECT_EQ(part.tile_begin, tile);
        if (part.tile_begin == 0) {
          EXPECT_EQ(part.first_page, page_of(part.sequence, 0));
        }
      }
      if (problem_.split_tiles > 0) {
        EXPECT_LE(part.num_tiles, problem_.split_tiles);
      }
      tile += part.num_tiles;
    }
    EXPECT_EQ(tile, e.tile_end);
  }

  void check_pairs() const {
    std::map<Key, std::vector<const DecodeSegment*>> parts;
    std::map<Key, std::set<int>> ctas;
    for (int cta = 0; cta < problem_.num_ctas; ++cta) {
      for (const DecodeSegment& segment : segments_[cta]) {
        parts[key_of(segment)].push_back(&segment);
        ctas[key_of(segment)].insert(cta);
      }
    }
    size_t pairs = 0;
    for (size_t b = 0; b < expected_.size(); ++b) {
      const Expected& e = expected_[b];
      for (int32_t i = 0; i < problem_.num_kv_heads * e.row_tiles; ++i, ++pairs) {
        const Key key = {static_cast<int32_t>(b), i / e.row_tiles,
                         i % e.row_tiles * problem_.rows_per_tile};
        SCOPED_TRACE("sequence " + std::to_string(b) + ", pair " + std::to_string(i));
        check_parts(e, parts[key], ctas[key]);
      }
    }
    EXPECT_EQ(parts.size(), pairs);
  }

  void check_cleared(int64_t slot) const {
    for (int half = 0; half < 2; ++half) {
      const int64_t state = half * params_.layout.num_slots + slot;
      const int64_t offset = params_.layout.partials + state * params_.layout.state_bytes;
      for (int i = 0; i < params_.layout.state_bytes / 4; ++i) {
        ASSERT_EQ(at<uint32_t>(offset, i), kernels::kNotWritten) << "slot " << slot;
      }
    }
  }

  // Nobody else's, and ready.
  void check_places() const {
    std::set<int64_t> states;
    std::map<int32_t, Key> counters;
    for (const auto& own : segments_) {
      for (const DecodeSegment& segment : own) {
        if (segment.num_parts == 1) continue;
        const int64_t slot = partial_slot(segment);
        ASSERT_LT(slot, params_.layout.num_slots);
        EXPECT_TRUE(states.insert(slot).second) << "two parts at " << slot;
        check_cleared(slot);
        EXPECT_EQ(counters.emplace(segment.first_slot, key_of(segment)).first->second,
                  key_of(segment));
      }
    }
    for (int i = 0; i < params_.layout.num_slots; ++i) {
      EXPECT_EQ(at<int32_t>(params_.layout.counters, i), 0);
    }
  }

  // Tiles of the largest part if each pair is cut into equal ones and there is a CTA for each.
  int64_t smallest_part(int64_t tiles) const {
    for (int64_t size = 1; size < tiles; ++size) {
      int64_t parts = 0;
      for (const Expected& e : expected_) {
        const int64_t own = std::max<int64_t>(1, (e.tile_end - e.tile_begin + size - 1) / size);
        parts += own * e.row_tiles * problem_.num_kv_heads;
      }
      if (parts <= problem_.num_ctas) return size;
    }
    return tiles;
  }

  // No CTA has more than its share: of ranges, with what a neighbour leaves to it, or of parts.
  void check_balance() const {
    constexpr int64_t kPieceCost = 12;
    int64_t tiles = 0;
    int64_t pairs = 0;
    for (const Expected& e : expected_) {
      const int64_t own = int64_t{problem_.num_kv_heads} * e.row_tiles;
      pairs += own;
      tiles += own * (e.tile_end - e.tile_begin);
    }
    int64_t most = (tiles + pairs * kPieceCost) / problem_.num_ctas + 1 + 2 * kPieceCost;
    if (pairs <= problem_.num_ctas) most = std::min(most, smallest_part(tiles));
    for (const auto& own : segments_) {
      int64_t load = 0;
      for (const DecodeSegment& segment : own) load += segment.num_tiles;
      EXPECT_LE(load, most);
    }
  }

  static constexpr int32_t kRowsOfQ = 4096;

  const Problem& problem_;
  ScheduleParams params_;
  int32_t max_pages_ = 0;
  int32_t total_q_ = 0;
  std::vector<Expected> expected_;
  std::vector<int32_t> table_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<std::byte> workspace_;
  std::vector<std::vector<DecodeSegment>> segments_;  // of each CTA
  int32_t errors_ = 0;
};

// Counting in 32 bits and in 64.
void expect_right(Problem problem) {
  for (const int32_t limit : {4096, INT32_MAX}) {
    SCOPED_TRACE("limit " + std::to_string(limit));
    problem.limit = limit;
    Schedule(problem).check_all();
  }
}

std::vector<int32_t> random_lengths(int batch, int32_t most, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> lengths(batch);
  for (int32_t& length : lengths) {
    length = random() % 4 == 0 ? 0 : static_cast<int32_t>(random() % (most + 1));
  }
  return lengths;
}

TEST(Schedule, Batches) {
  for (const int batch : {0, 1, 2, 5, 31, 32, 33, 65}) {
    for (const int32_t most : {0, 100, 4096}) {
      SCOPED_TRACE(std::to_string(batch) + " of " + std::to_string(most));
      Problem problem;
      problem.seqlens_k = random_lengths(batch, most, 1);
      problem.page_size = batch % 2 == 0 ? 16 : 128;
      problem.num_ctas = 20;
      expect_right(problem);
      problem.num_ctas = 3;
      expect_right(problem);
    }
  }
}

// More sequences than are read only once.
TEST(Schedule, LargeBatches) {
  for (const int batch : {1024, 1025, 1100}) {
    SCOPED_TRACE(batch);
    Problem problem;
    problem.seqlens_k = random_lengths(batch, 70, 2);
    problem.num_kv_heads = 1;
    expect_right(problem);
    problem.split_tiles = 1;
    expect_right(problem);
  }
  // The work lies behind them.
  Problem problem;
  problem.seqlens_k.assign(1030, 0);
  problem.cu_seqlens_q.assign(1031, 0);
  problem.cu_seqlens_q.back() = 1;
  problem.seqlens_k.back() = 4000;
  expect_right(problem);
}

TEST(Schedule, WindowsAndPartsOfAFixedSize) {
  for (const int window_left : {-1, 0, 31, 32, 1000}) {
    for (const int split_tiles : {0, 1, 4, 1 << 26}) {
      SCOPED_TRACE(std::to_string(window_left) + ", " + std::to_string(split_tiles));
      Problem problem;
      problem.seqlens_k = {700, 0, 1, 3000, 32, 33};
      problem.page_size = 32;
      problem.window_left = window_left;
      problem.split_tiles = split_tiles;
      expect_right(problem);
    }
  }
}

TEST(Schedule, RowsOfQueries) {
  for (const int group_size : {1, 3, 16}) {
    Problem problem;
    problem.seqlens_k = {0, 900, 40, 2, 4000};
    problem.cu_seqlens_q = {0, 4, 4, 20, 23, 24};
    problem.group_size = group_size;
    problem.rows_per_tile = 16;
    problem.max_seqlen_q = 16;
    problem.window_left = group_size == 3 ? 10 : -1;
    SCOPED_TRACE(group_size);
    expect_right(problem);
  }
}

// Each sequence once, whatever is wrong with it.
TEST(Schedule, WhatIsOutOfRangeIsClampedAndCountedOnce) {
  Problem problem;
  problem.seqlens_k = {-1, INT32_MAX, 50, INT32_MIN, 60, 4000};
  problem.cu_seqlens_q = {0, 2, 1, INT32_MAX, -7, 3, 5};
  problem.max_seqlen_q = 16;
  expect_right(problem);
}

// Sequences that claim the same rows may have more work than there is room for: one fault.
TEST(Schedule, WorkWithoutRoomIsRefused) {
  Problem problem;
  problem.seqlens_k.assign(40, 100);
  problem.room_for_pairs = 79;
  for (const int split_tiles : {0, 1}) {
    problem.split_tiles = split_tiles;
    Schedule refused(problem);
    EXPECT_EQ(refused.errors(), 1);
    EXPECT_EQ(refused.num_segments(), 0U);
  }
  problem.room_for_pairs = 80;
  expect_right(problem);
}

TEST(Schedule, AnySteps) {
  std::mt19937 random(3);
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    Problem problem;
    const int batch = one_of({1, 2, 3, 7, 20, 40, 70});
    problem.num_ctas = one_of({1, 2, 5, 16, 132});
    problem.num_kv_heads = one_of({1, 2, 3, 8});
    problem.group_size = one_of({1, 2, 5, 8, 12});
    problem.rows_per_tile = one_of({8, 16});
    problem.page_size = one_of({16, 32, 64, 128});
    problem.window_left = one_of({-1, -1, 0, 100});
    problem.split_tiles = one_of({0, 0, 0, 4, 64});
    problem.seqlens_k = random_lengths(batch, one_of({40, 500, 4096}), random());
    if (one_of({0, 1}) == 1) {
      problem.max_seqlen_q = 16;
      problem.cu_seqlens_q.assign(1, 0);
      for (int b = 0; b < batch; ++b) {
        problem.cu_seqlens_q.push_back(problem.cu_seqlens_q.back() + one_of({0, 1, 1, 4, 16, 17}));
      }
    }
    expect_right(problem);
  }
}

}  // namespace
}  // namespace mpfa::testing
