// append_kv's arithmetic on vectors: bit for bit what append_token_reference() computes.
#pragma once

#include <cstddef>
#include <span>

#include "cache/append_row.h"
#include "core/tensor.h"

namespace mpfa::internal {

// A token and KV head with its input, [d] each, of any alignment.
struct AppendRow {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  AppendStats stats;
  AppendTargets out;
};

// Writes the rows, which may differ in token, head and statistics, with the best instructions that
// the processor has. The targets of different rows must not overlap.
void append_rows(const AppendConfig& config, FloatType type, std::span<const AppendRow> rows);

}  // namespace mpfa::internal
