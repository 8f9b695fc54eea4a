// SPDX-License-Identifier: Apache-2.0
#include "transition_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace tvm::collage {
namespace {

Ticks CheckedTicks(double seconds) {
  if (!IsUsableSeconds(seconds)) {
    throw std::invalid_argument("cover problem: unusable transition cost " +
                                std::to_string(seconds));
  }
  return ToTicks(seconds);
}

bool ReadsOutside(const CoverProblem& problem) {
  return problem.transitions.from_outside && !problem.outside_inputs.empty();
}

// What crossing the border of the graph costs the candidate.
Ticks GraphBorderTicks(const CoverProblem& problem, const std::vector<char>& is_output, int id) {
  const CoverCandidate& candidate = problem.candidates[id];
  Ticks ticks = 0;
  std::set<int> read;
  for (int node : candidate.inside) {
    if (problem.transitions.to_outside && is_output[node]) {
      ticks = AddTicks(ticks,
                       CheckedTicks(problem.transitions.to_outside(node, candidate.layout_class)));
    }
    if (!ReadsOutside(problem)) continue;
    for (int value : problem.outside_inputs[node]) read.insert(value);
  }
  for (int value : read) {
    ticks = AddTicks(ticks,
                     CheckedTicks(problem.transitions.from_outside(value, candidate.layout_class)));
  }
  return ticks;
}

}  // namespace

TransitionTable::TransitionTable(const CoverProblem& problem,
                                 const std::vector<std::vector<int>>& outside) {
  const size_t n = static_cast<size_t>(problem.num_nodes);
  std::map<int, int> dense;
  for (const CoverCandidate& candidate : problem.candidates) dense[candidate.layout_class] = 0;
  std::vector<int> layout_classes;
  for (auto& entry : dense) {
    entry.second = static_cast<int>(layout_classes.size());
    layout_classes.push_back(entry.first);
  }
  num_layout_classes_ = layout_classes.size();
  std::vector<char> is_output(n, 0);
  for (int node : problem.outputs) is_output[node] = 1;
  for (size_t id = 0; id < problem.candidates.size(); ++id) {
    layout_class_of_.push_back(dense[problem.candidates[id].layout_class]);
    fixed_.push_back(GraphBorderTicks(problem, is_output, static_cast<int>(id)));
  }

  values_.resize(n);
  if (!problem.transitions.between) return;
  // Which layout classes may make and which may read each value.
  std::vector<std::vector<char>> makers(n, std::vector<char>(num_layout_classes_, 0));
  std::vector<std::vector<char>> readers(n);
  for (size_t id = 0; id < problem.candidates.size(); ++id) {
    const size_t layout_class = static_cast<size_t>(layout_class_of_[id]);
    for (int node : problem.candidates[id].inside) makers[node][layout_class] = 1;
    for (int node : outside[id]) {
      std::vector<char>& reader = readers[node];
      reader.resize(num_layout_classes_, 0);
      reader[layout_class] = 1;
    }
  }
  for (size_t node = 0; node < n; ++node) {
    if (readers[node].empty()) continue;
    FillValue(problem, layout_classes, static_cast<int>(node), makers[node], readers[node]);
    is_any_dependent_ = is_any_dependent_ || values_[node].classes > 1;
  }
  for (size_t id = 0; id < problem.candidates.size(); ++id) {
    for (int node : outside[id]) {
      const Value& value = values_[node];
      fixed_[id] = AddTicks(fixed_[id], value.least[layout_class_of_[id]]);
    }
  }
}

void TransitionTable::FillValue(const CoverProblem& problem, const std::vector<int>& layout_classes,
                                int node, const std::vector<char>& makers,
                                const std::vector<char>& readers) {
  Value& value = values_[node];
  std::vector<std::vector<Ticks>> rows(num_layout_classes_);
  value.least.assign(num_layout_classes_, 0);
  std::vector<char> is_set(num_layout_classes_, 0);
  for (size_t from = 0; from < num_layout_classes_; ++from) {
    if (!makers[from]) continue;
    rows[from].assign(num_layout_classes_, 0);
    for (size_t to = 0; to < num_layout_classes_; ++to) {
      if (!readers[to]) continue;
      const Ticks ticks =
          CheckedTicks(problem.transitions.between(node, layout_classes[from], layout_classes[to]));
      rows[from][to] = ticks;
      value.least[to] = is_set[to] ? std::min(value.least[to], ticks) : ticks;
      is_set[to] = 1;
    }
  }
  value.class_of.assign(num_layout_classes_, 0);
  std::map<std::vector<Ticks>, int> classes;
  for (size_t from = 0; from < num_layout_classes_; ++from) {
    if (!makers[from]) continue;
    for (size_t to = 0; to < num_layout_classes_; ++to) {
      if (readers[to]) rows[from][to] -= value.least[to];
    }
    const auto found = classes.emplace(rows[from], value.classes);
    if (found.second) {
      ++value.classes;
      value.extra.insert(value.extra.end(), rows[from].begin(), rows[from].end());
    }
    value.class_of[from] = found.first->second;
  }
}

}  // namespace tvm::collage
