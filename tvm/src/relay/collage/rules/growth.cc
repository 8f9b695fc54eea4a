// SPDX-License-Identifier: Apache-2.0
#include "growth.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

namespace tvm::collage {
namespace {

/*! \brief Would the two be parts of one cycle, each feeding the other? */
bool Feeds(const SubGraph& upstream, const SubGraph& downstream) {
  return std::any_of(downstream.inputs().begin(), downstream.inputs().end(),
                     [&](NodeIndex input) { return upstream.inside().Contains(input); });
}

bool AreAllInside(const std::vector<NodeIndex>& nodes, const IndexSet& inside) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](NodeIndex node) { return inside.Contains(node); });
}

/*! \brief Sets seen so far from one start. */
class Seen {
 public:
  /*! \brief False when `inside` with `nested` was there already. */
  bool Add(const SubGraph& sub_graph) {
    auto [begin, end] = by_hash_.equal_range(sub_graph.Hash());
    for (auto it = begin; it != end; ++it) {
      if (sets_[it->second].first == sub_graph.inside() &&
          sets_[it->second].second == sub_graph.nested()) {
        return false;
      }
    }
    by_hash_.emplace(sub_graph.Hash(), sets_.size());
    sets_.emplace_back(sub_graph.inside(), sub_graph.nested());
    return true;
  }
  size_t size() const { return sets_.size(); }

 private:
  std::vector<std::pair<IndexSet, std::vector<NestedSubGraph>>> sets_;
  std::unordered_multimap<size_t, size_t> by_hash_;
};

}  // namespace

Growth::Growth(const DataflowGraph& graph, std::vector<Unit> units,
               const std::vector<CombinerPtr>& combiners, const CombineLimits& limits,
               std::string rule, RuleLog* log)
    : graph_(graph),
      units_(std::move(units)),
      combiners_(combiners),
      limits_(limits),
      rule_(std::move(rule)),
      log_(log),
      units_by_exit_(graph.size()),
      units_by_entry_(graph.size()),
      glue_projections_(graph.size()) {
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const Unit& unit = units_[u];
    for (NodeIndex exit : unit.sub_graph.exits()) units_by_exit_[exit].push_back(u);
    for (NodeIndex entry : unit.sub_graph.entries()) units_by_entry_[entry].push_back(u);
    if (unit.glue >= 0 && graph[unit.glue].type == NodeType::kProjection) {
      glue_projections_.Add(unit.glue);
    }
  }
}

bool Growth::CanStart(const Unit& unit) const {
  // A tuple is joined for the call that reads it, never to be a kernel's result.
  if (unit.glue >= 0 && graph_[unit.glue].type == NodeType::kTuple) return false;
  const SubGraph& sub_graph = unit.sub_graph;
  if (limits_.max_depth > 0 && sub_graph.depth() > limits_.max_depth) return false;
  return !IsSingleExit() || (sub_graph.exits().size() == 1 && !sub_graph.HasTaps(graph_));
}

/*! \brief Within the limits, and is what glue is there for inside too? */
bool Growth::IsAccepted(const SubGraph& sub_graph) const {
  if (!IsSingleExit() && !sub_graph.IsValid(graph_, limits_.Config())) return false;
  if (!glue_projections_.Intersects(sub_graph.inside())) return true;
  IndexSet projections = glue_projections_ & sub_graph.inside();
  for (NodeIndex i = projections.First(); i != IndexSet::kNone; i = projections.Next(i)) {
    if (!sub_graph.inside().Contains(graph_[i].inputs[0])) return false;
  }
  return true;
}

bool Growth::FiresAny(const CombinePart& upstream, const CombinePart& downstream) const {
  return std::any_of(combiners_.begin(), combiners_.end(), [&](const CombinerPtr& combiner) {
    return combiner->Fires(graph_, upstream, downstream);
  });
}

bool Growth::CanJoin(const State& state, const Unit& unit, bool is_upstream) const {
  const SubGraph& sub_graph = state.sub_graph;
  const CombinePart grown{sub_graph.inside(), sub_graph.kind(), state.glue};
  const CombinePart added{unit.sub_graph.inside(), unit.sub_graph.kind(), unit.glue};
  return is_upstream ? FiresAny(added, grown) : FiresAny(grown, added);
}

void Growth::AppendTouching(const State& state, const std::vector<NodeIndex>& border,
                            bool is_upstream, const Unit& start, std::vector<int>* out) const {
  const IndexSet& inside = state.sub_graph.inside();
  const NodeIndex region = graph_[inside.First()].region;
  const NodeIndex first = start.sub_graph.inside().First();
  for (NodeIndex node : border) {
    if (graph_[node].region != region) continue;
    for (int u : is_upstream ? units_by_exit_[node] : units_by_entry_[node]) {
      const Unit& unit = units_[u];
      const SubGraph& added = unit.sub_graph;
      if (IsSingleExit()) {
        const auto& exits = added.exits();
        const bool is_result = std::any_of(exits.begin(), exits.end(), [&](NodeIndex exit) {
          return graph_[exit].is_external;
        });
        if (is_result || !AreAllInside(added.outputs(), inside)) continue;
      } else if (added.inside().First() < first) {
        continue;
      }
      if (added.inside().Intersects(inside)) continue;
      const bool is_cycle = is_upstream ? Feeds(state.sub_graph, added)
                                        : Feeds(added, state.sub_graph);
      if (is_cycle || !CanJoin(state, unit, is_upstream)) continue;
      if (!IsSingleExit() && !IsConvex(graph_, inside | added.inside())) continue;
      out->push_back(u);
    }
  }
}

/*! \brief Units that may be added, each once, the nearest to the start first. */
std::vector<int> Growth::Extensions(const State& state, const Unit& start) const {
  std::vector<int> found;
  AppendTouching(state, state.sub_graph.inputs(), /*is_upstream=*/true, start, &found);
  if (!IsSingleExit()) {
    AppendTouching(state, state.sub_graph.outputs(), /*is_upstream=*/false, start, &found);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/*!
 * \brief One large union: the light kinds first, since a heavy one shuts the way to the rest. Asked
 * for where the number of unions is cut, so that the largest is not among those lost.
 */
void Growth::GrowGreedily(State state, int start, std::vector<Grown>* out) {
  std::vector<SubGraph> accepted;
  while (true) {
    std::vector<int> extensions = Extensions(state, units_[start]);
    std::stable_sort(extensions.begin(), extensions.end(), [&](int a, int b) {
      return units_[a].sub_graph.kind() < units_[b].sub_graph.kind();
    });
    bool is_grown = false;
    for (int u : extensions) {
      SubGraph next = state.sub_graph.Union(graph_, units_[u].sub_graph);
      if (limits_.max_depth > 0 && next.depth() > limits_.max_depth) continue;
      state = {std::move(next), -1};
      if (IsAccepted(state.sub_graph)) accepted.push_back(state.sub_graph);
      is_grown = true;
      break;
    }
    if (!is_grown) break;
  }
  if (!accepted.empty()) out->push_back({std::move(accepted.back()), start});
}

void Growth::GrowFrom(int start, std::vector<Grown>* out) {
  if (!CanStart(units_[start])) return;
  const State first{units_[start].sub_graph, units_[start].glue};
  Seen seen;
  seen.Add(first.sub_graph);
  std::deque<State> queue = {first};
  int64_t steps_cut_by_depth = 0;
  int64_t steps_cut_by_count = 0;
  // Smaller unions come first, so it is the larger ones that a full table loses.
  while (!queue.empty()) {
    State state = std::move(queue.front());
    queue.pop_front();
    for (int u : Extensions(state, units_[start])) {
      if (seen.size() >= static_cast<size_t>(limits_.max_candidates_per_node)) {
        ++steps_cut_by_count;
        continue;
      }
      SubGraph next = state.sub_graph.Union(graph_, units_[u].sub_graph);
      if (limits_.max_depth > 0 && next.depth() > limits_.max_depth) {
        ++steps_cut_by_depth;
      } else if (seen.Add(next)) {
        queue.push_back({std::move(next), -1});
      }
    }
    if (IsAccepted(state.sub_graph)) out->push_back({std::move(state.sub_graph), start});
  }
  log_->Cut(rule_, "max_depth", steps_cut_by_depth);
  log_->Cut(rule_, "max_candidates_per_node", steps_cut_by_count);
  if (steps_cut_by_count > 0) GrowGreedily(first, start, out);
}

std::vector<Growth::Grown> Growth::All() {
  std::vector<Grown> result;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) GrowFrom(u, &result);
  return result;
}

}  // namespace tvm::collage
