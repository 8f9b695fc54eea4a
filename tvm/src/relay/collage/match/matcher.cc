// SPDX-License-Identifier: Apache-2.0
#include "matcher.h"

#include <algorithm>
#include <set>

#include "binder.h"

namespace tvm::collage {
namespace {

/*! \brief Which ops the root can be a call of; `is_any` when that does not tell. */
struct RootOps {
  bool is_any = false;
  std::set<std::string> ops;
};

void CollectCallees(const Pattern& callee, RootOps* roots) {
  switch (callee.kind) {
    case PatternKind::kOp:
      roots->ops.insert(callee.name);
      // Products of quotients match in either association.
      if (callee.name == "divide") roots->ops.insert("multiply");
      if (callee.name == "multiply") roots->ops.insert("divide");
      return;
    case PatternKind::kAlternative:
      CollectCallees(*callee.children[0], roots);
      CollectCallees(*callee.children[1], roots);
      return;
    case PatternKind::kAttributes:
      CollectCallees(*callee.children[0], roots);
      return;
    default:
      roots->is_any = true;
  }
}

void CollectRoots(const Pattern& pattern, RootOps* roots) {
  switch (pattern.kind) {
    case PatternKind::kCall:
      CollectCallees(*pattern.children[0], roots);
      return;
    case PatternKind::kAlternative:
      CollectRoots(*pattern.children[0], roots);
      CollectRoots(*pattern.children[1], roots);
      return;
    case PatternKind::kAttributes:
    case PatternKind::kType:
    case PatternKind::kShape:
    case PatternKind::kDataType:
      CollectRoots(*pattern.children[0], roots);
      return;
    case PatternKind::kDominator:
      CollectRoots(*pattern.children[2], roots);
      return;
    case PatternKind::kUnsupported:
      return;
    default:
      roots->is_any = true;
  }
}

void CollectPathPatterns(const DataflowPattern& pattern, std::set<const Pattern*>* out) {
  if (pattern->kind == PatternKind::kDominator) {
    out->insert(pattern->children[0].get());
    out->insert(pattern->children[1].get());
  }
  for (const DataflowPattern& child : pattern->children) CollectPathPatterns(child, out);
}

/*!
 * What the pattern leaves open is input: nodes bound to leaf patterns, arguments and fields that
 * were not given. Parent and path of a dominator are described by it even when they are leaves.
 */
IndexSet FindInputs(const DataflowGraph& graph, const DataflowPattern& pattern,
                    const Match& match) {
  std::set<const Pattern*> path_patterns;
  CollectPathPatterns(pattern, &path_patterns);
  IndexSet inputs(graph.size());
  IndexSet described(graph.size());
  for (const auto& [part, index] : match.bindings) {
    if (path_patterns.count(part)) described.Add(index);
    if (part->any_children && part->kind != PatternKind::kFunction) {
      for (NodeIndex arg : graph.Args(index)) inputs.Add(arg);
    } else if (part->children.empty() && part->kind != PatternKind::kTuple) {
      inputs.Add(index);
    }
  }
  return inputs -= described;
}

IndexSet FindInside(const DataflowGraph& graph, const DataflowPattern& pattern,
                    const Match& match) {
  const IndexSet inputs = FindInputs(graph, pattern, match);
  IndexSet inside(graph.size());
  std::vector<NodeIndex> stack;
  auto reach = [&](NodeIndex index) {
    if (inside.Contains(index) || inputs.Contains(index) || !graph[index].IsPlaceable()) return;
    inside.Add(index);
    stack.push_back(index);
  };
  reach(match.root);
  while (!stack.empty()) {
    const NodeIndex index = stack.back();
    stack.pop_back();
    for (NodeIndex input : graph[index].inputs) reach(input);
  }
  return inside;
}

std::optional<Match> TryAt(const DataflowGraph& graph, const DataflowPattern& pattern,
                           NodeIndex root, Binder* binder) {
  if (!binder->Try(pattern, root)) return std::nullopt;
  Match match;
  match.root = root;
  match.bindings = binder->TakeBindings();
  match.inside = FindInside(graph, pattern, match);
  return match;
}

}  // namespace

NodeIndex Match::Bound(const DataflowPattern& pattern) const {
  for (const auto& [part, index] : bindings) {
    if (part == pattern.get()) return index;
  }
  return -1;
}

std::string Match::Summary(const DataflowGraph& graph) const {
  return "match at " + graph.Summary(root) + " of " + inside.Summary();
}

std::optional<Match> MatchAt(const DataflowGraph& graph, const DataflowPattern& pattern,
                             NodeIndex root) {
  Binder binder(graph);
  return TryAt(graph, pattern, root, &binder);
}

std::vector<Match> FindMatches(const DataflowGraph& graph, const DataflowPattern& pattern) {
  RootOps roots;
  CollectRoots(*pattern, &roots);
  std::vector<NodeIndex> tried;
  if (roots.is_any) {
    for (NodeIndex i = 0; i < graph.size(); ++i) tried.push_back(i);
  } else {
    for (const std::string& op : roots.ops) {
      const auto& calls = graph.CallsOf(op);
      tried.insert(tried.end(), calls.begin(), calls.end());
    }
    std::sort(tried.begin(), tried.end());
  }
  std::vector<Match> matches;
  Binder binder(graph);
  for (NodeIndex root : tried) {
    if (auto match = TryAt(graph, pattern, root, &binder)) matches.push_back(std::move(*match));
  }
  return matches;
}

}  // namespace tvm::collage
