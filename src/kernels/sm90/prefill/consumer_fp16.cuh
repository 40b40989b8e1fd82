// A consumer whose scores are FP16, which leaves registers for those of two tiles: the softmax of
// one never waits for its own keys.
#pragma once

#include "kernels/sm90/prefill/consumer.cuh"
#include "kernels/sm90/prefill/scores_fp16.cuh"

namespace mpfa::kernels::sm90 {

template <class Config>
class ConsumerFp16 : public ConsumerBase<Config, ScoresFp16, 2> {
  using Base = ConsumerBase<Config, ScoresFp16, 2>;

 public:
  using Base::Base;

  __device__ __forceinline__ void run() {
    if (!this->take_work()) return;
    ScoresFp16 even, odd;
    this->start_keys(even);
    ptx::wgmma_wait<0>();
    this->free_keys();
    this->values_.advance();
    this->prepare_scores(even);
    // The first tile: no values are waiting.
    const int place = this->place();
    start_next(odd);
    this->start_references(place, even);
    this->exponentiate(place, even);
    ptx::wgmma_wait<0>();
    finish_keys(odd);
    this->values_.advance();
    even.to_operand(probabilities_);
#pragma unroll 1
    while (has_more_) {
      step(odd, even);
      if (!has_more_) break;
      step(even, odd);
    }
    typename Base::Sums sums;
    this->start_values(probabilities_, sums);
    ptx::wgmma_wait<0>();
    this->add(sums);
    this->finish_work(Base::before(this->place()), this->offset_);
  }

 private:
  // Starts QK of the tile that follows. Always, as the compiler would otherwise not leave the
  // products to run beside anything.
  __device__ __forceinline__ void start_next(ScoresFp16& scores) {
    begins_ = this->tiles_left_ == 0;
    has_more_ = !begins_ || this->take_work();
    this->start_keys(scores, has_more_);
  }

  __device__ __forceinline__ void finish_keys(ScoresFp16& scores) const {
    if (!has_more_) return;
    this->free_keys();
    this->prepare_scores(scores);
  }

  // Softmax of `scores`, which are complete, beside the products of the values of the tile before
  // and of the keys of the tile behind, which `next` will have.
  __device__ __forceinline__ void step(ScoresFp16& scores, ScoresFp16& next) {
    typename Base::Sums sums;
    this->start_values(probabilities_, sums);
    const bool begins = begins_;
    const int place = this->place();
    const float offset[2] = {this->offset_[0], this->offset_[1]};
    start_next(next);
    if (begins) {
      this->start_references(place, scores);
    } else if (this->is_beyond(place, scores)) {
      ptx::wgmma_wait<0>();
      this->move_references(place, scores, sums);
    }
    this->exponentiate(place, scores);
    ptx::hold_behind(scores.signs(), this->plan_.base);
    ptx::wgmma_wait<0>();
    this->free_values();
    this->add(sums);
    scores.to_operand(probabilities_);
    if (begins) this->finish_work(Base::before(place), offset);
    finish_keys(next);
    this->values_.advance();
  }

  bool begins_ = false;    // the tile whose keys were started last is the first of its work
  bool has_more_ = false;  // there was one to start
  uint32_t probabilities_[4][4];
};

}  // namespace mpfa::kernels::sm90
