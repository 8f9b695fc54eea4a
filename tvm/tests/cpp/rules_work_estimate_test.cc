// SPDX-License-Identifier: Apache-2.0
// Estimates of work, and what any way to run a part has to do.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
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
               std::vector<int64_t> shape, const std::string& name = "op", Attrs attrs = {}) {
  Node op;
  op.type = NodeType::kOp;
  op.name = "op" + std::to_string(graph->size());
  const NodeIndex callee = graph->Append(std::move(op));
  Node node;
  node.type = NodeType::kCall;
  node.name = name;
  node.kind = kind;
  node.attrs = std::move(attrs);
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

// Attributes of a convolution or a pool, by key: the size of a square window, its stride.
Attrs Window(const std::string& key, int64_t size, int64_t stride) {
  Attrs attrs = {{key, AttrList{size, size}}, {"strides", AttrList{stride, stride}}};
  std::sort(attrs.begin(), attrs.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return attrs;
}

TEST_CASE("least work: what any way to run a part takes, of what is needed whole") {
  DataflowGraph graph;
  const NodeIndex x = Leaf(&graph, {1, 4, 10, 10});
  const NodeIndex w = Leaf(&graph, {6, 4, 3, 3});
  const NodeIndex conv = Call(&graph, OpKind::kOutEWiseFusable, {x, w}, {1, 6, 8, 8}, "nn.conv2d",
                              Window("kernel_size", 3, 1));
  const NodeIndex relu = Call(&graph, OpKind::kElemWise, {conv}, {1, 6, 8, 8}, "nn.relu");
  const NodeIndex pool = Call(&graph, OpKind::kOutEWiseFusable, {relu}, {1, 6, 4, 4},
                              "nn.max_pool2d", Window("pool_size", 2, 2));
  const NodeIndex point = Leaf(&graph, {8, 6, 1, 1});
  const NodeIndex strided = Call(&graph, OpKind::kOutEWiseFusable, {pool, point}, {1, 8, 2, 2},
                                 "nn.conv2d", Window("kernel_size", 1, 2));
  const NodeIndex slice =
      Call(&graph, OpKind::kInjective, {strided}, {1, 1, 2, 2}, "strided_slice");
  graph.Finish(slice);
  const auto least = [&](std::initializer_list<int> inside, bool is_call = false) {
    return LeastWorkOf(graph, SubGraph::Make(graph, IndexSet(graph.size(), inside)), is_call);
  };
  const double conv_work = 2.0 * 6 * 8 * 8 * 4;  // a position of nine, as Winograd might
  const double strided_work = 2.0 * 8 * 2 * 2 * 6;
  CHECK(least({conv}).operations == conv_work);
  CHECK(least({conv}).is_launched);
  CHECK(least({conv, relu, pool}).operations == conv_work);
  // A window of one in strides of two reads a quarter of what the others would have to make ...
  CHECK(least({conv, relu, pool, strided}).operations == strided_work);
  CHECK(least({strided}).operations == strided_work);
  // ... and of a slice only the part that it keeps is computed.
  CHECK(least({strided, slice}).operations == 0);
  CHECK(least({strided, slice}, true).is_launched);
  CHECK_FALSE(least({relu}).is_launched);  // it may be a product with one, which TVM removes
  CHECK(least({relu}, true).is_launched);
}

TEST_CASE("least work: nothing of what gives only its type or its shape") {
  for (const char* name : {"cast_like", "broadcast_to_like", "collapse_sum_like"}) {
    for (const bool is_read : {false, true}) {
      CAPTURE(name);
      CAPTURE(is_read);
      DataflowGraph graph;
      const NodeIndex x = Leaf(&graph, {4, 16});
      const NodeIndex w = Leaf(&graph, {32, 16});
      const NodeIndex z = Leaf(&graph, {4, 32});
      const NodeIndex dense = Call(&graph, OpKind::kOutEWiseFusable, {x, w}, {4, 32}, "nn.dense");
      const std::vector<NodeIndex> args = {is_read ? dense : z, is_read ? z : dense};
      const NodeIndex like = Call(&graph, OpKind::kElemWise, args, {4, 32}, name);
      graph.Finish(like);
      const SubGraph part = SubGraph::Make(graph, IndexSet(graph.size(), {dense, like}));
      CHECK(LeastWorkOf(graph, part, false).operations == (is_read ? 2.0 * 4 * 32 * 16 : 0));
    }
  }
}

TEST_CASE("least work: nothing of what constants alone make, nor of other types") {
  DataflowGraph graph;
  Node constant;
  constant.type = NodeType::kConstant;
  constant.types = {{{8, 8}, "float32"}};
  const NodeIndex c = graph.Append(constant);
  const NodeIndex folded = Call(&graph, OpKind::kOutEWiseFusable, {c, c}, {8, 8}, "nn.dense");
  const NodeIndex x = Leaf(&graph, {4, 16});
  const NodeIndex w = Leaf(&graph, {32, 16});
  const NodeIndex dense = Call(&graph, OpKind::kOutEWiseFusable, {x, w}, {4, 32}, "nn.dense");
  Node half;
  half.type = NodeType::kVar;
  half.types = {{{32, 16}, "float16"}};
  const NodeIndex h = graph.Append(half);
  const NodeIndex mixed = Call(&graph, OpKind::kOutEWiseFusable, {x, h}, {4, 32}, "nn.dense");
  const NodeIndex sparse =
      Call(&graph, OpKind::kOutEWiseFusable, {x, w}, {4, 32}, "nn.sparse_dense");
  Node all;  // so that each is needed
  all.type = NodeType::kTuple;
  all.is_tuple_typed = true;
  all.inputs = {folded, dense, mixed, sparse};
  graph.Finish(graph.Append(all));
  const auto least = [&](NodeIndex node) {
    return LeastWorkOf(graph, SubGraph::Make(graph, IndexSet(graph.size(), {node})), false);
  };
  CHECK(least(folded).operations == 0);
  CHECK_FALSE(least(folded).is_launched);
  CHECK(least(dense).operations == 2.0 * 4 * 32 * 16);
  CHECK(least(mixed).operations == 0);
  CHECK(least(mixed).is_launched);
  CHECK(least(sparse).operations == 0);
}

}  // namespace tvm::collage::testing
