// What the host hands to the prefill kernel.
#pragma once

#include "kernels/any/decode/params.h"

namespace mpfa::kernels {

struct PrefillParams {
  DecodeParams attention = {};  // but its tensor map and workspace
  ScheduleParams step = {};     // but its workspace and what cuts work into parts
  // Tiles of query rows of all sequences and one KV head, at most; a CTA for each and each KV head.
  int32_t num_row_tiles = 0;
  int32_t q_has_pieces = 0;    // rows of q may be read 16 bytes at a time
  int32_t out_has_pieces = 0;  // likewise written
};

}  // namespace mpfa::kernels
