// SPDX-License-Identifier: Apache-2.0
// Base rules: candidates straight from the graph; what users' functions answer to them. Test:
// tvm/tests/cpp/rules_basic_test.cc.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "../match/matcher.h"
#include "partition_rule.h"

namespace tvm::collage {

// A predicate's answer; the reason of a refusal is kept for reports.
struct Verdict {
  bool accepted = true;
  std::string reason;

  static Verdict Accept() { return {true, ""}; }
  static Verdict Refuse(std::string reason) { return {false, std::move(reason)}; }
};

// Whoever wraps a user's function turns its errors into refusals; what is thrown ends the pass.
using MatchPredicate = std::function<Verdict(const DataflowGraph&, const Match&)>;
using CallPredicate = std::function<Verdict(const DataflowGraph&, NodeIndex)>;
// Attributes of the composite that the sub-graph becomes; a refusal drops it.
using AttrsGetter = std::function<Verdict(const DataflowGraph&, const SubGraph&, Attrs*)>;

// The candidate that holds one node alone.
COLLAGE_API CandidatePartition SingleNode(const DataflowGraph& graph, NodeIndex index, int spec,
                                          std::string rule);

// Every match that `predicate` (null accepts all) accepts and that is convex.
COLLAGE_API RulePtr DFPatternRule(std::string name, DataflowPattern pattern,
                                  MatchPredicate predicate = {});

// Every single op call that TVM can fuse: kinds up to kOutEWiseFusable.
COLLAGE_API RulePtr OpCallByKindRule(std::string name = "op_call_by_kind");

// Every single op call that the predicate accepts.
COLLAGE_API RulePtr OpPredicateRule(std::string name, CallPredicate predicate);

// Every tuple of tensors and every projection of one: what holds calls together.
COLLAGE_API RulePtr GlueRule(std::string name = "glue");

// Every placeable node alone: what launches no kernel is free; a kernel call is a fallback that
// makes sure of a cover, to be priced by its backend.
COLLAGE_API RulePtr HostRule(std::string name = "host");

}  // namespace tvm::collage
