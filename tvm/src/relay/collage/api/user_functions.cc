// SPDX-License-Identifier: Apache-2.0
#include "user_functions.h"

#include <algorithm>
#include <set>

#include "../relay/construct.h"
#include "../relay/import_attrs.h"

namespace tvm::collage {
namespace {

thread_local const ImportScope* current_scope = nullptr;

bool IsText(const TVMRetValue& answer) {
  return answer.type_code() == kTVMStr || answer.IsObjectRef<String>();
}

// What an asked function raises is a text by the time that it comes here (predicates.py), and what
// it gives is a bool or a text: whatever is thrown all the same, an interrupt or a want of memory,
// ends the pass.
Verdict AsVerdict(const TVMRetValue& answer) {
  if (IsText(answer)) {
    std::string reason = answer.operator String();
    return reason.empty() ? Verdict::Accept() : Verdict::Refuse(reason);
  }
  if (answer.type_code() == kTVMNullptr) {
    // TVM's FFI gives nothing where it has lost an interrupt.
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    return Verdict::Refuse("unsupported: its predicate gave nothing");
  }
  const bool accepted = answer;
  return accepted ? Verdict::Accept() : Verdict::Refuse("its predicate refused");
}

// Asks unless it is known what the answer is.
Verdict AskOnce(const PackedFunc& predicate, bool is_local, NodeIndex root,
                const IndexSet& inside) {
  return ImportScope::Current().verdicts().Of(predicate, is_local, root, inside,
                                              [&] { return AsVerdict(predicate(ExprOf(root))); });
}

// Can it be written into a function and into a file?
bool IsPlain(const AttrValue& value) {
  if (const auto* list = std::get_if<AttrList>(&value)) {
    return std::all_of(list->begin(), list->end(), IsPlain);
  }
  return !std::holds_alternative<std::monostate>(value) &&
         !std::holds_alternative<AttrObject>(value);
}

Verdict ReadAttrs(const TVMRetValue& value, Attrs* attrs) {
  if (IsText(value)) return Verdict::Refuse(value.operator String());
  if (!value.IsObjectRef<ObjectRef>()) {
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    return Verdict::Refuse("unsupported: its attrs getter gave no dict");
  }
  const ObjectRef answer = value;
  if (!answer.as<runtime::MapNode>()) {
    return Verdict::Refuse("unsupported: its attrs getter gave no dict");
  }
  for (const auto& [any_key, value] : runtime::Downcast<Map<ObjectRef, ObjectRef>>(answer)) {
    const auto* text = any_key.as<runtime::StringObj>();
    if (!text) return Verdict::Refuse("unsupported: its attrs getter gave a name that is no str");
    const std::string key(text->data, text->size);
    AttrValue plain = ImportAttr(value);
    if (!IsPlain(plain)) {
      return Verdict::Refuse("unsupported: its attrs getter gave '" + key +
                             "' a value that is no int, float, str or list of such");
    }
    if (key == "Composite") {
      return Verdict::Refuse("unsupported: its attrs getter gave 'Composite', the label's own");
    }
    attrs->emplace_back(key, std::move(plain));
  }
  std::sort(attrs->begin(), attrs->end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return Verdict::Accept();
}

std::set<std::string>& LocalBackends() {
  static auto& names = *new std::set<std::string>();
  return names;
}

}  // namespace

ImportScope::ImportScope(const ImportedFunction* imported, const std::vector<PartitionSpec>* specs)
    : imported_(imported), specs_(specs), outer_(current_scope), verdicts_(*imported) {
  current_scope = this;
}

// A user's function may itself run the pass, so scopes nest.
ImportScope::~ImportScope() { current_scope = outer_; }

const ImportScope& ImportScope::Current() {
  ICHECK(current_scope) << "InternalError: a user's function was asked outside of the pass";
  return *current_scope;
}

const ObjectRef& ExprOf(NodeIndex index) { return ImportScope::Current().imported().exprs[index]; }

MatchPredicate AsMatchPredicate(const PackedFunc& predicate, bool is_local) {
  if (predicate == nullptr) return {};
  return [predicate, is_local](const DataflowGraph&, const Match& match) {
    return AskOnce(predicate, is_local, match.root, match.inside);
  };
}

CallPredicate AsCallPredicate(const PackedFunc& predicate) {
  return [predicate](const DataflowGraph& graph, NodeIndex index) {
    return AskOnce(predicate, false, index, IndexSet(graph.size(), {index}));
  };
}

bool HasOpAttribute(const std::string& attribute) {
  // TVM asks for an op even where the question is about all of them.
  return CallGlobal("ir.OpHasAttr", CallGlobal("ir.GetOp", String("add")).operator ObjectRef(),
                    String(attribute));
}

CallPredicate AttributePredicate(const std::string& attribute, bool is_local) {
  return [attribute, is_local](const DataflowGraph& graph, NodeIndex index) {
    const ObjectRef& call = ExprOf(index);
    TVMRetValue takes = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
    if (takes.type_code() != kTVMPackedFuncHandle) {
      return Verdict::Refuse("");  // it says nothing of this op: no reason worth keeping
    }
    const PackedFunc predicate = takes;
    // Its owner gave it as it was: Python makes a text of what it raises.
    const auto ask = [&] {
      return AsVerdict(CallGlobal("tvm.relay.collage.ask", predicate, call));
    };
    return ImportScope::Current().verdicts().Of(predicate, is_local, index,
                                                IndexSet(graph.size(), {index}), ask);
  };
}

AttrsGetter AsAttrsGetter(const PackedFunc& getter) {
  if (getter == nullptr) return {};
  return [getter](const DataflowGraph&, const SubGraph& sub_graph, Attrs* attrs) {
    return ReadAttrs(getter(ExprOf(sub_graph.inside().Last())), attrs);
  };
}

bool HasLocalPredicates(const std::string& backend) { return LocalBackends().count(backend) > 0; }

Signature VerdictMemo::KeyOf(bool is_local, NodeIndex root, const IndexSet& inside) {
  Signature key;
  uint64_t place_of_root = 0;
  inside.ForEach([&](NodeIndex i) {
    if (!is_local) key.push_back(static_cast<uint64_t>(i));
    place_of_root += i < root;
  });
  if (is_local) {
    if (!signatures_) {
      signatures_ = std::make_unique<const Signatures>(SignaturesOf(imported_));
    }
    CandidatePartition candidate;
    candidate.sub_graph = SubGraph::Make(imported_.graph, inside);
    key = signatures_->Of(candidate);
  }
  key.push_back(place_of_root);
  return key;
}

const Verdict& VerdictMemo::Of(const PackedFunc& predicate, bool is_local, NodeIndex root,
                               const IndexSet& inside, const std::function<Verdict()>& ask) {
  predicates_.emplace(predicate.get(), predicate);
  Signature key = KeyOf(is_local, root, inside);
  key.push_back(reinterpret_cast<uintptr_t>(predicate.get()));
  auto found = verdicts_.find(key);
  if (found == verdicts_.end()) found = verdicts_.emplace(std::move(key), ask()).first;
  return found->second;
}

TVM_REGISTER_GLOBAL("collage.SetLocalPredicates").set_body_typed([](String backend, bool is_local) {
  if (is_local) {
    LocalBackends().insert(backend);
  } else {
    LocalBackends().erase(backend);
  }
});

}  // namespace tvm::collage
