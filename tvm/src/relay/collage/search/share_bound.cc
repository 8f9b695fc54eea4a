// SPDX-License-Identifier: Apache-2.0
/*!
 * \file share_bound.cc
 * \brief Computes shares and reduced costs. Tested by tests/cpp/search_states_test.cc.
 */
#include "share_bound.h"

#include <algorithm>

namespace tvm {
namespace collage {

namespace {

/*! \brief What is known of the cost, with the crossings that every cover pays; -1: not usable. */
Ticks KnownPart(const CoverProblem& problem, const PartTable& parts, int id) {
  const CandidateCost& cost = problem.costs[static_cast<size_t>(id)];
  const Ticks fixed = parts.transitions().Fixed(id);
  switch (cost.status) {
    case CandidateCost::Status::kFailed:
      return -1;
    case CandidateCost::Status::kKnown:
      return AddTicks(ToTicks(cost.seconds), fixed);
    case CandidateCost::Status::kUnknown:
      break;
  }
  return AddTicks(ToTicks(problem.candidates[static_cast<size_t>(id)].lower_bound), fixed);
}

}  // namespace

ShareBound::ShareBound(const CoverProblem& problem, const PartTable& parts) {
  shares_.assign(static_cast<size_t>(parts.num_nodes()), kInfiniteTicks);
  reduced_.resize(static_cast<size_t>(parts.num_parts()));
  for (int id = 0; id < parts.num_parts(); ++id) {
    const Ticks cost = KnownPart(problem, parts, id);
    reduced_[static_cast<size_t>(id)] = cost;
    if (cost < 0) continue;
    const std::vector<int>& nodes = parts.part(id).nodes;
    const Ticks share = cost / static_cast<Ticks>(nodes.size());
    for (int node : nodes) {
      Ticks& least = shares_[static_cast<size_t>(node)];
      least = std::min(least, share);
    }
  }
  for (int node = 0; node < parts.num_nodes(); ++node) {
    const Ticks share = Share(node);
    if (share == kInfiniteTicks) {
      unheld_node_ = node;
      return;
    }
    base_ = AddTicks(base_, share);
  }
  for (int id = 0; id < parts.num_parts(); ++id) {
    Ticks& reduced = reduced_[static_cast<size_t>(id)];
    if (reduced < 0) continue;
    for (int node : parts.part(id).nodes) reduced -= Share(node);
  }
}

}  // namespace collage
}  // namespace tvm
