// SPDX-License-Identifier: Apache-2.0
// From a partition's description to XNNPACK's subgraph.
//
// The description's shapes are those that tensors have in memory: images with their channels last,
// as the compiler has arranged it (backends/xnnpack/axis_orders.py).
// Test: backends/xnnpack/test_lower.py, backends/test_fuzz.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../partition/graph_desc.h"
#include "../partition/node_checks.h"
#include "xnnpack_api.h"

namespace tvm::collage::xnnpack {

using partition::Dims;
using partition::GraphDesc;
using partition::NodeDesc;

// As the library takes them.
inline std::vector<size_t> Sizes(const Dims& dims) { return {dims.begin(), dims.end()}; }

struct SubgraphDeleter {
  void operator()(Subgraph* subgraph) const { GetApi().delete_subgraph(subgraph); }
};

// A subgraph, with the weights that it reads as long as it or a runtime of it lives.
struct Model {
  std::vector<std::shared_ptr<void>> weights;
  std::unique_ptr<Subgraph, SubgraphDeleter> subgraph;
};

// Adds nodes to a subgraph. Values of inputs are numbered first, then those of outputs.
class Builder {
 public:
  Builder(const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants);
  Model Run();

  // For the functions that add a kind of node.

  const Dims& shape(int tensor) const { return graph_.shapes[tensor]; }
  Subgraph* subgraph() const { return model_.subgraph.get(); }
  uint32_t Input(int tensor) { return Value(tensor); }
  uint32_t Output(const NodeDesc& node) { return Value(node.output); }
  // A constant with its axes in another order: `order[i]` is the axis that becomes axis i. An
  // error where the tensor is no constant.
  uint32_t Weights(int tensor, const std::vector<int>& order, const Dims& seen_as);
  // So many floats of one value.
  uint32_t Filled(int64_t count, float value);
  // An intermediate tensor of that shape.
  uint32_t NewValue(const Dims& dims) { return Define(dims, nullptr, kNoValue, 0); }

 private:
  uint32_t Value(int tensor);
  uint32_t Define(const Dims& dims, const void* data, uint32_t external_id, uint32_t flags);
  // Memory of so many floats with some more behind, which lives as long as the model.
  float* NewWeights(int64_t count);

  const GraphDesc& graph_;
  std::vector<std::shared_ptr<void>> constants_;
  std::vector<int> constant_of_;  // by tensor; -1 for none
  std::vector<uint32_t> values_;  // by tensor; kNoValue for one that has none yet
  Model model_;
};

// A kind of node: what must hold of its description, and what adds it.
struct NodeKind {
  void (*check)(const partition::NodeChecks& checks);
  void (*define)(Builder* builder, const NodeDesc& node);
  // How names of the operators begin that the library may make of it.
  std::vector<std::string> operators;
  bool is_product = false;
};

// The kind of that name; a ValueError that names it where there is none.
const NodeKind& GetNodeKind(const std::string& name);

// Throws a ValueError unless all that building relies on holds.
void CheckGraph(const GraphDesc& graph);

// Whether so many bytes may be read from there, with those behind that XNNPACK reads.
bool CanReadBehind(const void* data, size_t bytes);

}  // namespace tvm::collage::xnnpack
