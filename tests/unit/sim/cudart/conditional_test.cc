// Graph nodes whose bodies run if, while or by which number a kernel says.
#include <array>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

// A graph in which a kernel sets a conditional to *choice, and a node that it decides on.
class ConditionalTest : public CudartTest {
 protected:
  void build(cudaGraphConditionalNodeType type, unsigned bodies) {
    EXPECT_CUDA(cudaGraphCreate(&graph_, 0), cudaSuccess);
    EXPECT_CUDA(cudaGraphConditionalHandleCreate(&handle_, graph_, 0, cudaGraphCondAssignDefault),
                cudaSuccess);
    const int* choice = choice_.data();
    void* arguments[] = {&handle_, &choice};
    cudaGraphNode_t setter = add_kernel(graph_, set_conditional_to, arguments, {});
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle_;
    params.conditional.type = type;
    params.conditional.size = bodies;
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddNode(&node, graph_, &setter, nullptr, 1, &params), cudaSuccess);
    bodies_.assign(params.conditional.phGraph_out, params.conditional.phGraph_out + bodies);
    cudaGraphNodeType found{};
    EXPECT_CUDA(cudaGraphNodeGetType(node, &found), cudaSuccess);
    EXPECT_EQ(found, cudaGraphNodeTypeConditional);
  }
  ~ConditionalTest() override {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }

  template <typename... Params>
  static cudaGraphNode_t add_kernel(cudaGraph_t graph, void (*kernel)(Params...), void** arguments,
                                    std::vector<cudaGraphNode_t> after) {
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(kernel);
    params.gridDim = 1;
    params.blockDim = 1;
    params.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params),
                cudaSuccess);
    return node;
  }

  // Adds to `body` a fill of one byte of marks.
  void mark(cudaGraph_t body, size_t index) {
    cudaMemsetParams params{};
    params.dst = marks_.data() + index;
    params.elementSize = 1;
    params.width = 1;
    params.height = 1;
    params.value = 1;
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddMemsetNode(&node, body, nullptr, 0, &params), cudaSuccess);
  }

  // The marks that a launch with `choice` sets.
  std::vector<char> launch(int choice) {
    if (exec_ == nullptr) {
      EXPECT_CUDA(cudaGraphInstantiate(&exec_, graph_, 0), cudaSuccess);
    }
    EXPECT_CUDA(cudaMemset(marks_.data(), 0, 2), cudaSuccess);
    EXPECT_CUDA(cudaMemcpy(choice_.data(), &choice, sizeof choice, cudaMemcpyHostToDevice),
                cudaSuccess);
    EXPECT_CUDA(cudaGraphLaunch(exec_, nullptr), cudaSuccess);
    return marks_.values();
  }

  using Marks = std::vector<char>;

  DeviceArray<int> choice_{1};
  DeviceArray<char> marks_{2};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  cudaGraphConditionalHandle handle_ = 0;
  std::vector<cudaGraph_t> bodies_;
};

TEST_F(ConditionalTest, If) {
  build(cudaGraphCondTypeIf, 1);
  mark(bodies_[0], 0);
  EXPECT_EQ(launch(0), (Marks{0, 0}));
  EXPECT_EQ(launch(1), (Marks{1, 0}));
  EXPECT_EQ(launch(7), (Marks{1, 0}));
}

TEST_F(ConditionalTest, IfElse) {
  build(cudaGraphCondTypeIf, 2);
  mark(bodies_[0], 0);
  mark(bodies_[1], 1);
  EXPECT_EQ(launch(0), (Marks{0, 1}));
  EXPECT_EQ(launch(1), (Marks{1, 0}));
}

TEST_F(ConditionalTest, Switch) {
  build(cudaGraphCondTypeSwitch, 2);
  mark(bodies_[0], 0);
  mark(bodies_[1], 1);
  EXPECT_EQ(launch(0), (Marks{1, 0}));
  EXPECT_EQ(launch(1), (Marks{0, 1}));
  EXPECT_EQ(launch(2), (Marks{0, 0}));  // past the last: nothing
}

TEST_F(ConditionalTest, While) {
  build(cudaGraphCondTypeWhile, 1);
  const DeviceArray<int> counter(std::vector<int>{10});
  int* pointer = counter.data();
  int step = 3;
  void* arguments[] = {&pointer, &step, &handle_};
  add_kernel(bodies_[0], count_down, arguments, {});
  launch(0);
  EXPECT_EQ(counter.values()[0], 10);
  launch(1);
  EXPECT_EQ(counter.values()[0], -2);  // 7, 4, 1, -2
}

TEST_F(ConditionalTest, LaunchesBeginWithTheDefault) {
  ASSERT_CUDA(cudaGraphCreate(&graph_, 0));
  ASSERT_CUDA(cudaGraphConditionalHandleCreate(&handle_, graph_, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle_;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params));
  const DeviceArray<int> counter(std::vector<int>{5});
  int* pointer = counter.data();
  int step = 5;
  void* arguments[] = {&pointer, &step, &handle_};
  add_kernel(params.conditional.phGraph_out[0], count_down, arguments, {});
  launch(0);
  EXPECT_EQ(counter.values()[0], 0);
  launch(0);  // once more, although the last launch left 0
  EXPECT_EQ(counter.values()[0], -5);
}

TEST_F(ConditionalTest, WhatCannotBe) {
  ASSERT_CUDA(cudaGraphCreate(&graph_, 0));
  EXPECT_CUDA(cudaGraphConditionalHandleCreate(&handle_, nullptr, 0, 0), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaGraphConditionalHandleCreate(&handle_, graph_, 0, 0));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.handle = handle_;
  params.conditional.size = 2;
  cudaGraphNode_t node = nullptr;
  EXPECT_CUDA(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params), cudaErrorInvalidValue);
  params.conditional.size = 1;
  params.conditional.handle = 12345;
  EXPECT_CUDA(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mpfa::sim
