// SPDX-License-Identifier: Apache-2.0
// A plan found with lower bounds in place of unknown costs costs no more than any cover, so once
// all its own costs are known it is optimal; and each candidate asked for is part of such a plan,
// the dearest by a guess first. A last resort counts as more than all parts of any plan together,
// so that a cover with fewer of them costs less.
#include "cover_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "dual_bound.h"
#include "part_table.h"
#include "position_search.h"
#include "ticks.h"

namespace tvm::collage {

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

using Status = CandidateCost::Status;

bool IsLastResort(const CoverProblem& problem, int id) {
  return problem.costs[static_cast<size_t>(id)].status == Status::kLastResort;
}

// No cover costs more than this, with its last resorts for nothing: the sum over all nodes of their
// share of the dearest candidate that holds them, with all that it may pay for crossings.
Ticks MostOfAnyCover(const CoverProblem& problem, const PartTable& parts) {
  std::vector<Ticks> shares(static_cast<size_t>(problem.num_nodes), 0);
  for (int id = 0; id < parts.num_parts(); ++id) {
    const CandidateCost& cost = problem.costs[static_cast<size_t>(id)];
    if (cost.status == Status::kFailed) continue;
    const bool is_known = cost.status == Status::kKnown;
    const double lower_bound = problem.candidates[static_cast<size_t>(id)].lower_bound;
    const Part& part = parts.part(id);
    Ticks most = AddTicks(parts.transitions().Fixed(id), is_known ? ToTicks(cost.seconds) : 0);
    if (cost.status == Status::kUnknown) most = AddTicks(most, ToTicks(lower_bound));
    for (int read : part.outside) most = AddTicks(most, parts.transitions().MostExtra(read));
    const Ticks share = most / static_cast<Ticks>(part.nodes.size()) + 1;
    for (int node : part.nodes) {
      Ticks& dearest = shares[static_cast<size_t>(node)];
      dearest = std::max(dearest, share);
    }
  }
  return std::accumulate(shares.begin(), shares.end(), Ticks{0}, AddTicks);
}

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
    for (const CoverCandidate& candidate : problem_.candidates) {
      promised_.push_back(candidate.lower_bound);
    }
  }

  void SetLowerBound(int candidate, double seconds) {
    const size_t at = PlaceOf(candidate);
    if (problem_.are_bounds_proven || !IsUsableSeconds(seconds)) {
      throw std::invalid_argument("cover search: unusable bound " + std::to_string(seconds) +
                                  " for candidate " + std::to_string(candidate));
    }
    problem_.candidates[at].lower_bound = seconds;
  }

  void SetCost(int candidate, CandidateCost cost) {
    const size_t at = PlaceOf(candidate);
    if (cost.status == Status::kKnown && !IsUsableSeconds(cost.seconds)) {
      throw std::invalid_argument("cover search: unusable cost " + std::to_string(cost.seconds) +
                                  " for candidate " + std::to_string(candidate));
    }
    problem_.costs[at] = cost;
    if (!problem_.are_bounds_proven) return;
    if (cost.status == Status::kKnown && ToTicks(cost.seconds) < ToTicks(promised_[at])) {
      broken_.insert(candidate);
      stats_.bounds_broken = static_cast<int>(broken_.size());
      for (CoverCandidate& each : problem_.candidates) each.lower_bound = 0.0;
    }
  }

  CoverStep Step() {
    const auto start = std::chrono::steady_clock::now();
    ++stats_.steps;
    SetPenalty();
    const DualBound bound(problem_, parts_, penalty_);
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
  size_t PlaceOf(int candidate) const {
    if (candidate < 0 || candidate >= stats_.candidates) {
      throw std::invalid_argument("cover search: no candidate " + std::to_string(candidate));
    }
    return static_cast<size_t>(candidate);
  }

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

  // More than any plan costs besides, and little enough that one for each node can be summed; where
  // both cannot be, since a plan takes hours, a penalty is only very large.
  void SetPenalty() {
    penalty_ = 0;
    most_without_penalty_ = kInfiniteTicks;
    for (int id = 0; id < parts_.num_parts(); ++id) {
      if (!IsLastResort(problem_, id)) continue;
      most_without_penalty_ = MostOfAnyCover(problem_, parts_);
      penalty_ = std::min(most_without_penalty_ + 1, kInfiniteTicks / (2 * problem_.num_nodes + 2));
      return;
    }
  }

  // What the plan of these parts counts beside its seconds.
  Ticks PenaltiesOf(const std::vector<int>& parts) const {
    return penalty_ * std::count_if(parts.begin(), parts.end(),
                                    [this](int id) { return IsLastResort(problem_, id); });
  }

  // A narrow pass, and while that had to cut what might be as good as its plan, wider ones below
  // it. A plan with unknown costs ends them: its costs are needed before it can be told from a
  // better one. Last resorts that a cover can do without would fill the first pass: they are left
  // out of it unless it finds no cover.
  PassResult Passes(const DualBound& bound) {
    const int64_t most = AtLeastOne(options_.max_states_per_position);
    int64_t width = std::min(AtLeastOne(options_.first_pass_states), most);
    PassResult best = RunPass(parts_, bound, {width, most_without_penalty_});
    Count(best);
    if (!best.is_found && most_without_penalty_ < kInfiniteTicks) {
      best = RunPass(parts_, bound, {width, kInfiniteTicks});
      Count(best);
    }
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

  // Could a state that was cut have led to a plan as good?
  static bool IsCutTooMuch(const PassResult& pass) {
    return pass.cut > 0 && pass.least_cut_cost <= pass.cost;
  }

  // Ids of the parts whose costs are unknown, ascending; none where no cover was found.
  std::vector<int> UnknownCosts(const PassResult& pass) const {
    std::vector<int> unknown;
    for (int id : pass.parts) {
      if (problem_.costs[static_cast<size_t>(id)].status == Status::kUnknown) {
        unknown.push_back(id);
      }
    }
    std::sort(unknown.begin(), unknown.end());
    return unknown;
  }

  // The candidates of most work among a plan's unknown ones, which are the most likely to show that
  // it is none of the best: then the others may never be needed. Ascending, as given.
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
    const Ticks penalties = PenaltiesOf(pass.parts);
    const auto seconds_at = [&](Ticks reduced) {
      return ToSeconds(std::max<Ticks>(AddTicks(bound.Base(), reduced) - penalties, 0));
    };
    stats_.bound_seconds = seconds_at(0);
    step.plan.seconds = seconds_at(pass.cost);
    step.plan.lower_bound_seconds = seconds_at(std::min(pass.cost, pass.least_cut_cost));
    step.plan.optimal = pass.cost <= pass.least_cut_cost;
    return step;
  }

  CoverProblem problem_;
  const CoverSearchOptions options_;
  const PartTable parts_;
  std::vector<double> promised_;    // the lower bounds that the problem came with
  std::set<int> broken_;            // candidates whose known cost is below its lower bound
  Ticks penalty_ = 0;               // of a last resort, for the costs known now
  Ticks most_without_penalty_ = 0;  // no cover's other costs are above it
  CoverStats stats_;
};

CoverSearch::CoverSearch(CoverProblem problem, CoverSearchOptions options)
    : impl_(std::make_unique<Impl>(std::move(problem), options)) {}
CoverSearch::~CoverSearch() = default;
CoverSearch::CoverSearch(CoverSearch&&) noexcept = default;
CoverSearch& CoverSearch::operator=(CoverSearch&&) noexcept = default;

void CoverSearch::SetCost(int candidate, CandidateCost cost) { impl_->SetCost(candidate, cost); }
void CoverSearch::SetLowerBound(int candidate, double seconds) {
  impl_->SetLowerBound(candidate, seconds);
}
CoverStep CoverSearch::Step() { return impl_->Step(); }
const CoverProblem& CoverSearch::problem() const { return impl_->problem(); }
const CoverStats& CoverSearch::stats() const { return impl_->stats(); }

std::string CoverStats::Summary() const {
  return std::to_string(nodes) + " nodes, " + std::to_string(candidates) + " candidates, " +
         std::to_string(steps) + " steps, " + std::to_string(costs_asked) + " costs asked, " +
         std::to_string(states_expanded) + " states expanded of " +
         std::to_string(states_generated) + " generated (widest position " +
         std::to_string(widest_position) + "), " +
         (IsLimitBinding() ? std::to_string(states_cut) + " cut by max_states_per_position"
                           : std::string("no limit binding")) +
         (bounds_broken > 0 ? ", " + std::to_string(bounds_broken) + " costs below their bounds"
                            : std::string()) +
         ", " + Milliseconds(seconds);
}

}  // namespace tvm::collage
