// SPDX-License-Identifier: Apache-2.0
// Growth: enumerates unions of units (sub-candidates, tuples, projections) that combiners build one
// unit at a time, each union once; Combine: the rule that gives them. Test:
// tvm/tests/cpp/rules_combine_test.cc.
//
// With one exit and no taps every part of a union must be read inside, so a union is grown upwards
// from the unit that holds its exit, a unit being added once all its readers are inside: every
// step is itself a valid, convex candidate, and no other set is ever built. With several exits or
// taps, unions are grown in both directions from the unit that comes first, through convex sets
// only; that loses none, since a connected convex set always has a source or sink unit, other than
// the first, without which it still hangs together.
//
// Units may overlap (patterns do), so one set may be made of different units. Where the same nodes
// lie in composites, only the making with the fewest units is kept, on equal terms that of the
// earlier ones: unions are made level by level, one unit more on each, so it is the first one met.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "../graph/hash.h"
#include "base_rules.h"
#include "combinators.h"
#include "marks.h"

namespace tvm::collage {
namespace {

// Would the two be parts of one cycle, each feeding the other?
bool Feeds(const SubGraph& upstream, const SubGraph& downstream) {
  return std::any_of(downstream.inputs().begin(), downstream.inputs().end(),
                     [&](NodeIndex input) { return upstream.inside().Contains(input); });
}

bool AreAllInside(const std::vector<NodeIndex>& nodes, const IndexSet& inside) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](NodeIndex node) { return inside.Contains(node); });
}

// Which nodes, which of them in composites, wrapped or not: what makes two unions the same.
struct Key {
  IndexSet inside;
  IndexSet labelled;
  bool is_primitive;
  bool operator==(const Key& that) const {
    return is_primitive == that.is_primitive && inside == that.inside && labelled == that.labelled;
  }
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    return Hash().Add(key.inside.Hash()).Add(key.labelled.Hash()).Get();
  }
};
constexpr size_t kTooDeep = SIZE_MAX;
// Which state it is.
using Seen = std::unordered_map<Key, size_t, KeyHash>;

// Either may be the empty set of no size, which stands for no composite at all.
IndexSet UnionOf(const IndexSet& a, const IndexSet& b) {
  if (a.size() == 0) return b;
  return b.size() == 0 ? a : a | b;
}

IndexSet LabelledNodes(const SubGraph& sub_graph) {
  IndexSet labelled;
  for (const NestedSubGraph& part : sub_graph.nested()) labelled = UnionOf(labelled, part.inside);
  return labelled;
}

class Growth {
 public:
  struct Unit {
    SubGraph sub_graph;
    std::string rule;     // that found it; empty for glue
    NodeIndex glue = -1;  // the tuple or projection
    Marks marks = {};
  };
  // A union, and the unit from which it was grown.
  struct State {
    SubGraph sub_graph;
    IndexSet labelled;  // what lies in composites
    int first_unit = -1;
    NodeIndex glue = -1;  // when it is one glue unit
    Marks marks;
    int num_units = 1;
  };

  // All arguments must outlive it; `rule` is whose cuts the log gets.
  Growth(const DataflowGraph& graph, const std::vector<Unit>& units,
         const std::vector<CombinerPtr>& combiners, const CombineLimits& limits,
         const std::string& rule, RuleLog* log)
      : graph_(graph),
        units_(units),
        combiners_(combiners),
        limits_(limits),
        rule_(rule),
        log_(log),
        units_by_exit_(graph.size()),
        units_by_entry_(graph.size()),
        glue_projections_(graph.size()) {
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      const Unit& unit = units_[u];
      for (NodeIndex exit : unit.sub_graph.exits()) units_by_exit_[exit].push_back(u);
      for (NodeIndex entry : unit.sub_graph.entries()) units_by_entry_[entry].push_back(u);
      labelled_.push_back(LabelledNodes(unit.sub_graph));
      if (unit.glue >= 0 && graph[unit.glue].type == NodeType::kProjection) {
        glue_projections_.Add(unit.glue);
      }
    }
  }
  // All unions within the limits, single units that are valid alone among them.
  std::vector<State> All();

 private:
  bool IsSingleExit() const { return limits_.max_exits == 1 && !limits_.allow_taps; }
  bool IsTooDeep(const SubGraph& sub_graph) const {
    return limits_.max_depth > 0 && sub_graph.depth() > limits_.max_depth;
  }
  bool HasTooManyExits(const SubGraph& sub_graph) const {
    return limits_.max_exits > 0 && static_cast<int>(sub_graph.exits().size()) > limits_.max_exits;
  }
  NodeIndex StartNode(const Unit& unit) const;
  bool CanStart(const Unit& unit) const;
  bool IsAccepted(const SubGraph& sub_graph) const;
  bool CanJoin(const State& state, const Unit& unit, bool is_upstream) const;
  std::vector<int> Extensions(const State& state) const;
  void AppendTouching(const State& state, const std::vector<NodeIndex>& border, bool is_upstream,
                      std::vector<int>* out) const;
  State Join(const State& state, int unit) const;
  void GrowFrom(const std::vector<int>& starts, std::vector<State>* out);
  void GrowGreedily(State state, std::vector<State>* out);

  const DataflowGraph& graph_;
  const std::vector<Unit>& units_;
  const std::vector<CombinerPtr>& combiners_;
  const CombineLimits& limits_;
  const std::string& rule_;
  RuleLog* log_;
  std::vector<std::vector<int>> units_by_exit_;
  std::vector<std::vector<int>> units_by_entry_;
  std::vector<IndexSet> labelled_;  // of each unit
  IndexSet glue_projections_;
};

// Unions that could be equal are grown from the same node.
NodeIndex Growth::StartNode(const Unit& unit) const {
  return IsSingleExit() ? unit.sub_graph.exits()[0] : unit.sub_graph.inside().First();
}

bool Growth::CanStart(const Unit& unit) const {
  // A tuple is joined for the call that reads it, never to be a kernel's result.
  if (unit.glue >= 0 && graph_[unit.glue].type == NodeType::kTuple) return false;
  const SubGraph& sub_graph = unit.sub_graph;
  if (IsTooDeep(sub_graph)) return false;
  return !IsSingleExit() || (sub_graph.exits().size() == 1 && !sub_graph.HasTaps(graph_));
}

// Within the limits, and is what glue is there for inside too?
bool Growth::IsAccepted(const SubGraph& sub_graph) const {
  if (!IsSingleExit() && !sub_graph.IsValid(graph_, limits_.Config())) return false;
  if (!glue_projections_.Intersects(sub_graph.inside())) return true;
  IndexSet projections = glue_projections_ & sub_graph.inside();
  for (NodeIndex i = projections.First(); i != IndexSet::kNone; i = projections.Next(i)) {
    if (!sub_graph.inside().Contains(graph_[i].inputs[0])) return false;
  }
  return true;
}

bool Growth::CanJoin(const State& state, const Unit& unit, bool is_upstream) const {
  const SubGraph& sub_graph = state.sub_graph;
  const CombinePart grown{sub_graph.inside(), sub_graph.kind(), state.glue};
  const CombinePart added{unit.sub_graph.inside(), unit.sub_graph.kind(), unit.glue};
  return std::any_of(combiners_.begin(), combiners_.end(), [&](const CombinerPtr& combiner) {
    return is_upstream ? combiner->Fires(graph_, added, grown)
                       : combiner->Fires(graph_, grown, added);
  });
}

void Growth::AppendTouching(const State& state, const std::vector<NodeIndex>& border,
                            bool is_upstream, std::vector<int>* out) const {
  const IndexSet& inside = state.sub_graph.inside();
  const NodeIndex scope = graph_[inside.First()].scope;
  const NodeIndex first = inside.First();
  for (NodeIndex node : border) {
    if (graph_[node].scope != scope) continue;
    for (int u : is_upstream ? units_by_exit_[node] : units_by_entry_[node]) {
      const Unit& unit = units_[u];
      const SubGraph& added = unit.sub_graph;
      if (IsSingleExit()) {
        const auto& exits = added.exits();
        const bool is_result = std::any_of(
            exits.begin(), exits.end(), [&](NodeIndex exit) { return graph_[exit].is_external; });
        if (is_result || !AreAllInside(added.outputs(), inside)) continue;
      } else if (added.inside().First() < first) {
        continue;
      }
      if (added.inside().Intersects(inside)) continue;
      const bool is_cycle =
          is_upstream ? Feeds(state.sub_graph, added) : Feeds(added, state.sub_graph);
      if (is_cycle || !CanJoin(state, unit, is_upstream)) continue;
      if (!IsSingleExit() && !IsConvexUnion(graph_, inside, added.inside())) continue;
      out->push_back(u);
    }
  }
}

// Units that may be added, each once, in their order.
std::vector<int> Growth::Extensions(const State& state) const {
  std::vector<int> found;
  AppendTouching(state, state.sub_graph.inputs(), /*is_upstream=*/true, &found);
  if (!IsSingleExit()) {
    AppendTouching(state, state.sub_graph.outputs(), /*is_upstream=*/false, &found);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Growth::State Growth::Join(const State& state, int unit) const {
  return {state.sub_graph.Union(graph_, units_[unit].sub_graph),
          UnionOf(state.labelled, labelled_[unit]),
          state.first_unit,
          -1,
          state.marks.With(units_[unit].marks),
          state.num_units + 1};
}

// One large union: the light kinds first, since a heavy one shuts the way to the rest. Asked for
// where the number of unions is cut, so that the largest is not among those lost.
void Growth::GrowGreedily(State state, std::vector<State>* out) {
  std::optional<State> largest;
  for (bool is_grown = true; is_grown;) {
    is_grown = false;
    std::vector<int> extensions = Extensions(state);
    std::stable_sort(extensions.begin(), extensions.end(), [&](int a, int b) {
      return units_[a].sub_graph.kind() < units_[b].sub_graph.kind();
    });
    for (int u : extensions) {
      State next = Join(state, u);
      if (IsTooDeep(next.sub_graph)) continue;
      state = std::move(next);
      if (IsAccepted(state.sub_graph)) largest = state;
      is_grown = true;
      break;
    }
  }
  if (largest) out->push_back(std::move(*largest));
}

void Growth::GrowFrom(const std::vector<int>& starts, std::vector<State>* out) {
  Seen seen;
  std::deque<State> states;  // in order of size; those after `next` have not been grown yet
  for (int u : starts) {
    const SubGraph& sub_graph = units_[u].sub_graph;
    const Marks& marks = units_[u].marks;
    auto [known, is_new] =
        seen.try_emplace({sub_graph.inside(), labelled_[u], marks.is_primitive}, states.size());
    if (is_new) {
      states.push_back({sub_graph, labelled_[u], u, units_[u].glue, marks});
      continue;
    }
    states[known->second].marks.AlsoFoundAs(marks);
    // It may differ in its label: kept, but not grown again.
    if (IsAccepted(sub_graph)) out->push_back({sub_graph, labelled_[u], u, -1, marks});
  }
  const size_t num_first = states.size();
  const size_t max_states =
      std::max(num_first, static_cast<size_t>(limits_.max_candidates_per_node));
  int64_t cut_by_depth = 0;
  int64_t cut_by_count = 0;
  // Smaller unions come first, so it is the larger ones that a full table loses.
  for (size_t next = 0; next < states.size(); ++next) {
    for (int u : Extensions(states[next])) {
      const State& state = states[next];
      if (states.size() >= max_states) {
        ++cut_by_count;
        continue;
      }
      IndexSet inside = state.sub_graph.inside() | units_[u].sub_graph.inside();
      const Marks marks = state.marks.With(units_[u].marks);
      auto [known, is_new] = seen.try_emplace(
          {std::move(inside), UnionOf(state.labelled, labelled_[u]), marks.is_primitive},
          states.size());
      if (!is_new) {
        const bool is_as_good =
            known->second != kTooDeep && states[known->second].num_units == state.num_units + 1;
        if (is_as_good) states[known->second].marks.AlsoFoundAs(marks);
        continue;
      }
      State joined = Join(state, u);
      if (IsTooDeep(joined.sub_graph)) {
        known->second = kTooDeep;
        ++cut_by_depth;
      } else {
        states.push_back(std::move(joined));
      }
    }
  }
  log_->Cut(rule_, "max_depth", cut_by_depth);
  log_->Cut(rule_, "max_candidates_per_node", cut_by_count);
  if (cut_by_count > 0) {
    for (size_t i = 0; i < num_first; ++i) GrowGreedily(states[i], out);
  }
  int64_t cut_by_exits = 0;
  for (State& state : states) {
    cut_by_exits += HasTooManyExits(state.sub_graph);
    if (IsAccepted(state.sub_graph)) out->push_back(std::move(state));
  }
  log_->Cut(rule_, "max_exits", cut_by_exits);
}

std::vector<Growth::State> Growth::All() {
  std::map<NodeIndex, std::vector<int>> starts;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (CanStart(units_[u])) starts[StartNode(units_[u])].push_back(u);
  }
  std::vector<State> result;
  for (const auto& [node, units] : starts) GrowFrom(units, &result);
  return result;
}

class Combine : public PartitionRule {
 public:
  Combine(RulePtr sub_rule, std::vector<CombinerPtr> combiners, CombineLimits limits)
      : PartitionRule("combine"),
        sub_rule_(std::move(sub_rule)),
        combiners_(std::move(combiners)),
        limits_(limits) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<Growth::Unit> units;
    for (const CandidatePartition& candidate : CandidatesOf(sub_rule_, graph, spec, log)) {
      // With too many exits alone, it may still be valid together with the readers of its values.
      if (IsValidOrRefused(graph, candidate, limits_.Config(), log) ||
          candidate.sub_graph.IsValid(graph, SubGraphConfig())) {
        units.push_back({candidate.sub_graph, candidate.rule, -1, Marks::Of(graph, candidate)});
      }
    }
    AppendGlue(graph, &units);

    CandidateSet result;
    Growth growth(graph, units, combiners_, limits_, name(), log);
    for (Growth::State& grown : growth.All()) {
      const Growth::Unit& unit = units[grown.first_unit];
      std::string rule = grown.sub_graph == unit.sub_graph ? unit.rule : name();
      CandidatePartition candidate{std::move(grown.sub_graph), spec, std::move(rule)};
      grown.marks.SetOn(&candidate);
      result.Add(std::move(candidate));
    }
    return result.Take();
  }

  std::string Summary() const override {
    std::string text = "Combine(";
    for (const CombinerPtr& combiner : combiners_) text += combiner->Summary() + ", ";
    return text + "depth " + std::to_string(limits_.max_depth) + ", " + sub_rule_->Summary() + ")";
  }

 private:
  // Tuples and projections that no sub-candidate is already.
  void AppendGlue(const DataflowGraph& graph, std::vector<Growth::Unit>* units) const {
    IndexSet known(graph.size());
    for (const Growth::Unit& unit : *units) {
      if (unit.sub_graph.size() == 1) known |= unit.sub_graph.inside();
    }
    for (const CombinerPtr& combiner : combiners_) {
      for (NodeIndex glue : combiner->Glue(graph)) {
        if (known.Contains(glue)) continue;
        known.Add(glue);
        units->push_back({SingleNode(graph, glue, 0, "").sub_graph, "", glue});
      }
    }
  }

  RulePtr sub_rule_;
  std::vector<CombinerPtr> combiners_;
  CombineLimits limits_;
};

}  // namespace

RulePtr CombineRule(RulePtr sub_rule, std::vector<CombinerPtr> combiners, CombineLimits limits) {
  return std::make_shared<Combine>(std::move(sub_rule), std::move(combiners), limits);
}

}  // namespace tvm::collage
