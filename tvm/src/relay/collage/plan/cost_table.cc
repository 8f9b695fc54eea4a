// SPDX-License-Identifier: Apache-2.0
#include "cost_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_set>

#include "../graph/hash.h"
#include "../rules/work_estimate.h"

namespace tvm::collage {
namespace {

// A batch that keeps several workers busy for some seconds; the answers say what to expect of
// others.
constexpr size_t kAskedAtOnce = 16;
// So many costs of a backend and size say how far its others are above what was likely, by the
// ratio that this share of them is below: as the multiples of profiles are learnt (SELDOM in
// calibration.py). Those of larger sizes stand in for missing ones: the larger a part, the less do
// its borders add to it.
constexpr size_t kEnoughOfAKind = 5;
constexpr double kSeldom = 0.25;
// What a backend fuses with a part seldom makes that quicker by more than this.
constexpr double kAtLeastOfInside = 0.9;
// So many times what is likely of a cost is as often below it as above: costs beside profiles are
// spread by a seventh, and those that a search chooses have the luckiest guesses.
constexpr double kAsOftenAbove = 1.25;
// Sizes differ by so many powers of two.
constexpr int kPowersOfASize = 2;

// The ratio that a share of kSeldom is below.
double SeldomBelow(std::vector<double> ratios) {
  const auto at = ratios.begin() + static_cast<int64_t>(kSeldom * ratios.size());
  std::nth_element(ratios.begin(), at, ratios.end());
  return *at;
}

}  // namespace

CostTable::CostTable(const DataflowGraph& graph, const Backends& backends,
                     const std::vector<CandidatePartition>& candidates)
    : graph_(graph), backends_(backends), candidates_(candidates) {
  costs_.resize(candidates.size());
  proven_seconds_.resize(candidates.size());
  least_seconds_.resize(candidates.size());
  most_inside_.resize(candidates.size());
  const Signatures signatures = backends.SignaturesOf(graph);
  for (size_t id = 0; id < candidates.size(); ++id) {
    const size_t spec = static_cast<size_t>(candidates[id].spec);
    if (of_backend_.size() <= spec) of_backend_.resize(spec + 1);
    of_backend_[spec].push_back(static_cast<int>(id));
    if (backends.IsHost(candidates[id])) {
      signature_of_.push_back(nullptr);  // never asked for
      continue;
    }
    auto& entry = *equal_.try_emplace(signatures.Of(candidates[id])).first;
    entry.second.push_back(static_cast<int>(id));
    signature_of_.push_back(&entry.first);
    counts_.candidates += !candidates[id].stays_plain;
  }
  counts_.distinct = static_cast<int>(equal_.size());
}

void CostTable::SetHostCosts(CoverSearch* search) {
  for (size_t id = 0; id < candidates_.size(); ++id) {
    if (!backends_.IsHost(candidates_[id])) continue;
    const bool is_free = candidates_[id].is_free;
    costs_[id] = is_free ? EstimatedCost{"estimated", 0.0, ""}
                         : EstimatedCost{"unsupported", 0.0, "left to the other backends"};
    search->SetCost(static_cast<int>(id),
                    is_free ? CandidateCost::Known(0.0) : CandidateCost::LastResort());
  }
}

CostQuestion CostTable::QuestionFor(int id) const {
  return {candidates_[id], Hex(SignatureHash()(*signature_of_[id]))};
}

std::vector<CostQuestion> CostTable::AllQuestions() const {
  std::vector<CostQuestion> questions;
  for (const auto& [signature, ids] : equal_) questions.push_back(QuestionFor(ids.front()));
  return questions;
}

void CostTable::AskForBounds() {
  if (backends_.ArePricesCheap()) return;
  const std::vector<CostQuestion> questions = AllQuestions();
  const std::vector<double> proven = backends_.LeastSeconds(graph_, questions);
  size_t k = 0;
  for (const auto& [signature, ids] : equal_) {
    for (int id : ids) proven_seconds_[id] = proven.empty() ? 0.0 : proven[k];
    ++k;
  }
  least_seconds_ = proven_seconds_;
  Foresee(questions, /*sharply=*/false);
}

void CostTable::Foresee(const std::vector<CostQuestion>& questions, bool sharply) {
  const Foresight foresight = backends_.Foresee(graph_, questions, sharply);
  rival_seconds_ = foresight.rival_seconds;
  is_final_ = foresight.is_final;
  is_rough_ = foresight.is_rough;
  asking_seconds_ = foresight.asking_seconds;
  if (foresight.likely.empty()) return;
  likely_seconds_.resize(candidates_.size());
  size_t k = 0;
  for (const auto& [signature, ids] : equal_) {
    for (int id : ids) {
      least_seconds_[id] = std::max(proven_seconds_[id], foresight.least[k]);
      likely_seconds_[id] = std::max(least_seconds_[id], foresight.likely[k]);
    }
    ++k;
  }
}

void CostTable::SetLowerBounds(CoverProblem* problem) const {
  problem->are_bounds_proven = likely_seconds_.empty();
  const std::vector<double>& bounds = likely_seconds_.empty() ? least_seconds_ : likely_seconds_;
  for (size_t id = 0; id < bounds.size(); ++id) problem->candidates[id].lower_bound = bounds[id];
}

void CostTable::LeaveAsForeseen(const CoverProblem& problem, const std::vector<int>& plan) {
  for (int id : plan) {
    if (!costs_[id].status.empty()) continue;
    const double seconds = problem.candidates[id].lower_bound;
    costs_[id] = {"estimated", seconds, "by profiles of the backends alone"};
  }
}

int CostTable::NumBelowBound() const {
  return static_cast<int>(std::count_if(equal_.begin(), equal_.end(), [&](const auto& entry) {
    const EstimatedCost& cost = costs_[entry.second.front()];
    return cost.status == "measured" && cost.seconds < least_seconds_[entry.second.front()];
  }));
}

double CostTable::LeastOfAnyCover(CoverProblem problem) const {
  for (size_t id = 0; id < candidates_.size(); ++id) {
    problem.candidates[id].lower_bound = least_seconds_[id];
  }
  CoverSearch search(std::move(problem));
  return search.Step().plan.lower_bound_seconds;
}

std::string CostTable::FurthestBelowBound() const {
  double least_ratio = 1;
  std::string text;
  for (const auto& [signature, ids] : equal_) {
    const EstimatedCost& cost = costs_[ids.front()];
    const double bound = least_seconds_[ids.front()];
    if (!cost.IsUsable() || cost.seconds >= least_ratio * bound) continue;
    least_ratio = cost.seconds / bound;
    const CandidatePartition& candidate = candidates_[ids.front()];
    text = "; furthest: " + LabelOf(graph_, candidate, backends_.SpecOf(candidate).name) + ": " +
           cost.Summary() + ", its bound " + SecondsText(bound);
  }
  return text;
}

void CostTable::LeaveToHost(const std::vector<int>& plan) {
  for (int id : plan) {
    if (!backends_.IsHost(candidates_[id]) || candidates_[id].is_free) continue;
    costs_[id] = {"estimated", 0.0, "no candidate with a cost fits: left to the host target"};
  }
}

std::vector<int> CostTable::Ask(const std::vector<int>& ids) {
  std::vector<const Signature*> asked;
  std::vector<CostQuestion> questions;
  std::unordered_set<const Signature*> is_asked;
  for (int id : ids) {
    if (!is_asked.insert(signature_of_[id]).second) continue;
    asked.push_back(signature_of_[id]);
    questions.push_back(QuestionFor(id));
  }
  std::vector<int> answered;
  if (questions.empty()) return answered;
  counts_.asked += static_cast<int>(questions.size());
  ++counts_.rounds;
  const std::vector<EstimatedCost> answers = backends_.Price(graph_, questions);
  for (size_t k = 0; k < asked.size(); ++k) {
    for (int id : equal_.at(*asked[k])) {
      costs_[id] = answers[k];
      answered.push_back(id);
    }
  }
  return answered;
}

void CostTable::EstimateAllIfCheap(CoverSearch* search) {
  if (!backends_.ArePricesCheap()) return;
  std::vector<int> all;
  for (size_t id = 0; id < candidates_.size(); ++id) {
    if (signature_of_[id] != nullptr) all.push_back(static_cast<int>(id));
  }
  Estimate(search, all);
}

void CostTable::GiveUpUnknown(CoverSearch* search) {
  const IndexSet by_tvm = SinglesOfTvm();
  for (const auto& [signature, ids] : equal_) {
    const int first = ids.front();
    if (!costs_[first].status.empty()) continue;
    const bool is_needed = std::any_of(ids.begin(), ids.end(), [&](int id) {
      return IsSingle(id) && (!backends_.SpecOf(candidates_[id]).is_external ||
                              !candidates_[id].sub_graph.inside().IsSubsetOf(by_tvm));
    });
    if (is_needed) continue;
    ++counts_.given_up;
    for (int id : ids) {
      costs_[id].message = "the search's time was over before (options effort, time_limit)";
      search->SetCost(id, CandidateCost::Failed());
    }
  }
}

double CostTable::SecondsAsForeseen(const CoverProblem& problem,
                                    const std::vector<int>& plan) const {
  double seconds = 0;
  for (int id : plan) {
    const bool is_known = !costs_[id].status.empty();
    seconds += is_known ? costs_[id].seconds : kAsOftenAbove * problem.candidates[id].lower_bound;
  }
  return seconds;
}

IndexSet CostTable::SinglesOfTvm() const {
  IndexSet found(graph_.size());
  for (const auto& [signature, ids] : equal_) {
    const EstimatedCost& cost = costs_[ids.front()];
    if (!cost.status.empty() && !cost.IsUsable()) continue;
    for (int id : ids) {
      const bool is_external = backends_.SpecOf(candidates_[id]).is_external;
      if (!is_external && IsSingle(id)) found |= candidates_[id].sub_graph.inside();
    }
  }
  return found;
}

bool CostTable::IsSingle(int id) const {
  return NumOpCalls(graph_, candidates_[id].sub_graph) <= 1;
}

std::vector<int> CostTable::FirstToAsk(std::vector<int> needed) const {
  if (likely_seconds_.empty() || needed.size() <= kAskedAtOnce) return needed;
  std::stable_sort(needed.begin(), needed.end(),
                   [&](int a, int b) { return likely_seconds_[a] > likely_seconds_[b]; });
  needed.resize(kAskedAtOnce);
  return needed;
}

int CostTable::SizeOf(int id) const { return std::ilogb(likely_seconds_[id]) / kPowersOfASize; }

void CostTable::RaiseLikely(CoverSearch* search) const {
  if (!are_foreseen()) return;
  // By backend, and by size from the largest on.
  std::map<int, std::map<int, std::vector<double>, std::greater<>>> ratios;
  for (const auto& [signature, ids] : equal_) {
    const int first = ids.front();
    if (!(likely_seconds_[first] > 0)) continue;
    std::vector<double>& of_kind = ratios[candidates_[first].spec][SizeOf(first)];
    if (costs_[first].status != "measured") continue;
    of_kind.push_back(costs_[first].seconds / likely_seconds_[first]);
  }
  std::map<int, std::map<int, double>> raised;
  for (const auto& [spec, sizes] : ratios) {
    std::vector<double> known;  // of this size and larger ones
    for (const auto& [size, of_size] : sizes) {
      known.insert(known.end(), of_size.begin(), of_size.end());
      const bool are_enough = of_size.size() >= kEnoughOfAKind;
      if (known.size() < kEnoughOfAKind) continue;
      raised[spec][size] = std::max(1.0, SeldomBelow(are_enough ? of_size : known));
    }
  }
  for (size_t id = 0; id < candidates_.size(); ++id) {
    const int each = static_cast<int>(id);
    if (backends_.IsHost(candidates_[id]) || !costs_[id].status.empty()) continue;
    const double likely = likely_seconds_[id];
    const std::map<int, double>& of_backend = raised[candidates_[id].spec];
    const auto found = likely > 0 ? of_backend.find(SizeOf(each)) : of_backend.end();
    const double ratio = found == of_backend.end() ? 1.0 : found->second;
    // Also what was raised before by more, as fewer costs were known.
    search->SetLowerBound(each, std::max(ratio * likely, kAtLeastOfInside * most_inside_[id]));
  }
}

void CostTable::NoteInside(int id) {
  const IndexSet& nodes = candidates_[id].sub_graph.inside();
  for (int other : of_backend_[candidates_[id].spec]) {
    double& most = most_inside_[other];
    if (costs_[id].seconds <= most) continue;
    if (nodes.IsSubsetOf(candidates_[other].sub_graph.inside())) most = costs_[id].seconds;
  }
}

void CostTable::Estimate(CoverSearch* search, const std::vector<int>& needed) {
  for (int id : Ask(needed)) {
    const EstimatedCost& cost = costs_[id];
    search->SetCost(id,
                    cost.IsUsable() ? CandidateCost::Known(cost.seconds) : CandidateCost::Failed());
    if (cost.status == "measured" && are_foreseen()) NoteInside(id);
  }
}

}  // namespace tvm::collage
