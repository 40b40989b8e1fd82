// Branches, calls, returns, and the ends of threads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/machine/block.h"
#include "sim/machine/call_detail.h"
#include "sim/machine/device_functions.h"
#include "sim/machine/each_lane.h"

namespace mpfa::sim {
namespace {

Step branch(Warp& w, const Insn& i) { return w.jump(static_cast<uint32_t>(i.imm)); }

struct TargetsDetail : InsnDetail {
  std::vector<uint32_t> targets;
};

// Leaves in the running split only lanes whose value is the first lane's; gives that.
template <class T>
T uniform_value(Warp& w, Slot slot) {
  const T* values = w.source<T>(slot);
  const T first = values[std::countr_zero(w.mask)];
  uint32_t others = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const bool differs = (w.mask >> lane & 1) != 0 && values[lane] != first;
    others |= static_cast<uint32_t>(differs) << lane;
  }
  if (others != 0) w.detach(others, w.split->pc);
  return first;
}

Step branch_indexed(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const TargetsDetail&>(*i.detail);
  const uint32_t index = uniform_value<uint32_t>(w, i.a);
  if (index >= detail.targets.size()) {
    w.fail(FaultKind::kInvalidPc, i, w.mask,
           "the index " + std::to_string(index) + " is past the list of " +
               std::to_string(detail.targets.size()) + " targets");
  }
  return w.jump(detail.targets[index]);
}

Step call_direct(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const CallDetail&>(*i.detail);
  return w.call(*w.block->grid->code->functions[detail.function], i);
}

Step call_indirect(Warp& w, const Insn& i) {
  const uint64_t address = uniform_value<uint64_t>(w, i.a);
  const KernelCode& code = *w.block->grid->code;
  const uint64_t place = (address - kCodeWindow) / kFunctionBytes;
  const bool is_function = address >= kCodeWindow && place < code.function_of_module.size() &&
                           address_of_function(place) == address &&
                           code.function_of_module[place] != UINT32_MAX;
  if (!is_function) {
    w.fail(FaultKind::kInvalidPc, i, w.mask, "a call of an address that is no function's");
  }
  return w.call(*code.functions[code.function_of_module[place]], i);
}

// A function of the runtime: its arguments lie in the caller's frame.
struct DeviceCallDetail : CallDetail {
  DeviceFunction run = nullptr;
};

Step call_device_function(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const DeviceCallDetail&>(*i.detail);
  const uint64_t base = w.split->frame->local_base;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    std::vector<uint64_t> arguments;
    for (const PassedValue& passed : detail.arguments) {
      uint64_t value = 0;
      std::memcpy(&value, w.local(lane, base + passed.offset),
                  std::min<uint64_t>(passed.bytes, sizeof(value)));
      arguments.push_back(value);
    }
    const uint64_t result = detail.run(w, i, lane, arguments);
    if (!detail.results.empty()) {
      std::memcpy(w.local(lane, base + detail.results[0].offset), &result,
                  std::min<uint64_t>(detail.results[0].bytes, sizeof(result)));
    }
  }
  return Step::kNext;
}

Step return_from(Warp& w, const Insn& /*i*/) { return w.return_from_call(); }
Step exit_thread(Warp& w, const Insn& /*i*/) { return w.exit_lanes(); }

Step trap(Warp& w, const Insn& i) { w.fail(FaultKind::kTrap, i, w.mask, "trap"); }
Step breakpoint(Warp& w, const Insn& i) {
  w.fail(FaultKind::kTrap, i, w.mask, "a breakpoint without a debugger");
}

Step sleep(Warp& /*w*/, const Insn& /*i*/) { return Step::kYield; }
Step do_nothing(Warp& /*w*/, const Insn& /*i*/) { return Step::kNext; }

// .param variables in a list of arguments or results.
std::vector<PassedValue> passed_values(InsnDecoder& d, const Operand& list) {
  std::vector<PassedValue> result;
  for (const Operand& part : list.parts) {
    const AddressOperand at = d.address(part);
    if (!at.frame_relative) d.fail("what a call passes must be a .param variable");
    const Variable* variable = d.function().find_variable(part.name);
    result.push_back({static_cast<uint64_t>(at.offset), static_cast<uint64_t>(variable->bytes())});
  }
  return result;
}

// PTX ISA, "alloca": the default alignment, and the largest.
constexpr int64_t kStackAlignment = 8;
constexpr int64_t kLargestStackAlignment = int64_t{1} << 23;

// Grows the stack by a number of bytes; the address is in the thread's local window.
template <class T>
Step grow_stack(Warp& w, const Insn& i) {
  const auto alignment = static_cast<uint64_t>(i.imm);
  const T* bytes = w.source<T>(i.a);
  T* to = w.target<T>(i.dst);
  for_each_lane(w.mask, [&](int lane) {
    uint64_t& top = w.split->frame->local_top[static_cast<size_t>(lane)];
    const uint64_t at = (top + alignment - 1) / alignment * alignment;
    if (at > w.local_stride || bytes[lane] > w.local_stride - at) {
      w.fail(FaultKind::kIllegalAddress, i, 1u << lane,
             internal::str_cat("alloca: ", bytes[lane], " bytes at ", at,
                               " do not fit the stack of ", w.local_stride, " bytes"));
    }
    top = at + bytes[lane];
    to[lane] = static_cast<T>(at);
  });
  return Step::kNext;
}

template <class T>
Step save_stack(Warp& w, const Insn& i) {
  T* to = w.target<T>(i.dst);
  for_each_lane(w.mask, [&](int lane) {
    to[lane] = static_cast<T>(w.split->frame->local_top[static_cast<size_t>(lane)]);
  });
  return Step::kNext;
}

template <class T>
Step restore_stack(Warp& w, const Insn& i) {
  const T* from = w.source<T>(i.a);
  Frame& frame = *w.split->frame;
  const uint64_t lowest = frame.local_base + frame.code->local_bytes;
  for_each_lane(w.mask, [&](int lane) {
    uint64_t& top = frame.local_top[static_cast<size_t>(lane)];
    if (from[lane] < lowest || from[lane] > top) {
      w.fail(FaultKind::kIllegalAddress, i, 1u << lane,
             internal::str_cat("stackrestore of ", from[lane], "; stacksave in this call gives ",
                               lowest, " to ", top));
    }
    top = from[lane];
  });
  return Step::kNext;
}

// .u32 or .u64, in registers of that width.
bool takes_64_bits(InsnDecoder& d, size_t reg) {
  const ScalarType type = d.expect_type();
  if (type != ScalarType::kU32 && type != ScalarType::kU64) d.fail("the type must be .u32 or .u64");
  d.expect_no_more();
  if (d.register_bits(d.operand(reg), type) != bits_of(type)) {
    d.fail("the register's width is not the type's");
  }
  return type == ScalarType::kU64;
}

ScalarType stack_type(bool is_64) { return is_64 ? ScalarType::kU64 : ScalarType::kU32; }

}  // namespace

void decode_bra(InsnDecoder& d) {
  d.take("uni");
  d.expect_no_more();
  const Operand& to = d.operand(0);
  if (to.kind != OperandKind::kLabel) d.fail("the target must be a label");
  d.emit(&branch).splits = true;
  d.function().branch_to(to.index);
}

void decode_brx(InsnDecoder& d) {
  d.take("idx");
  d.take("uni");
  d.expect_no_more();
  const Operand& list = d.operand(1);
  if (list.kind != OperandKind::kTargets) d.fail("the targets must be a list of labels");
  const Slot index = d.source(0, ScalarType::kU32);
  Insn& insn = d.emit(&branch_indexed);
  insn.splits = true;
  insn.a = index;
  auto& detail = d.detail<TargetsDetail>(insn);
  detail.targets.resize(list.labels.size());
  for (size_t i = 0; i < list.labels.size(); ++i) {
    d.function().branch_to(list.labels[i], &detail.targets[i]);
  }
}

void decode_call(InsnDecoder& d) {
  d.take("uni");
  d.expect_no_more();
  size_t at = 0;
  std::vector<PassedValue> results;
  if (d.operand(at).kind == OperandKind::kList) results = passed_values(d, d.operand(at++));
  const Operand& callee = d.operand(at++);
  std::vector<PassedValue> arguments;
  if (at < d.count() && d.operand(at).kind == OperandKind::kList) {
    arguments = passed_values(d, d.operand(at));
  }
  const auto fill = [&](CallDetail& detail) {
    detail.arguments = std::move(arguments);
    detail.results = std::move(results);
  };
  if (callee.kind == OperandKind::kRegister) {
    const Slot address = d.source(callee, ScalarType::kU64);
    Insn& insn = d.emit(&call_indirect);
    insn.splits = true;
    insn.a = address;
    return fill(d.detail<CallDetail>(insn));
  }
  if (callee.kind != OperandKind::kFunction) d.fail("a call of something that is no function");
  const uint32_t index = d.function().function_index(callee.name);
  if (!d.function().kernel().functions[index]->function->is_defined) {
    const DeviceFunction run = find_device_function(callee.name);
    if (run == nullptr) d.fail("the function " + callee.name + " is declared but not defined");
    Insn& insn = d.emit(&call_device_function);
    auto& detail = d.detail<DeviceCallDetail>(insn);
    detail.run = run;
    return fill(detail);
  }
  Insn& insn = d.emit(&call_direct);
  insn.splits = true;
  auto& detail = d.detail<CallDetail>(insn);
  detail.function = index;
  fill(detail);
}

void decode_ret(InsnDecoder& d) {
  d.take("uni");
  d.expect_no_more();
  d.emit(&return_from).splits = true;
}

void decode_exit(InsnDecoder& d) {
  d.expect_no_more();
  d.emit(&exit_thread).splits = true;
}

void decode_trap(InsnDecoder& d) {
  d.expect_no_more();
  d.emit(&trap);
}

void decode_brkpt(InsnDecoder& d) {
  d.expect_no_more();
  d.emit(&breakpoint);
}

void decode_nanosleep(InsnDecoder& d) {
  const bool is_right = d.expect_type() == ScalarType::kU32;
  d.expect_no_more();
  if (!is_right) d.fail("the type must be .u32");
  d.source(0, ScalarType::kU32);
  d.emit(&sleep).splits = true;
}

void decode_pmevent(InsnDecoder& d) {
  d.take("mask");
  d.expect_no_more();
  d.immediate(0);
  d.emit(&do_nothing);
}

void decode_alloca(InsnDecoder& d) {
  const bool is_64 = takes_64_bits(d, 0);
  const int64_t alignment = d.count() > 2 ? d.immediate(2) : kStackAlignment;
  const bool is_power = alignment > 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power || alignment > kLargestStackAlignment) {
    d.fail(internal::str_cat("the alignment is ", alignment,
                             "; it must be a power of two, at most 2^23"));
  }
  d.function().code().grows_stack = true;
  const Slot bytes = d.source(1, stack_type(is_64));
  const Slot to = d.target(0, stack_type(is_64));
  Insn& insn = d.emit(is_64 ? &grow_stack<uint64_t> : &grow_stack<uint32_t>);
  insn.dst = to;
  insn.a = bytes;
  insn.imm = alignment;
}

void decode_stacksave(InsnDecoder& d) {
  const bool is_64 = takes_64_bits(d, 0);
  const Slot to = d.target(0, stack_type(is_64));
  d.emit(is_64 ? &save_stack<uint64_t> : &save_stack<uint32_t>).dst = to;
}

void decode_stackrestore(InsnDecoder& d) {
  const bool is_64 = takes_64_bits(d, 0);
  const Slot from = d.source(0, stack_type(is_64));
  d.emit(is_64 ? &restore_stack<uint64_t> : &restore_stack<uint32_t>).a = from;
}

}  // namespace mpfa::sim
