#include "sim/machine/device_functions.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

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

// The next argument of a printf.
class Arguments {
 public:
  explicit Arguments(const std::byte* data) : data_(data) {}

  template <class T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, data_ + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  const std::byte* data_;
  size_t at_ = 0;
};

template <class T>
std::string print_one(const std::string& specification, T value) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), specification.c_str(), value);
  return text.data();
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

std::string print_integer(std::string specification, Arguments& arguments) {
  const bool is_long = specification.find_first_of("ljzt") != std::string::npos;
  const char letter = specification.back();
  specification.erase(std::remove_if(specification.begin(), specification.end(),
                                     [](char c) { return std::strchr("hljzt", c) != nullptr; }),
                      specification.end());
  specification.pop_back();
  if (is_long) return print_one(specification + "j" + letter, intmax_t{arguments.next<int64_t>()});
  return print_one(specification + letter, arguments.next<int32_t>());
}

uint64_t device_printf(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  w.block->cluster->await_turn();
  const std::string format = read_text(w, i, lane, arguments.at(0));
  const uint64_t values = arguments.size() > 1 ? arguments[1] : 0;
  const std::byte* data = values == 0 ? nullptr
                                      : resolve_range(w, i, lane, MemorySpace::kGeneric,
                                                      AccessKind::kRead, values, 1, 1);
  const std::string text = format_text(w, i, lane, format, data, &read_text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return text.size();
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
  return w.block->grid->memory->allocate(arguments.at(0), MemoryKind::kDevice);
}

uint64_t device_free(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  const uint64_t address = arguments.at(0);
  if (address != 0 && !w.block->grid->memory->release(address)) {
    w.fail(FaultKind::kIllegalAddress, i, 1u << lane, "free of what malloc did not give");
  }
  return 0;
}

// A conditional's handle is the address of its value.
uint64_t set_conditional(Warp& w, const Insn& i, int lane, const std::vector<uint64_t>& arguments) {
  std::byte* at = resolve_range(w, i, lane, MemorySpace::kGlobal, AccessKind::kWrite, arguments[0],
                                sizeof(uint32_t), sizeof(uint32_t));
  const auto value = static_cast<uint32_t>(arguments[1]);
  std::memcpy(at, &value, sizeof value);
  return 0;
}

}  // namespace

std::string format_text(Warp& warp, const Insn& insn, int lane, const std::string& format,
                        const std::byte* data, StringReader read_string) {
  std::string text;
  Arguments arguments(data);
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const std::string specification = take_specification(format, at, arguments);
    switch (specification.back()) {
      case '%':
        text += specification == "%%" ? "%" : specification;
        break;
      case 's':
        text += print_one(specification,
                          read_string(warp, insn, lane, arguments.next<uint64_t>()).c_str());
        break;
      case 'p':
        text += print_one("0x%jx", uintmax_t{arguments.next<uint64_t>()});
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        text += print_one(specification, arguments.next<double>());
        break;
      case 'n':
        arguments.next<uint64_t>();
        break;
      default:
        text += print_integer(specification, arguments);
    }
  }
  return text;
}

DeviceFunction find_device_function(std::string_view name) {
  struct Row {
    std::string_view name;
    DeviceFunction run;
  };
  static constexpr std::array kRows = {Row{"vprintf", &device_printf},
                                       Row{"__assertfail", &assert_fail},
                                       Row{"malloc", &device_malloc}, Row{"free", &device_free},
                                       Row{"cudaGraphSetConditional", &set_conditional}};
  const auto found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
  return found == kRows.end() ? nullptr : found->run;
}

}  // namespace mpfa::sim
