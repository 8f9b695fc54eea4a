// SPDX-License-Identifier: Apache-2.0
// Users' functions as rules ask them: predicates and attrs getters. What they raise or give wrongly
// is a refusal with a reason, of which Python makes a text (predicates.py); an interrupt ends the
// pass, as itself (interrupts.py). Preconditions: an ImportScope lives while rules run; what is
// given here is guarded in Python (predicates.py): what any other raises ends the pass. Test:
// rules/test_pattern_entry.py, rules/test_memo.py, inspect/test_refusal.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../relay/identity.h"
#include "../rules/base_rules.h"

namespace tvm::collage {

// Has the backend said that its predicates are local (Backend.local_predicates)?
bool HasLocalPredicates(const std::string& backend);

// What predicates said, so that each is asked once for each match, and one that looks at nothing
// else once for all equal matches.
class VerdictMemo {
 public:
  // `imported` must outlive the memo.
  explicit VerdictMemo(const ImportedFunction& imported) : imported_(imported) {}

  // What `ask` says, or has said before for the same predicate and an equal match.
  const Verdict& Of(const PackedFunc& predicate, bool is_local, NodeIndex root,
                    const IndexSet& inside, const std::function<Verdict()>& ask);

 private:
  Signature KeyOf(bool is_local, NodeIndex root, const IndexSet& inside);

  const ImportedFunction& imported_;
  std::unique_ptr<const Signatures> signatures_;
  // The functions are kept, so that none of them gives way to another at its address.
  std::unordered_map<const Object*, PackedFunc> predicates_;
  std::unordered_map<Signature, Verdict, SignatureHash> verdicts_;
};

// While it lives, users' functions find the expressions of this function's graph.
class ImportScope {
 public:
  // Both must outlive the scope; `specs` are those whose numbers candidates carry.
  ImportScope(const ImportedFunction* imported, const std::vector<PartitionSpec>* specs);
  ~ImportScope();
  ImportScope(const ImportScope&) = delete;
  ImportScope& operator=(const ImportScope&) = delete;

  static const ImportScope& Current();
  const ImportedFunction& imported() const { return *imported_; }
  const std::string& BackendOf(int spec) const { return (*specs_)[spec].name; }
  VerdictMemo& verdicts() const { return verdicts_; }

 private:
  const ImportedFunction* imported_;
  const std::vector<PartitionSpec>* specs_;
  const ImportScope* outer_;
  mutable VerdictMemo verdicts_;
};

// The node's expression, in the graph of the current scope.
const ObjectRef& ExprOf(NodeIndex index);

// Asks with the matched expression: true accepts, false refuses, a text is why not. Each match is
// asked for once; when `is_local`, so are all that are equal (see HasLocalPredicates).
MatchPredicate AsMatchPredicate(const PackedFunc& predicate, bool is_local = false);
// Asks with the call.
CallPredicate AsCallPredicate(const PackedFunc& predicate);
// Has any op the attribute? One that no op has ever had is an error to ask for in TVM.
bool HasOpAttribute(const std::string& attribute);
// Asks the function that the call's op has as this attribute; without one it refuses.
CallPredicate AttributePredicate(const std::string& attribute, bool is_local = false);
// Asks with the composite's last expression for a dictionary of str to int, float, str or lists of
// such.
AttrsGetter AsAttrsGetter(const PackedFunc& getter);

}  // namespace tvm::collage
