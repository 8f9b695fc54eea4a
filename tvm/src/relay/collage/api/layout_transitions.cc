// SPDX-License-Identifier: Apache-2.0
#include "layout_transitions.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace tvm::collage {
namespace {

/*! \brief Has the value the rank of an image or a volume, the only ones with blocked layouts? */
bool IsImage(const Node& node) {
  if (node.is_tuple_typed || node.types.size() != 1) return false;
  const size_t rank = node.types[0].shape.size();
  return (rank == 4 || rank == 5) && node.types[0].NumBytes() > 0;
}

/*! \brief Not by ir.OpHasAttr, which tells whether any op has the attribute. */
bool OpHas(const ObjectRef& call, const char* attribute) {
  TVMRetValue value = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
  return value.type_code() != kTVMNullptr;
}

/*! \brief Of each node of the post-dfs order: does AlterOpLayout rewrite it? */
std::vector<bool> IsRewritten(const ImportedFunction& imported) {
  const DataflowGraph& graph = imported.graph;
  std::vector<bool> result(graph.size(), false);
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (!graph[i].IsOpCall() || !IsImage(graph[i])) continue;
    result[i] = OpHas(imported.exprs[i], "FTVMAlterOpLayout");
  }
  return result;
}

/*! \brief Forward over the post-dfs order: rewritten by AlterOpLayout, or a follower of such. */
std::vector<bool> CanBeBlocked(const ImportedFunction& imported, std::vector<bool> result) {
  const DataflowGraph& graph = imported.graph;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    const Node& node = graph[i];
    if (result[i] || !node.IsOpCall() || !IsImage(node)) continue;
    const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](NodeIndex input) { return result[input]; });
    result[i] = follows && OpHas(imported.exprs[i], "FInferCorrectLayout");
  }
  return result;
}

bool HoldsAny(const CandidatePartition& candidate, const std::vector<bool>& nodes) {
  bool result = false;
  candidate.sub_graph.inside().ForEach([&](int index) { result |= nodes[index]; });
  return result;
}

std::string TypeKey(const TensorType& type) {
  std::string key = type.dtype;
  for (int64_t dim : type.shape) key += "," + std::to_string(dim);
  return key;
}

}  // namespace

LayoutTransitions::LayoutTransitions(const ImportedFunction& imported,
                                     const std::vector<TargetSpec>& specs,
                                     const CostEstimator& estimator,
                                     std::vector<CandidatePartition>* candidates)
    : specs_(specs) {
  const bool has_external = std::any_of(
      specs.begin(), specs.end(), [](const TargetSpec& spec) { return spec.spec.is_external; });
  // With TVM alone there is nothing to choose between.
  if (estimator->transition == nullptr || !has_external) return;
  const std::vector<bool> is_rewritten = IsRewritten(imported);
  can_be_blocked_ = CanBeBlocked(imported, is_rewritten);
  std::set<NodeIndex> values;
  std::vector<CandidatePartition> copies;
  for (const CandidatePartition& candidate : *candidates) {
    if (ClassOf(candidate) != kBlocked) continue;
    if (!HoldsAny(candidate, is_rewritten)) {
      copies.push_back(candidate);
      copies.back().stays_plain = true;
    }
    for (const auto* border : {&candidate.sub_graph.inputs(), &candidate.sub_graph.exits()}) {
      for (NodeIndex i : *border) {
        if (IsImage(imported.graph[i])) values.insert(i);
      }
    }
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(*candidates));
  std::map<std::string, ObjectRef> types;
  for (NodeIndex i : values) {
    types.emplace(TypeKey(imported.graph[i].types[0]),
                  RefField(imported.exprs[i], "_checked_type_"));
  }
  std::map<std::string, double> seconds;
  for (const auto& [key, cost] : estimator->Transitions(types, specs.back().target)) {
    seconds[key] = cost;
  }
  for (NodeIndex i : values) seconds_[i] = seconds.at(TypeKey(imported.graph[i].types[0]));
}

int LayoutTransitions::ClassOf(const CandidatePartition& candidate) const {
  if (can_be_blocked_.empty() || specs_[candidate.spec].spec.is_external) return kPlain;
  return !candidate.stays_plain && HoldsAny(candidate, can_be_blocked_) ? kBlocked : kPlain;
}

double LayoutTransitions::Between(NodeIndex node, int from, int to) const {
  auto found = seconds_.find(node);
  return from == to || found == seconds_.end() ? 0.0 : found->second;
}

}  // namespace tvm::collage
