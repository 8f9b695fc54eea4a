// SPDX-License-Identifier: Apache-2.0
#include "dual_bound.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace tvm::collage {
namespace {

// Rounds of lowering and raising anew that may pass without a better bound. On nets of hundreds of
// nodes the best bound was found within eight; a round takes less than a millisecond there.
constexpr int kPatience = 16;
// A round that raises the bound by less than this part of it has not bettered it. Where no cover
// exists, prices may rise without end: then this many rounds are enough.
constexpr Ticks kWorthwhile = 10000;
constexpr int kMostRounds = 256;

// What is known of the cost, with the crossings that every cover pays; -1: not usable.
Ticks KnownPart(const CoverProblem& problem, const PartTable& parts, int id, Ticks penalty) {
  const CandidateCost& cost = problem.costs[id];
  const Ticks fixed = parts.transitions().Fixed(id);
  switch (cost.status) {
    case CandidateCost::Status::kFailed:
      return -1;
    case CandidateCost::Status::kKnown:
      return AddTicks(ToTicks(cost.seconds), fixed);
    case CandidateCost::Status::kLastResort:
      return AddTicks(penalty, fixed);
    case CandidateCost::Status::kUnknown:
      break;
  }
  return AddTicks(ToTicks(problem.candidates[id].lower_bound), fixed);
}

}  // namespace

DualBound::DualBound(const CoverProblem& problem, const PartTable& parts, Ticks penalty)
    : parts_(parts) {
  const size_t n = static_cast<size_t>(parts.num_nodes());
  std::vector<int> num_holders(n, 0);
  prices_.of_node.assign(n, 0);
  for (int id = 0; id < parts.num_parts(); ++id) {
    prices_.reduced.push_back(KnownPart(problem, parts, id, penalty));
    if (prices_.reduced.back() < 0) continue;
    for (int node : parts.part(id).nodes) ++num_holders[node];
  }
  const auto unheld = std::find(num_holders.begin(), num_holders.end(), 0);
  if (unheld != num_holders.end()) {
    unheld_node_ = static_cast<int>(unheld - num_holders.begin());
    return;
  }
  std::vector<int> forward(n);
  std::iota(forward.begin(), forward.end(), 0);
  // What few candidates hold, large ones mostly, leaves the others' costs to their other nodes.
  std::vector<int> least_held = forward;
  std::stable_sort(least_held.begin(), least_held.end(),
                   [&](int a, int b) { return num_holders[a] < num_holders[b]; });
  SetSlots();
  Improve({least_held, forward, {forward.rbegin(), forward.rend()}});
}

void DualBound::SetSlots() {
  const TransitionTable& transitions = parts_.transitions();
  slots_.assign(static_cast<size_t>(parts_.num_nodes()), 0);
  for (int node = 0; node < parts_.num_nodes(); ++node) {
    if (!transitions.DependsOnMaker(node)) continue;
    slots_[node] = dependent_.size() * static_cast<size_t>(transitions.NumLayoutClasses());
    dependent_.push_back(node);
  }
  // Nothing is shifted yet; some class of makers charges each reader nothing beyond Fixed.
  prices_.returned.assign(dependent_.size() * static_cast<size_t>(transitions.NumLayoutClasses()),
                          0);
  prices_.charged = prices_.returned;
}

// What can be charged to a reader on `to`, if makers of the class `but` do not matter.
Ticks DualBound::ChargeableBut(int node, int but, int to, const Prices& prices) const {
  const TransitionTable& transitions = parts_.transitions();
  const Ticks* returned = prices.returned.data() + Slot(node);
  Ticks least = kInfiniteTicks;
  for (int other = 0; other < transitions.NumMakerClasses(node); ++other) {
    if (other == but) continue;
    least = std::min(least, transitions.Extra(node, other, to) + returned[other]);
  }
  return least;
}

// How much more makers of the class can return that readers can be charged: until makers of another
// class are all that sets that, or one of these has nothing to spare. Fills `makers` with the
// class's, each with how many readers it does not hold.
Ticks DualBound::MostToReturn(int node, int maker_class, const Prices& prices,
                              std::vector<std::pair<int, int>>* makers) const {
  const TransitionTable& transitions = parts_.transitions();
  const Ticks returned = prices.returned[Slot(node) + static_cast<size_t>(maker_class)];
  Ticks most = 0;
  for (int id : parts_.Reading(node)) {
    if (prices.reduced[id] < 0) continue;
    const int to = transitions.LayoutClassOf(id);
    const Ticks now = transitions.Extra(node, maker_class, to) + returned;
    most = std::max(most, ChargeableBut(node, maker_class, to, prices) - now);
  }
  const int num_readers = static_cast<int>(parts_.Readers(node).size());
  for (int id : parts_.Holding(node)) {
    const Ticks spare = prices.reduced[id];
    if (spare < 0 || transitions.MakerClassOf(node, transitions.LayoutClassOf(id)) != maker_class)
      continue;
    const int outside = num_readers - parts_.NumReaders(node, parts_.part(id));
    if (outside == 0) continue;
    makers->emplace_back(id, outside);
    most = std::min(most, spare / outside);
    if (most == 0) break;
  }
  return most;
}

// Shifts what makers of the node's value can spare to its readers, class by class.
void DualBound::Shift(int node, Prices* prices) const {
  const TransitionTable& transitions = parts_.transitions();
  for (int maker_class = 0; maker_class < transitions.NumMakerClasses(node); ++maker_class) {
    std::vector<std::pair<int, int>> makers;
    const Ticks more = MostToReturn(node, maker_class, *prices, &makers);
    if (more == 0) continue;
    for (const auto& [id, outside] : makers) {
      prices->reduced[id] -= more * outside;
    }
    prices->returned[Slot(node) + static_cast<size_t>(maker_class)] += more;
    std::vector<Ticks> raised;  // by layout class
    for (int to = 0; to < transitions.NumLayoutClasses(); ++to) {
      Ticks& charged = prices->charged[Slot(node) + static_cast<size_t>(to)];
      const Ticks before = charged;
      charged = ChargeableBut(node, -1, to, *prices);
      raised.push_back(charged - before);
    }
    for (int id : parts_.Reading(node)) {
      Ticks& reduced = prices->reduced[id];
      if (reduced >= 0) reduced += raised[transitions.LayoutClassOf(id)];
    }
  }
}

// Raises prices, then once more by what crossings can be shifted to.
void DualBound::Ascend(const std::vector<int>& order, Prices* prices) const {
  Raise(order, prices);
  if (dependent_.empty()) return;
  for (int node : dependent_) Shift(node, prices);
  Raise(order, prices);
}

// Raises each price by what all candidates that hold its node still allow.
void DualBound::Raise(const std::vector<int>& order, Prices* prices) const {
  for (int node : order) {
    Ticks least = kInfiniteTicks;
    for (int id : parts_.Holding(node)) {
      const Ticks reduced = prices->reduced[id];
      if (reduced >= 0) least = std::min(least, reduced);
      if (least == 0) break;
    }
    if (least == 0) continue;
    prices->of_node[node] += least;
    for (int id : parts_.Holding(node)) {
      Ticks& reduced = prices->reduced[id];
      if (reduced >= 0) reduced -= least;
    }
  }
  prices->sum = std::accumulate(prices->of_node.begin(), prices->of_node.end(), Ticks{0}, AddTicks);
}

// Takes half of a node's price away.
void DualBound::Lower(int node, Prices* prices) const {
  Ticks& price = prices->of_node[node];
  const Ticks less = price / 2;
  price -= less;
  for (int id : parts_.Holding(node)) {
    Ticks& reduced = prices->reduced[id];
    if (reduced >= 0) reduced += less;
  }
}

void DualBound::KeepBetter(Prices prices) {
  if (prices.sum >= prices_.sum) prices_ = std::move(prices);
}

// Each node's least equal share of a candidate's cost: good where sizes differ little.
DualBound::Prices DualBound::EqualShares() const {
  Prices shares = prices_;
  std::fill(shares.of_node.begin(), shares.of_node.end(), kInfiniteTicks);
  for (int id = 0; id < parts_.num_parts(); ++id) {
    const std::vector<int>& nodes = parts_.part(id).nodes;
    const Ticks share = prices_.reduced[id] / static_cast<Ticks>(nodes.size());
    for (int node : nodes) {
      Ticks& least = shares.of_node[node];
      if (IsUsable(id)) least = std::min(least, share);
    }
  }
  for (int id = 0; id < parts_.num_parts(); ++id) {
    if (!IsUsable(id)) continue;
    for (int node : parts_.part(id).nodes) {
      shares.reduced[id] -= shares.of_node[node];
    }
  }
  return shares;
}

// From prices of zero to the best that the orders, and rounds from there, lead to.
void DualBound::Improve(const std::vector<std::vector<int>>& orders) {
  const Prices zero = prices_;
  Prices shares = EqualShares();
  Ascend(orders.front(), &shares);
  KeepBetter(std::move(shares));
  for (const std::vector<int>& order : orders) {
    Prices raised = zero;
    Ascend(order, &raised);
    KeepBetter(std::move(raised));
  }
  // Each round lowers about half of the prices; the generator is the same on all machines.
  std::mt19937 random;  // NOLINT(bugprone-random-generator-seed): the same bound each time
  for (int failures = 0, round = 0; failures < kPatience && round < kMostRounds; ++round) {
    const Ticks before = prices_.sum;
    Prices next = prices_;
    for (int node = 0; node < parts_.num_nodes(); ++node) {
      if ((random() & 1) != 0) Lower(node, &next);
    }
    Ascend(orders[static_cast<size_t>(round) % orders.size()], &next);
    KeepBetter(std::move(next));
    failures = prices_.sum - before > before / kWorthwhile ? 0 : failures + 1;
  }
}

}  // namespace tvm::collage
