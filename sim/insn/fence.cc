// fence and membar. All that a thread has written is seen by the others at once: fences order
// nothing more. What they mean to the asynchronous proxy is a matter of the checks.
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr int64_t kTensorMapFenceBytes = 128;

// Bits of Insn::u8: between what a fence orders.
constexpr uint8_t kThreads = 1;
constexpr uint8_t kAsyncProxy = 2;

Step fence(Warp& w, const Insn& i) {
  if (w.monitor == nullptr) return Step::kNext;
  if ((i.u8 & kThreads) != 0) w.monitor->fence(w);
  if ((i.u8 & kAsyncProxy) != 0) w.monitor->proxy_fence(w);
  return Step::kNext;
}

void take_scope(InsnDecoder& d) {
  if (d.take_one({"cta", "cluster", "gpu", "sys"}) < 0) d.fail("the scope is missing");
}

// .tensormap::generic: .release.scope, or .acquire.scope [addr], 128
void decode_tensor_map_proxy(InsnDecoder& d) {
  const int order = d.take_one({"release", "acquire"});
  if (order < 0) d.fail("one of .release and .acquire is missing");
  take_scope(d);
  if (order == 0) return;
  d.address(0);
  if (d.immediate(1) != kTensorMapFenceBytes) {
    d.fail("the size is " + std::to_string(d.immediate(1)) + "; it must be 128");
  }
}

// .sync_restrict: .acquire goes with the cluster's shared memory, .release with the block's.
void take_restriction(InsnDecoder& d) {
  const bool is_acquire = d.take("acquire");
  const bool is_release = d.take("release");
  const bool is_right = (is_acquire && d.take("sync_restrict::shared::cluster")) ||
                        (is_release && d.take("sync_restrict::shared::cta"));
  if (!is_right) d.fail("memory order and restriction do not go together");
  if (!d.take("cluster")) d.fail("the scope must be .cluster");
}

uint8_t decode_proxy(InsnDecoder& d) {
  switch (d.take_one({"alias", "async", "tensormap::generic", "async::generic"})) {
    case 0:
      return 0;
    case 1:
      // Limited to global memory it says nothing of shared memory, which alone is checked.
      return d.take_one({"shared::cta", "shared::cluster", "global"}) == 2 ? 0 : kAsyncProxy;
    case 2:
      decode_tensor_map_proxy(d);
      return kThreads;
    case 3:
      take_restriction(d);
      return kThreads | kAsyncProxy;
    default:
      d.fail("the proxy is not known");
  }
}

bool has_restriction(const InsnDecoder& d) {
  for (const std::string& modifier : d.left()) {
    if (modifier.starts_with("sync_restrict::")) return true;
  }
  return false;
}

void finish(InsnDecoder& d, uint8_t orders) {
  d.expect_no_more();
  d.emit(&fence).u8 = orders;
}

}  // namespace

void decode_membar(InsnDecoder& d) {
  uint8_t orders = kThreads;
  if (d.take("proxy")) {
    orders = decode_proxy(d);
  } else if (d.take_one({"cta", "gl", "sys"}) < 0) {
    d.fail("the level is missing");
  }
  finish(d, orders);
}

void decode_fence(InsnDecoder& d) {
  uint8_t orders = kThreads;
  if (d.take("proxy")) {
    orders = decode_proxy(d);
  } else if (d.take("mbarrier_init")) {
    // It orders mbarrier.init alone; the checks take it for a fence of everything before it.
    if (!d.take("release") || !d.take("cluster")) d.fail("it must be .release.cluster");
  } else if (has_restriction(d)) {
    take_restriction(d);
  } else {
    d.take_one({"sc", "acq_rel", "acquire", "release"});
    take_scope(d);
  }
  finish(d, orders);
}

}  // namespace mpfa::sim
