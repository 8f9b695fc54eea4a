// SPDX-License-Identifier: Apache-2.0
// A function's candidates and their costs as a cover problem over its placeable nodes.
// Test: tvm/tests/cpp/plan_test.cc.
#include <algorithm>
#include <set>

#include "../rules/work_estimate.h"
#include "plan.h"

namespace tvm::collage {
namespace {

// Placed nodes whose value the node sees, through variables that are let-bound.
std::vector<int> InputsOf(const DataflowGraph& graph, NodeIndex index,
                          const std::vector<int>& number) {
  std::set<int> found;
  std::vector<NodeIndex> open(graph[index].inputs);
  while (!open.empty()) {
    const std::vector<NodeIndex>& further = graph[open.back()].inputs;
    const int input = number[open.back()];
    open.pop_back();
    if (input >= 0) {
      found.insert(input);
    } else {
      open.insert(open.end(), further.begin(), further.end());
    }
  }
  return {found.begin(), found.end()};
}

// Parameters that the node reads; a let-bound variable is its value instead.
std::vector<int> ParametersOf(const DataflowGraph& graph, NodeIndex index) {
  std::set<int> found;
  for (NodeIndex input : graph[index].inputs) {
    if (graph[input].type == NodeType::kVar && graph[input].inputs.empty()) found.insert(input);
  }
  return {found.begin(), found.end()};
}

}  // namespace

CoverProblem MakeProblem(const DataflowGraph& graph,
                         const std::vector<CandidatePartition>& candidates,
                         const LayoutTransitions& transitions) {
  const std::vector<NodeIndex> nodes = graph.placeable().ToVector();
  std::vector<int> number(graph.size(), -1);
  std::vector<double> operations(graph.size(), 0.0);
  for (size_t k = 0; k < nodes.size(); ++k) {
    number[nodes[k]] = static_cast<int>(k);
    operations[nodes[k]] = WorkOf(graph, nodes[k]);
  }
  CoverProblem problem;
  problem.num_nodes = static_cast<int>(nodes.size());
  for (NodeIndex index : nodes) {
    problem.inputs.push_back(InputsOf(graph, index, number));
    problem.outside_inputs.push_back(ParametersOf(graph, index));
  }
  if (number[graph.result()] >= 0) problem.outputs.push_back(number[graph.result()]);
  for (const CandidatePartition& candidate : candidates) {
    CoverCandidate cover;
    cover.layout_class = transitions.ClassOf(candidate);
    candidate.sub_graph.inside().ForEach([&](int index) {
      cover.inside.push_back(number[index]);
      cover.work += operations[index];
    });
    // What it may cost, in operations: in which order costs are asked for.
    constexpr double kOperationsAByte = 2;  // while a byte is moved, roughly
    cover.work = std::max(cover.work, kOperationsAByte * BytesOf(graph, candidate.sub_graph));
    problem.candidates.push_back(std::move(cover));
  }
  // Whoever calls the function passes and takes plain layouts.
  constexpr int kOutside = LayoutTransitions::kPlain;
  problem.transitions.between = [nodes, &transitions](int number, int from, int to) {
    return transitions.Between(nodes[number], from, to);
  };
  problem.transitions.from_outside = [&transitions](int parameter, int to) {
    return transitions.Between(parameter, kOutside, to);
  };
  problem.transitions.to_outside = [nodes, &transitions](int number, int from) {
    return transitions.Between(nodes[number], from, kOutside);
  };
  return problem;
}

}  // namespace tvm::collage
