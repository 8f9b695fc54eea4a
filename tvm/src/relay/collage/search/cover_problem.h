// SPDX-License-Identifier: Apache-2.0
// What the cover search is asked: nodes, candidates, costs and transition costs, as plain data.
// Nodes are numbered in a topological order (every input is smaller than its reader).
// Test: tvm/tests/cpp/search_problem_test.cc.
#pragma once

#include <functional>
#include <vector>

namespace tvm::collage {

// What the search knows of a candidate's cost.
struct CandidateCost {
  enum class Status {
    kUnknown,     // only CoverCandidate::lower_bound is known
    kKnown,       // costs `seconds`
    kFailed,      // cannot be used (did not compile, crashed, wrong result, ...)
    kLastResort,  // has no cost: a cover with fewer of these is better whatever the rest costs
  };
  Status status = Status::kUnknown;
  double seconds = 0.0;

  static CandidateCost Unknown() { return {}; }
  static CandidateCost Known(double seconds) { return {Status::kKnown, seconds}; }
  static CandidateCost Failed() { return {Status::kFailed, 0.0}; }
  static CandidateCost LastResort() { return {Status::kLastResort, 0.0}; }
};

// A set of nodes that one backend can run as one part.
struct CoverCandidate {
  // The nodes, ascending, at least one. One that is not convex can never be used.
  std::vector<int> inside;
  // Any number that names its layout class; read by transition costs only.
  int layout_class = 0;
  // No cost of this candidate can be below this many seconds. Results are optimal relative to this
  // promise, unless a cost is seen to break it (CoverSearch::SetCost); zero is always true.
  double lower_bound = 0.0;
  // A guess of its cost in any unit, the same for all candidates: unknown costs of much work are
  // asked for first. It decides nothing else. 0 for all: costs are asked for all at once.
  double work = 0.0;
};

// Seconds charged where a value crosses from one part to another; absent functions charge nothing.
// A value is charged once for each *part* that reads it, however many of that part's
// nodes read it. All answers must be finite and >= 0, and the same each time.
struct TransitionCosts {
  // Value of `node`, made by a part of layout class `from`, read by one of `to`.
  std::function<double(int node, int from, int to)> between;
  // Graph input or constant `outside` (an id of outside_inputs) read by a part of `to`.
  std::function<double(int outside, int to)> from_outside;
  // Value of `node`, a graph output, made by a part of layout class `from`.
  std::function<double(int node, int from)> to_outside;
};

struct CoverProblem {
  int num_nodes = 0;
  // For each node the nodes that it reads, each smaller than the node.
  std::vector<std::vector<int>> inputs;
  // A candidate's id is its position here.
  std::vector<CoverCandidate> candidates;
  // Costs by candidate id; empty when all are unknown.
  std::vector<CandidateCost> costs;
  TransitionCosts transitions;
  // For each node the ids of values from outside the graph that it reads; may be empty.
  std::vector<std::vector<int>> outside_inputs;
  // Nodes whose value leaves the graph; may be empty.
  std::vector<int> outputs;
  // Is a lower bound that a cost breaks a broken promise, after which none of them is believed?
  // Else bounds are what is likely, and one that a cost is below says nothing of the others.
  bool are_bounds_proven = true;

  // Throws std::invalid_argument naming the first thing that breaks what is said above,
  // or a cost that is negative, not finite or above kMaxSeconds.
  void Validate() const;
};

// The search counts in whole picoseconds, so that sums do not depend on their order and
// ties are exact. One cost may be at most this large; sums saturate at four times this.
constexpr double kMaxSeconds = 1.0e6;

// True for 0 <= seconds <= kMaxSeconds.
bool IsUsableSeconds(double seconds);

}  // namespace tvm::collage
