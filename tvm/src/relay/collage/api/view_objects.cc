// SPDX-License-Identifier: Apache-2.0
#include "view_objects.h"

#include "../graph/json.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(DataflowGraphView::ContainerType);
TVM_REGISTER_OBJECT_TYPE(SubGraphView::ContainerType);
TVM_REGISTER_OBJECT_TYPE(PartitionSpecView::ContainerType);
TVM_REGISTER_OBJECT_TYPE(CandidatePartitionView::ContainerType);

IndexSet ImportIndexes(const DataflowGraph& graph, const Array<runtime::Int>& indexes) {
  IndexSet set(graph.size());
  for (const runtime::Int& boxed : indexes) {
    const int64_t index = boxed->value;
    if (index < 0 || index >= graph.size()) {
      ThrowUserError("ValueError",
                     "node " + std::to_string(index) + " is not in the " + graph.Summary());
    }
    if (!graph.placeable().Contains(static_cast<int>(index))) {
      ThrowUserError("ValueError", graph.Summary(static_cast<int>(index)) +
                                       " cannot be placed: a sub-graph holds calls, tuples, "
                                       "projections, functions and control flow");
    }
    set.Add(static_cast<int>(index));
  }
  return set;
}

namespace {

String NodeFields(const DataflowGraphView& view, int64_t number) {
  const DataflowGraph& graph = view->graph();
  const NodeIndex index = static_cast<NodeIndex>(number);
  const Node& node = graph[index];
  return JsonText({
      {"index", index},
      {"type", NameOf(node.type)},
      {"name", node.name},
      {"kind", static_cast<int>(node.kind)},
      {"attrs", node.attrs},
      {"types", node.types},
      {"is_tuple", node.is_tuple_typed},
      {"projection", node.projection},
      {"inputs", node.inputs},
      {"outputs", node.outputs},
      {"dominator", node.dominator},
      {"scope", node.scope},
      {"num_bytes", node.NumBytes()},
      {"is_placeable", node.IsPlaceable()},
      {"is_result", node.is_external},
      {"summary", graph.Summary(index)},
  });
}

SubGraphView MakeSubGraph(const DataflowGraphView& view, const Array<runtime::Int>& inside,
                          const Array<String>& labels,
                          const Array<Array<runtime::Int>>& composites) {
  std::vector<NestedSubGraph> nested;
  for (size_t k = 0; k < labels.size(); ++k) {
    nested.push_back({labels[k], ImportIndexes(view->graph(), composites[k])});
  }
  return SubGraphView(
      {view->imported,
       SubGraph::Make(view->graph(), ImportIndexes(view->graph(), inside), std::move(nested))});
}

String SubGraphFields(const SubGraphView& view) {
  const SubGraph& sub_graph = view->sub_graph;
  std::vector<Json> nested;
  for (const NestedSubGraph& part : sub_graph.nested()) {
    nested.push_back(JsonObject(
        {{"composite", part.composite}, {"inside", part.inside}, {"attrs", part.attrs}}));
  }
  return JsonText({
      {"inside", sub_graph.inside()},
      {"entries", sub_graph.entries()},
      {"exits", sub_graph.exits()},
      {"inputs", sub_graph.inputs()},
      {"outputs", sub_graph.outputs()},
      {"constants", sub_graph.constants()},
      {"nested", nested},
      {"kind", static_cast<int>(sub_graph.kind())},
      {"depth", sub_graph.depth()},
      {"has_taps", sub_graph.HasTaps(view->graph())},
      {"summary", sub_graph.Summary(view->graph())},
  });
}

// Why a sub-graph is not valid; empty when it is.
String WhyInvalid(const SubGraphView& view, const String& limits) {
  std::string why;
  const auto config = SubGraphConfig::Of(JsonValue::Parse(limits));
  return view->sub_graph.IsValid(view->graph(), config, &why) ? "" : why;
}

TVM_REGISTER_GLOBAL("collage.view.DataflowGraph")
    .set_body_typed([](ObjectRef function, bool as_written) {
      const Naming naming = as_written ? Naming::kAsWritten : Naming::kReplaced;
      return DataflowGraphView({ImportFunction(function, naming)});
    });
TVM_REGISTER_GLOBAL("collage.view.DataflowGraphFields").set_body_typed([](DataflowGraphView view) {
  const DataflowGraph& graph = view->graph();
  return String(JsonText({{"size", graph.size()},
                          {"result", graph.result()},
                          {"placeable", graph.placeable()},
                          {"summary", graph.Summary()}}));
});
TVM_REGISTER_GLOBAL("collage.view.NodeFields").set_body_typed(NodeFields);
TVM_REGISTER_GLOBAL("collage.view.Expr").set_body_typed([](DataflowGraphView view, int64_t index) {
  return view->imported->exprs[index];
});
TVM_REGISTER_GLOBAL("collage.view.Function").set_body_typed([](DataflowGraphView view) {
  return view->imported->function;
});
TVM_REGISTER_GLOBAL("collage.view.SubGraph").set_body_typed(MakeSubGraph);
TVM_REGISTER_GLOBAL("collage.view.SubGraphFields").set_body_typed(SubGraphFields);
TVM_REGISTER_GLOBAL("collage.view.WhyInvalid").set_body_typed(WhyInvalid);
TVM_REGISTER_GLOBAL("collage.view.GraphOf").set_body_typed([](SubGraphView view) {
  return DataflowGraphView({view->imported});
});
TVM_REGISTER_GLOBAL("collage.view.IndexSetSummary").set_body_typed([](Array<runtime::Int> members) {
  IndexSet set(members.empty() ? 0 : static_cast<int>(members.back()->value) + 1);
  for (const runtime::Int& index : members) set.Add(static_cast<int>(index->value));
  return String(set.Summary());
});

}  // namespace
}  // namespace tvm::collage
