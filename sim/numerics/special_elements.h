// The elements of a block of D in which an infinity or NaN takes part: the fast way computes
// nonsense there, and the reference what is right.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/numerics/fused_plan.h"

namespace mpfa::sim {

class SpecialElements {
 public:
  void reset(int rows, int columns);

  // Marks the infinities and NaNs among a row's sums.
  void mark_row(AccumulatorType type, int64_t row, const uint32_t* sums);
  // Marks rows and columns whose flags are not 0.
  void mark_operands(const std::vector<uint8_t>& rows, const int32_t* columns);

  // Replaces the marked ones among the first `columns` of each row; column 0 is column `first` of
  // D.
  void recompute(const FusedPlan& plan, int first, int columns, uint32_t* sums) const;

 private:
  int columns_ = 0;
  bool any_ = false;
  std::vector<uint8_t> marked_;  // [row][column]
};

}  // namespace mpfa::sim
