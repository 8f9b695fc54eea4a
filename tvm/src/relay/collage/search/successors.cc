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

bool Successors::CanGoOn(const SearchState& state) {
  const CoveredSet& covered = state.covered;
  // At the end nothing is left that could make a put-off part ready.
  if (state.position == parts_.num_nodes()) return covered.FirstUncovered() == state.position;
  waiting_.clear();
  for (int node = covered.FirstUncovered(); node < state.position;
       node = covered.NextUncovered(node + 1)) {
    waiting_.push_back(node);
    is_waiting_[static_cast<size_t>(node)] = 1;
  }
  // Nodes put off may wait for nodes from the position on, or for others put off that can be
  // covered; not for each other in a circle. So they are released until nothing changes.
  size_t num_waiting = waiting_.size();
  for (size_t before = num_waiting + 1; num_waiting > 0 && num_waiting < before;) {
    before = num_waiting;
    num_waiting = 0;
    for (size_t i = 0; i < before; ++i) {
      const int node = waiting_[i];
      if (IsReleased(node, state)) {
        is_waiting_[static_cast<size_t>(node)] = 0;
      } else {
        waiting_[num_waiting++] = node;
      }
    }
  }
  for (size_t i = 0; i < num_waiting; ++i) is_waiting_[static_cast<size_t>(waiting_[i])] = 0;
  return num_waiting == 0;
}

bool Successors::IsReleased(int node, const SearchState& state) const {
  for (int id : parts_.Holding(node)) {
    if (!CanUse(id, state.covered)) continue;
    bool is_ready = true;
    bool is_stuck = false;
    for (int read : parts_.part(id).outside) {
      if (state.covered.Contains(read)) continue;
      is_ready = false;
      is_stuck = is_waiting_[static_cast<size_t>(read)] != 0;
      if (is_stuck) break;
    }
    if (!is_ready && !is_stuck) return true;
  }
  return false;
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
  if (next.position < parts_.num_nodes() && CanGoOn(next)) sink->OnSuccessor(next, 0, {});
}

}  // namespace collage
}  // namespace tvm
