// SPDX-License-Identifier: Apache-2.0
#include "import_relay.h"

#include <map>
#include <optional>
#include <unordered_map>

#include "../graph/json.h"
#include "construct.h"
#include "device_domains.h"
#include "import_attrs.h"
#include "named_values.h"

namespace tvm::collage {
namespace {

using Exprs = std::vector<ObjectRef>;

void AppendAll(const ObjectRef& array, Exprs* out) {
  for (const ObjectRef& item : runtime::Downcast<Array<ObjectRef>>(array)) out->push_back(item);
}

// Sub-expressions in the order in which post-dfs visits them.
Exprs Children(const ObjectRef& expr) {
  Exprs children;
  auto fields = [&](std::initializer_list<const char*> keys) {
    Fields all(expr);
    for (const char* key : keys) children.push_back(all.Ref(key));
  };
  if (IsA(expr, "relay.Call")) {
    Fields call(expr);
    children.push_back(call.Ref("op"));
    AppendAll(call.Ref("args"), &children);
  } else if (IsA(expr, "relay.Tuple")) {
    AppendAll(RefField(expr, "fields"), &children);
  } else if (IsA(expr, "relay.TupleGetItem")) {
    fields({"tuple_value"});
  } else if (IsA(expr, "relay.Function")) {
    if (!IsPartitioned(expr)) {
      AppendAll(RefField(expr, "params"), &children);
      fields({"body"});
    }
  } else if (IsA(expr, "relay.Let")) {
    fields({"value", "var", "body"});
  } else if (IsA(expr, "relay.If")) {
    fields({"cond", "true_branch", "false_branch"});
  } else if (IsA(expr, "relay.Match")) {
    fields({"data"});
    for (const ObjectRef& clause : RefFieldAs<Array<ObjectRef>>(expr, "clauses")) {
      for (const ObjectRef& var : PatternVars(RefField(clause, "lhs"))) children.push_back(var);
      children.push_back(RefField(clause, "rhs"));
    }
  } else if (IsA(expr, "relay.RefCreate")) {
    fields({"value"});
  } else if (IsA(expr, "relay.RefRead")) {
    fields({"ref"});
  } else if (IsA(expr, "relay.RefWrite")) {
    fields({"ref", "value"});
  }
  return children;
}

// An operator without the attribute is one that TVM cannot fuse.
std::optional<OpKind> KindOfOp(const ObjectRef& op) {
  AttrValue kind = ImportOpAttr(op, "TOpPattern");
  const auto* boxed = std::get_if<AttrNumber>(&kind);
  const auto* number = boxed ? std::get_if<int64_t>(&boxed->value) : std::get_if<int64_t>(&kind);
  if (!number) return std::nullopt;
  return static_cast<OpKind>(*number);
}

constexpr std::pair<const char*, NodeType> kNodeTypes[] = {
    {"relay.Var", NodeType::kVar},
    {"relay.Constant", NodeType::kConstant},
    {"Op", NodeType::kOp},
    {"GlobalVar", NodeType::kGlobalVar},
    {"relay.Constructor", NodeType::kConstructor},
    {"relay.Tuple", NodeType::kTuple},
    {"relay.TupleGetItem", NodeType::kProjection},
    {"relay.Function", NodeType::kFunction},
};

NodeType TypeOf(const ObjectRef& expr) {
  if (IsA(expr, "relay.Call")) {
    return IsA(RefField(expr, "op"), "Op") ? NodeType::kCall : NodeType::kCallOther;
  }
  for (const auto& [key, type] : kNodeTypes) {
    if (IsA(expr, key)) return type;
  }
  return NodeType::kOther;
}

// Post-dfs without recursion: a network may be ten thousand calls deep. Relay expressions are
// acyclic: a recursive function mentions its let-bound variable, which is a leaf.
class Importer {
 public:
  void Visit(const ObjectRef& root) {
    std::vector<Frame> stack;
    auto push = [&](const ObjectRef& expr) {
      if (!indexes_.count(expr.get())) stack.push_back({expr, Children(expr), 0});
    };
    push(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (indexes_.count(top.expr.get())) {
        stack.pop_back();
      } else if (top.next < top.children.size()) {
        push(ObjectRef(top.children[top.next++]));
      } else {
        Append(top.expr, top.children);
        stack.pop_back();
      }
    }
  }

  ImportedPtr Finish(const ObjectRef& function, const ObjectRef& body, Naming naming) {
    NodeIndex result = indexes_.at(body.get());
    AssignScopes(result);
    std::vector<std::string> devices = DevicesOf(function, nodes_, exprs_, result);
    auto imported = std::make_shared<ImportedFunction>();
    imported->function = function;
    imported->written_result = result;
    for (const Node& node : nodes_) imported->written.push_back({node.type, node.inputs});
    if (naming == Naming::kReplaced) result = WithoutNames(result);
    AssignDevices(std::move(devices));
    for (Node& node : nodes_) imported->graph.Append(std::move(node));
    imported->exprs = std::move(exprs_);
    imported->graph.Finish(result);
    return imported;
  }

 private:
  struct Frame {
    ObjectRef expr;
    Exprs children;
    size_t next;
  };

  // Replaces names by values. Returns the result's.
  NodeIndex WithoutNames(NodeIndex result) {
    const std::vector<NodeIndex> values = NamedValues(nodes_, exprs_, ScopesBeyondLets());
    bool is_any = false;
    for (size_t i = 0; i < values.size(); ++i) is_any |= values[i] != static_cast<NodeIndex>(i);
    if (!is_any) return result;
    ReplaceNames(values, result, &nodes_, &exprs_);
    AssignScopes(values[result]);
    return values[result];
  }

  void Append(const ObjectRef& expr, const Exprs& children) {
    Node node;
    node.type = TypeOf(expr);
    const NodeIndex index = static_cast<NodeIndex>(nodes_.size());
    for (const ObjectRef& child : children) AddInput(child, &node);
    switch (node.type) {
      case NodeType::kVar:
        node.name = Fields(RefField(expr, "vid")).Str("name_hint");
        break;
      case NodeType::kOp:
        node.name = Fields(expr).Str("name");
        // Asked anew in each import: register_pattern may change it at any time.
        if (auto kind = KindOfOp(expr)) {
          node.kind = *kind;
          node.attrs = {{"TOpPattern", static_cast<int64_t>(*kind)}};
        }
        break;
      case NodeType::kGlobalVar:
        node.name = Fields(expr).Str("name_hint");
        break;
      case NodeType::kCall: {
        Fields call(expr);
        const Node& op = nodes_[indexes_.at(call.Ref("op").get())];
        node.name = op.name;
        node.kind = op.kind;
        node.attrs = ImportAttrs(call.Ref("attrs"));
        node.is_free_call = node.name == "on_device";
        break;
      }
      case NodeType::kCallOther:
        node.attrs = ImportAttrs(RefField(expr, "attrs"));
        node.is_free_call = !IsPartitioned(RefField(expr, "op"));
        break;
      case NodeType::kFunction:
        node.attrs = ImportAttrs(RefField(expr, "attrs"));
        break;
      case NodeType::kTuple:
        node.kind = OpKind::kTuple;
        break;
      case NodeType::kProjection:
        node.kind = OpKind::kInjective;
        node.projection = static_cast<int>(Fields(expr).Int("index"));
        break;
      case NodeType::kConstant:
        node.kind = OpKind::kElemWise;
        break;
      case NodeType::kOther:
        node.name = expr->GetTypeKey().substr(std::string("relay.").size());
        break;
      default:
        break;
    }
    if (node.type != NodeType::kOp && node.type != NodeType::kConstructor) {
      ObjectRef type = RefField(expr, "_checked_type_");
      node.is_tuple_typed = IsA(type, "TupleType");
      node.types = ImportType(type);
    }
    indexes_[expr.get()] = index;
    nodes_.push_back(std::move(node));
    exprs_.push_back(expr);
    if (IsA(expr, "relay.Let")) {
      // The variable reads its value, unless the value (a recursive function) mentions it.
      const NodeIndex var = indexes_.at(children[1].get());
      const NodeIndex value = indexes_.at(children[0].get());
      if (value < var) nodes_[var].inputs.push_back(value);
    }
  }

  void AddInput(const ObjectRef& child, Node* node) const {
    auto found = indexes_.find(child.get());
    if (found != indexes_.end()) node->inputs.push_back(found->second);
  }

  // A node belongs to the innermost scope that holds all its readers. Scopes are opened
  // by function bodies, branches, match clauses and what a let-bound variable is in scope of;
  // readers have higher indexes, so one backward walk settles all. The root scope is 0.
  void AssignScopes(NodeIndex result) {
    parents_ = {-1};
    is_let_ = {false};
    for (Node& node : nodes_) node.scope = -1;
    nodes_[result].scope = 0;
    for (NodeIndex i = static_cast<NodeIndex>(nodes_.size()) - 1; i >= 0; --i) {
      Node& node = nodes_[i];
      if (node.scope < 0) node.scope = 0;  // a parameter that nothing reads
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        Merge(node.inputs[k],
              OpensScope(node, k) ? NewScope(node.scope, node.name == "Let") : node.scope);
      }
    }
  }
  // Is the input's value computed elsewhere than where the node itself stands?
  static bool OpensScope(const Node& node, size_t input) {
    if (node.type == NodeType::kFunction) return true;
    if (node.type != NodeType::kOther) return false;
    // The condition and the matched value are read outside the branches, a let's value outside its
    // body; its variable is a leaf, wherever it stands.
    return input > 0 && (node.name == "If" || node.name == "Match" || node.name == "Let");
  }
  // Values for different devices are never in one part, as if in different scopes.
  void AssignDevices(std::vector<std::string> devices) {
    std::map<std::pair<NodeIndex, std::string>, NodeIndex> scopes;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].device = std::move(devices[i]);
      if (nodes_[i].device.empty()) continue;
      auto [entry, is_new] = scopes.try_emplace({nodes_[i].scope, nodes_[i].device}, 0);
      if (is_new) entry->second = NewScope(nodes_[i].scope);
      nodes_[i].scope = entry->second;
    }
  }
  // By node the scope that no let opened: a function's body, or a branch.
  std::vector<int> ScopesBeyondLets() const {
    std::vector<int> scopes;
    for (const Node& node : nodes_) {
      int scope = node.scope;
      while (is_let_[scope]) scope = parents_[scope];
      scopes.push_back(scope);
    }
    return scopes;
  }
  int NewScope(int parent, bool is_let = false) {
    is_let_.push_back(is_let);
    parents_.push_back(parent);
    return static_cast<int>(parents_.size()) - 1;
  }
  void Merge(NodeIndex index, int scope) {
    int& current = nodes_[index].scope;
    if (current < 0) {
      current = scope;
      return;
    }
    // A scope's parent has a smaller number, so the larger one moves up.
    int a = current;
    int b = scope;
    while (a != b) (a > b ? a : b) = parents_[a > b ? a : b];
    current = a;
  }

  std::unordered_map<const Object*, NodeIndex> indexes_;
  std::vector<Node> nodes_;
  std::vector<ObjectRef> exprs_;
  std::vector<int> parents_;
  std::vector<bool> is_let_;  // by scope: what opened it
};

// {"shape", "dtype"} of a tensor's type, null for any other: in one call, as collage.AttrJson.
TVM_REGISTER_GLOBAL("collage.TensorTypeJson").set_body_typed([](ObjectRef type) {
  const bool is_tensor = IsA(type, "relay.TensorType");
  return String(is_tensor ? Json(ImportType(type)[0]).text() : Json(AttrValue()).text());
});

// Has every expression in the module's functions a type already?
bool IsTyped(const ObjectRef& mod) {
  for (const auto& [global_var, function] : FunctionsOf(mod)) {
    if (!IsA(function, "relay.Function")) continue;
    if (!RefField(function, "_checked_type_").defined()) return false;
    const ImportedPtr imported = ImportFunction(function);
    for (NodeIndex i = 0; i < imported->graph.size(); ++i) {
      const NodeType type = imported->graph[i].type;
      if (type == NodeType::kOp || type == NodeType::kConstructor) continue;
      if (!RefField(imported->exprs[i], "_checked_type_").defined()) return false;
    }
  }
  return true;
}

}  // namespace

std::string WhyNotPartitioned(const ObjectRef& function) {
  if (!IsA(function, "relay.Function")) {
    return "not a Relay function, but TVM's " + function->GetTypeKey();
  }
  ObjectRef attrs = RefField(function, "attrs");
  if (!attrs.defined()) return "";
  auto dict = runtime::Downcast<Map<String, ObjectRef>>(RefField(attrs, "__dict__"));
  for (const char* key : {"Compiler", "Composite"}) {
    if (!dict.count(key)) continue;
    ObjectRef value = dict[key];
    const auto* text = value.as<runtime::StringObj>();
    return std::string("partitioned already: ") + key + (text ? " " + std::string(text->data) : "");
  }
  return dict.count("Primitive") ? "partitioned already: a Primitive function" : "";
}

bool CanBePartitioned(const ObjectRef& function) { return WhyNotPartitioned(function).empty(); }

bool IsPartitioned(const ObjectRef& function) {
  return IsA(function, "relay.Function") && !CanBePartitioned(function);
}

std::vector<TensorType> ImportType(const ObjectRef& type) {
  std::vector<TensorType> result;
  if (IsA(type, "relay.TensorType")) {
    Fields fields(type);
    TensorType tensor;
    tensor.dtype = runtime::DLDataType2String(fields.DType("dtype"));
    for (const ObjectRef& dim : runtime::Downcast<Array<ObjectRef>>(fields.Ref("shape"))) {
      tensor.shape.push_back(IsA(dim, "IntImm") ? Fields(dim).Int("value") : TensorType::kDynamic);
    }
    result.push_back(std::move(tensor));
  } else if (IsA(type, "TupleType")) {
    for (const ObjectRef& field : RefFieldAs<Array<ObjectRef>>(type, "fields")) {
      for (TensorType& tensor : ImportType(field)) result.push_back(std::move(tensor));
    }
  }
  return result;
}

ImportedPtr ImportFunction(const ObjectRef& function, Naming naming) {
  Importer importer;
  for (const ObjectRef& param : RefFieldAs<Array<ObjectRef>>(function, "params")) {
    importer.Visit(param);
  }
  ObjectRef body = RefField(function, "body");
  importer.Visit(body);
  return importer.Finish(function, body, naming);
}

ObjectRef Typed(const ObjectRef& mod) { return IsTyped(mod) ? mod : InferTypes(mod); }

}  // namespace tvm::collage
