// SPDX-License-Identifier: Apache-2.0
/*!
 * \file dual_bound.cc
 * \brief Dual ascent. Tested by tests/cpp/search_bound_test.cc.
 */
#include "dual_bound.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace tvm {
namespace collage {

namespace {

// Rounds of lowering and raising anew that may pass without a better bound. On nets of hundreds of
// nodes the best bound was found within eight; a round takes less than a millisecond there.
constexpr int kPatience = 16;

/*! \brief What is known of the cost, with the crossings that every cover pays; -1: not usable. */
Ticks KnownPart(const CoverProblem& problem, const PartTable& parts, int id, Ticks penalty) {
  const CandidateCost& cost = problem.costs[static_cast<size_t>(id)];
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
  return AddTicks(ToTicks(problem.candidates[static_cast<size_t>(id)].lower_bound), fixed);
}

}  // namespace

DualBound::DualBound(const CoverProblem& problem, const PartTable& parts, Ticks penalty)
    : parts_(parts) {
  const size_t n = static_cast<size_t>(parts.num_nodes());
  std::vector<int> num_holders(n, 0);
  prices_.of_node.assign(n, 0);
  prices_.reduced.resize(static_cast<size_t>(parts.num_parts()));
  for (int id = 0; id < parts.num_parts(); ++id) {
    const Ticks cost = KnownPart(problem, parts, id, penalty);
    prices_.reduced[static_cast<size_t>(id)] = cost;
    if (cost < 0) continue;
    for (int node : parts.part(id).nodes) ++num_holders[static_cast<size_t>(node)];
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
  std::stable_sort(least_held.begin(), least_held.end(), [&](int a, int b) {
    return num_holders[static_cast<size_t>(a)] < num_holders[static_cast<size_t>(b)];
  });
  Improve({least_held, forward, {forward.rbegin(), forward.rend()}});
}

/*! \brief Raises each price by what all candidates that hold its node still allow. */
void DualBound::Raise(const std::vector<int>& order, Prices* prices) const {
  for (int node : order) {
    Ticks least = kInfiniteTicks;
    for (int id : parts_.Holding(node)) {
      const Ticks reduced = prices->reduced[static_cast<size_t>(id)];
      if (reduced >= 0) least = std::min(least, reduced);
      if (least == 0) break;
    }
    if (least == 0) continue;
    prices->of_node[static_cast<size_t>(node)] += least;
    for (int id : parts_.Holding(node)) {
      Ticks& reduced = prices->reduced[static_cast<size_t>(id)];
      if (reduced >= 0) reduced -= least;
    }
  }
  prices->sum = std::accumulate(prices->of_node.begin(), prices->of_node.end(), Ticks{0}, AddTicks);
}

/*! \brief Takes half of a node's price away. */
void DualBound::Lower(int node, Prices* prices) const {
  Ticks& price = prices->of_node[static_cast<size_t>(node)];
  const Ticks less = price / 2;
  price -= less;
  for (int id : parts_.Holding(node)) {
    Ticks& reduced = prices->reduced[static_cast<size_t>(id)];
    if (reduced >= 0) reduced += less;
  }
}

void DualBound::KeepBetter(Prices prices) {
  if (prices.sum >= prices_.sum) prices_ = std::move(prices);
}

/*! \brief Each node's least equal share of a candidate's cost: good where sizes differ little. */
DualBound::Prices DualBound::EqualShares() const {
  Prices shares = prices_;
  std::fill(shares.of_node.begin(), shares.of_node.end(), kInfiniteTicks);
  for (int id = 0; id < parts_.num_parts(); ++id) {
    const std::vector<int>& nodes = parts_.part(id).nodes;
    const Ticks share = prices_.reduced[static_cast<size_t>(id)] / static_cast<Ticks>(nodes.size());
    for (int node : nodes) {
      Ticks& least = shares.of_node[static_cast<size_t>(node)];
      if (IsUsable(id)) least = std::min(least, share);
    }
  }
  for (int id = 0; id < parts_.num_parts(); ++id) {
    if (!IsUsable(id)) continue;
    for (int node : parts_.part(id).nodes) {
      shares.reduced[static_cast<size_t>(id)] -= shares.of_node[static_cast<size_t>(node)];
    }
  }
  return shares;
}

/*! \brief From prices of zero to the best that the orders, and rounds from there, lead to. */
void DualBound::Improve(std::vector<std::vector<int>> orders) {
  const Prices zero = prices_;
  Prices shares = EqualShares();
  Raise(orders.front(), &shares);
  KeepBetter(std::move(shares));
  for (const std::vector<int>& order : orders) {
    Prices raised = zero;
    Raise(order, &raised);
    KeepBetter(std::move(raised));
  }
  // Each round lowers about half of the prices; the generator is the same on all machines.
  std::mt19937 random;  // NOLINT(bugprone-random-generator-seed): the same bound each time
  for (int failures = 0, round = 0; failures < kPatience; ++round) {
    const Ticks before = prices_.sum;
    Prices next = prices_;
    for (int node = 0; node < parts_.num_nodes(); ++node) {
      if ((random() & 1) != 0) Lower(node, &next);
    }
    Raise(orders[static_cast<size_t>(round) % orders.size()], &next);
    KeepBetter(std::move(next));
    failures = prices_.sum > before ? 0 : failures + 1;
  }
}

}  // namespace collage
}  // namespace tvm
