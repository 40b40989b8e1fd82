// A consumer whose scores are FP32. There are registers for one tile's of them: while the tensor
// cores multiply values by a tile's probabilities, the warpgroup takes the next tile's exponents.
#pragma once

#include "kernels/sm90/prefill/consumer.cuh"
#include "kernels/sm90/prefill/scores_fp32.cuh"

namespace mpfa::kernels::sm90 {

template <class Config>
class ConsumerFp32 : public ConsumerBase<Config, ScoresFp32, 1> {
  using Base = ConsumerBase<Config, ScoresFp32, 1>;

 public:
  using Base::Base;

  // The tiles of all work follow each other: a work's last values are multiplied beside the first
  // keys of the next.
  __device__ __forceinline__ void run() {
    if (!this->take_work()) return;
    ScoresFp32 scores;
    uint32_t probabilities[4][4];
    this->start_keys(scores);
    ptx::wgmma_wait<0>();
    this->free_keys();
    this->values_.advance();
    this->prepare_scores(scores);
    this->start_references(this->place(), scores);
    this->exponentiate(this->place(), scores);
    scores.to_operand(probabilities);
#pragma unroll 1
    for (;;) {
      const bool ends = this->tiles_left_ == 0;
      if (ends && !this->take_work()) break;
      typename Base::Sums sums;
      this->start_keys(scores);
      this->start_values(probabilities, sums);
      ptx::wgmma_wait<1>();
      this->free_keys();
      this->prepare_scores(scores);
      const float offset[2] = {this->offset_[0], this->offset_[1]};
      const int place = this->place();
      if (ends) {
        this->start_references(place, scores);
      } else if (this->is_beyond(place, scores)) {
        ptx::wgmma_wait<0>();
        this->move_references(place, scores, sums);
      }
      this->exponentiate(place, scores);
      ptx::hold_behind(scores.signs(), this->plan_.base);
      ptx::wgmma_wait<0>();
      this->free_values();
      this->values_.advance();
      this->add(sums);
      scores.to_operand(probabilities);
      if (ends) this->finish_work(Base::before(place), offset);
    }
    typename Base::Sums sums;
    this->start_values(probabilities, sums);
    ptx::wgmma_wait<0>();
    this->add(sums);
    this->finish_work(Base::before(this->place()), this->offset_);
  }
};

}  // namespace mpfa::kernels::sm90
