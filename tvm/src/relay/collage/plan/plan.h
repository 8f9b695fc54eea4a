// SPDX-License-Identifier: Apache-2.0
// Plan: one function -> its candidates -> their costs, as the search asks for them -> the cheapest
// cover -> the parts that are placed (RFC 0062, phases 2 and 3). Knows no TVM. Its steps:
// backends.h (candidates), layout_transitions.h, cost_table.h, make_problem.cc,
// search/cover_search.h, rules/merge_parts.h. Test: tvm/tests/cpp/plan_test.cc,
// test_collage_partition.py.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../rules/merge_parts.h"
#include "../search/cover_search.h"
#include "backends.h"
#include "cost_table.h"
#include "layout_transitions.h"

namespace tvm::collage {

struct PhaseSeconds {
  double wall = 0;
  double cpu = 0;  // of the process
};

// Wall and CPU seconds by phase of the pass, for bench/search.py.
class PhaseClock {
 public:
  // Ends the phase at hand; a phase may be entered again.
  void Enter(const std::string& phase) {
    Leave();
    phase_ = phase;
    began_ = Clock::now();
    began_cpu_ = std::clock();
  }
  void Leave() {
    if (phase_.empty()) return;
    PhaseSeconds& spent = seconds_[phase_];
    spent.wall += std::chrono::duration<double>(Clock::now() - began_).count();
    spent.cpu += static_cast<double>(std::clock() - began_cpu_) / CLOCKS_PER_SEC;
    phase_.clear();
  }
  const std::map<std::string, PhaseSeconds>& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::map<std::string, PhaseSeconds> seconds_;
  std::string phase_;
  Clock::time_point began_;
  std::clock_t began_cpu_ = 0;
};

struct PlannedPart {
  CandidatePartition candidate;
  EstimatedCost cost;
};

// A value that changes its layout between two parts of a plan.
struct ChargedTransition {
  NodeIndex value;
  double seconds;
};

struct FunctionPlan {
  std::vector<PlannedPart> parts;
  // What `seconds` holds besides the parts' costs.
  std::vector<ChargedTransition> transitions;
  double seconds = 0;
  // No plan of these candidates can cost less.
  double lower_bound_seconds = 0;
  bool is_optimal = false;
  // What the fastest backend alone takes, 0 where nobody told, and whether the search ended since
  // no plan can be faster than that by what is worth it.
  double rival_seconds = 0;
  bool is_beaten = false;
  // Costs that are below what they hardly ever are, by proof or by a profile.
  int num_below_bound = 0;
  int num_candidates = 0;
  CostCounts cost_counts;
  // Candidates whose cost was asked for and is of no use, with the reason.
  std::vector<PlannedPart> failed;
  // All that the search chose from, with the copies that `layouts` added; an empty status is a cost
  // that it did not need.
  std::vector<PlannedPart> candidates;
  // What changes of layout between parts cost.
  std::shared_ptr<const LayoutTransitions> layouts;
  // What each spec's rule refused and cut, by spec.
  std::vector<RuleLog> logs;
  CoverStats search;
  // See CostTable::FurthestBelowBound.
  std::string furthest_below_bound;
  // One line a limit that cut candidates.
  std::vector<std::string> cuts;
};

// A function's nodes and candidates as the search sees them, nodes to place numbered densely.
// `transitions` must outlive its search. Test:
// search/test_ilp.py.
CoverProblem MakeProblem(const DataflowGraph& graph,
                         const std::vector<CandidatePartition>& candidates,
                         const LayoutTransitions& transitions);

// A cover, whether it is what the search had when it ended because none can win (then costs of it
// are bounds), and what no cover costs less than, those included that the search gave up.
struct FoundCover {
  CoverPlan plan;
  bool is_beaten = false;
  double least_seconds = 0;
};

// Alternates between the search, which names the costs that it needs, and the backends. A kernel is
// left to the host target, at no cost and with a message that says so, only where each plan has at
// least as many of these.
// `is_over`: tells when it makes do with the costs that it has, and those of single operators,
// which it asks for unless costs are foreseen.
FoundCover FindCover(CoverSearch* search, CostTable* costs, const std::function<bool()>& is_over,
                     PhaseClock* clock);

// Candidates, transitions, costs and search, in this order. Times its phases on `clock`.
// `is_over`: as FindCover's; what comes before the search takes of the same time.
FunctionPlan Plan(const DataflowGraph& graph, const Backends& backends,
                  const std::function<bool()>& is_over, PhaseClock* clock);

// A clock that stands still while this thread waits for CPUs that others measure on.
double OwnSeconds(const Backends& backends);

// A part of a plan as it is placed, whoever planned: a search or a saved placement.
struct PlacedPart {
  SubGraph sub_graph;  // with its composites
  std::string backend;
  std::string rule;
  std::string label;  // for people: "<backend>(nn.conv2d, add)"
  // Is it a function of its own that the backend compiles, or left in the body?
  bool is_primitive = false;
  EstimatedCost cost;
};

// The plan's parts, neighbours joined within that scope.
std::vector<PlacedPart> Placed(const DataflowGraph& graph, const FunctionPlan& plan,
                               const std::vector<PartitionSpec>& specs, MergeScope scope);

}  // namespace tvm::collage
