// SPDX-License-Identifier: Apache-2.0
// The exact minimum-cost cover: which candidates together cover each node once, can be run
// one after the other, and cost least. Never measures: it names the costs that it needs.
// How and why it is exact: docs/cover_search.md.
// Test: tests/cpp/search_cover_test.cc.
//
//   CoverSearch search(std::move(problem));
//   CoverStep step = search.Step();
//   while (step.kind == CoverStep::Kind::kNeedCosts) {
//     for (int id : step.needed) search.SetCost(id, Measure(id));
//     step = search.Step();
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cover_problem.h"

namespace tvm::collage {

struct CoverSearchOptions {
  // Most states kept at one position (node) of the graph. Past it the most promising are kept, the
  // rest counted in CoverStats::states_cut, and the plan says optimal = false.
  int64_t max_states_per_position = 20000;
  // A first pass keeps only this many states a position. When a pass had to cut and knows all costs
  // of its plan, that is the upper bound of a wider one; it never makes the result worse.
  int64_t first_pass_states = 64;
};

// A cover that can be executed.
struct CoverPlan {
  // Candidate ids in an order in which they can run.
  std::vector<int> candidates;
  // Sum of the candidates' costs and of all transition costs; last resorts have none.
  double seconds = 0.0;
  // No cover with as few last resorts can cost less than this (given the candidates' lower bounds).
  double lower_bound_seconds = 0.0;
  // Proven: seconds == lower_bound_seconds. Always so when no limit cut anything.
  bool optimal = false;
};

// What one call of CoverSearch::Step came to.
struct CoverStep {
  enum class Kind {
    kPlan,       // `plan` is final: all its costs are known
    kNeedCosts,  // set the costs of `needed`, then step again
    kNoCover,    // no cover, see `uncovered_node` and `message`
  };
  Kind kind = Kind::kNoCover;
  CoverPlan plan;
  // Candidate ids, ascending, all of unknown cost; never empty for kNeedCosts.
  std::vector<int> needed;
  // kNoCover: the first node that no cover gets past.
  int uncovered_node = -1;
  std::string message;
};

// How the search went; all counts but those of the problem are sums over all steps.
struct CoverStats {
  int nodes = 0;
  int candidates = 0;
  int steps = 0;
  int costs_asked = 0;
  int64_t states_generated = 0;
  int64_t states_expanded = 0;
  // Most states at one position in any pass.
  int64_t widest_position = 0;
  // States dropped since they could not beat a known plan (exact).
  int64_t states_bounded = 0;
  // States dropped by max_states_per_position (not exact; 0 when no limit bound).
  int64_t states_cut = 0;
  // Candidates whose cost turned out below its lower bound (see SetCost).
  int bounds_broken = 0;
  // What no cover can cost less than by the bound alone, before the last step's passes.
  double bound_seconds = 0.0;
  double seconds = 0.0;

  bool IsLimitBinding() const { return states_cut > 0; }
  std::string Summary() const;
};

class CoverSearch {
 public:
  // Throws std::invalid_argument when the problem breaks its preconditions.
  explicit CoverSearch(CoverProblem problem, CoverSearchOptions options = {});
  ~CoverSearch();
  CoverSearch(CoverSearch&&) noexcept;
  CoverSearch& operator=(CoverSearch&&) noexcept;

  // Tells the cost of one candidate; may be called for any candidate at any time, so that equal
  // candidates can share one measurement. Throws std::invalid_argument for a bad id or cost. A cost
  // below its candidate's lower bound shows that whoever gave the bounds is wrong about more than
  // this one: all bounds are zero from then on, so that the plan is optimal without them.
  void SetCost(int candidate, CandidateCost cost);
  // Gives a candidate another lower bound, where the problem's are not proven:
  // std::invalid_argument where they are, and for a bad id or bound.
  void SetLowerBound(int candidate, double seconds);
  // Finds the best cover with the lower bounds in place of unknown costs. Final when all
  // its costs are known; else asks for those that are not, without a wider pass, and of these only
  // for the ones that hold most of the work where candidates say how much they do. Ties: fewest
  // parts, then the least candidate ids, compared in the order of the parts' first nodes. Once all
  // costs are known one step gives the plan.
  CoverStep Step();

  const CoverProblem& problem() const;
  const CoverStats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvm::collage
