// SPDX-License-Identifier: Apache-2.0
#include "layout_transitions.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace tvm::collage {
namespace {

// Has the value the rank of an image or a volume, the only ones with blocked layouts?
bool IsImage(const Node& node) {
  if (node.is_tuple_typed || node.types.size() != 1) return false;
  const size_t rank = node.types[0].shape.size();
  return (rank == 4 || rank == 5) && node.types[0].NumBytes() > 0;
}

std::vector<LayoutRole> RolesOf(const DataflowGraph& graph, const Backends& backends) {
  std::vector<LayoutRole> roles(graph.size(), LayoutRole::kPlain);
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].IsOpCall() && IsImage(graph[i])) roles[i] = backends.RoleOf(i);
  }
  return roles;
}

// Forward over the post-dfs order: rewritten by AlterOpLayout, or a follower of such.
std::vector<bool> CanBeBlocked(const DataflowGraph& graph, const std::vector<LayoutRole>& roles) {
  std::vector<bool> result(graph.size(), false);
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    const std::vector<NodeIndex>& inputs = graph[i].inputs;
    result[i] =
        roles[i] == LayoutRole::kRewritten ||
        (roles[i] == LayoutRole::kFollows &&
         std::any_of(inputs.begin(), inputs.end(), [&](NodeIndex input) { return result[input]; }));
  }
  return result;
}

template <typename Test>
bool HoldsAny(const CandidatePartition& candidate, const Test& test) {
  bool result = false;
  candidate.sub_graph.inside().ForEach([&](int index) { result |= test(index); });
  return result;
}

std::string TypeKey(const TensorType& type) {
  std::string key = type.dtype;
  for (int64_t dim : type.shape) key += "," + std::to_string(dim);
  return key;
}

}  // namespace

LayoutTransitions::LayoutTransitions(const DataflowGraph& graph, const Backends& backends,
                                     std::vector<CandidatePartition>* candidates) {
  for (const PartitionSpec& spec : backends.specs()) is_external_.push_back(spec.is_external);
  const bool has_external =
      std::find(is_external_.begin(), is_external_.end(), true) != is_external_.end();
  // With TVM alone there is nothing to choose between.
  if (!backends.HasTransitions() || !has_external) return;
  const std::vector<LayoutRole> roles = RolesOf(graph, backends);
  can_be_blocked_ = CanBeBlocked(graph, roles);
  const auto is_rewritten = [&](int i) { return roles[i] == LayoutRole::kRewritten; };
  std::vector<CandidatePartition> copies;
  for (const CandidatePartition& candidate : *candidates) {
    if (ClassOf(candidate) != kBlocked) continue;
    if (!HoldsAny(candidate, is_rewritten)) {
      copies.push_back(candidate);
      copies.back().stays_plain = true;
    }
    for (const auto* border : {&candidate.sub_graph.inputs(), &candidate.sub_graph.exits()}) {
      for (NodeIndex i : *border) {
        if (IsImage(graph[i])) values_[TypeKey(graph[i].types[0])].insert(i);
      }
    }
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(*candidates));
}

void LayoutTransitions::Ask(const Backends& backends) {
  if (can_be_blocked_.empty()) return;
  std::vector<NodeIndex> asked;
  for (const auto& [type, nodes] : values_) asked.push_back(*nodes.begin());
  const std::vector<double> answers = backends.TransitionSeconds(asked);
  size_t next = 0;
  for (const auto& [type, nodes] : values_) {
    for (NodeIndex i : nodes) seconds_[i] = answers[next];
    ++next;
  }
}

int LayoutTransitions::ClassOf(const CandidatePartition& candidate) const {
  if (can_be_blocked_.empty() || candidate.stays_plain) return kPlain;
  if (is_external_[candidate.spec]) return kPlain;
  return HoldsAny(candidate, [&](int i) { return can_be_blocked_[i]; }) ? kBlocked : kPlain;
}

double LayoutTransitions::Between(NodeIndex node, int from, int to) const {
  auto found = seconds_.find(node);
  return from == to || found == seconds_.end() ? 0.0 : found->second;
}

}  // namespace tvm::collage
