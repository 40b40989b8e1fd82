#include "sim/machine/device_functions.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kMaxString = 1 << 16;

std::string read_text(Warp& w, const Insn& i, int lane, uint64_t address) {
  std::string text;
  if (address == 0) return "(null)";
  while (text.size() < kMaxString) {
    const std::byte* at = resolve_range(w, i, lane, MemorySpace::kGeneric, AccessKind::kRead,
                                        address + text.size(), 1, 1);
    const char c = static_cast<char>(*at);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

// Who calls, for what is wrong with the arguments.
struct Caller {
  Warp& warp;
  const Insn& insn;
  int lane;
};

// The arguments of a printf, one behind the other at `address`, each at its own alignment (4 bytes
// for int and smaller, 8 for the others), as device code passes them.
class Arguments {
 public:
  Arguments(const Caller& caller, uint64_t address) : caller_(caller), address_(address) {}

  template <class T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    if (address_ == 0) {
      caller_.warp.fail(FaultKind::kIllegalAddress, caller_.insn, 1u << caller_.lane,
                        "printf: the format has conversions, but there are no arguments");
    }
    const std::byte* from =
        resolve_range(caller_.warp, caller_.insn, caller_.lane, MemorySpace::kGeneric,
                      AccessKind::kRead, address_ + at_, sizeof(T), 1);
    T value;
    std::memcpy(&value, from, sizeof(T));
    at_ += sizeof(T);
    ++count_;
    return value;
  }
  uint32_t count() const { return count_; }

 private:
  const Caller& caller_;
  uint64_t address_;  // 0: there are none
  size_t at_ = 0;
  uint32_t count_ = 0;
};

template <class T>
std::string print_one(const std::string& specification, T value) {
  const int length = std::snprintf(nullptr, 0, specification.c_str(), value);
  if (length < 0) return specification;
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), specification.c_str(), value);
  text.pop_back();
  return text;
}

// "%-*.3ld" from its percent sign to its letter, stars replaced; the letter is last.
std::string take_specification(const std::string& format, size_t& at, Arguments& arguments) {
  std::string result = "%";
  for (++at; at < format.size(); ++at) {
    const char c = format[at];
    if (c == '*') {
      result += std::to_string(arguments.next<int32_t>());
      continue;
    }
    result += c;
    if (std::string_view("diouxXcsfFeEgGaApn%").find(c) != std::string_view::npos) break;
  }
  ++at;
  return result;
}

constexpr const char* kLengths = "hlLjzt";
constexpr const char* kFlagsAndLengths = "-+ #0123456789.hlLjzt";

std::string without_lengths(std::string specification) {
  std::erase_if(specification, [](char c) { return std::strchr(kLengths, c) != nullptr; });
  return specification;
}

// %hd and %hhd narrow as the host's printf does.
std::string print_integer(const std::string& specification, Arguments& arguments) {
  const char letter = specification.back();
  if (letter == 'c') return print_one(without_lengths(specification), arguments.next<int32_t>());
  const bool is_long = specification.find_first_of("lLjzt") != std::string::npos;
  if (!is_long) return print_one(specification, arguments.next<int32_t>());
  std::string wide = without_lengths(specification);
  wide.insert(wide.size() - 1, "j");
  return print_one(wide, intmax_t{arguments.next<int64_t>()});
}

std::string print_conversion(const Caller& caller, const std::string& specification,
                             Arguments& arguments) {
  const bool is_known =
      specification.size() > 1 &&
      specification.find_first_not_of(kFlagsAndLengths, 1) == specification.size() - 1;
  if (!is_known) return specification;
  switch (specification.back()) {
    case '%':
      return specification == "%%" ? "%" : specification;
    case 's': {
      const auto address = arguments.next<uint64_t>();
      return print_one(without_lengths(specification),
                       read_text(caller.warp, caller.insn, caller.lane, address).c_str());
    }
    case 'p':
      return print_one("0x%jx", uintmax_t{arguments.next<uint64_t>()});
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return print_one(without_lengths(specification), arguments.next<double>());
    case 'n':
      arguments.next<uint64_t>();
      return "";
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X':
    case 'c':
      return print_integer(specification, arguments);
    default:
      return specification;  // the format ends within it
  }
}

// CUDA C++ Programming Guide, "Formatted Output": printf() "returns the number of arguments
// parsed", 0 if there are none, -1 if the format string is NULL.
uint64_t device_printf(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  constexpr uint64_t kNoFormat = UINT64_MAX;
  w.block->cluster->await_turn();
  if (arguments.at(0) == 0) return kNoFormat;
  const Caller caller = {w, i, lane};
  const std::string format = read_text(w, i, lane, arguments.at(0));
  Arguments values(caller, arguments.size() > 1 ? arguments[1] : 0);
  std::string text;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const std::string specification = take_specification(format, at, values);
    text += print_conversion(caller, specification, values);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return values.count();
}

// __assertfail(message, file, line, function, char size)
uint64_t assert_fail(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  const std::string message = read_text(w, i, lane, arguments.at(0));
  const std::string file = read_text(w, i, lane, arguments.at(1));
  const std::string function = read_text(w, i, lane, arguments.at(3));
  const Dim3 block = w.block->position;
  const std::string text = internal::str_cat(
      file, ":", static_cast<uint32_t>(arguments.at(2)), ": ", function, ": block: [", block.x, ",",
      block.y, ",", block.z, "], thread: [", w.tid_x[lane], ",", w.tid_y[lane], ",", w.tid_z[lane],
      "] Assertion `", message, "` failed.");
  std::fprintf(stderr, "%s\n", text.c_str());
  w.fail(FaultKind::kAssert, i, 1u << lane, text);
}

uint64_t device_malloc(Warp& w, const Insn& /*i*/, int /*lane*/,
                       const std::vector<uint64_t>& arguments) {
  w.block->cluster->await_turn();
  return w.block->grid->memory->allocate(arguments.at(0), MemoryKind::kHeap);
}

// The arguments are the bytes and their alignment, a power of two.
uint64_t device_aligned_malloc(Warp& w, const Insn& /*i*/, int /*lane*/,
                               const std::vector<uint64_t>& arguments) {
  w.block->cluster->await_turn();
  return w.block->grid->memory->allocate(arguments.at(0), MemoryKind::kHeap, arguments.at(1));
}

uint64_t device_free(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  const uint64_t address = arguments.at(0);
  if (address == 0) return 0;
  w.block->cluster->await_turn();
  GlobalMemory& memory = *w.block->grid->memory;
  const std::optional<Allocation> found = memory.find(address);
  if (!found || found->address != address || found->kind != MemoryKind::kHeap) {
    w.fail(FaultKind::kIllegalAddress, i, 1u << lane,
           "free of what a kernel's malloc did not give");
  }
  memory.release(address);
  return 0;
}

// A conditional's handle is the address of its value.
uint64_t set_conditional(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  std::byte* at = resolve_range(w, i, lane, MemorySpace::kGlobal, AccessKind::kWrite, arguments[0],
                                sizeof(uint32_t), sizeof(uint32_t));
  w.block->cluster->await_turn();
  const auto value = static_cast<uint32_t>(arguments[1]);
  std::memcpy(at, &value, sizeof value);
  return 0;
}

}  // namespace

DeviceFunction find_device_function(std::string_view name) {
  struct Row {
    std::string_view name;
    DeviceFunction run;
  };
  static constexpr std::array kRows = {
      Row{"vprintf", &device_printf}, Row{"__assertfail", &assert_fail},
      Row{"malloc", &device_malloc},  Row{"__cuda_syscall_aligned_malloc", &device_aligned_malloc},
      Row{"free", &device_free},      Row{"cudaGraphSetConditional", &set_conditional}};
  const auto found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
  return found == kRows.end() ? nullptr : found->run;
}

}  // namespace mpfa::sim
