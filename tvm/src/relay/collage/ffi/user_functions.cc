// SPDX-License-Identifier: Apache-2.0
#include "user_functions.h"

#include <algorithm>
#include <functional>

#include "construct.h"
#include "import_attrs.h"

namespace tvm::collage {
namespace {

thread_local const ImportScope* current_scope = nullptr;

/*! \brief What the user's function raised, without the stack that TVM's errors carry. */
std::string LastLine(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  size_t end_of_line = message.rfind('\n');
  return end_of_line == std::string::npos ? message : message.substr(end_of_line + 1);
}

const ObjectRef& ExprOf(NodeIndex index) { return ImportScope::Current().imported().exprs[index]; }

/*!
 * What an asked function raises is a text by the time that it comes here (predicates.py): whatever
 * is thrown all the same, an interrupt or a want of memory, ends the pass.
 */
Verdict Ask(const std::function<TVMRetValue()>& predicate) {
  TVMRetValue answer = predicate();
  if (answer.type_code() == kTVMStr || answer.IsObjectRef<String>()) {
    std::string reason = answer.operator String();
    return reason.empty() ? Verdict::Accept() : Verdict::Refuse(reason);
  }
  bool accepted = false;
  try {
    accepted = answer;
  } catch (const std::exception& error) {
    // TVM's FFI gives nothing, too, where it has lost an interrupt.
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    return Verdict::Refuse("unsupported: its predicate raised " + LastLine(error.what()));
  }
  return accepted ? Verdict::Accept() : Verdict::Refuse("its predicate refused");
}

/*! \brief Asks unless it is known what the answer is. */
Verdict AskOnce(const PackedFunc& predicate, bool is_local, NodeIndex root,
                const IndexSet& inside) {
  return ImportScope::Current().verdicts().Of(predicate, is_local, root, inside, [&] {
    return Ask([&] { return predicate(ExprOf(root)); });
  });
}

/*! \brief Can it be written into a function and into a file? */
bool IsPlain(const AttrValue& value) {
  if (const auto* list = std::get_if<AttrList>(&value)) {
    return std::all_of(list->begin(), list->end(), IsPlain);
  }
  return !std::holds_alternative<std::monostate>(value) &&
         !std::holds_alternative<AttrObject>(value);
}

Verdict ReadAttrs(const TVMRetValue& value, Attrs* attrs) {
  if (value.type_code() == kTVMStr) return Verdict::Refuse(value);
  if (!value.IsObjectRef<ObjectRef>()) {
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    return Verdict::Refuse("unsupported: its attrs getter gave no dict");
  }
  const ObjectRef answer = value;
  if (!answer.as<runtime::MapNode>()) {
    return Verdict::Refuse("unsupported: its attrs getter gave no dict");
  }
  for (const auto& [key, value] : runtime::Downcast<Map<String, ObjectRef>>(answer)) {
    AttrValue plain = ImportAttr(value);
    if (!IsPlain(plain)) {
      return Verdict::Refuse("unsupported: its attrs getter gave '" + std::string(key) +
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

}  // namespace

ImportScope::ImportScope(const ImportedFunction* imported, const std::vector<TargetSpec>* specs)
    : imported_(imported), specs_(specs), outer_(current_scope), verdicts_(*imported) {
  current_scope = this;
}

// A user's function may itself run the pass, so scopes nest.
ImportScope::~ImportScope() { current_scope = outer_; }

const ImportScope& ImportScope::Current() {
  ICHECK(current_scope) << "InternalError: a user's function was asked outside of the pass";
  return *current_scope;
}

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

CallPredicate AttributePredicate(const std::string& attribute, bool is_local) {
  return [attribute, is_local](const DataflowGraph& graph, NodeIndex index) {
    const ObjectRef& call = ExprOf(index);
    TVMRetValue takes = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
    if (takes.type_code() != kTVMPackedFuncHandle) {
      return Verdict::Refuse("");  // it says nothing of this op: no reason worth keeping
    }
    const PackedFunc predicate = takes;
    return ImportScope::Current().verdicts().Of(
        predicate, is_local, index, IndexSet(graph.size(), {index}), [&] {
          // Its owner gave it to TVM as it was: what it raises is not a text yet.
          return Ask([&] { return CallGlobal("tvm.relay.collage.ask", predicate, call); });
        });
  };
}

AttrsGetter AsAttrsGetter(const PackedFunc& getter) {
  if (getter == nullptr) return {};
  return [getter](const DataflowGraph&, const SubGraph& sub_graph, Attrs* attrs) {
    return ReadAttrs(getter(ExprOf(sub_graph.inside().Last())), attrs);
  };
}

}  // namespace tvm::collage
