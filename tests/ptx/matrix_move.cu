// ldmatrix, stmatrix, movmatrix (PTX ISA, section Warp Level Matrix Instructions).
#include "harness.h"

namespace mpfa::ptx_test {
namespace {

constexpr int kLanes = 32;
constexpr int kSets = 8;
constexpr size_t kWords = 1024;  // of a set's memory

// A warp a set: memory[kWords] comes and goes, rows[lane] is a lane's address in bytes, and every
// lane has 4 registers.
template <class Body>
__global__ void run_moves(Body body, uint32_t* memory, const uint32_t* rows, uint32_t* registers) {
  __shared__ alignas(16) uint32_t shared[kWords];
  const size_t lane = size_t{blockIdx.x} * kLanes + threadIdx.x;
  uint32_t* own_memory = memory + blockIdx.x * kWords;
  for (size_t i = threadIdx.x; i < kWords; i += kLanes) shared[i] = own_memory[i];
  __syncthreads();
  uint32_t own[4];
  for (int i = 0; i < 4; ++i) own[i] = registers[lane * 4 + i];
  body(own, static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + rows[lane]);
  __syncthreads();
  for (int i = 0; i < 4; ++i) registers[lane * 4 + i] = own[i];
  for (size_t i = threadIdx.x; i < kWords; i += kLanes) own_memory[i] = shared[i];
}

using Launch = std::function<void(uint32_t* memory, const uint32_t* rows, uint32_t* registers)>;

// Rows one after another, then anywhere (apart from one another, for what stores), then the same.
std::vector<uint32_t> make_rows(Random& random) {
  std::vector<uint32_t> rows;
  for (int set = 0; set < kSets; ++set) {
    std::vector<uint32_t> free;
    for (uint32_t i = 0; i < kWords / 4; ++i) free.push_back(i * 16);
    for (int lane = 0; lane < kLanes; ++lane) {
      const size_t pick = set < 2 ? 0 : random.below(free.size());
      rows.push_back(free[pick]);
      free.erase(free.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  return rows;
}

void run_move_form(Suite& suite, const std::string& name, const Launch& launch) {
  if (!suite.wants(name)) {
    return;
  }
  Random random(9);
  std::vector<uint32_t> memory(kSets * kWords);
  std::vector<uint32_t> registers(kSets * kLanes * 4);
  for (uint32_t& word : memory) word = static_cast<uint32_t>(random.bits());
  for (uint32_t& word : registers) word = static_cast<uint32_t>(random.bits());
  const DeviceArray<uint32_t> device_memory(memory), rows(make_rows(random)),
      device_registers(registers);
  launch(device_memory.data(), rows.data(), device_registers.data());
  if (!finished(suite, name)) {
    return;
  }
  Results results;
  results.name = name;
  results.group = 16;
  for (const uint32_t word : device_registers.values()) results.values.push_back(word);
  const size_t of_registers = results.values.size();
  for (const uint32_t word : device_memory.values()) results.values.push_back(word);
  results.inputs_of = [&](size_t i) {
    return i < of_registers
               ? "set " + std::to_string(i / kLanes / 4) + " lane " +
                     std::to_string(i / 4 % kLanes) + " register " + std::to_string(i % 4)
               : "set " + std::to_string((i - of_registers) / kWords) + " word " +
                     std::to_string((i - of_registers) % kWords) + " of memory";
  };
  suite.add(results);
}

template <class Body>
Launch launch_of(Body body) {
  return [body](uint32_t* memory, const uint32_t* rows, uint32_t* registers) {
    run_moves<<<kSets, kLanes>>>(body, memory, rows, registers);
  };
}

}  // namespace

#define REGISTERS(modifier) \
  modifier "r"(r[0]), modifier "r"(r[1]), modifier "r"(r[2]), modifier "r"(r[3])
#define LOAD(op, list)                                                                          \
  run_move_form(suite, op, launch_of([] __device__(uint32_t* r, uint32_t row) {                 \
                  asm volatile(op " {" list "}, [%4];" : REGISTERS("+") : "r"(row) : "memory"); \
                }));
#define STORE(op, list)                                                                         \
  run_move_form(suite, op, launch_of([] __device__(uint32_t* r, uint32_t row) {                 \
                  asm volatile(op " [%4], {" list "};" : REGISTERS("+") : "r"(row) : "memory"); \
                }));
#define MOVE(op)                                                            \
  run_move_form(suite, op, launch_of([] __device__(uint32_t* r, uint32_t) { \
                  asm volatile(op " %0, %1;" : "=r"(r[1]) : "r"(r[0]));     \
                }));

void moves(Suite& suite) {
  LOAD("ldmatrix.sync.aligned.m8n8.x1.shared.b16", "%0");
  LOAD("ldmatrix.sync.aligned.m8n8.x2.shared.b16", "%0, %1");
  LOAD("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "%0, %1, %2, %3");
  LOAD("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "%0");
  LOAD("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "%0, %1");
  LOAD("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "%0, %1, %2, %3");
  STORE("stmatrix.sync.aligned.m8n8.x1.shared.b16", "%0");
  STORE("stmatrix.sync.aligned.m8n8.x2.shared.b16", "%0, %1");
  STORE("stmatrix.sync.aligned.m8n8.x4.shared.b16", "%0, %1, %2, %3");
  STORE("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "%0");
  STORE("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "%0, %1");
  STORE("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "%0, %1, %2, %3");
  MOVE("movmatrix.sync.aligned.m8n8.trans.b16");
}

}  // namespace mpfa::ptx_test

int main(int argc, char** argv) {
  mpfa::ptx_test::Suite suite(argc, argv);
  mpfa::ptx_test::moves(suite);
  return suite.finish();
}
