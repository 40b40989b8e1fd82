#include "sim/ptx/special_registers.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace mpfa::sim {
namespace {

using namespace std::string_view_literals;

constexpr std::array kNames = {"tid"sv,
                               "ntid"sv,
                               "laneid"sv,
                               "warpid"sv,
                               "nwarpid"sv,
                               "ctaid"sv,
                               "nctaid"sv,
                               "smid"sv,
                               "nsmid"sv,
                               "gridid"sv,
                               "is_explicit_cluster"sv,
                               "clusterid"sv,
                               "nclusterid"sv,
                               "cluster_ctaid"sv,
                               "cluster_nctaid"sv,
                               "cluster_ctarank"sv,
                               "cluster_nctarank"sv,
                               "lanemask_eq"sv,
                               "lanemask_le"sv,
                               "lanemask_lt"sv,
                               "lanemask_ge"sv,
                               "lanemask_gt"sv,
                               "clock"sv,
                               "clock_hi"sv,
                               "clock64"sv,
                               "globaltimer"sv,
                               "globaltimer_lo"sv,
                               "globaltimer_hi"sv,
                               "reserved_smem_offset_begin"sv,
                               "reserved_smem_offset_end"sv,
                               "reserved_smem_offset_cap"sv,
                               "reserved_smem_offset_0"sv,
                               "reserved_smem_offset_1"sv,
                               "total_smem_size"sv,
                               "aggr_smem_size"sv,
                               "dynamic_smem_size"sv,
                               "current_graph_exec"sv};

// pm0 to pm7 (and pm0_64 to pm7_64), envreg0 to envreg31.
bool is_numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  if (name.ends_with("_64")) name.remove_suffix(3);
  return !name.empty() && name.size() <= 2 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

bool is_special_register(std::string_view name) {
  if (!name.starts_with('%')) return false;
  name.remove_prefix(1);
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || is_numbered(name, "pm") ||
         is_numbered(name, "envreg");
}

}  // namespace mpfa::sim
