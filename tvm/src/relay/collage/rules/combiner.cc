// SPDX-License-Identifier: Apache-2.0
#include "combiner.h"

#include <algorithm>

namespace tvm::collage {
namespace {

const char* NameOf(OpKind kind) {
  switch (kind) {
    case OpKind::kElemWise:
      return "ElemWise";
    case OpKind::kBroadcast:
      return "Broadcast";
    case OpKind::kInjective:
      return "Injective";
    case OpKind::kCommReduce:
      return "CommReduce";
    case OpKind::kOutEWiseFusable:
      return "OutEWiseFusable";
    case OpKind::kTuple:
      return "Tuple";
    case OpKind::kOpaque:
      return "Opaque";
  }
  return "?";
}

std::vector<NodeIndex> NodesOf(const DataflowGraph& graph, NodeType type) {
  std::vector<NodeIndex> nodes;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].type == type && FusionKind(graph[i]) != OpKind::kOpaque) nodes.push_back(i);
  }
  return nodes;
}

bool IsInjective(const CombinePart& part) { return part.kind <= OpKind::kInjective; }

class ByKind : public Combiner {
 public:
  ByKind(OpKind upstream, OpKind downstream) : upstream_(upstream), downstream_(downstream) {}

  bool Fires(const DataflowGraph&, const CombinePart& upstream,
             const CombinePart& downstream) const override {
    return upstream.kind <= upstream_ && downstream.kind <= downstream_;
  }

  std::string Summary() const override {
    return std::string(NameOf(upstream_)) + "->" + NameOf(downstream_);
  }

 private:
  OpKind upstream_;
  OpKind downstream_;
};

class JoinAnything : public Combiner {
 public:
  bool Fires(const DataflowGraph&, const CombinePart& upstream,
             const CombinePart& downstream) const override {
    return upstream.kind != OpKind::kOpaque && downstream.kind != OpKind::kOpaque;
  }

  std::string Summary() const override { return "JoinAnything"; }
};

class Constants : public Combiner {
 public:
  bool Fires(const DataflowGraph&, const CombinePart&, const CombinePart&) const override {
    return false;
  }
  std::string Summary() const override { return "Constants"; }
};

class TupleArg : public Combiner {
 public:
  bool Fires(const DataflowGraph& graph, const CombinePart& upstream,
             const CombinePart& downstream) const override {
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

  std::vector<NodeIndex> Glue(const DataflowGraph& graph) const override {
    return NodesOf(graph, NodeType::kTuple);
  }
  std::string Summary() const override { return "TupleArg"; }
};

class TupleProjection : public Combiner {
 public:
  bool Fires(const DataflowGraph& graph, const CombinePart& upstream,
             const CombinePart& downstream) const override {
    return downstream.glue >= 0 && graph[downstream.glue].type == NodeType::kProjection &&
           upstream.kind != OpKind::kOpaque &&
           upstream.inside.Contains(graph[downstream.glue].inputs[0]);
  }

  std::vector<NodeIndex> Glue(const DataflowGraph& graph) const override {
    return NodesOf(graph, NodeType::kProjection);
  }
  std::string Summary() const override { return "TupleProjection"; }
};

}  // namespace

CombinerPtr ByKindCombiner(OpKind upstream, OpKind downstream) {
  return std::make_shared<ByKind>(upstream, downstream);
}

CombinerPtr TupleArgCombiner() { return std::make_shared<TupleArg>(); }

CombinerPtr TupleProjectionCombiner() { return std::make_shared<TupleProjection>(); }

CombinerPtr JoinAnythingCombiner() { return std::make_shared<JoinAnything>(); }

CombinerPtr ConstantsCombiner() { return std::make_shared<Constants>(); }

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
