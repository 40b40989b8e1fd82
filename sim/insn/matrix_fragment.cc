#include "sim/insn/matrix_fragment.h"

#include <cstring>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

constexpr int kTile = 8;
constexpr int kNibbles = 8;  // elements of 4 bits in a register

// One lane's register, as elements in containers of T.
template <class T, class Register, int kElements>
void unpack(Register value, T* out) {
  static_assert(sizeof(T) * kElements == sizeof(Register));
  std::memcpy(out, &value, sizeof(Register));
}

void unpack_nibbles(uint32_t value, uint8_t* out) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<uint8_t>(value >> (4 * i) & 0xFu);
}

// Rows (of A, or columns of B) `groups` * 8; register r has group r mod groups.
template <class T, class Register, int kElements>
void gather(RegisterFile registers, const std::vector<Slot>& slots, int groups, T* out,
            int64_t stride) {
  for (size_t r = 0; r < slots.size(); ++r) {
    const auto* from = reinterpret_cast<const Register*>(registers + slots[r]);
    const auto index = static_cast<int>(r);
    const int first_row = kTile * (index % groups);
    const int first_k = 4 * kElements * (index / groups);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      T* to = out + int64_t{first_row + lane / 4} * stride + first_k + kElements * (lane % 4);
      if constexpr (kElements == kNibbles) {
        unpack_nibbles(from[lane], to);
      } else {
        unpack<T, Register, kElements>(from[lane], to);
      }
    }
  }
}

void gather_any(RegisterFile registers, const std::vector<Slot>& slots, ElementType type,
                int groups, void* out, int64_t stride) {
  if (is_nibble(type)) {
    return gather<uint8_t, uint32_t, kNibbles>(registers, slots, groups, static_cast<uint8_t*>(out),
                                               stride);
  }
  switch (container_bytes(type)) {
    case 1:
      return gather<uint8_t, uint32_t, 4>(registers, slots, groups, static_cast<uint8_t*>(out),
                                          stride);
    case 2:
      return gather<uint16_t, uint32_t, 2>(registers, slots, groups, static_cast<uint16_t*>(out),
                                           stride);
    case 4:
      return gather<uint32_t, uint32_t, 1>(registers, slots, groups, static_cast<uint32_t*>(out),
                                           stride);
    default:
      return gather<uint64_t, uint64_t, 1>(registers, slots, groups, static_cast<uint64_t*>(out),
                                           stride);
  }
}

// Calls visit(register, first element in the matrix) for lanes' registers of C; kColumns of the
// matrix are in one register.
template <class Register, int kColumns, class Visit>
void for_each_accumulator(RegisterFile registers, const std::vector<Slot>& slots, int rows,
                          int64_t stride, Visit visit) {
  const int registers_of_row = 2 / kColumns;
  const int registers_of_tile = registers_of_row * (rows / kTile);
  for (size_t r = 0; r < slots.size(); ++r) {
    const auto index = static_cast<int>(r);
    const int in_tile = index % registers_of_tile;
    const int row = kTile * (in_tile / registers_of_row);
    const int column = kTile * (index / registers_of_tile) + in_tile % registers_of_row;
    auto* at = reinterpret_cast<Register*>(registers + slots[r]);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int64_t column_of_lane = column + int64_t{2} * (lane % 4);
      visit(at[lane], int64_t{row + lane / 4} * stride + column_of_lane);
    }
  }
}

template <class Register, int kColumns>
void gather_accumulators(RegisterFile registers, const std::vector<Slot>& slots, int rows,
                         std::byte* out, int64_t stride) {
  constexpr size_t kBytes = sizeof(Register) / kColumns;
  for_each_accumulator<Register, kColumns>(
      registers, slots, rows, stride, [&](Register& value, int64_t at) {
        std::memcpy(out + static_cast<size_t>(at) * kBytes, &value, sizeof(Register));
      });
}

template <class Register, int kColumns>
void scatter_accumulators(RegisterFile registers, const std::vector<Slot>& slots, int rows,
                          const std::byte* from, int64_t stride) {
  constexpr size_t kBytes = sizeof(Register) / kColumns;
  for_each_accumulator<Register, kColumns>(
      registers, slots, rows, stride, [&](Register& value, int64_t at) {
        std::memcpy(&value, from + static_cast<size_t>(at) * kBytes, sizeof(Register));
      });
}

}  // namespace

int elements_of_register(ElementType type) {
  if (is_nibble(type)) return 8;
  return type == ElementType::kF64 ? 1 : 4 / container_bytes(type);
}

void gather_a(RegisterFile registers, const std::vector<Slot>& slots, ElementType type, int rows,
              void* out, int64_t stride) {
  gather_any(registers, slots, type, rows / kTile, out, stride);
}

void gather_b(RegisterFile registers, const std::vector<Slot>& slots, ElementType type, void* out,
              int64_t stride) {
  gather_any(registers, slots, type, 1, out, stride);
}

void gather_c(RegisterFile registers, const std::vector<Slot>& slots, AccumulatorType type,
              int rows, void* out, int64_t stride) {
  auto* to = static_cast<std::byte*>(out);
  switch (type) {
    case AccumulatorType::kF16:
      return gather_accumulators<uint32_t, 2>(registers, slots, rows, to, stride);
    case AccumulatorType::kF64:
      return gather_accumulators<uint64_t, 1>(registers, slots, rows, to, stride);
    default:
      return gather_accumulators<uint32_t, 1>(registers, slots, rows, to, stride);
  }
}

void scatter_d(RegisterFile registers, const std::vector<Slot>& slots, AccumulatorType type,
               int rows, const void* from, int64_t stride) {
  const auto* values = static_cast<const std::byte*>(from);
  switch (type) {
    case AccumulatorType::kF16:
      return scatter_accumulators<uint32_t, 2>(registers, slots, rows, values, stride);
    case AccumulatorType::kF64:
      return scatter_accumulators<uint64_t, 1>(registers, slots, rows, values, stride);
    default:
      return scatter_accumulators<uint32_t, 1>(registers, slots, rows, values, stride);
  }
}

}  // namespace mpfa::sim
