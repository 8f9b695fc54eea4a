// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cover_search.cc
 * \brief Steps of the cover search. A plan found with lower bounds in place of unknown costs costs
 * no more than any cover, so once all its own costs are known it is optimal; and each candidate
 * asked for is part of such a plan, the dearest by a guess first. Tested by
 * tests/cpp/search_cover_test.cc.
 */
#include "cover_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dual_bound.h"
#include "execution_order.h"
#include "part_table.h"
#include "position_search.h"
#include "ticks.h"

namespace tvm {
namespace collage {

namespace {

// Each pass is so many times wider than the one before: all before the last cost little beside it.
constexpr int64_t kWidening = 16;

// Of the unknown costs of a plan those are asked for that hold this much of its unknown work, at
// least so many at a time. A smaller fraction asks for fewer costs in more rounds, whose builds
// then keep fewer cores busy; bench/search.py, side `asked`, counts both at made-up costs.
constexpr double kWorkAskedFirst = 0.8;
constexpr size_t kLeastAsked = 8;
// After so many steps the best plan has many parts, nearly all costs are needed to prove it, and
// asking for few at a time only takes more rounds, whose builds could run in parallel.
constexpr int kStepsAskingFew = 16;

int64_t AtLeastOne(int64_t limit) { return std::max<int64_t>(limit, 1); }

std::string Milliseconds(double seconds) {
  return std::to_string(std::lround(seconds * 1e3)) + " ms";
}

}  // namespace

class CoverSearch::Impl {
 public:
  Impl(CoverProblem problem, CoverSearchOptions options)
      : problem_(Checked(std::move(problem))), options_(options), parts_(problem_) {
    stats_.nodes = problem_.num_nodes;
    stats_.candidates = static_cast<int>(problem_.candidates.size());
  }

  void SetCost(int candidate, CandidateCost cost) {
    if (candidate < 0 || candidate >= stats_.candidates) {
      throw std::invalid_argument("cover search: no candidate " + std::to_string(candidate));
    }
    if (cost.status == CandidateCost::Status::kKnown && !IsUsableSeconds(cost.seconds)) {
      throw std::invalid_argument("cover search: unusable cost " + std::to_string(cost.seconds) +
                                  " for candidate " + std::to_string(candidate));
    }
    problem_.costs[static_cast<size_t>(candidate)] = cost;
  }

  CoverStep Step() {
    const auto start = std::chrono::steady_clock::now();
    ++stats_.steps;
    const DualBound bound(problem_, parts_);
    stats_.bound_seconds = ToSeconds(bound.Base());
    CoverStep step;
    if (bound.unheld_node() >= 0) {
      step.uncovered_node = bound.unheld_node();
      step.message = "no usable candidate holds node " + std::to_string(step.uncovered_node);
    } else {
      step = FromPass(bound, Passes(bound));
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    stats_.seconds += spent.count();
    return step;
  }

  const CoverProblem& problem() const { return problem_; }
  const CoverStats& stats() const { return stats_; }

 private:
  static CoverProblem Checked(CoverProblem problem) {
    problem.Validate();
    problem.costs.resize(problem.candidates.size());
    return problem;
  }

  void Count(const PassResult& pass) {
    stats_.states_generated += pass.generated;
    stats_.states_expanded += pass.expanded;
    stats_.states_bounded += pass.bounded;
    stats_.widest_position = std::max(stats_.widest_position, pass.widest);
  }

  /*!
   * \brief A narrow pass, and while that had to cut what might be as good as its plan, wider ones
   * below it. A plan with unknown costs ends them: its costs are needed before it can be told from
   * a better one.
   */
  PassResult Passes(const DualBound& bound) {
    const int64_t most = AtLeastOne(options_.max_states_per_position);
    int64_t width = std::min(AtLeastOne(options_.first_pass_states), most);
    PassResult best = RunPass(parts_, bound, {width, kInfiniteTicks});
    Count(best);
    while (IsCutTooMuch(best) && width < most && UnknownCosts(best).empty()) {
      width = std::min(width * kWidening, most);
      PassResult wider = RunPass(parts_, bound, {width, best.cost});
      Count(wider);
      if (best.cost < wider.cost) {
        wider.is_found = best.is_found;
        wider.cost = best.cost;
        wider.parts = std::move(best.parts);
      }
      best = std::move(wider);
    }
    if (width == most && IsCutTooMuch(best)) stats_.states_cut += best.cut;
    return best;
  }

  /*! \brief Could a state that was cut have led to a plan as good? */
  static bool IsCutTooMuch(const PassResult& pass) {
    return pass.cut > 0 && pass.least_cut_cost <= pass.cost;
  }

  /*! \brief Ids of the parts whose costs are unknown, ascending; none where no cover was found. */
  std::vector<int> UnknownCosts(const PassResult& pass) const {
    std::vector<int> unknown;
    for (int id : pass.parts) {
      if (problem_.costs[static_cast<size_t>(id)].status == CandidateCost::Status::kUnknown) {
        unknown.push_back(id);
      }
    }
    std::sort(unknown.begin(), unknown.end());
    return unknown;
  }

  /*!
   * \brief The candidates of most work among a plan's unknown ones, which are the most likely to
   * show that it is none of the best: then the others may never be needed. Ascending, as given.
   */
  std::vector<int> AskedFirst(const std::vector<int>& unknown) const {
    const auto work_of = [this](int id) {
      return problem_.candidates[static_cast<size_t>(id)].work;
    };
    double rest = 0.0;
    for (int id : unknown) rest += work_of(id);
    if (!(rest > 0.0) || stats_.steps > kStepsAskingFew) return unknown;
    const double left_out = rest * (1.0 - kWorkAskedFirst);
    std::vector<int> ranked = unknown;
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](int a, int b) { return work_of(a) > work_of(b); });
    size_t count = 0;
    while (count < ranked.size() && (count < kLeastAsked || rest > left_out)) {
      rest -= work_of(ranked[count++]);
    }
    ranked.resize(count);
    std::sort(ranked.begin(), ranked.end());
    return ranked;
  }

  CoverStep FromPass(const DualBound& bound, PassResult pass) {
    CoverStep step;
    if (!pass.is_found) {
      step.uncovered_node = pass.first_uncovered;
      step.message = pass.cut > 0 ? "no cover found within the limit of states at one position"
                                  : "no candidates fit together to cover node " +
                                        std::to_string(pass.first_uncovered) + " and all before it";
      return step;
    }
    step.needed = AskedFirst(UnknownCosts(pass));
    stats_.costs_asked += static_cast<int>(step.needed.size());
    step.kind = step.needed.empty() ? CoverStep::Kind::kPlan : CoverStep::Kind::kNeedCosts;
    step.plan.candidates = ExecutionOrder(parts_, pass.parts);
    step.plan.seconds = ToSeconds(AddTicks(bound.Base(), pass.cost));
    step.plan.lower_bound_seconds =
        ToSeconds(AddTicks(bound.Base(), std::min(pass.cost, pass.least_cut_cost)));
    step.plan.optimal = pass.cost <= pass.least_cut_cost;
    return step;
  }

  CoverProblem problem_;
  const CoverSearchOptions options_;
  const PartTable parts_;
  CoverStats stats_;
};

CoverSearch::CoverSearch(CoverProblem problem, CoverSearchOptions options)
    : impl_(std::make_unique<Impl>(std::move(problem), options)) {}
CoverSearch::~CoverSearch() = default;
CoverSearch::CoverSearch(CoverSearch&&) noexcept = default;
CoverSearch& CoverSearch::operator=(CoverSearch&&) noexcept = default;

void CoverSearch::SetCost(int candidate, CandidateCost cost) { impl_->SetCost(candidate, cost); }
CoverStep CoverSearch::Step() { return impl_->Step(); }
const CoverProblem& CoverSearch::problem() const { return impl_->problem(); }
const CoverStats& CoverSearch::stats() const { return impl_->stats(); }

std::string CoverStep::Summary() const {
  switch (kind) {
    case Kind::kNoCover:
      return "no cover: " + message;
    case Kind::kNeedCosts:
      return "needs " + std::to_string(needed.size()) + " costs";
    case Kind::kPlan:
      break;
  }
  std::string summary = std::to_string(plan.candidates.size()) + " parts, " +
                        std::to_string(plan.seconds * 1e3) + " ms";
  if (plan.optimal) return summary + ", optimal";
  return summary + ", not proven optimal (no cover below " +
         std::to_string(plan.lower_bound_seconds * 1e3) + " ms)";
}

std::string CoverStats::Summary() const {
  return std::to_string(nodes) + " nodes, " + std::to_string(candidates) + " candidates, " +
         std::to_string(steps) + " steps, " + std::to_string(costs_asked) + " costs asked, " +
         std::to_string(states_expanded) + " states expanded of " +
         std::to_string(states_generated) + " generated (widest position " +
         std::to_string(widest_position) + "), " +
         (IsLimitBinding() ? std::to_string(states_cut) + " cut by max_states_per_position"
                           : std::string("no limit binding")) +
         ", " + Milliseconds(seconds);
}

CoverStep RunToEnd(CoverSearch* search, const std::function<CandidateCost(int)>& cost_of) {
  CoverStep step = search->Step();
  while (step.kind == CoverStep::Kind::kNeedCosts) {
    for (int id : step.needed) {
      const CandidateCost cost = cost_of(id);
      if (cost.status == CandidateCost::Status::kUnknown) {
        throw std::invalid_argument("cover search: the cost of candidate " + std::to_string(id) +
                                    " was asked for and is still unknown");
      }
      search->SetCost(id, cost);
    }
    step = search->Step();
  }
  return step;
}

}  // namespace collage
}  // namespace tvm
