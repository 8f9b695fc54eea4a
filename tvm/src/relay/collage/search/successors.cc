// SPDX-License-Identifier: Apache-2.0
/*!
 * \file successors.cc
 * \brief The moves described in successors.h. Tested by tests/cpp/search_states_test.cc.
 */
#include "successors.h"

#include <algorithm>

namespace tvm {
namespace collage {

bool Successors::CanPutOff(int node, const CoveredSet& covered) const {
  for (int id : parts_.Holding(node)) {
    if (CanUse(id, covered) && !IsReady(id, covered)) return true;
  }
  return false;
}

bool Successors::CanGoOn(const SearchState& state) const {
  const CoveredSet& covered = state.covered;
  // At the end nothing is left that could make a put-off part ready.
  if (state.position == parts_.num_nodes()) return covered.FirstUncovered() == state.position;
  for (int node = covered.FirstUncovered(); node < state.position;
       node = covered.NextUncovered(node + 1)) {
    if (!CanPutOff(node, covered)) return false;
  }
  return true;
}

bool Successors::IsDue(int id) const {
  const Part& part = parts_.part(id);
  // Used as soon as it became ready, least first node first: everything used between the last
  // part that it reads and now must start before it.
  for (size_t i = used_.size(); i-- > 0;) {
    const Part& used = parts_.part(used_[i]);
    for (int node : part.outside) {
      if (used.words.Contains(node)) return true;
    }
    if (used.first() > part.first()) return false;
  }
  return false;
}

Ticks Successors::CrossingCost(int id, const SearchState& state) const {
  if (state.live.empty()) return 0;
  const TransitionTable& transitions = parts_.transitions();
  const int to = transitions.BackendOf(id);
  Ticks cost = 0;
  for (int node : parts_.part(id).outside) {
    if (!transitions.DependsOnMaker(node)) continue;
    const auto live = std::lower_bound(
        state.live.begin(), state.live.end(), node,
        [](const LiveValue& value, int wanted) { return value.node < wanted; });
    cost = AddTicks(cost, transitions.Extra(node, live->maker_class, to));
  }
  return cost;
}

SearchState Successors::After(const SearchState& state, int id) const {
  const Part& part = parts_.part(id);
  SearchState next{state.position, state.covered, {}};
  next.covered.Add(part.words);
  const auto is_live = [&](int node) {
    for (int reader : parts_.Readers(node)) {
      if (!next.covered.Contains(reader)) return true;
    }
    return false;
  };
  const TransitionTable& transitions = parts_.transitions();
  for (const LiveValue& live : state.live) {
    if (is_live(live.node)) next.live.push_back(live);
  }
  const size_t kept = next.live.size();
  for (int node : part.nodes) {
    if (transitions.DependsOnMaker(node) && is_live(node)) {
      next.live.push_back({node, transitions.ClassOf(node, transitions.BackendOf(id))});
    }
  }
  std::inplace_merge(next.live.begin(), next.live.begin() + static_cast<std::ptrdiff_t>(kept),
                     next.live.end(),
                     [](const LiveValue& a, const LiveValue& b) { return a.node < b.node; });
  return next;
}

void Successors::Use(const SearchState& state, int id, Ticks cost, SuccessorSink* sink) {
  const Ticks total =
      AddTicks(AddTicks(cost, bound_.Reduced(id)), CrossingCost(id, state));
  SearchState next = After(state, id);
  used_.push_back(id);
  const CoveredSet& covered = next.covered;
  for (int node = covered.FirstUncovered(); node < state.position;
       node = covered.NextUncovered(node + 1)) {
    for (int due : parts_.StartingAt(node)) {
      if (CanUse(due, covered) && IsReady(due, covered) && IsDue(due)) {
        Use(next, due, total, sink);
      }
    }
  }
  next.position = std::min(covered.NextUncovered(state.position), parts_.num_nodes());
  if (CanGoOn(next)) sink->OnSuccessor(next, total, used_);
  used_.pop_back();
}

void Successors::Visit(const SearchState& state, SuccessorSink* sink) {
  bool can_wait = false;
  for (int id : parts_.StartingAt(state.position)) {
    if (!CanUse(id, state.covered)) continue;
    if (IsReady(id, state.covered)) {
      Use(state, id, 0, sink);
    } else {
      can_wait = true;
    }
  }
  if (!can_wait && !CanPutOff(state.position, state.covered)) return;
  SearchState next = state;
  next.position = std::min(state.covered.NextUncovered(state.position + 1), parts_.num_nodes());
  if (next.position < parts_.num_nodes()) sink->OnSuccessor(next, 0, {});
}

}  // namespace collage
}  // namespace tvm
