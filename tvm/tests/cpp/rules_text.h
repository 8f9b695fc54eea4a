// SPDX-License-Identifier: Apache-2.0
// A rule's candidates as text, for tests: "a | a b | c".
#pragma once

#include <string>

#include "graph_text.h"
#include "src/relay/collage/rules/partition_rule.h"

namespace tvm::collage::testing {

// Inside sets by node names, in the rule's order; composites as "a b [label]".
inline std::string Sets(const NamedGraph& g, const RulePtr& rule, RuleLog* log = nullptr) {
  RuleLog unused;
  std::string text;
  for (const CandidatePartition& candidate :
       rule->AllCandidates(g.graph, 0, log != nullptr ? log : &unused)) {
    text += (text.empty() ? "" : " | ") + g.Names(candidate.sub_graph.inside());
    for (const NestedSubGraph& part : candidate.sub_graph.nested()) {
      text += " [" + part.composite + "]";
    }
  }
  return text;
}

}  // namespace tvm::collage::testing
