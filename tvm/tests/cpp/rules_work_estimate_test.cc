// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "src/relay/collage/rules/work_estimate.h"

namespace tvm::collage::testing {
namespace {

NodeIndex Leaf(DataflowGraph* graph, std::vector<int64_t> shape) {
  Node node;
  node.type = NodeType::kVar;
  node.types = {{std::move(shape), "float32"}};
  return graph->Append(std::move(node));
}

NodeIndex Call(DataflowGraph* graph, OpKind kind, std::vector<NodeIndex> args,
               std::vector<int64_t> shape) {
  Node op;
  op.type = NodeType::kOp;
  op.name = "op" + std::to_string(graph->size());
  const NodeIndex callee = graph->Append(std::move(op));
  Node node;
  node.type = NodeType::kCall;
  node.name = "op";
  node.kind = kind;
  node.types = {{std::move(shape), "float32"}};
  node.inputs = {callee};
  node.inputs.insert(node.inputs.end(), args.begin(), args.end());
  return graph->Append(std::move(node));
}

}  // namespace

TEST_CASE("work estimate: products and convolutions by what goes into each element") {
  DataflowGraph graph;
  const NodeIndex x = Leaf(&graph, {8, 16});
  const NodeIndex w = Leaf(&graph, {32, 16});
  const NodeIndex dense = Call(&graph, OpKind::kOutEWiseFusable, {x, w}, {8, 32});
  const NodeIndex image = Leaf(&graph, {1, 4, 10, 10});
  const NodeIndex weight = Leaf(&graph, {6, 4, 3, 3});
  const NodeIndex conv = Call(&graph, OpKind::kOutEWiseFusable, {image, weight}, {1, 6, 8, 8});
  // As NHWC and HWIO: the estimate knows no layout.
  const NodeIndex image_last = Leaf(&graph, {1, 10, 10, 4});
  const NodeIndex weight_last = Leaf(&graph, {3, 3, 4, 6});
  const NodeIndex conv_last =
      Call(&graph, OpKind::kOutEWiseFusable, {image_last, weight_last}, {1, 8, 8, 6});
  graph.Finish(conv_last);
  CHECK(WorkOf(graph, dense) == 2.0 * 8 * 32 * 16);
  CHECK(WorkOf(graph, conv) == 2.0 * 6 * 8 * 8 * 4 * 3 * 3);
  CHECK(WorkOf(graph, conv_last) == WorkOf(graph, conv));
  CHECK(WorkOf(graph, x) == 0);
}

TEST_CASE("work estimate: everything else by the elements that it reads and writes") {
  DataflowGraph graph;
  const NodeIndex x = Leaf(&graph, {2, 4});
  const NodeIndex add = Call(&graph, OpKind::kBroadcast, {x, x}, {2, 4});
  const NodeIndex pool = Call(&graph, OpKind::kOutEWiseFusable, {add}, {2, 2});
  const NodeIndex open = Call(&graph, OpKind::kElemWise, {pool}, {TensorType::kDynamic, 2});
  graph.Finish(open);
  CHECK(WorkOf(graph, add) == 3 * 8);
  CHECK(WorkOf(graph, pool) == 8 + 4);
  CHECK(WorkOf(graph, open) == 4 + 2);  // what is not known counts as 1
  const SubGraph both = SubGraph::Make(graph, IndexSet(graph.size(), {add, pool}));
  CHECK(WorkOf(graph, both) == 24 + 12);
}

TEST_CASE("work estimate: bytes of the border, each tensor once") {
  DataflowGraph graph;
  const NodeIndex x = Leaf(&graph, {2, 4});
  const NodeIndex twice = Call(&graph, OpKind::kBroadcast, {x, x}, {2, 4});
  const NodeIndex pool = Call(&graph, OpKind::kOutEWiseFusable, {twice}, {2, 2});
  const NodeIndex open = Call(&graph, OpKind::kElemWise, {pool}, {TensorType::kDynamic, 2});
  graph.Finish(open);
  const auto part = [&](std::initializer_list<int> inside) {
    return SubGraph::Make(graph, IndexSet(graph.size(), inside));
  };
  CHECK(BytesOf(graph, part({twice})) == 4 * (8 + 8));
  CHECK(BytesOf(graph, part({pool})) == 4 * (8 + 4));
  CHECK(BytesOf(graph, part({twice, pool})) == 4 * (8 + 4));  // what is between stays inside
  CHECK(BytesOf(graph, part({open})) == 4 * 4);               // what is not known counts as 0
  CHECK(NumOpCalls(graph, part({twice, pool})) == 2);
}

}  // namespace tvm::collage::testing
