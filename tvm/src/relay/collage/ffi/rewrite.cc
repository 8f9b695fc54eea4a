// SPDX-License-Identifier: Apache-2.0
#include "rewrite.h"

#include <algorithm>
#include <unordered_set>

namespace tvm::collage {
namespace {

/*! \brief A sub-graph that the rewritten body calls, and how to make what it calls. */
struct Group {
  const IndexSet* inside;
  std::vector<NodeIndex> inputs;
  std::vector<NodeIndex> exits;
  std::function<Expr()> make_callee;
};

std::vector<NodeIndex> Ascending(const IndexSet& set) {
  std::vector<NodeIndex> indexes;
  set.ForEach([&](int index) { indexes.push_back(index); });
  return indexes;
}

/*! \brief Rebuilds expressions bottom-up, calling groups where their exits are read. */
class Rewriter {
 public:
  Rewriter(const ImportedFunction& imported, std::vector<Group> groups)
      : imported_(imported), groups_(std::move(groups)), memo_(imported.graph.size()) {
    group_of_.resize(imported.graph.size(), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].inside->ForEach([&](int index) { group_of_[index] = static_cast<int>(g); });
    }
  }

  /*! \brief Readers of `index` shall read `expr` instead. */
  void Bind(NodeIndex index, Expr expr) { memo_[index] = std::move(expr); }

  /*!
   * \brief The rewritten node. Going through a range in ascending order first keeps the recursion
   * shallow, since a node's inputs come before it.
   */
  const Expr& Emit(NodeIndex index) {
    if (memo_[index].defined()) return memo_[index];
    if (group_of_[index] >= 0) {
      EmitGroup(groups_[group_of_[index]]);
      ICHECK(memo_[index].defined()) << "InternalError: a part's inner value is read outside it";
      return memo_[index];
    }
    const Expr& old = imported_.exprs[index];
    const Node& node = imported_.graph[index];
    // A let-bound variable reads its value only in the graph, not as an expression.
    if (node.type == NodeType::kVar) return memo_[index] = old;
    Array<Expr> children;
    bool is_changed = false;
    for (NodeIndex input : node.inputs) {
      children.push_back(Emit(input));
      is_changed |= !children.back().same_as(imported_.exprs[input]);
    }
    return memo_[index] = is_changed ? WithChildren(old, children) : old;
  }

  void EmitAll(const std::vector<NodeIndex>& indexes) {
    for (NodeIndex index : indexes) {
      if (group_of_[index] < 0) Emit(index);
    }
  }

 private:
  void EmitGroup(const Group& group) {
    Array<Expr> args;
    for (NodeIndex input : group.inputs) args.push_back(Emit(input));
    Expr call = MakeCall(group.make_callee(), args);
    if (group.exits.size() == 1) {
      memo_[group.exits[0]] = call;
      return;
    }
    for (size_t k = 0; k < group.exits.size(); ++k) {
      memo_[group.exits[k]] = MakeProjection(call, static_cast<int>(k));
    }
  }

  const ImportedFunction& imported_;
  std::vector<Group> groups_;
  std::vector<Expr> memo_;
  std::vector<int> group_of_;
};

/*!
 * \brief The sub-graph's inputs in the order in which its body, read from its exits, meets them:
 * for one call the order of its arguments. Equal sub-graphs thus give equal functions wherever they
 * are.
 */
std::vector<NodeIndex> InputsInOrder(const DataflowGraph& graph, const SubGraph& sub_graph) {
  std::vector<NodeIndex> open(sub_graph.exits().rbegin(), sub_graph.exits().rend());
  IndexSet seen(graph.size());
  const std::unordered_set<NodeIndex> inputs(sub_graph.inputs().begin(), sub_graph.inputs().end());
  std::vector<NodeIndex> ordered;
  while (!open.empty()) {
    const NodeIndex index = open.back();
    open.pop_back();
    if (seen.Contains(index)) continue;
    seen.Add(index);
    if (inputs.count(index)) {
      ordered.push_back(index);
    } else if (sub_graph.inside().Contains(index)) {
      open.insert(open.end(), graph[index].inputs.rbegin(), graph[index].inputs.rend());
    }
  }
  return ordered;
}

Group GroupOf(const DataflowGraph& graph, const SubGraph& sub_graph) {
  return {&sub_graph.inside(), InputsInOrder(graph, sub_graph), sub_graph.exits(), nullptr};
}

/*! \brief Nested composites as groups; `nested` must outlive the result. */
std::vector<Group> NestedGroups(const ImportedFunction& imported, const SubGraph& sub_graph,
                                std::vector<SubGraph>* nested) {
  for (const NestedSubGraph& inner : sub_graph.nested()) {
    nested->push_back(SubGraph::Make(imported.graph, inner.inside));
  }
  std::vector<Group> groups;
  for (size_t k = 0; k < nested->size(); ++k) {
    groups.push_back(GroupOf(imported.graph, (*nested)[k]));
    groups.back().make_callee = [&imported, composite = sub_graph.nested()[k].composite,
                                 inner = &(*nested)[k]] {
      return WithAttr(ExtractFunction(imported, *inner), "Composite", String(composite));
    };
  }
  return groups;
}

/*! \brief "nn_conv2d_add" for the calls inside. */
std::string Label(const DataflowGraph& graph, const SubGraph& sub_graph) {
  constexpr size_t kLongest = 60;  // a symbol's name grows with a region, and nobody reads it then
  std::string label;
  sub_graph.inside().ForEach([&](int index) {
    if (!graph[index].IsOpCall() || label.size() > kLongest) return;
    label += "_" + graph[index].name;
  });
  std::replace_if(label.begin(), label.end(), [](char c) { return !std::isalnum(c); }, '_');
  return label;
}

}  // namespace

std::string NameSupply::Fresh(const std::string& hint) {
  std::string name = hint;
  while (!used_.insert(name).second) name = hint + "_" + std::to_string(++last_number_[hint]);
  return name;
}

Expr ExtractFunction(const ImportedFunction& imported, const SubGraph& sub_graph) {
  std::vector<SubGraph> nested;
  nested.reserve(sub_graph.nested().size());
  Rewriter rewriter(imported, NestedGroups(imported, sub_graph, &nested));
  Array<Expr> params;
  for (NodeIndex input : InputsInOrder(imported.graph, sub_graph)) {
    params.push_back(MakeVar("FunctionVar_" + std::to_string(params.size()),
                             CheckedType(imported.exprs[input])));
    rewriter.Bind(input, params.back());
  }
  rewriter.EmitAll(Ascending(sub_graph.inside()));
  const std::vector<NodeIndex>& exits = sub_graph.exits();
  if (exits.size() == 1) {
    return MakeFunction(params, rewriter.Emit(exits[0]), CheckedType(imported.exprs[exits[0]]));
  }
  Array<Expr> fields;
  Array<ObjectRef> types;
  for (NodeIndex exit : exits) {
    fields.push_back(rewriter.Emit(exit));
    types.push_back(CheckedType(imported.exprs[exit]));
  }
  // Named, since TVM types a module's functions in any order, callers of this one perhaps first.
  return MakeFunction(params, MakeTuple(fields), MakeTupleType(types));
}

ExternalFunction MakeExternal(const ImportedFunction& imported, const ExternalPart& part,
                              NameSupply* names) {
  Expr function = ExtractFunction(imported, *part.sub_graph);
  std::string symbol =
      names->Fresh("collage_" + part.compiler + Label(imported.graph, *part.sub_graph));
  function = WithAttr(function, "Primitive", One());
  function = WithAttr(function, "Compiler", String(part.compiler));
  function = WithAttr(function, "global_symbol", String(symbol));
  return {MakeGlobalVar(symbol), function};
}

Expr RewriteFunction(const ImportedFunction& imported, const std::vector<ExternalPart>& parts,
                     NameSupply* names, std::vector<ExternalFunction>* out) {
  std::vector<Group> groups;
  for (const ExternalPart& part : parts) {
    groups.push_back(GroupOf(imported.graph, *part.sub_graph));
    groups.back().make_callee = [&imported, &part, names, out] {
      out->push_back(MakeExternal(imported, part, names));
      return out->back().global_var;
    };
  }
  Rewriter rewriter(imported, std::move(groups));
  std::vector<NodeIndex> all(imported.graph.size());
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<NodeIndex>(k);
  rewriter.EmitAll(all);
  return WithBody(imported.function, rewriter.Emit(imported.graph.result()));
}

}  // namespace tvm::collage
