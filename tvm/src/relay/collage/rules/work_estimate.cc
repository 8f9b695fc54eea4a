// SPDX-License-Identifier: Apache-2.0
#include "work_estimate.h"

#include <algorithm>

namespace tvm::collage {
namespace {

double Product(const std::vector<int64_t>& dims) {
  double product = 1;
  for (int64_t dim : dims) product *= dim == TensorType::kDynamic ? 1 : static_cast<double>(dim);
  return product;
}

double Elements(const Node& node) {
  double sum = 0;
  for (const TensorType& type : node.types) sum += Product(type.shape);
  return sum;
}

/*! \brief Elements of `operand` that go into one of the output's. */
double Reduction(const std::vector<int64_t>& operand, std::vector<int64_t> output) {
  std::vector<int64_t> reduced;
  for (int64_t dim : operand) {
    auto same = std::find(output.begin(), output.end(), dim);
    if (same == output.end()) {
      reduced.push_back(dim);
    } else {
      output.erase(same);
    }
  }
  return Product(reduced);
}

}  // namespace

double WorkOf(const DataflowGraph& graph, NodeIndex index) {
  const Node& node = graph[index];
  if (!node.IsKernel()) return 0;
  const std::vector<NodeIndex> args = graph.Args(index);
  double work = Elements(node);
  for (NodeIndex arg : args) work += Elements(graph[arg]);
  if (node.kind != OpKind::kOutEWiseFusable || args.size() < 2) return work;
  const Node& operand = graph[args[1]];
  if (node.types.size() != 1 || operand.types.size() != 1) return work;
  const double reduction = Reduction(operand.types[0].shape, node.types[0].shape);
  return std::max(work, 2 * Elements(node) * reduction);
}

double WorkOf(const DataflowGraph& graph, const SubGraph& sub_graph) {
  double sum = 0;
  sub_graph.inside().ForEach([&](NodeIndex i) { sum += WorkOf(graph, i); });
  return sum;
}

double BytesOf(const DataflowGraph& graph, const SubGraph& sub_graph) {
  double sum = 0;
  for (const auto* nodes : {&sub_graph.inputs(), &sub_graph.constants(), &sub_graph.exits()}) {
    for (NodeIndex node : *nodes) sum += static_cast<double>(graph[node].NumBytes());
  }
  return sum;
}

int NumOpCalls(const DataflowGraph& graph, const SubGraph& sub_graph) {
  int count = 0;
  sub_graph.inside().ForEach([&](int index) { count += graph[index].IsOpCall(); });
  return count;
}

}  // namespace tvm::collage
