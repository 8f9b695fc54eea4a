// SPDX-License-Identifier: Apache-2.0
#include "cover_nodes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "../rules/work_estimate.h"

namespace tvm::collage {

CoverNodes::CoverNodes(const DataflowGraph& graph) : graph_(graph), number_(graph.size(), -1) {
  graph.placeable().ForEach([this](int index) {
    number_[index] = static_cast<int>(nodes_.size());
    nodes_.push_back(index);
    operations_.push_back(WorkOf(graph_, index));
  });
}

CoverProblem CoverNodes::Problem(const std::vector<CandidatePartition>& candidates,
                                 const LayoutTransitions& transitions) const {
  CoverProblem problem;
  problem.num_nodes = static_cast<int>(nodes_.size());
  for (NodeIndex index : nodes_) {
    problem.inputs.push_back(InputsOf(index));
    problem.outside_inputs.push_back(VariablesOf(index));
  }
  if (number_[graph_.result()] >= 0) problem.outputs.push_back(number_[graph_.result()]);
  for (const CandidatePartition& candidate : candidates) {
    CoverCandidate cover;
    cover.backend = transitions.ClassOf(candidate);
    cover.work = GuessOf(candidate.sub_graph);
    candidate.sub_graph.inside().ForEach(
        [&](int index) { cover.inside.push_back(number_[index]); });
    problem.candidates.push_back(std::move(cover));
  }
  // Whoever calls the function passes and takes plain layouts.
  constexpr int kOutside = LayoutTransitions::kPlain;
  problem.transitions.between = [this, &transitions](int number, int from, int to) {
    return transitions.Between(nodes_[number], from, to);
  };
  problem.transitions.from_outside = [&transitions](int variable, int to) {
    return transitions.Between(variable, kOutside, to);
  };
  problem.transitions.to_outside = [this, &transitions](int number, int from) {
    return transitions.Between(nodes_[number], from, kOutside);
  };
  return problem;
}

double CoverNodes::GuessOf(const SubGraph& sub_graph) const {
  double operations = 0;
  sub_graph.inside().ForEach([&](int index) { operations += operations_[number_[index]]; });
  constexpr double kOperationsAByte = 2;  // while a byte is moved, roughly
  return std::max(operations, kOperationsAByte * BytesOf(graph_, sub_graph));
}

std::vector<int> CoverNodes::InputsOf(NodeIndex index) const {
  std::set<int> found;
  std::vector<NodeIndex> open(graph_[index].inputs);
  while (!open.empty()) {
    NodeIndex input = open.back();
    open.pop_back();
    if (number_[input] >= 0) {
      found.insert(number_[input]);
    } else {
      open.insert(open.end(), graph_[input].inputs.begin(), graph_[input].inputs.end());
    }
  }
  return {found.begin(), found.end()};
}

std::vector<int> CoverNodes::VariablesOf(NodeIndex index) const {
  std::set<int> found;
  for (NodeIndex input : graph_[index].inputs) {
    if (graph_[input].type == NodeType::kVar && graph_[input].inputs.empty()) found.insert(input);
  }
  return {found.begin(), found.end()};
}

}  // namespace tvm::collage
