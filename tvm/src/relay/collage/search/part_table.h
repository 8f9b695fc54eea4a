// SPDX-License-Identifier: Apache-2.0
// A cover problem indexed for the search; everything here is independent of candidate
// costs, so it is made once for all steps. Also the order in which a cover's parts can run. Needs
// a valid problem.
// Test: tvm/tests/cpp/search_states_test.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "cover_problem.h"
#include "covered_set.h"
#include "transition_table.h"

namespace tvm::collage {

// A candidate as the search reads it.
struct Part {
  std::vector<int> nodes;
  NodeWords words;
  // Nodes outside it that it reads, greatest first (most likely not covered yet).
  std::vector<int> outside;
  // Nodes of it that others read, ascending.
  std::vector<int> exits;
  int first() const { return nodes.front(); }
};

class PartTable {
 public:
  explicit PartTable(const CoverProblem& problem);

  int num_nodes() const { return static_cast<int>(readers_.size()); }
  int num_parts() const { return static_cast<int>(parts_.size()); }
  const Part& part(int id) const { return parts_[id]; }
  // Ids of the parts whose least node is `node`, ascending.
  const std::vector<int>& StartingAt(int node) const { return starting_at_[node]; }
  // Ids of the parts that hold `node`, ascending.
  const std::vector<int>& Holding(int node) const { return holding_[node]; }
  // Ids of the parts that read `node` and do not hold it, ascending.
  const std::vector<int>& Reading(int node) const { return reading_[node]; }
  // The nodes that read `node`, greatest first.
  const std::vector<int>& Readers(int node) const { return readers_[node]; }
  // How many nodes of the part read `node`.
  int NumReaders(int node, const Part& part) const {
    const std::vector<int>& readers = Readers(node);
    return static_cast<int>(std::count_if(readers.begin(), readers.end(),
                                          [&](int reader) { return part.words.Contains(reader); }));
  }
  const TransitionTable& transitions() const { return transitions_; }

 private:
  PartTable(const CoverProblem& problem, std::vector<std::vector<int>> outside);

  std::vector<Part> parts_;
  std::vector<std::vector<int>> starting_at_;
  std::vector<std::vector<int>> holding_;
  std::vector<std::vector<int>> reading_;
  std::vector<std::vector<int>> readers_;
  TransitionTable transitions_;
};

// The cover's parts, each after those that it reads; of the parts that can run, the one with the
// least first node comes first. Needs a cover with acyclic quotient.
std::vector<int> ExecutionOrder(const PartTable& parts, const std::vector<int>& cover);

}  // namespace tvm::collage
