// SPDX-License-Identifier: Apache-2.0
#include "matcher.h"

#include <algorithm>
#include <set>

#include "binder.h"

namespace tvm::collage {
namespace {

// Which ops the root can be a call of; `is_any` when that does not tell.
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

void CollectPathPatterns(const DataflowPattern& pattern, std::set<const Pattern*>* seen,
                         std::set<const Pattern*>* out) {
  if (!seen->insert(pattern.get()).second) return;  // optional pieces share most of a pattern
  if (pattern->kind == PatternKind::kDominator) {
    out->insert(pattern->children[0].get());
    out->insert(pattern->children[1].get());
  }
  for (const DataflowPattern& child : pattern->children) CollectPathPatterns(child, seen, out);
}

// What the pattern leaves open is input: nodes bound to leaf patterns, arguments and fields that
// were not given. Parent and path of a dominator are described by it even when they are leaves.
IndexSet FindInputs(const DataflowGraph& graph, const DataflowPattern& pattern,
                    const Match& match) {
  std::set<const Pattern*> path_patterns;
  std::set<const Pattern*> seen;
  CollectPathPatterns(pattern, &seen, &path_patterns);
  IndexSet inputs(graph.size());
  IndexSet described(graph.size());
  for (const auto& [part, index] : match.bindings) {
    if (path_patterns.count(part)) described.Add(index);
    if (part->any_children && part->kind != PatternKind::kFunction) {
      for (NodeIndex arg : graph.Args(index)) inputs.Add(arg);
    } else if (IsLeaf(*part)) {
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

Match MakeMatch(const DataflowGraph& graph, const DataflowPattern& pattern, NodeIndex root,
                Binder::Bindings bindings) {
  Match match;
  match.root = root;
  match.bindings = std::move(bindings);
  match.inside = FindInside(graph, pattern, match);
  return match;
}

// All distinct bindings at `root`, TVM's first; nothing is tried that TVM does not take.
std::vector<Binder::Bindings> BindingsAt(const DataflowPattern& pattern, NodeIndex root,
                                         Binder* binder, bool* is_cut) {
  std::vector<Binder::Bindings> found;
  std::set<Binder::Bindings> seen;
  auto keep = [&] {
    Binder::Bindings bindings = binder->TakeBindings();
    Binder::Bindings sorted = bindings;
    std::sort(sorted.begin(), sorted.end());
    if (seen.insert(std::move(sorted)).second) found.push_back(std::move(bindings));
  };
  if (!binder->Try(pattern, root)) return found;
  keep();
  Choices choices;
  for (int num_tries = 0; choices.Next(); ++num_tries) {
    *is_cut = num_tries == kMaxTriesOfRoot || found.size() == kMaxMatchesOfRoot;
    if (*is_cut) break;
    if (binder->Try(pattern, root, &choices)) keep();
  }
  return found;
}

}  // namespace

NodeIndex Match::Bound(const DataflowPattern& pattern) const {
  for (const auto& [part, index] : bindings) {
    if (part == pattern.get()) return index;
  }
  return -1;
}

std::vector<Match> FindMatches(const DataflowGraph& graph, const DataflowPattern& pattern,
                               int64_t* num_cut, int64_t* num_steps) {
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
    bool is_cut = false;
    for (Binder::Bindings& bindings : BindingsAt(pattern, root, &binder, &is_cut)) {
      matches.push_back(MakeMatch(graph, pattern, root, std::move(bindings)));
    }
    if (num_cut) *num_cut += is_cut;
  }
  if (num_steps) *num_steps = binder.num_steps();
  return matches;
}

}  // namespace tvm::collage
