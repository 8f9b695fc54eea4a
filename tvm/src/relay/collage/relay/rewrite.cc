// SPDX-License-Identifier: Apache-2.0
#include "rewrite.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "../graph/candidate_partition.h"

namespace tvm::collage {
namespace {

// What the fields of a tuple type are.
Array<ObjectRef> FieldsOf(const ObjectRef& tuple_type) {
  return RefFieldAs<Array<ObjectRef>>(tuple_type, "fields");
}

// A value of the type, made of tensors that are asked for by their types in turn.
Expr ValueOf(const ObjectRef& type, const std::function<Expr(const ObjectRef&)>& next) {
  if (!IsA(type, "TupleType")) return next(type);
  Array<Expr> fields;
  for (const ObjectRef& field : FieldsOf(type)) fields.push_back(ValueOf(field, next));
  return MakeTuple(fields);
}

// The tensors of which a value of the type is made, and their types.
void AppendTensors(const Expr& value, const ObjectRef& type, Array<Expr>* tensors,
                   Array<ObjectRef>* types) {
  if (!IsA(type, "TupleType")) {
    tensors->push_back(value);
    types->push_back(type);
    return;
  }
  const Array<ObjectRef> fields = FieldsOf(type);
  for (size_t k = 0; k < fields.size(); ++k) {
    AppendTensors(MakeProjection(value, static_cast<int>(k)), fields[k], tensors, types);
  }
}

// Is what a part gives its one exit as it is? If not, it is a tuple of all tensors of its exits:
// TVM's executors know no tuple in a tuple as the result of a call.
bool GivesItsExit(const ImportedFunction& imported, const std::vector<NodeIndex>& exits) {
  if (exits.size() > 1) return false;
  const ObjectRef type = CheckedType(imported.exprs[exits[0]]);
  if (!IsA(type, "TupleType")) return true;
  const Array<ObjectRef> fields = FieldsOf(type);
  return std::none_of(fields.begin(), fields.end(),
                      [](const ObjectRef& field) { return IsA(field, "TupleType"); });
}

// A sub-graph that the rewritten body calls, and how to make what it calls.
struct Group {
  const IndexSet* inside;
  std::vector<NodeIndex> inputs;
  std::vector<NodeIndex> exits;
  std::function<Expr()> make_callee;
};

// Rebuilds expressions bottom-up, calling groups where their exits are read.
class Rewriter {
 public:
  Rewriter(const ImportedFunction& imported, std::vector<Group> groups)
      : imported_(imported), groups_(std::move(groups)), memo_(imported.graph.size()) {
    group_of_.resize(imported.graph.size(), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].inside->ForEach([&](int index) { group_of_[index] = static_cast<int>(g); });
    }
  }

  // Readers of `index` shall read `expr` instead.
  void Bind(NodeIndex index, Expr expr) { memo_[index] = std::move(expr); }

  // The rewritten node. Going through a range in ascending order first keeps the recursion shallow,
  // since a node's inputs come before it.
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
    if (!is_changed) return memo_[index] = old;
    // What reads a field of a tuple that was made anew, such as a part's exit, reads what it is of.
    if (node.type == NodeType::kProjection && IsA(children[0], "relay.Tuple")) {
      return memo_[index] = MakeProjection(children[0], static_cast<int>(Fields(old).Int("index")));
    }
    return memo_[index] = WithChildren(old, children);
  }

  void EmitAll(const IndexSet& nodes) {
    nodes.ForEach([this](NodeIndex index) {
      if (group_of_[index] < 0) Emit(index);
    });
  }

 private:
  void EmitGroup(const Group& group) {
    Array<Expr> args;
    for (NodeIndex input : group.inputs) args.push_back(Emit(input));
    Expr call = MakeCall(group.make_callee(), args);
    if (GivesItsExit(imported_, group.exits)) {
      memo_[group.exits[0]] = call;
      return;
    }
    int given = 0;
    for (NodeIndex exit : group.exits) {
      memo_[exit] = ValueOf(CheckedType(imported_.exprs[exit]),
                            [&](const ObjectRef&) { return MakeProjection(call, given++); });
    }
  }

  const ImportedFunction& imported_;
  std::vector<Group> groups_;
  std::vector<Expr> memo_;
  std::vector<int> group_of_;
};

// The sub-graph's inputs in the order in which its body, read from its exits, the last one first,
// meets them: for one call the order of its arguments, and TVM's order for more. Equal sub-graphs
// thus give equal functions wherever they are.
std::vector<NodeIndex> InputsInOrder(const DataflowGraph& graph, const SubGraph& sub_graph) {
  std::vector<NodeIndex> open(sub_graph.exits().begin(), sub_graph.exits().end());
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

// Appends a group for each nested composite; `sub_graph` must outlive the groups.
void AppendNested(const ImportedFunction& imported, const SubGraph& sub_graph,
                  std::vector<Group>* groups) {
  for (const NestedSubGraph& nested : sub_graph.nested()) {
    SubGraph inner = SubGraph::Make(imported.graph, nested.inside);
    groups->push_back(GroupOf(imported.graph, inner));
    groups->back().inside = &nested.inside;
    groups->back().make_callee = [&imported, &nested, inner = std::move(inner)] {
      Expr function =
          WithAttr(ExtractFunction(imported, inner), "Composite", String(nested.composite));
      for (const auto& [key, value] : nested.attrs) {
        function = WithAttr(function, key.c_str(), ExportAttr(value));
      }
      return function;
    };
  }
}

// The whole function, its groups called.
Expr WithGroups(const ImportedFunction& imported, std::vector<Group> groups) {
  Rewriter rewriter(imported, std::move(groups));
  rewriter.EmitAll(IndexSet::All(imported.graph.size()));
  return WithBody(imported.function, rewriter.Emit(imported.graph.result()));
}

bool IsEqual(const ObjectRef& a, const ObjectRef& b) {
  constexpr bool kMapFreeVars = true;
  return IsStructurallyEqual(a, b, kMapFreeVars);
}

// "nn_conv2d_add" for the calls inside.
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

// Names like "collage_<backend>_nn_conv2d_add", each given once.
class NameSupply {
 public:
  // `hint` itself, or with the first number that makes it new.
  std::string Fresh(const std::string& hint) {
    std::string name = hint;
    while (!used_.insert(name).second) name = hint + "_" + std::to_string(++last_number_[hint]);
    return name;
  }
  // The name is somebody else's.
  void Reserve(const std::string& name) { used_.insert(name); }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> last_number_;  // by hint
};

// A part of the result that an external backend compiles.
struct ExternalFunction {
  Expr global_var;
  Expr function;  // Primitive=1, Compiler, global_symbol
};

// The global `name`: `function` as the backend compiles it, under `symbol`.
ExternalFunction Named(const Expr& function, const std::string& compiler, const std::string& name,
                       const std::string& symbol) {
  Expr named = WithAttr(function, "Primitive", One());
  named = WithAttr(named, "Compiler", String(compiler));
  named = WithAttr(named, "global_symbol", String(symbol));
  return {MakeGlobalVar(name), named};
}

// The external functions of a module. Those that are equal, constants included, share a symbol, so
// that the backend compiles one: TVM looks functions up by structure. Each has a global variable of
// its own, since TVM's inliner fails where one is called twice.
class Externals {
 public:
  explicit Externals(NameSupply* names) : names_(names) {}

  Expr GlobalVarOf(const ImportedFunction& imported, const PlacedPart& part) {
    Expr function = ExtractFunction(imported, part.sub_graph);
    // What was merged is named after its backend alone, as in TVM's prototype.
    const bool lists_ops = part.rule != kMergedRule;
    const std::string label = lists_ops ? Label(imported.graph, part.sub_graph) : "";
    const std::string hint = "collage_" + part.backend + label;
    std::vector<Made>& alike = made_[hint + ConstantSamples(imported, part.sub_graph)];
    const std::string name = names_->Fresh(hint);
    auto equal = std::find_if(alike.begin(), alike.end(),
                              [&](const Made& made) { return IsEqual(made.function, function); });
    const std::string symbol = equal == alike.end() ? name : equal->symbol;
    if (equal == alike.end()) alike.push_back({function, symbol});
    functions_.push_back(Named(function, part.backend, name, symbol));
    return functions_.back().global_var;
  }

  const std::vector<ExternalFunction>& functions() const { return functions_; }

 private:
  struct Made {
    Expr function;  // without its name
    std::string symbol;
  };

  // The beginning of each constant: spares comparing parts that only weights tell apart.
  static std::string ConstantSamples(const ImportedFunction& imported, const SubGraph& sub_graph) {
    constexpr size_t kSampled = 64;
    std::string samples;
    for (NodeIndex index : sub_graph.constants()) {
      const NDArray data = Fields(imported.exprs[index]).Tensor("data");
      const size_t size = runtime::GetDataSize(*data.operator->());
      samples += "|" + std::to_string(size) + ":";
      if (data->device.device_type != kDLCPU) continue;
      samples.append(static_cast<const char*>(data->data) + data->byte_offset,
                     std::min(size, kSampled));
    }
    return samples;
  }

  NameSupply* names_;
  std::vector<ExternalFunction> functions_;
  std::unordered_map<std::string, std::vector<Made>> made_;  // by what is cheap to compare
};

// The function over calls of its parts.
Expr RewriteFunction(const PlacedFunction& function, Externals* externals) {
  const ImportedFunction& imported = *function.imported;
  std::vector<Group> groups;
  for (const PlacedPart& part : function.parts) {
    if (!part.is_primitive) {
      AppendNested(imported, part.sub_graph, &groups);
      continue;
    }
    groups.push_back(GroupOf(imported.graph, part.sub_graph));
    groups.back().make_callee = [&imported, &part, externals] {
      return externals->GlobalVarOf(imported, part);
    };
  }
  return WithGroups(imported, std::move(groups));
}

// Does each function of the placement still take and give what it did?
void CheckTypes(const Placement& placement, const ObjectRef& result) {
  for (const PlacedFunction& function : placement.functions) {
    ObjectRef rewritten = CallGlobal("ir.Module_Lookup", result, function.global_var);
    const bool is_equal = IsEqual(CheckedType(function.imported->function), CheckedType(rewritten));
    ICHECK(is_equal) << "InternalError: partitioning changed the type of @" << function.Name();
  }
}

// @main: tensors -> what `function` gives for them, called when it has a name, else inline.
Expr MainOf(const Expr& function, const Optional<Expr>& global_var) {
  Array<Expr> params;
  Array<Expr> args;
  Map<ObjectRef, ObjectRef> bound;
  for (const ObjectRef& param : RefFieldAs<Array<ObjectRef>>(function, "params")) {
    args.push_back(ValueOf(RefField(param, "type_annotation"), [&](const ObjectRef& type) {
      params.push_back(MakeVar("input_" + std::to_string(params.size()), type));
      return params.back();
    }));
    bound.Set(param, args.back());
  }
  Expr body = global_var ? MakeCall(global_var.value(), args)
                         : CallGlobal("relay.ir.Bind", RefField(function, "body"), bound);
  return MakeFunction(params, body, ObjectRef());
}

// By function, the module that is measured for each of the parts (see SetParts).
Map<String, Array<ObjectRef>> PartModules(const ObjectRef& untyped, const String& parts_of) {
  Placement placement = EmptyPlacement(Typed(untyped));
  SetParts(parts_of, &placement);
  Map<String, Array<ObjectRef>> modules;
  for (const PlacedFunction& function : placement.functions) {
    Array<ObjectRef> made;
    for (const PlacedPart& part : function.parts) {
      made.push_back(
          CandidateModule(*function.imported, part.sub_graph, part.is_primitive, part.backend));
    }
    modules.Set(function.Name(), made);
  }
  return modules;
}

}  // namespace

Expr ExtractFunction(const ImportedFunction& imported, const SubGraph& sub_graph) {
  std::vector<Group> composites;
  AppendNested(imported, sub_graph, &composites);
  Rewriter rewriter(imported, std::move(composites));
  Array<Expr> params;
  for (NodeIndex input : InputsInOrder(imported.graph, sub_graph)) {
    params.push_back(MakeVar("FunctionVar_" + std::to_string(params.size()),
                             CheckedType(imported.exprs[input])));
    rewriter.Bind(input, params.back());
  }
  rewriter.EmitAll(sub_graph.inside());
  const std::vector<NodeIndex>& exits = sub_graph.exits();
  if (GivesItsExit(imported, exits)) {
    return MakeFunction(params, rewriter.Emit(exits[0]), CheckedType(imported.exprs[exits[0]]));
  }
  Array<Expr> tensors;
  Array<ObjectRef> types;
  for (NodeIndex exit : exits) {
    AppendTensors(rewriter.Emit(exit), CheckedType(imported.exprs[exit]), &tensors, &types);
  }
  // Named, since TVM types a module's functions in any order, callers of this one perhaps first.
  return MakeFunction(params, MakeTuple(tensors), MakeTupleType(types));
}

ObjectRef RewriteModule(const Placement& placement) {
  NameSupply names;
  for (const auto& [global_var, function] : FunctionsOf(placement.mod)) {
    names.Reserve(Fields(global_var).Str("name_hint"));
  }
  ObjectRef result = CallGlobal("ir.Module_Clone", placement.mod);
  Externals externals(&names);
  std::vector<Expr> rewritten;
  for (const PlacedFunction& function : placement.functions) {
    rewritten.push_back(RewriteFunction(function, &externals));
  }
  for (const ExternalFunction& external : externals.functions()) {
    CallGlobal("ir.Module_Add", result, external.global_var, external.function, false);
  }
  for (size_t k = 0; k < rewritten.size(); ++k) {
    CallGlobal("ir.Module_Add", result, placement.functions[k].global_var, rewritten[k], true);
  }
  result = InferTypes(result);
  CheckTypes(placement, result);
  return result;
}

Expr ReplaceSubGraph(const ImportedFunction& imported, const SubGraph& sub_graph,
                     const Expr& callee) {
  std::vector<Group> groups = {GroupOf(imported.graph, sub_graph)};
  groups.back().make_callee = [&callee] { return callee; };
  return WithGroups(imported, std::move(groups));
}

ObjectRef CandidateModule(const ImportedFunction& imported, const SubGraph& sub_graph,
                          bool is_primitive, const std::string& compiler) {
  Map<ObjectRef, ObjectRef> functions;
  Expr main;
  const Expr function = ExtractFunction(imported, sub_graph);
  if (is_primitive) {
    const std::string name = "collage_" + compiler + Label(imported.graph, sub_graph);
    ExternalFunction external = Named(function, compiler, name, name);
    functions.Set(external.global_var, external.function);
    main = MainOf(external.function, external.global_var);
  } else {
    main = MainOf(function, tvm::NullOpt);
  }
  functions.Set(MakeGlobalVar("main"), main);
  ObjectRef mod = CallGlobal("ir.IRModule", functions, Map<ObjectRef, ObjectRef>(), ObjectRef(),
                             Map<String, ObjectRef>());
  return InferTypes(mod);
}

TVM_REGISTER_GLOBAL("collage.PartModules").set_body_typed(PartModules);

}  // namespace tvm::collage
