// SPDX-License-Identifier: Apache-2.0
#include "combiner.h"

#include <iterator>

namespace tvm::collage {
namespace {

const char* NameOf(OpKind kind) {
  constexpr const char* kNames[] = {"ElemWise",   "Broadcast",       "Injective",
                                    "CommReduce", "OutEWiseFusable", "?",
                                    "?",          "Tuple",           "Opaque"};
  const size_t at = static_cast<size_t>(kind);
  return at < std::size(kNames) ? kNames[at] : "?";
}

bool IsInjective(const CombinePart& part) { return part.kind <= OpKind::kInjective; }

bool IsTupleArg(const DataflowGraph& graph, const CombinePart& upstream,
                const CombinePart& downstream) {
  if (!IsInjective(upstream) || !IsInjective(downstream)) return false;
  if (upstream.glue >= 0) return graph[upstream.glue].type == NodeType::kTuple;
  bool feeds_tuple = false;
  upstream.inside.ForEach([&](NodeIndex i) {
    for (NodeIndex reader : graph[i].outputs) {
      feeds_tuple |= graph[reader].type == NodeType::kTuple && downstream.inside.Contains(reader);
    }
  });
  return feeds_tuple;
}

bool IsProjection(const DataflowGraph& graph, const CombinePart& upstream,
                  const CombinePart& downstream) {
  return downstream.glue >= 0 && graph[downstream.glue].type == NodeType::kProjection &&
         upstream.kind != OpKind::kOpaque &&
         upstream.inside.Contains(graph[downstream.glue].inputs[0]);
}

}  // namespace

std::vector<NodeIndex> Combiner::Glue(const DataflowGraph& graph) const {
  std::vector<NodeIndex> nodes;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].type == glue_ && FusionKind(graph[i]) != OpKind::kOpaque) nodes.push_back(i);
  }
  return nodes;
}

CombinerPtr ByKindCombiner(OpKind most_upstream, OpKind most_downstream) {
  return std::make_shared<Combiner>(
      std::string(NameOf(most_upstream)) + "->" + NameOf(most_downstream),
      [=](const auto&, const CombinePart& upstream, const CombinePart& downstream) {
        return upstream.kind <= most_upstream && downstream.kind <= most_downstream;
      });
}

CombinerPtr TupleArgCombiner() {
  return std::make_shared<Combiner>("TupleArg", IsTupleArg, NodeType::kTuple);
}

CombinerPtr TupleProjectionCombiner() {
  return std::make_shared<Combiner>("TupleProjection", IsProjection, NodeType::kProjection);
}

CombinerPtr JoinAnythingCombiner() {
  return std::make_shared<Combiner>(
      "JoinAnything", [](const auto&, const CombinePart& upstream, const CombinePart& downstream) {
        return upstream.kind != OpKind::kOpaque && downstream.kind != OpKind::kOpaque;
      });
}

CombinerPtr ConstantsCombiner() {
  return std::make_shared<Combiner>("Constants",
                                    [](const auto&, const auto&, const auto&) { return false; });
}

std::vector<CombinerPtr> TvmCombiners() {
  return {
      ByKindCombiner(OpKind::kOutEWiseFusable, OpKind::kBroadcast),
      ByKindCombiner(OpKind::kBroadcast, OpKind::kCommReduce),
      ByKindCombiner(OpKind::kInjective, OpKind::kInjective),
      TupleArgCombiner(),
      TupleProjectionCombiner(),
  };
}

}  // namespace tvm::collage
