#include "sim/machine/undefined_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include "mpfa/check.h"
#include "sim/machine/address.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/fault.h"
#include "sim/machine/shuffle.h"

namespace mpfa::sim {
namespace {

const Instruction& source_of(const Warp& warp, const Insn& insn) {
  return warp.split->frame->code->function->instructions[insn.source];
}

bool has(const Instruction& instruction, std::string_view modifier) {
  const auto& all = instruction.modifiers;
  return std::find(all.begin(), all.end(), modifier) != all.end();
}

// Calls `visit(register)` for every register of an operand, of an address too.
template <class Visit>
void for_each_register(const Operand& operand, Visit visit) {
  if (operand.kind == OperandKind::kRegister) visit(operand);
  for (const Operand& part : operand.parts) for_each_register(part, visit);
}

// A thread's bits of a predicate or a 32-bit operand.
uint32_t predicate_of(const Warp& warp, const Operand& operand) {
  const Slot slot = warp.split->frame->code->register_slots[static_cast<size_t>(operand.index)];
  const uint32_t bits = warp.predicate(slot);
  return operand.negated ? ~bits : bits;
}

uint32_t number_of(const Warp& warp, const Operand& operand, int lane) {
  if (operand.kind != OperandKind::kRegister) return static_cast<uint32_t>(operand.bits);
  const Slot slot = warp.split->frame->code->register_slots[static_cast<size_t>(operand.index)];
  return warp.source<uint32_t>(slot)[lane];
}

// The running warp's undefined values, where `insn` is about to run.
class Follower {
 public:
  Follower(Warp& warp, const Insn& insn)
      : warp_(warp),
        insn_(insn),
        source_(source_of(warp, insn)),
        values_(*warp.undefined),
        frame_(warp.split->frame) {}

  void run() {
    values_.is_storing = false;
    const std::vector<Operand>& operands = source_.operands;
    for (const Operand& operand : operands) {
      if (operand.kind == OperandKind::kAddress) refuse(operand, "as an address");
    }
    const std::string& opcode = source_.opcode;
    if (opcode == "call") return;
    if (opcode == "ret") return forget_frame();
    if (opcode == "st") return store();
    if (operands.empty()) return;
    if (!has_target()) {
      for (const Operand& operand : operands) refuse(operand, "");
      return;
    }
    const uint32_t lanes = opcode == "ld" || opcode == "ldmatrix" ? 0 : result();
    for_each_register(operands.front(), [&](const Operand& each) { set(each, lanes); });
  }

  uint32_t lanes_of(const Operand& operand) const {
    uint32_t lanes = 0;
    for_each_register(operand, [&](const Operand& each) {
      const auto found = values_.registers.find({frame_, each.index});
      if (found != values_.registers.end()) lanes |= found->second;
    });
    return lanes;
  }

  void set(const Operand& reg, uint32_t lanes) {
    const auto found = values_.registers.find({frame_, reg.index});
    if (found == values_.registers.end()) {
      if (lanes != 0) values_.registers[{frame_, reg.index}] = lanes;
      return;
    }
    found->second = (found->second & ~warp_.mask) | lanes;
    if (found->second == 0) values_.registers.erase(found);
  }

 private:
  // Operands are read and no register is written.
  bool has_target() const {
    const std::string& opcode = source_.opcode;
    if (opcode == "bar" || opcode == "barrier") return has(source_, "red");
    const OperandKind kind = source_.operands.front().kind;
    const bool is_register = kind == OperandKind::kRegister || kind == OperandKind::kVector ||
                             kind == OperandKind::kPair || kind == OperandKind::kSink;
    return is_register && opcode != "nanosleep" && opcode != "brx" && opcode != "setmaxnreg";
  }

  // Lanes of the result that become undefined.
  uint32_t result() const {
    const std::string& opcode = source_.opcode;
    const std::vector<Operand>& operands = source_.operands;
    if (opcode == "selp") return selected();
    const bool is_logic = opcode == "and" || opcode == "or";
    if (is_logic && has(source_, "pred")) return decided(opcode == "and");
    if (opcode == "setp" && operands.size() == 4) return compared();
    if (opcode == "shfl") return shuffled();
    uint32_t lanes = 0;
    for (size_t i = 1; i < operands.size(); ++i) {
      if (operands[i].kind != OperandKind::kAddress) lanes |= lanes_of(operands[i]);
    }
    lanes &= warp_.mask;
    if (opcode == "atom") refuse_lanes(lanes, "in global or shared memory");
    const bool crosses = opcode == "vote" || opcode == "match" || opcode == "redux" ||
                         opcode == "mma" || opcode == "wmma" || opcode == "movmatrix";
    return crosses && lanes != 0 ? warp_.mask : lanes;
  }

  uint32_t selected() const {
    const std::vector<Operand>& operands = source_.operands;
    const uint32_t takes_first = predicate_of(warp_, operands[3]);
    const uint32_t lanes = (lanes_of(operands[1]) & takes_first) |
                           (lanes_of(operands[2]) & ~takes_first) | lanes_of(operands[3]);
    return lanes & warp_.mask;
  }

  // false and x, true or x.
  uint32_t decided(bool is_and) const {
    const Operand& a = source_.operands[1];
    const Operand& b = source_.operands[2];
    const uint32_t undefined_a = lanes_of(a);
    const uint32_t undefined_b = lanes_of(b);
    const uint32_t by_a = ~undefined_a & deciding(a, is_and);
    const uint32_t by_b = ~undefined_b & deciding(b, is_and);
    return (undefined_a | undefined_b) & ~by_a & ~by_b & warp_.mask;
  }

  // Lanes whose value decides an and or an or.
  uint32_t deciding(const Operand& operand, bool is_and) const {
    if (operand.kind != OperandKind::kRegister) return 0;
    const uint32_t bits = predicate_of(warp_, operand);
    return is_and ? ~bits : bits;
  }

  // setp.lt.and p, a, b, c
  uint32_t compared() const {
    const std::vector<Operand>& operands = source_.operands;
    const uint32_t undefined_c = lanes_of(operands[3]);
    uint32_t lanes = lanes_of(operands[1]) | lanes_of(operands[2]) | undefined_c;
    if (has(source_, "and")) lanes &= undefined_c | ~deciding(operands[3], true);
    if (has(source_, "or")) lanes &= undefined_c | ~deciding(operands[3], false);
    return lanes & warp_.mask;
  }

  // PTX ISA, "shfl.sync": each lane's result is another's source.
  uint32_t shuffled() const {
    const std::vector<Operand>& operands = source_.operands;
    const uint32_t undefined = lanes_of(operands[1]);
    uint32_t lanes = lanes_of(operands[2]) | lanes_of(operands[3]);
    for_each_lane(warp_.mask,
                  [&](int lane) { lanes |= (undefined >> lane_read_by(lane) & 1) << lane; });
    return lanes & warp_.mask;
  }

  Shuffle shuffle_mode() const {
    if (has(source_, "up")) return Shuffle::kUp;
    if (has(source_, "down")) return Shuffle::kDown;
    return has(source_, "bfly") ? Shuffle::kButterfly : Shuffle::kIndex;
  }

  uint32_t lane_read_by(int lane) const {
    const std::vector<Operand>& operands = source_.operands;
    const ShuffleSource from =
        shuffle_source(shuffle_mode(), lane, number_of(warp_, operands[2], lane),
                       number_of(warp_, operands[3], lane));
    return static_cast<uint32_t>(from.lane) & 31;
  }

  void store() {
    const Operand& value = source_.operands[1];
    const bool is_global = has(source_, "global");
    if (is_global) return refuse(value, "in a store to global memory");
    if (has(source_, "local") || has(source_, "param")) return;
    refuse_lanes(lanes_of(value) & warp_.mask & generic_global(), "in a store to global memory");
    values_.storing.fill(0);
    const size_t count = value.kind == OperandKind::kVector ? value.parts.size() : 1;
    const size_t bytes = element_bytes();
    for (size_t i = 0; i < count; ++i) {
      const Operand& element = value.kind == OperandKind::kVector ? value.parts[i] : value;
      const uint32_t lanes = lanes_of(element) & warp_.mask;
      if (lanes == 0) continue;
      values_.is_storing = true;
      for (size_t at = i * bytes; at < (i + 1) * bytes; ++at) values_.storing[at] = lanes;
    }
  }

  // Lanes whose generic address is neither shared nor local; 0 for a store that names its space.
  uint32_t generic_global() const {
    constexpr std::array kShared = {"shared", "shared::cta", "shared::cluster"};
    const bool is_shared = std::any_of(kShared.begin(), kShared.end(),
                                       [&](const char* space) { return has(source_, space); });
    const Operand& address = source_.operands[0];
    const Operand& base = address.kind == OperandKind::kAddress ? address.parts.at(0) : address;
    const auto& registers = frame_->code->function->registers;
    if (is_shared || base.kind != OperandKind::kRegister) return 0;
    if (registers[static_cast<size_t>(base.index)].type.bits != 64) return 0;
    const Slot slot = frame_->code->register_slots[static_cast<size_t>(base.index)];
    uint32_t lanes = 0;
    for_each_lane(warp_.mask, [&](int lane) {
      const uint64_t at =
          warp_.source<uint64_t>(slot)[lane] + static_cast<uint64_t>(address.offset);
      if (!in_shared_window(at) && !in_local_window(at)) lanes |= 1u << lane;
    });
    return lanes;
  }

  // Of the type that the instruction ends with: .b8, .f64.
  size_t element_bytes() const { return element_bytes_of(source_); }

  void forget_frame() {
    for (auto each = values_.registers.begin(); each != values_.registers.end();) {
      if (each->first.first == frame_) each->second &= ~warp_.mask;
      each = each->second == 0 ? values_.registers.erase(each) : std::next(each);
    }
  }

  void refuse(const Operand& operand, const char* how) const {
    refuse_lanes(lanes_of(operand) & warp_.mask, how);
  }

  void refuse_lanes(uint32_t lanes, const char* how) const {
    if (lanes == 0) return;
    const uint32_t first = 1u << std::countr_zero(lanes);
    throw Fault(FaultKind::kCheck,
                internal::str_cat(values_.origin, "\n  it is used ", how, *how == '\0' ? "" : " ",
                                  warp_.where(insn_, first)));
  }

 public:
  static size_t element_bytes_of(const Instruction& source) {
    const std::string& type = source.modifiers.back();
    const size_t digit = type.find_first_of("0123456789");
    return digit == std::string::npos ? 4 : std::stoul(type.substr(digit)) / 8;
  }

 private:
  Warp& warp_;
  const Insn& insn_;
  const Instruction& source_;
  UndefinedValues& values_;
  const Frame* frame_;
};

// The registers of an ld that the bytes of lanes go to. One that is defined in part counts as
// defined: padding of structs is copied with them.
void load_elements(Follower& follower, const Instruction& source, const UndefinedBytes& bytes) {
  const Operand& target = source.operands.front();
  const bool is_vector = target.kind == OperandKind::kVector;
  const size_t size = Follower::element_bytes_of(source);
  for (size_t i = 0; i < (is_vector ? target.parts.size() : 1); ++i) {
    uint32_t lanes = ~0u;
    for (size_t at = i * size; at < (i + 1) * size && at < bytes.size(); ++at) lanes &= bytes[at];
    if (lanes == 0) continue;
    for_each_register(is_vector ? target.parts[i] : target, [&](const Operand& each) {
      follower.set(each, follower.lanes_of(each) | lanes);
    });
  }
}

// PTX ISA, "ldmatrix": lane 8 m + r names row r of matrix m, which goes to register m of lanes 4 r
// to 4 r + 3, and with .trans, of all lanes. All of it counts as undefined.
void load_matrices(Follower& follower, const Instruction& source, const UndefinedBytes& bytes) {
  uint32_t rows = 0;
  for (const uint32_t lanes : bytes) rows |= lanes;
  const bool is_transposed = has(source, "trans");
  const Operand& target = source.operands.front();
  const bool is_vector = target.kind == OperandKind::kVector;
  for (size_t m = 0; m < (is_vector ? target.parts.size() : 1); ++m) {
    const uint32_t of_matrix = rows >> (8 * m) & 0xFF;
    uint32_t lanes = 0;
    for (int r = 0; r < 8; ++r) {
      if ((of_matrix >> r & 1) != 0) lanes |= is_transposed ? kAllLanes : 0xFu << (4 * r);
    }
    if (lanes == 0) continue;
    for_each_register(is_vector ? target.parts[m] : target,
                      [&](const Operand& each) { follower.set(each, lanes); });
  }
}

}  // namespace

bool reads_to_registers(const Warp& warp, const Insn& insn) {
  const Instruction& source = source_of(warp, insn);
  // Other shapes than 8 x 8 of 16 bits spread rows otherwise.
  return source.opcode == "ld" ||
         (source.opcode == "ldmatrix" && has(source, "m8n8") && has(source, "b16"));
}

void load_undefined(Warp& warp, const Insn& insn, const UndefinedBytes& bytes,
                    const std::string& origin) {
  if (warp.undefined == nullptr) warp.undefined = std::make_shared<UndefinedValues>();
  if (warp.undefined->registers.empty()) warp.undefined->origin = origin;
  const Instruction& source = source_of(warp, insn);
  Follower follower(warp, insn);
  if (source.opcode == "ld") {
    load_elements(follower, source, bytes);
  } else {
    load_matrices(follower, source, bytes);
  }
}

void follow_undefined(Warp& warp, const Insn& insn) {
  const std::vector<Insn>& code = warp.split->frame->code->insns;
  const auto next = static_cast<size_t>(&insn - code.data()) + 1;
  // The last instruction that stands for the PTX one does what it says.
  if (next < code.size() && code[next].source == insn.source) return;
  Follower(warp, insn).run();
  if (warp.undefined->registers.empty() && !warp.undefined->is_storing) warp.undefined.reset();
}

void check_undefined_guard(const Warp& warp, const Insn& insn) {
  const int64_t guard = source_of(warp, insn).guard;
  const auto found = warp.undefined->registers.find({warp.split->frame, guard});
  if (found == warp.undefined->registers.end()) return;
  const uint32_t lanes = found->second & warp.mask;
  if (lanes == 0) return;
  throw Fault(FaultKind::kCheck,
              internal::str_cat(warp.undefined->origin, "\n  it decides whether this is done ",
                                warp.where(insn, 1u << std::countr_zero(lanes))));
}

void move_undefined(UndefinedValues& values, const Frame* from, const Frame* to) {
  for (auto each = values.registers.begin(); each != values.registers.end();) {
    if (each->first.first != from) {
      ++each;
      continue;
    }
    values.registers[{to, each->first.second}] |= each->second;
    each = values.registers.erase(each);
  }
}

}  // namespace mpfa::sim
