// SPDX-License-Identifier: Apache-2.0
// What users' functions answer to rules: yes or no with a reason, and attributes of composites.
// Test: tvm/tests/cpp/rules_basic_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_VERDICT_H_
#define TVM_RELAY_COLLAGE_RULES_VERDICT_H_

#include <functional>
#include <string>
#include <utility>

#include "../graph/sub_graph.h"
#include "../match/matcher.h"

namespace tvm::collage {

/*! \brief A predicate's answer; the reason of a refusal is kept for reports. */
struct Verdict {
  bool accepted = true;
  std::string reason;

  static Verdict Accept() { return {true, ""}; }
  static Verdict Refuse(std::string reason) { return {false, std::move(reason)}; }
};

// Whoever wraps a user's function turns its errors into refusals; what is thrown ends the pass.
using MatchPredicate = std::function<Verdict(const DataflowGraph&, const Match&)>;
using CallPredicate = std::function<Verdict(const DataflowGraph&, NodeIndex)>;
/*! \brief Attributes of the composite that the sub-graph becomes; a refusal drops it. */
using AttrsGetter = std::function<Verdict(const DataflowGraph&, const SubGraph&, Attrs*)>;

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_VERDICT_H_
