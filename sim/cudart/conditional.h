// Values that kernels set (cudaGraphSetConditional) and by which a graph's conditional nodes run
// their bodies.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

namespace mpfa::sim::cudart {

class Graph;
struct ConditionalWork;

// A value in device memory, whose address is the handle. Lives as long as a graph that has it.
class Conditional {
 public:
  // `initial`: what every launch of its graph begins with; none: what the last one left.
  explicit Conditional(std::optional<unsigned> initial);
  ~Conditional();
  Conditional(const Conditional&) = delete;
  Conditional& operator=(const Conditional&) = delete;

  cudaGraphConditionalHandle handle() const { return address_; }
  unsigned value() const;
  void begin_launch();

 private:
  uint64_t address_ = 0;
  std::optional<unsigned> initial_;
};

// Throws ApiError if there is none of that handle.
std::shared_ptr<Conditional> find_conditional(cudaGraphConditionalHandle handle);

// A node of new, empty bodies, whose handles `params` gets.
ConditionalWork conditional_node(cudaConditionalNodeParams& params);

// Gives the values of a graph and of the graphs in it what a launch begins with.
void begin_conditionals(const Graph& graph);

void run_conditional(const ConditionalWork& work);

}  // namespace mpfa::sim::cudart
