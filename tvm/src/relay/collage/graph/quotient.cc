// SPDX-License-Identifier: Apache-2.0
#include "quotient.h"

#include <algorithm>

namespace tvm::collage {
namespace {

/*! \brief By set, the other sets that it reads. */
std::vector<std::vector<int>> ReadSets(const DataflowGraph& graph,
                                       const std::vector<IndexSet>& sets) {
  std::vector<int> set_of(graph.size(), -1);
  for (size_t s = 0; s < sets.size(); ++s) {
    sets[s].ForEach([&](NodeIndex i) { set_of[i] = static_cast<int>(s); });
  }
  std::vector<std::vector<int>> read(sets.size());
  for (size_t s = 0; s < sets.size(); ++s) {
    std::vector<NodeIndex> open;
    sets[s].ForEach([&](NodeIndex i) {
      open.insert(open.end(), graph[i].inputs.begin(), graph[i].inputs.end());
    });
    while (!open.empty()) {
      const NodeIndex input = open.back();
      open.pop_back();
      if (set_of[input] < 0) {
        if (graph[input].IsPlaceable()) continue;  // outside; no way leads back from there
        // A variable reads its value when it is let-bound.
        open.insert(open.end(), graph[input].inputs.begin(), graph[input].inputs.end());
      } else if (set_of[input] != static_cast<int>(s)) {
        read[s].push_back(set_of[input]);
      }
    }
    std::sort(read[s].begin(), read[s].end());
    read[s].erase(std::unique(read[s].begin(), read[s].end()), read[s].end());
  }
  return read;
}

}  // namespace

std::vector<int> FindCycle(const DataflowGraph& graph, const std::vector<IndexSet>& sets) {
  const std::vector<std::vector<int>> read = ReadSets(graph, sets);
  enum class State { kNew, kOnPath, kDone };
  std::vector<State> state(sets.size(), State::kNew);
  std::vector<size_t> next(sets.size(), 0);
  for (size_t start = 0; start < sets.size(); ++start) {
    if (state[start] != State::kNew) continue;
    std::vector<int> path = {static_cast<int>(start)};
    state[start] = State::kOnPath;
    while (!path.empty()) {
      const int top = path.back();
      if (next[top] == read[top].size()) {
        state[top] = State::kDone;
        path.pop_back();
        continue;
      }
      const int reached = read[top][next[top]++];
      if (state[reached] == State::kOnPath) {
        return {std::find(path.begin(), path.end(), reached), path.end()};
      }
      if (state[reached] == State::kDone) continue;
      state[reached] = State::kOnPath;
      path.push_back(reached);
    }
  }
  return {};
}

}  // namespace tvm::collage
