// SPDX-License-Identifier: Apache-2.0
// VerdictMemo: what predicates said, so that each is asked once for each match, and one that looks
// at nothing else once for all equal matches. Test: tvm/tests/python/collage/test_rules_memo.py.
#ifndef TVM_RELAY_COLLAGE_API_VERDICT_MEMO_H_
#define TVM_RELAY_COLLAGE_API_VERDICT_MEMO_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "../relay/import_signatures.h"
#include "../rules/verdict.h"

namespace tvm::collage {

/*! \brief Has the backend said that its predicates are local (Backend.local_predicates)? */
bool HasLocalPredicates(const std::string& backend);

class VerdictMemo {
 public:
  /*! \brief `imported` must outlive the memo. */
  explicit VerdictMemo(const ImportedFunction& imported) : imported_(imported) {}

  /*! \brief What `ask` says, or has said before for the same predicate and an equal match. */
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

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_VERDICT_MEMO_H_
