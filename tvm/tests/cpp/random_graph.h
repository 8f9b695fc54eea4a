// SPDX-License-Identifier: Apache-2.0
// Small random graphs for tests that compare with brute force. Same seed, same graph.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graph_text.h"

namespace tvm::collage::testing {

struct RandomGraphOptions {
  int num_nodes = 8;  // calls, tuples and projections
  bool has_tuples = false;
  bool has_constants = true;
  std::vector<std::string> ops = {"relu@0", "add@1", "concat@2", "sum@3", "conv@4", "sort@8"};
};

// Do the members hang together, edges taken both ways? The empty set does not.
inline bool IsConnected(const DataflowGraph& graph, const IndexSet& inside) {
  if (inside.IsEmpty()) return false;
  IndexSet rest = inside;
  std::vector<NodeIndex> stack = {inside.First()};
  rest -= IndexSet(graph.size(), {stack[0]});
  auto reach = [&](NodeIndex i) {
    if (!rest.Contains(i)) return;
    rest -= IndexSet(graph.size(), {i});
    stack.push_back(i);
  };
  while (!stack.empty()) {
    const NodeIndex i = stack.back();
    stack.pop_back();
    for (NodeIndex input : graph[i].inputs) reach(input);
    for (NodeIndex output : graph[i].outputs) reach(output);
  }
  return rest.IsEmpty();
}

// Statements for G: one or two variables, then nodes that read earlier ones.
inline std::string RandomGraphText(std::mt19937* random, const RandomGraphOptions& options) {
  auto below = [random](int n) { return static_cast<int>((*random)() % static_cast<unsigned>(n)); };
  std::vector<std::string> values = {"x"};
  std::string text = "x:var;";
  if (below(2)) {
    text += "y:var;";
    values.push_back("y");
  }
  if (options.has_constants) {
    text += "c:const;";
    values.push_back("c");
  }
  std::vector<std::string> unread;
  auto read = [&unread](const std::string& name) {
    unread.erase(std::remove(unread.begin(), unread.end(), name), unread.end());
    return name;
  };
  auto pick = [&]() {
    // Mostly recent values: deep graphs with some long edges.
    const int size = static_cast<int>(values.size());
    return read(values[below(3) ? std::max(0, size - 1 - below(3)) : below(size)]);
  };
  std::vector<std::string> tuples;
  for (int i = 0; i < options.num_nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    const int what = options.has_tuples ? below(6) : 2;
    if (what == 0) {
      text += name + "=(" + pick() + "," + pick() + ");";
      tuples.push_back(name);
      unread.push_back(name);
      continue;
    }
    if (what == 1 && !tuples.empty()) {
      text += name + "=" + read(tuples[below(static_cast<int>(tuples.size()))]) + "." +
              std::to_string(below(2)) + ";";
    } else {
      const std::string& op = options.ops[below(static_cast<int>(options.ops.size()))];
      const size_t at = op.find('@');
      const bool reads_tuple = !tuples.empty() && below(3) == 0;
      text += name + "=" + op.substr(0, at) + "(" + (reads_tuple ? read(tuples.back()) : pick()) +
              (below(2) && !reads_tuple ? "," + pick() : "") + ")" + op.substr(at) + ";";
    }
    values.push_back(name);
    unread.push_back(name);
  }
  // Everything that is left unread comes together in the result: a function has no dead nodes.
  text += "r=max(" + pick();
  for (const std::string& name : unread) text += "," + name;
  return text + ")@1";
}

// Calls f with each non-empty subset of the placeable nodes.
template <typename F>
void ForEachSubset(const DataflowGraph& graph, F f) {
  const std::vector<int> nodes = graph.placeable().ToVector();
  for (uint32_t bits = 1; bits < (uint32_t{1} << nodes.size()); ++bits) {
    IndexSet set(graph.size());
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (bits >> k & 1) set.Add(nodes[k]);
    }
    f(set);
  }
}

}  // namespace tvm::collage::testing
