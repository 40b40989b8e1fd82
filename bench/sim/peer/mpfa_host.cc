// Runs kernels.ptx in this project's simulator, on one host thread: checks off, then on.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include "problem.h"
#include "sim/machine/gpu.h"

namespace {

using mpfa::sim::Gpu;

template <class T>
uint64_t upload(Gpu& gpu, const std::vector<T>& values) {
  const uint64_t address =
      gpu.memory().allocate(values.size() * sizeof(T), mpfa::sim::MemoryKind::kDevice);
  std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
  return address;
}

template <class T>
std::vector<T> download(uint64_t address, size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
  return values;
}

// Seconds of the best of some runs.
double run(Gpu& gpu, const mpfa::sim::Program& program, const char* kernel, mpfa::sim::Dim3 grid,
           mpfa::sim::Dim3 block, const std::vector<uint64_t>& params, uint32_t last) {
  mpfa::sim::Launch launch;
  launch.program = &program;
  launch.kernel = program.find_kernel(kernel);
  launch.grid = grid;
  launch.block = block;
  launch.cluster = {1, 1, 1};
  launch.params.resize(params.size() * sizeof(uint64_t) + sizeof(last));
  std::memcpy(launch.params.data(), params.data(), params.size() * sizeof(uint64_t));
  std::memcpy(launch.params.data() + params.size() * sizeof(uint64_t), &last, sizeof(last));
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    gpu.run(launch);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void run_all(const std::string& ptx, bool checked) {
  const char* name = checked ? "checked" : "unchecked";
  mpfa::sim::GpuOptions options;
  options.threads = 1;
  if (!checked) options.checks = mpfa::sim::Checks::none();
  Gpu gpu(options);
  const auto program = gpu.load(ptx);

  const std::vector<uint32_t> zeros(size_t{peer::kArithmeticBlocks} * peer::kArithmeticThreads);
  const uint64_t out = upload(gpu, zeros);
  double seconds = run(gpu, *program, "arithmetic", {peer::kArithmeticBlocks, 1, 1},
                       {peer::kArithmeticThreads, 1, 1}, {out}, peer::kTurns);
  peer::report(name, "arithmetic", peer::is_right(download<uint32_t>(out, zeros.size())),
               peer::kArithmeticInsns, seconds);

  const std::vector<float> a = peer::matrix(1);
  const std::vector<float> b = peer::matrix(2);
  const uint64_t c = upload(gpu, a);
  const uint32_t tiles = peer::kSize / peer::kTile;
  seconds = run(gpu, *program, "product", {tiles, tiles, 1}, {peer::kTile, peer::kTile, 1},
                {upload(gpu, a), upload(gpu, b), c}, peer::kSize);
  peer::report(name, "product", peer::is_right(a, b, download<float>(c, a.size())),
               peer::kProductInsns, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s kernels.ptx\n", argv[0]);
    return 2;
  }
  std::stringstream ptx;
  ptx << std::ifstream(argv[1]).rdbuf();
  run_all(ptx.str(), false);
  run_all(ptx.str(), true);
}
