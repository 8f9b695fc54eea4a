// SPDX-License-Identifier: Apache-2.0
#include "sub_graph.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "json.h"

namespace tvm::collage {
namespace {

void SortUnique(std::vector<NodeIndex>* nodes) {
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
}

void SortNested(std::vector<NestedSubGraph>* nested) {
  std::sort(nested->begin(), nested->end(), [](const auto& a, const auto& b) {
    return a.inside != b.inside ? a.inside < b.inside : a.composite < b.composite;
  });
}

// Users' rules make sub-graphs too, so both are checked in every build.
void CheckSize(const DataflowGraph& graph, const IndexSet& set) {
  if (set.size() == graph.size()) return;
  throw std::invalid_argument("a set over " + std::to_string(set.size()) + " nodes for a " +
                              graph.Summary());
}

void CheckPlaceable(const DataflowGraph& graph, const IndexSet& inside) {
  if (inside.IsSubsetOf(graph.placeable())) return;
  throw std::invalid_argument(graph.Summary((inside - graph.placeable()).First()) +
                              " cannot be placed: a sub-graph holds calls, tuples, projections, "
                              "functions and control flow");
}

// By set, the other sets that it reads.
std::vector<std::vector<int>> ReadSets(const DataflowGraph& graph,
                                       const std::vector<IndexSet>& sets) {
  std::vector<int> set_of(graph.size(), -1);
  for (size_t s = 0; s < sets.size(); ++s) {
    sets[s].ForEach([&](NodeIndex i) { set_of[i] = static_cast<int>(s); });
  }
  std::vector<std::vector<int>> read(sets.size());
  for (size_t s = 0; s < sets.size(); ++s) {
    std::vector<NodeIndex> open;
    sets[s].ForEach([&](NodeIndex i) {
      open.insert(open.end(), graph[i].inputs.begin(), graph[i].inputs.end());
    });
    while (!open.empty()) {
      const NodeIndex input = open.back();
      open.pop_back();
      if (set_of[input] < 0) {
        if (graph[input].IsPlaceable()) continue;  // outside; no way leads back from there
        // A variable reads its value when it is let-bound.
        open.insert(open.end(), graph[input].inputs.begin(), graph[input].inputs.end());
      } else if (set_of[input] != static_cast<int>(s)) {
        read[s].push_back(set_of[input]);
      }
    }
    SortUnique(&read[s]);
  }
  return read;
}

// Is only its last member read outside? Such a part is convex, and can run right where that member
// stands: whoever reads it comes later.
bool EndsInOneValue(const DataflowGraph& graph, const IndexSet& part) {
  const NodeIndex last = part.Last();
  for (NodeIndex i = part.First(); i != last; i = part.Next(i)) {
    const auto& outputs = graph[i].outputs;
    if (!std::all_of(outputs.begin(), outputs.end(), [&](int o) { return part.Contains(o); })) {
      return false;
    }
  }
  return true;
}

// Composites and the other nodes: can they run one after the other, each whole?
bool CanNestedPartsRun(const DataflowGraph& graph, const SubGraph& sub_graph) {
  IndexSet single = sub_graph.inside();
  std::vector<IndexSet> sets;
  for (const NestedSubGraph& part : sub_graph.nested()) {
    sets.push_back(part.inside);
    single -= part.inside;
  }
  single.ForEach([&](NodeIndex i) { sets.push_back(IndexSet(graph.size(), {i})); });
  return FindCycle(graph, sets).empty();
}

// Why the composites cannot be functions; empty when they can.
std::string WhyNestedPartsUnsound(const DataflowGraph& graph, const SubGraph& sub_graph) {
  if (sub_graph.nested().empty()) return "";
  IndexSet seen(sub_graph.inside().size());
  bool is_simple = true;
  for (const NestedSubGraph& part : sub_graph.nested()) {
    if (part.inside.IsEmpty()) return "its composite " + part.composite + " holds no node";
    if (part.inside.Intersects(seen) || !part.inside.IsSubsetOf(sub_graph.inside())) {
      return "its composites overlap or reach outside";
    }
    seen |= part.inside;
    if (EndsInOneValue(graph, part.inside)) continue;
    if (!IsConvex(graph, part.inside)) {
      return "a path leaves its composite " + part.composite + " and comes back";
    }
    is_simple = false;
  }
  if (is_simple || CanNestedPartsRun(graph, sub_graph)) return "";
  return "its composites need each other's results";
}

}  // namespace

OpKind FusionKind(const Node& node) {
  if (node.type != NodeType::kTuple && node.type != NodeType::kProjection) return node.kind;
  return node.kind == OpKind::kOpaque ? OpKind::kOpaque : OpKind::kInjective;
}

SubGraphConfig SubGraphConfig::Of(const JsonValue& fields) {
  return {static_cast<int>(fields["max_depth"].Int()), static_cast<int>(fields["max_exits"].Int()),
          fields["allow_taps"].Bool()};
}

std::string SubGraphConfig::Summary() const {
  std::string text;
  auto append = [&text](const std::string& limit) { text += (text.empty() ? "" : ", ") + limit; };
  if (max_depth > 0) append("depth <= " + std::to_string(max_depth));
  if (max_exits > 0) append("exits <= " + std::to_string(max_exits));
  if (!allow_taps) append("no taps");
  return text.empty() ? "no limit" : text;
}

SubGraph SubGraph::Make(const DataflowGraph& graph, IndexSet inside,
                        std::vector<NestedSubGraph> nested) {
  CheckSize(graph, inside);
  CheckPlaceable(graph, inside);
  for (const NestedSubGraph& part : nested) CheckSize(graph, part.inside);
  SubGraph result;
  // Depth of each inside node; entries of other nodes are left over from earlier calls, never read.
  static thread_local std::vector<int> depth;
  if (depth.size() < static_cast<size_t>(graph.size())) depth.resize(graph.size());
  inside.ForEach([&](NodeIndex i) {
    const Node& node = graph[i];
    ++result.size_;
    result.kind_ = std::max(result.kind_, FusionKind(node));
    depth[i] = 0;
    bool is_entry = false;
    for (NodeIndex input : node.inputs) {
      const NodeType type = graph[input].type;
      if (inside.Contains(input)) {
        depth[i] = std::max(depth[i], depth[input]);
      } else if (type == NodeType::kConstant) {
        result.constants_.push_back(input);
      } else if (type == NodeType::kVar || graph[input].IsPlaceable()) {
        result.inputs_.push_back(input);
        is_entry = true;
      }
    }
    depth[i] += node.IsKernel();
    result.depth_ = std::max(result.depth_, depth[i]);
    if (is_entry) result.entries_.push_back(i);
    bool is_exit = node.is_external;
    for (NodeIndex output : node.outputs) {
      if (inside.Contains(output)) continue;
      is_exit = true;
      result.outputs_.push_back(output);
    }
    if (is_exit) result.exits_.push_back(i);
  });
  SortUnique(&result.inputs_);
  SortUnique(&result.outputs_);
  SortUnique(&result.constants_);
  SortNested(&nested);
  result.inside_ = std::move(inside);
  result.nested_ = std::move(nested);
  return result;
}

SubGraph SubGraph::Union(const DataflowGraph& graph, const SubGraph& that) const {
  assert(!inside_.Intersects(that.inside_));
  std::vector<NestedSubGraph> nested = nested_;
  nested.insert(nested.end(), that.nested_.begin(), that.nested_.end());
  return Make(graph, inside_ | that.inside_, std::move(nested));
}

SubGraph SubGraph::WithComposite(const std::string& composite, Attrs attrs) const {
  SubGraph result = *this;
  result.nested_ = {{composite, inside_, std::move(attrs)}};
  return result;
}

bool SubGraph::HasTaps(const DataflowGraph& graph) const {
  return std::any_of(exits_.begin(), exits_.end(), [&](NodeIndex exit) {
    const auto& outputs = graph[exit].outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](NodeIndex output) { return inside_.Contains(output); });
  });
}

bool SubGraph::IsInOneScope(const DataflowGraph& graph) const {
  const NodeIndex first = inside_.First();
  for (NodeIndex i = first; i != IndexSet::kNone; i = inside_.Next(i)) {
    if (graph[i].scope != graph[first].scope) return false;
  }
  return true;
}

bool SubGraph::IsValid(const DataflowGraph& graph, const SubGraphConfig& config,
                       std::string* why) const {
  auto refuse = [why](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return false;
  };
  const int num_exits = static_cast<int>(exits_.size());
  if (inside_.IsEmpty()) return refuse("it holds no node");
  if (config.max_exits > 0 && num_exits > config.max_exits) {
    return refuse(std::to_string(num_exits) + " values are used outside, the limit is " +
                  std::to_string(config.max_exits));
  }
  if (config.max_depth > 0 && depth_ > config.max_depth) {
    return refuse("a path of " + std::to_string(depth_) + " calls, the limit is " +
                  std::to_string(config.max_depth));
  }
  if (!config.allow_taps && HasTaps(graph)) {
    return refuse("a value is used both inside and outside");
  }
  if (!IsInOneScope(graph)) return refuse("it crosses the border of a function or branch");
  if (!IsConvex(graph, inside_)) return refuse("a path leaves it and comes back");
  std::string unsound = WhyNestedPartsUnsound(graph, *this);
  return unsound.empty() || refuse(std::move(unsound));
}

size_t SubGraph::Hash() const {
  collage::Hash hash;
  hash.Add(inside_.Hash());
  for (const NestedSubGraph& part : nested_) hash.Add(part.composite).Add(part.inside.Hash());
  return hash.Get();
}

std::string SubGraph::Summary(const DataflowGraph& graph) const {
  std::string names;
  int shown = 0;
  bool has_op = false;
  inside_.ForEach([&](NodeIndex i) { has_op |= graph[i].IsOpCall(); });
  inside_.ForEach([&](NodeIndex i) {
    if (graph[i].IsOpCall() != has_op || ++shown > 6) return;
    names += (names.empty() ? "" : "+") + (has_op ? graph[i].name : NameOf(graph[i].type));
  });
  if (shown > 6) names += "+..";
  std::string text = inside_.Summary() + " " + names;
  for (const NestedSubGraph& part : nested_) text += " [" + part.composite + "]";
  return text;
}

bool IsDataflow(const DataflowGraph& graph, const IndexSet& inside) {
  for (NodeIndex i = inside.First(); i != IndexSet::kNone; i = inside.Next(i)) {
    const Node& node = graph[i];
    if (node.type == NodeType::kOther || node.type == NodeType::kFunction) return false;
    if (node.type != NodeType::kCallOther) continue;
    const NodeType callee = graph[node.inputs[0]].type;
    if (callee != NodeType::kGlobalVar && callee != NodeType::kConstructor) return false;
  }
  return true;
}

bool IsConvex(const DataflowGraph& graph, const IndexSet& inside) {
  // A path back in ends at or before the last member, and indexes grow along a path.
  const NodeIndex last = inside.Last();
  std::vector<NodeIndex> stack;
  IndexSet reached;
  auto reach = [&](NodeIndex output) {
    if (output >= last || inside.Contains(output)) return;
    if (reached.size() == 0) reached = IndexSet(graph.size());
    if (reached.Contains(output)) return;
    reached.Add(output);
    stack.push_back(output);
  };
  inside.ForEach([&](NodeIndex i) {
    for (NodeIndex output : graph[i].outputs) reach(output);
  });
  while (!stack.empty()) {
    const NodeIndex i = stack.back();
    stack.pop_back();
    for (NodeIndex output : graph[i].outputs) {
      if (output <= last && inside.Contains(output)) return false;
      reach(output);
    }
  }
  return true;
}

bool IsConvexUnion(const DataflowGraph& graph, const IndexSet& whole, const IndexSet& part) {
  const NodeIndex first = whole.First();
  const NodeIndex last = whole.Last();
  std::vector<NodeIndex> stack;
  IndexSet reached;
  // A way round runs from `part` to `whole`, or from `whole` to `part`, through outside nodes.
  auto reach = [&](NodeIndex i, bool is_forward) {
    if (is_forward ? i > last : i < first) return;  // no member of `whole` lies that way
    if (whole.Contains(i) || part.Contains(i)) return;
    if (reached.size() == 0) reached = IndexSet(graph.size());
    if (reached.Contains(i)) return;
    reached.Add(i);
    stack.push_back(i);
  };
  for (const bool is_forward : {true, false}) {
    auto next = [&](NodeIndex i) -> const std::vector<NodeIndex>& {
      return is_forward ? graph[i].outputs : graph[i].inputs;
    };
    part.ForEach([&](NodeIndex i) {
      for (NodeIndex neighbour : next(i)) reach(neighbour, is_forward);
    });
    while (!stack.empty()) {
      const NodeIndex i = stack.back();
      stack.pop_back();
      for (NodeIndex neighbour : next(i)) {
        if (whole.Contains(neighbour)) return false;
        reach(neighbour, is_forward);
      }
    }
    reached = IndexSet();
  }
  return true;
}

std::vector<int> FindCycle(const DataflowGraph& graph, const std::vector<IndexSet>& sets) {
  const std::vector<std::vector<int>> read = ReadSets(graph, sets);
  enum class State { kNew, kOnPath, kDone };
  std::vector<State> state(sets.size(), State::kNew);
  std::vector<size_t> next(sets.size(), 0);
  for (size_t start = 0; start < sets.size(); ++start) {
    if (state[start] != State::kNew) continue;
    std::vector<int> path = {static_cast<int>(start)};
    state[start] = State::kOnPath;
    while (!path.empty()) {
      const int top = path.back();
      if (next[top] == read[top].size()) {
        state[top] = State::kDone;
        path.pop_back();
        continue;
      }
      const int reached = read[top][next[top]++];
      if (state[reached] == State::kOnPath) {
        return {std::find(path.begin(), path.end(), reached), path.end()};
      }
      if (state[reached] == State::kDone) continue;
      state[reached] = State::kOnPath;
      path.push_back(reached);
    }
  }
  return {};
}

}  // namespace tvm::collage
