// How one CTA's share of a decode step is found, by a warp.
#pragma once

#include "kernels/any/decode/divisor.cuh"
#include "kernels/any/decode/sequence.cuh"

namespace mpfa::kernels::schedule {

// What a piece costs beside its tiles, in tiles: preparing Q, merging the warps' states.
constexpr int kPieceCost = 12;

constexpr int kKept = 1024;  // sequences that are read only once

// Of a power of two.
__device__ __forceinline__ int shift_of(int32_t x) { return __ffs(x) - 1; }

struct alignas(16) Sequence : StepSequence {
  int32_t num_tiles = 0;
  int32_t row_tiles = 0;
  int32_t tile_begin = 0;
};

__device__ __forceinline__ Sequence read_sequence(const ScheduleParams& p, int b) {
  Sequence s;
  static_cast<StepSequence&>(s) = read_step_sequence(p, b);
  s.row_tiles = (s.seqlen_q * p.group_size + p.rows_per_tile - 1) >> shift_of(p.rows_per_tile);
  // Keys that some row sees (docs/spec.md, section 3).
  const int32_t diagonal = s.seqlen_k - s.seqlen_q;  // of query 0
  const bool is_cut = p.window_left >= 0 && p.window_left < diagonal;
  const int32_t begin = is_cut ? diagonal - p.window_left : 0;
  if (s.seqlen_q > 0 && begin < s.seqlen_k) {
    s.tile_begin = begin / kTileTokens;
    s.num_tiles = ceil_div(s.seqlen_k, kTileTokens) - s.tile_begin;
  }
  return s;
}

// A sequence, and what lies before it in the list of all pairs in order of sequences.
template <class Work>
struct Found {
  Work work_before;
  int32_t pieces_before;
  int32_t sequence;
};

// What a CTA has of a pair that others may share, where CTAs take ranges.
struct Share {
  int32_t pair;  // of all
  int32_t first_cta;
  int32_t last_cta;
  int32_t begin_tile;  // of the pair's own
  int32_t end_tile;

  __device__ bool has(int32_t cta) const { return first_cta <= cta && cta <= last_cta; }
};

// Whose pages are asked for.
struct Tiles {
  int32_t sequence;
  int32_t seqlen_k;
  int32_t begin;
  int32_t count;
};

// What a CTA does of a pair.
struct Piece {
  Tiles tiles;
  Sequence sequence;
  int32_t pair;  // of the sequence's
  int32_t part;
  int32_t num_parts;
  int32_t num_sharers;
  int32_t first_slot;
  int32_t other_slots;
};

template <class Work>
struct Shared {
  Sequence sequences[kKept];
  // Within the planner: of the first and the last place of this CTA's work.
  Found<Work> found[2];
  Share ends[2];
  // What the helpers wait for.
  Tiles first;  // of the first piece
  int32_t num_pieces;
  int32_t first_state;  // partial states [first_state, first_state + num_states) are this CTA's,
  int32_t num_states;   // where parts have a fixed size
};

__device__ __forceinline__ DecodeRecord& record_of(const ScheduleParams& p) {
  return reinterpret_cast<DecodeRecord*>(p.workspace)[blockIdx.x];
}

// The page of a token, of the sequence's last one if there are fewer.
__device__ __forceinline__ int32_t page_of(const ScheduleParams& p, const Tiles& tiles,
                                           int32_t token) {
  const int32_t column = min(token, tiles.seqlen_k - 1) >> shift_of(p.page_size);
  return p.block_table[tiles.sequence * p.block_table_stride + column * p.block_table_inner_stride];
}

// One CTA's share, by a warp. Work: int32_t if that holds num_ctas times all work and the square of
// a sequence's tiles, and all sequences are kept; else int64_t.
template <class Work>
class Planner {
 public:
  __device__ Planner(const ScheduleParams& params, Shared<Work>& shared)
      : p_(params),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x)),
        cta_(static_cast<int32_t>(blockIdx.x)),
        ctas_(params.layout.num_ctas) {}

  // Also tells the helpers what they wait for.
  __device__ void plan() {
    own_per_lane_ = (p_.batch_size + 31) / 32;
    own_begin_ = min(lane_ * own_per_lane_, p_.batch_size);
    own_end_ = min(own_begin_ + own_per_lane_, p_.batch_size);
    if (p_.split_tiles > 0) cut_into_parts(Divisor(p_.split_tiles));
    do {
      add_up();
    } while (turns_to_parts());
    begin_ = begin_of(cta_);
    end_ = begin_of(cta_ + 1);
    if (begin_ < end_) choose_pieces();
    if (num_pieces_ > 0) piece_ = piece_at(min(lane_, num_pieces_ - 1));
    if (lane_ == 0) tell_helpers();
  }

  // Segments, and the record but its pages.
  __device__ void write() {
    if (num_pieces_ == 0 && lane_ == 0) record_of(p_).head.num_segments = 0;
#pragma unroll 1
    for (int32_t i = lane_; i < num_pieces_; i += 32) {
      if (i >= 32) piece_ = piece_at(i);
      write_segment(i);
    }
  }

 private:
  __device__ Sequence sequence(int b) const {
    constexpr bool kAreAllKept = sizeof(Work) == 4;
    return kAreAllKept || b < kKept ? shared_.sequences[b] : read_sequence(p_, b);
  }

  // ---- how the work is cut ----

  __device__ void cut_into_parts(const Divisor& part_tiles) {
    has_parts_ = true;
    part_tiles_ = part_tiles;
  }
  __device__ int32_t parts_of(const Sequence& s) const {
    return has_parts_ ? max(1, part_tiles_.ceil_div(s.num_tiles)) : 1;
  }
  __device__ int32_t pieces_of(const Sequence& s) const {
    return p_.num_kv_heads * s.row_tiles * parts_of(s);
  }

  // Of sequences, for one KV head.
  struct Sums {
    Work work = 0;
    Work row_tiles = 0;
  };
  __device__ Work work_of(const Sequence& s) const {
    return Work{s.row_tiles} * (has_parts_ ? parts_of(s) : s.num_tiles + kPieceCost);
  }

  // A lane has consecutive sequences.
  __device__ void add_up() {
    own_ = {};
#pragma unroll 1
    for (int b = own_begin_; b < own_end_; ++b) {
      const Sequence s = sequence(b);
      own_.work += work_of(s);
      own_.row_tiles += s.row_tiles;
    }
    Sums upto = own_;
    const int lanes = min(max(p_.batch_size, 1), 32);  // the others have nothing
#pragma unroll 1
    for (int step = 1; step < lanes; step *= 2) {
      const Work work = __shfl_up_sync(~0u, upto.work, step);
      const Work row_tiles = __shfl_up_sync(~0u, upto.row_tiles, step);
      upto.work += lane_ < step ? 0 : work;
      upto.row_tiles += lane_ < step ? 0 : row_tiles;
    }
    before_ = {upto.work - own_.work, upto.row_tiles - own_.row_tiles};
    total_ = p_.num_kv_heads * __shfl_sync(~0u, upto.work, lanes - 1);
    pairs_ = p_.num_kv_heads * __shfl_sync(~0u, upto.row_tiles, lanes - 1);
    if (pairs_ > p_.layout.max_pairs) refuse();
    each_ = ctas_.divide(total_);
    rest_ = static_cast<int32_t>(total_ - each_ * p_.layout.num_ctas);
  }

  // Rows of q that several sequences claim: there may be no room for their work.
  __device__ void refuse() {
    total_ = 0;
    if (cta_ == 0 && lane_ == 0 && p_.error_count != nullptr) atomicAdd(p_.error_count, 1);
  }

  // Few pairs: each gets CTAs of its own, and the largest part is as small as can be. Many, or
  // where that is better: CTAs take equal ranges, which gives every CTA the same, but most of them
  // one piece more.
  __device__ bool turns_to_parts() {
    if (has_parts_ || pairs_ > p_.layout.num_ctas || total_ == 0) return false;
    const int32_t most = static_cast<int32_t>(each_) + (rest_ > 0 ? 1 : 0) + kPieceCost;
    // The largest part has no less than a CTA's share of all tiles. That is `most` less kPieceCost
    // less at most as much again, as pairs are few: the lanes try all sizes between.
    static_assert(2 * kPieceCost < 32);
    const Divisor tried(max(1, most - 31 + lane_));
    const uint32_t fits = __ballot_sync(~0u, count_parts(tried) <= p_.layout.num_ctas);
    if (fits != 0) cut_into_parts(tried.of_lane(__ffs(fits) - 1));
    return fits != 0;
  }

  // Of all pairs, each of them cut into equal parts.
  __device__ int32_t count_parts(const Divisor& part_tiles) const {
    // Sequences without queries are often the last.
    const uint32_t with_rows = __ballot_sync(~0u, own_.row_tiles > 0);
    const int end = min((32 - __clz(with_rows)) * own_per_lane_, p_.batch_size);
    int32_t parts = 0;
#pragma unroll 4
    for (int b = 0; b < end; ++b) {
      const Sequence s = sequence(b);
      parts += s.row_tiles * max(1, part_tiles.ceil_div(s.num_tiles));
    }
    return p_.num_kv_heads * parts;
  }

  // ---- this CTA's share ----

  // CTA c has the work [begin_of(c), begin_of(c + 1)): c * total / ctas, rounded down.
  __device__ Work begin_of(int32_t cta) const { return cta * each_ + ctas_.divide(cta * rest_); }
  // The CTA that has a place.
  __device__ int32_t cta_at(Work place) const {
    return static_cast<int32_t>(((place + 1) * p_.layout.num_ctas - 1) / total_);
  }

  __device__ void choose_pieces() {
    find_ends();
    __syncwarp();
    if (has_parts_) {
      first_piece_ = static_cast<int32_t>(begin_);
      first_segment_ = first_piece_;
      num_pieces_ = static_cast<int32_t>(end_ - begin_);
    } else {
      choose_range();
    }
  }

  // The sequences that have the first and the last place, by the lanes that have them.
  __device__ void find_ends() const {
    const int32_t heads = p_.num_kv_heads;
    Found<Work> at = {heads * before_.work, 0, own_begin_};
    if (at.work_before >= end_ || at.work_before + heads * own_.work <= begin_) return;
    const Work pieces = has_parts_ ? at.work_before : heads * before_.row_tiles;
    at.pieces_before = static_cast<int32_t>(pieces);
#pragma unroll 1
    for (; at.sequence < own_end_; ++at.sequence) {
      const Sequence s = sequence(at.sequence);
      const Work work_end = at.work_before + heads * work_of(s);
      if (at.work_before <= begin_ && begin_ < work_end) shared_.found[0] = at;
      if (at.work_before < end_ && end_ <= work_end) shared_.found[1] = at;
      at.work_before = work_end;
      at.pieces_before += pieces_of(s);
    }
  }

  __device__ void choose_range() {
    const int end = lane_ % 2;  // even lanes look at the first pair, odd ones at the last
    const Share own = share_at(end == 0 ? begin_ : end_ - 1, shared_.found[end], end != 0);
    if (lane_ < 2) shared_.ends[lane_] = own;
    __syncwarp();
    const Share& first = shared_.ends[0];
    const Share& last = shared_.ends[1];
    // Each pair has one segment in each CTA that takes part, so these places differ.
    first_segment_ = first.pair + cta_;
    first_piece_ = first.pair + (first.has(cta_) ? 0 : 1);
    num_pieces_ = max(0, last.pair + (last.has(cta_) ? 1 : 0) - first_piece_);
  }

  // The CTAs that a pair's places belong to share it; a part at its begin or end that is smaller
  // than what it costs is left to the neighbour.
  __device__ Share share_at(Work place, const Found<Work>& at, bool is_last) const {
    const int32_t tiles = sequence(at.sequence).num_tiles;
    const Work size = tiles + kPieceCost;
    const Work pair = (place - at.work_before) / size;
    const Work begin = at.work_before + pair * size;
    // The first pair may begin in another CTA, the last may end in one. They may be the same pair.
    const int32_t end_cta = cta_at(is_last ? begin + size - 1 : begin);
    const int32_t other_cta = __shfl_xor_sync(~0u, end_cta, 1);
    const bool is_only = __shfl_xor_sync(~0u, begin, 1) == begin;
    Share share;
    share.pair = at.pieces_before + static_cast<int32_t>(pair);
    share.first_cta = !is_last ? end_cta : is_only ? other_cta : cta_;
    share.last_cta = is_last ? end_cta : is_only ? other_cta : cta_;
    // Where a range that begins inside the pair begins among its tiles.
    const auto tile_at = [&](Work range_begin) {
      const Work tile = range_begin - begin - kPieceCost;
      return static_cast<int32_t>(min(max(tile, Work{0}), Work{tiles}));
    };
    if (share.first_cta < share.last_cta && tile_at(begin_of(share.first_cta + 1)) < kPieceCost) {
      ++share.first_cta;
    }
    if (share.first_cta < share.last_cta &&
        tiles - tile_at(begin_of(share.last_cta)) < kPieceCost) {
      --share.last_cta;
    }
    share.begin_tile = cta_ == share.first_cta ? 0 : tile_at(begin_);
    share.end_tile = cta_ == share.last_cta ? tiles : tile_at(end_);
    return share;
  }

  // ---- pieces ----

  __device__ Piece piece_at(int32_t index) const {
    const int32_t number = first_piece_ + index;
    Found<Work> at = shared_.found[number >= shared_.found[1].pieces_before ? 1 : 0];
    Sequence s = sequence(at.sequence);
#pragma unroll 1
    for (;;) {
      const int32_t pieces = pieces_of(s);
      if (number - at.pieces_before < pieces) break;
      at.pieces_before += pieces;
      s = sequence(++at.sequence);
    }
    return has_parts_ ? part_piece(number, at, s) : range_piece(number, at, s);
  }

  // [begin, end) of the tiles that are seen.
  __device__ static Tiles tiles_of(const Found<Work>& at, const Sequence& s, int32_t begin,
                                   int32_t end) {
    return {at.sequence, s.seqlen_k, s.tile_begin + begin, end - begin};
  }

  // One of the equal parts of a pair.
  __device__ Piece part_piece(int32_t number, const Found<Work>& at, const Sequence& s) const {
    const int32_t parts = parts_of(s);
    const Divisor divisor(parts);
    const int32_t within = number - at.pieces_before;
    Piece piece;
    piece.sequence = s;
    piece.pair = divisor.divide(within);
    piece.part = within - piece.pair * parts;
    piece.num_parts = parts;
    piece.first_slot = number - piece.part;
    piece.other_slots = piece.first_slot;
    piece.num_sharers = parts;
    if (total_ > p_.layout.num_ctas) {  // else no CTA has two
      piece.num_sharers = cta_at(piece.first_slot + parts - 1) - cta_at(piece.first_slot) + 1;
    }
    const Work tiles = s.num_tiles;
    const auto begin = static_cast<int32_t>(divisor.divide(piece.part * tiles));
    const auto end = static_cast<int32_t>(divisor.divide((piece.part + 1) * tiles));
    piece.tiles = tiles_of(at, s, begin, end);
    return piece;
  }

  // What a range has of a pair.
  __device__ Piece range_piece(int32_t number, const Found<Work>& at, const Sequence& s) const {
    Share share = {number, cta_, cta_, 0, s.num_tiles};
#pragma unroll 1
    for (const Share& end : shared_.ends) {
      if (end.pair == number) share = end;
    }
    Piece piece;
    piece.sequence = s;
    piece.pair = number - at.pieces_before;
    piece.part = cta_ - share.first_cta;
    piece.num_parts = share.last_cta - share.first_cta + 1;
    piece.num_sharers = piece.num_parts;
    piece.first_slot = p_.layout.num_ctas + share.first_cta;
    piece.other_slots = share.first_cta;
    piece.tiles = tiles_of(at, s, share.begin_tile, share.end_tile);
    return piece;
  }

  __device__ void tell_helpers() const {
    shared_.first = piece_.tiles;
    shared_.num_pieces = num_pieces_;
    const bool has_states = p_.split_tiles > 0 && total_ > pairs_;  // some pair has several parts
    shared_.first_state = first_piece_;
    shared_.num_states = has_states ? num_pieces_ : 0;
  }

  __device__ void write_segment(int32_t index) const {
    const Tiles& tiles = piece_.tiles;
    // Asked for first, as it takes longest.
    const int32_t page = tiles.begin == 0 && tiles.count > 0 ? page_of(p_, tiles, 0) : 0;
    const Sequence& s = piece_.sequence;
    const int32_t kv_head = s.row_tiles == 1 ? piece_.pair : piece_.pair / s.row_tiles;
    const int32_t row_tile = piece_.pair - kv_head * s.row_tiles;
    DecodeSegment segment =
        segment_of_rows(p_, tiles.sequence, s, kv_head, row_tile * p_.rows_per_tile);
    segment.tile_begin = tiles.begin;
    segment.num_tiles = tiles.count;
    segment.part = piece_.part;
    segment.num_parts = piece_.num_parts;
    segment.num_sharers = piece_.num_sharers;
    segment.first_slot = piece_.first_slot;
    segment.other_slots = piece_.other_slots;
    segment.first_page = page;
    auto* segments = reinterpret_cast<DecodeSegment*>(p_.workspace + p_.layout.segments);
    segments[first_segment_ + index] = segment;
    DecodeRecord& record = record_of(p_);
    if (index == 0) record.segment = segment;
    if (index + 1 < num_pieces_) return;
    record.head.first_segment = first_segment_;
    record.head.num_segments = num_pieces_;
    record.head.num_launches = 0;
    // The first piece is of another pair if this pair has fewer parts before this one.
    record.head.last_sharers = piece_.part < index ? piece_.num_sharers : 1;
    record.head.last_slot = piece_.first_slot;
  }

  const ScheduleParams& p_;
  Shared<Work>& shared_;
  int lane_;
  int32_t cta_;
  Divisor ctas_;
  int own_per_lane_ = 0;
  int own_begin_ = 0;  // this lane's sequences
  int own_end_ = 0;
  // Parts: every pair is cut into equal ones of at most part_tiles_ tiles; they are the pieces, and
  // each is work of 1. CTAs take equal numbers of them. Else work is tiles, kPieceCost added to
  // each pair, and pieces are pairs. CTAs take equal ranges of work, which cross pairs.
  bool has_parts_ = false;
  Divisor part_tiles_{1};
  Sums own_;
  Sums before_;
  Work pairs_ = 0;
  Work total_ = 0;    // work
  Work each_ = 0;     // total_ / num_ctas,
  int32_t rest_ = 0;  // and what that leaves
  Work begin_ = 0;    // this CTA's work
  Work end_ = 0;
  int32_t first_piece_ = 0;
  int32_t num_pieces_ = 0;
  int32_t first_segment_ = 0;
  Piece piece_;  // this lane's
};

}  // namespace mpfa::kernels::schedule
