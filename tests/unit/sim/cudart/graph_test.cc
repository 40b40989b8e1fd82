#include <cuda_runtime_api.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

class GraphTest : public CudartTest {
 protected:
  GraphTest() { EXPECT_CUDA(cudaGraphCreate(&graph_, 0), cudaSuccess); }
  ~GraphTest() override {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }

  cudaGraphNode_t add_empty(const std::vector<cudaGraphNode_t>& dependencies = {}) {
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddEmptyNode(&node, graph_, dependencies.data(), dependencies.size()),
                cudaSuccess);
    return node;
  }

  // store_at(address) as a kernel's parameters, which point into this.
  cudaKernelNodeParams store_params(int* address) {
    address_ = address;
    arguments_[0] = &address_;
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(store_at);
    params.gridDim = 1;
    params.blockDim = 1;
    params.kernelParams = arguments_;
    return params;
  }

  void instantiate() { ASSERT_CUDA(cudaGraphInstantiate(&exec_, graph_, 0)); }
  void launch() {
    ASSERT_CUDA(cudaGraphLaunch(exec_, nullptr));
    ASSERT_CUDA(cudaStreamSynchronize(nullptr));
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  int* address_ = nullptr;
  void* arguments_[1] = {};
};

TEST_F(GraphTest, NullsAndFlags) {
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaGraphCreate(&graph, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphDestroy(nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphInstantiate(&exec_, nullptr, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphLaunch(nullptr, nullptr), cudaErrorInvalidValue);
}

TEST_F(GraphTest, Edges) {
  cudaGraphNode_t a = add_empty();
  cudaGraphNode_t b = add_empty({a});
  EXPECT_CUDA(cudaGraphAddDependencies(graph_, &a, &b, nullptr, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphAddDependencies(graph_, &a, &a, nullptr, 1), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &b, &a, nullptr, 1));
  EXPECT_CUDA(cudaGraphInstantiate(&exec_, graph_, 0), cudaErrorInvalidValue);  // a circle
  exec_ = nullptr;
  ASSERT_CUDA(cudaGraphRemoveDependencies(graph_, &b, &a, nullptr, 1));
  EXPECT_CUDA(cudaGraphRemoveDependencies(graph_, &b, &a, nullptr, 1), cudaErrorInvalidValue);
  cudaGraphNode_t from = nullptr;
  cudaGraphNode_t to = nullptr;
  size_t count = 1;
  ASSERT_CUDA(cudaGraphGetEdges(graph_, &from, &to, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(from, a);
  EXPECT_EQ(to, b);
  cudaGraphNode_t dependent[2] = {};
  count = 2;
  ASSERT_CUDA(cudaGraphNodeGetDependentNodes(a, dependent, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(dependent[0], b);
  instantiate();
  launch();
}

TEST_F(GraphTest, ListsOfNodesAreFilledUpWithNulls) {
  cudaGraphNode_t a = add_empty();
  cudaGraphNode_t b = add_empty({a});
  cudaGraphNode_t c = add_empty();
  cudaGraphNode_t nodes[5] = {a, a, a, a, a};
  size_t count = 5;
  ASSERT_CUDA(cudaGraphGetNodes(graph_, nodes, &count));
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(nodes[3], nullptr);
  EXPECT_EQ(nodes[4], nullptr);
  count = 1;
  ASSERT_CUDA(cudaGraphGetNodes(graph_, nodes, &count));
  EXPECT_EQ(count, 1u);
  count = 5;
  ASSERT_CUDA(cudaGraphGetRootNodes(graph_, nodes, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ((std::set{nodes[0], nodes[1]}), (std::set{a, c}));  // in no promised order
  ASSERT_CUDA(cudaGraphDestroyNode(b));
  count = 5;
  ASSERT_CUDA(cudaGraphGetNodes(graph_, nodes, &count));
  EXPECT_EQ(count, 2u);
}

TEST_F(GraphTest, RunsInTheOrderOfItsEdges) {
  const DeviceArray<int> values(std::vector<int>{1, 2});
  std::vector<int> host(2);
  cudaMemsetParams fill{};
  fill.dst = values.data();
  fill.elementSize = 4;
  fill.value = 7;
  fill.width = 2;
  fill.height = 1;
  cudaGraphNode_t copy = nullptr;
  cudaGraphNode_t kernel = nullptr;
  cudaGraphNode_t memset = nullptr;
  // The nodes are made last first.
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph_, nullptr, 0, host.data(), values.data(), 8,
                                       cudaMemcpyDeviceToHost));
  const cudaKernelNodeParams store = store_params(values.data() + 1);
  ASSERT_CUDA(cudaGraphAddKernelNode(&kernel, graph_, nullptr, 0, &store));
  ASSERT_CUDA(cudaGraphAddMemsetNode(&memset, graph_, nullptr, 0, &fill));
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &memset, &kernel, nullptr, 1));
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &kernel, &copy, nullptr, 1));
  instantiate();
  launch();
  EXPECT_EQ(host, (std::vector{7, 3}));
}

TEST_F(GraphTest, ParametersOfKernelNodes) {
  const DeviceArray<int> values(std::vector<int>{0, 0, 0});
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams params = store_params(values.data());
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &params));
  instantiate();
  launch();
  EXPECT_EQ(values.values(), (std::vector{3, 0, 0}));
  params = store_params(values.data() + 1);
  ASSERT_CUDA(cudaGraphExecKernelNodeSetParams(exec_, node, &params));  // not the graph's node
  launch();
  EXPECT_EQ(values.values(), (std::vector{3, 3, 0}));
  cudaKernelNodeParams got{};
  ASSERT_CUDA(cudaGraphKernelNodeGetParams(node, &got));
  EXPECT_EQ(got.func, reinterpret_cast<void*>(store_at));
  EXPECT_EQ(*static_cast<int**>(got.kernelParams[0]), values.data());

  params.blockDim = 2000;
  EXPECT_CUDA(cudaGraphKernelNodeSetParams(node, &params), cudaErrorInvalidValue);
  params.blockDim = 64;
  params.func = &params;
  EXPECT_CUDA(cudaGraphKernelNodeSetParams(node, &params), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaGraphMemsetNodeSetParams(node, nullptr), cudaErrorInvalidValue);
}

TEST_F(GraphTest, UpdatesKeepTheTopology) {
  const DeviceArray<int> values(std::vector<int>{0, 0});
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams params = store_params(values.data());
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &params));
  instantiate();
  cudaGraphNode_t extra = add_empty();
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_CUDA(cudaGraphExecUpdate(exec_, graph_, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  ASSERT_CUDA(cudaGraphDestroyNode(extra));
  params = store_params(values.data() + 1);
  ASSERT_CUDA(cudaGraphKernelNodeSetParams(node, &params));
  ASSERT_CUDA(cudaGraphExecUpdate(exec_, graph_, &info));
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  launch();
  EXPECT_EQ(values.values(), (std::vector{0, 3}));
}

TEST_F(GraphTest, NodesCanBeDisabled) {
  const DeviceArray<int> values(std::vector<int>{0});
  cudaGraphNode_t node = nullptr;
  const cudaKernelNodeParams params = store_params(values.data());
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &params));
  cudaGraphNode_t empty = add_empty();
  instantiate();
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec_, node, 0));
  unsigned enabled = 1;
  ASSERT_CUDA(cudaGraphNodeGetEnabled(exec_, node, &enabled));
  EXPECT_EQ(enabled, 0u);
  EXPECT_CUDA(cudaGraphNodeSetEnabled(exec_, empty, 0), cudaErrorInvalidValue);
  launch();
  EXPECT_EQ(values.values()[0], 0);
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec_, node, 1));
  launch();
  EXPECT_EQ(values.values()[0], 3);
}

TEST_F(GraphTest, FillsAndCopiesAreChecked) {
  const DeviceArray<char> device(64);
  std::vector<char> host(128);
  cudaGraphNode_t node = nullptr;
  cudaMemsetParams fill{};
  fill.dst = device.data();
  fill.elementSize = 3;
  fill.width = 4;
  fill.height = 1;
  EXPECT_CUDA(cudaGraphAddMemsetNode(&node, graph_, nullptr, 0, &fill), cudaErrorInvalidValue);
  fill.elementSize = 4;
  fill.width = 17;
  EXPECT_CUDA(cudaGraphAddMemsetNode(&node, graph_, nullptr, 0, &fill), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, device.data(), host.data(), 65,
                                       cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
  fill.elementSize = 2;
  fill.value = 0x1234;
  ASSERT_CUDA(cudaGraphAddMemsetNode(&node, graph_, nullptr, 0, &fill));
  cudaMemsetParams got{};
  ASSERT_CUDA(cudaGraphMemsetNodeGetParams(node, &got));
  EXPECT_EQ(got.dst, fill.dst);
  EXPECT_EQ(got.elementSize, 2u);
  EXPECT_EQ(got.width, 17u);
  EXPECT_EQ(got.value, 0x1234u);
  instantiate();
  launch();
  EXPECT_EQ(device.values()[32], 0x34);
  EXPECT_EQ(device.values()[33], 0x12);
}

void append_1(void* order) { static_cast<std::vector<int>*>(order)->push_back(1); }
void append_2(void* order) { static_cast<std::vector<int>*>(order)->push_back(2); }

TEST_F(GraphTest, ChildGraphsAreCopies) {
  std::vector<int> order;
  cudaGraph_t child = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&child, 0));
  cudaGraphNode_t node = nullptr;
  cudaHostNodeParams params{append_1, &order};
  ASSERT_CUDA(cudaGraphAddHostNode(&node, child, nullptr, 0, &params));
  cudaGraphNode_t parent = nullptr;
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&parent, graph_, nullptr, 0, child));
  ASSERT_CUDA(cudaGraphDestroy(child));
  params.fn = append_2;
  ASSERT_CUDA(cudaGraphAddHostNode(&node, graph_, &parent, 1, &params));
  cudaGraph_t embedded = nullptr;
  ASSERT_CUDA(cudaGraphChildGraphNodeGetGraph(parent, &embedded));
  size_t count = 0;
  ASSERT_CUDA(cudaGraphGetNodes(embedded, nullptr, &count));
  EXPECT_EQ(count, 1u);
  instantiate();
  launch();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(GraphTest, ClonesFindTheirNodes) {
  cudaGraphNode_t a = add_empty();
  cudaGraphNode_t b = add_empty({a});
  cudaGraph_t clone = nullptr;
  ASSERT_CUDA(cudaGraphClone(&clone, graph_));
  cudaGraphNode_t a2 = nullptr;
  cudaGraphNode_t b2 = nullptr;
  ASSERT_CUDA(cudaGraphNodeFindInClone(&a2, a, clone));
  ASSERT_CUDA(cudaGraphNodeFindInClone(&b2, b, clone));
  EXPECT_NE(a2, a);
  cudaGraphNode_t before = nullptr;
  size_t count = 1;
  ASSERT_CUDA(cudaGraphNodeGetDependencies(b2, &before, nullptr, &count));
  EXPECT_EQ(before, a2);
  EXPECT_CUDA(cudaGraphDestroy(clone), cudaSuccess);
}

TEST_F(GraphTest, MemoryIsFreedBeforeTheNextLaunch) {
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  params.bytesize = 100;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params));
  ASSERT_NE(params.dptr, nullptr);
  instantiate();
  launch();
  EXPECT_CUDA(cudaMemset(params.dptr, 1, 100), cudaSuccess);
  EXPECT_CUDA(cudaGraphLaunch(exec_, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(params.dptr), cudaSuccess);
  launch();
  EXPECT_CUDA(cudaFreeAsync(params.dptr, nullptr), cudaSuccess);
  EXPECT_CUDA(cudaFreeAsync(params.dptr, nullptr), cudaErrorInvalidValue);
  cudaGraph_t clone = nullptr;
  EXPECT_CUDA(cudaGraphClone(&clone, graph_), cudaErrorNotSupported);
}

TEST_F(GraphTest, ClustersOfKernelNodes) {
  int* null = nullptr;
  void* arguments[] = {&null};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(cluster_size);
  params.gridDim = 6;
  params.blockDim = 1;
  params.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &params));
  cudaLaunchAttributeValue value{};
  value.clusterDim = {4, 1, 1};
  EXPECT_CUDA(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value),
              cudaErrorInvalidClusterSize);
  value.clusterDim = {2, 1, 1};
  EXPECT_CUDA(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value),
              cudaSuccess);
  value = {};
  EXPECT_CUDA(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeClusterDimension, &value),
              cudaSuccess);
  EXPECT_EQ(value.clusterDim.x, 2u);
  instantiate();
  launch();
}

void destroy_counted(void* count) { ++*static_cast<int*>(count); }

TEST_F(GraphTest, GraphsKeepUserObjects) {
  int destroyed = 0;
  cudaUserObject_t object = nullptr;
  ASSERT_CUDA(cudaUserObjectCreate(&object, &destroyed, destroy_counted, 1,
                                   cudaUserObjectNoDestructorSync));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  ASSERT_CUDA(cudaGraphInstantiate(&exec_, graph, 0));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  EXPECT_EQ(destroyed, 0);
  ASSERT_CUDA(cudaGraphExecDestroy(exec_));
  exec_ = nullptr;
  for (int i = 0; i < 1000 && destroyed == 0; ++i) cudaDeviceSynchronize();
  EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, MemoryOfGraphsIsCounted) {
  const auto number = [](cudaGraphMemAttributeType attribute) {
    uint64_t value = 0;
    EXPECT_CUDA(cudaDeviceGetGraphMemAttribute(0, attribute, &value), cudaSuccess);
    return value;
  };
  constexpr uint64_t kBytes = 64 << 20;  // which the real runtime rounds up to 32 MiB
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  params.bytesize = kBytes;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_GE(number(cudaGraphMemAttrUsedMemCurrent), kBytes);
  EXPECT_GE(number(cudaGraphMemAttrReservedMemCurrent), kBytes);
  ASSERT_CUDA(cudaFree(params.dptr));
  EXPECT_GE(number(cudaGraphMemAttrUsedMemHigh), kBytes);
  uint64_t zero = 0;
  EXPECT_CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero), cudaSuccess);
  // When the real runtime counts it as free is its own business.
  EXPECT_EQ(number(cudaGraphMemAttrUsedMemHigh), number(cudaGraphMemAttrUsedMemCurrent));
  EXPECT_CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero),
              cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_CUDA(cudaDeviceGraphMemTrim(0), cudaSuccess);
}

TEST_F(GraphTest, PrintsItself) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t first = nullptr;
  cudaGraphNode_t second = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
  ASSERT_CUDA(cudaGraphAddEmptyNode(&second, graph, &first, 1));
  const std::string path = testing::TempDir() + "mpfa_graph_test.dot";
  ASSERT_CUDA(cudaGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("digraph"), std::string::npos) << text;
  EXPECT_NE(text.find("->"), std::string::npos) << text;
  std::remove(path.c_str());
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace mpfa::sim
