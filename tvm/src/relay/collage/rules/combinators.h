// SPDX-License-Identifier: Apache-2.0
// Rules over the candidates of sub-rules; Combine and Region are defined in files of their own.
// Test: tvm/tests/cpp/rules_*_test.cc.
#pragma once

#include <string>
#include <vector>

#include "base_rules.h"
#include "combiner.h"

namespace tvm::collage {

// Labels each sub-candidate as one composite of that name, with what `attrs` adds.
COLLAGE_API RulePtr CompositeRule(std::string composite, RulePtr sub_rule, AttrsGetter attrs = {});

// Marks sub-candidates to be wrapped into a function for their backend's compiler.
COLLAGE_API RulePtr PrimitiveRule(RulePtr sub_rule);

// Marks sub-candidates to be joined, once chosen, with those that they touch.
COLLAGE_API RulePtr JoinableRule(RulePtr sub_rule);

// All candidates of all sub-rules, in their order.
COLLAGE_API RulePtr UnionRule(std::vector<RulePtr> sub_rules);

// Drops candidates that break `config`.
COLLAGE_API RulePtr OnlyValidRule(SubGraphConfig config, RulePtr sub_rule);

// Drops candidates that hold one of these nodes.
COLLAGE_API RulePtr WithoutRule(std::vector<NodeIndex> nodes, RulePtr sub_rule);

struct CombineLimits {
  int max_depth = 8;  // calls on the longest inside path; 0 means no limit
  int max_exits = 1;  // 0 means no limit
  bool allow_taps = false;
  // Candidates kept for each exit node (first node when max_exits is not 1).
  int max_candidates_per_node = 2048;

  SubGraphConfig Config() const { return {max_depth, max_exits, allow_taps}; }
};

// Sub-candidates and their unions, grown by one touching sub-candidate at a time as long
// as a combiner agrees and the union stays convex. Each set once: of several ways to make it from
// composites the one with the fewest. What a limit cuts is logged.
COLLAGE_API RulePtr CombineRule(RulePtr sub_rule, std::vector<CombinerPtr> combiners,
                                CombineLimits limits = {});

// Sub-candidates (`keep_parts`), and maximal convex connected unions of non-overlapping ones; where
// they overlap the larger wins, then the one that the sub-rule names first. Unions outside `config`
// are refused. Tuples and projections at a union's border are left outside. Also the areas that are
// left of each without its most expensive part (WorkOf), without the two most expensive, up to
// `max_cuts`.
COLLAGE_API RulePtr RegionRule(RulePtr sub_rule, SubGraphConfig config = {}, bool keep_parts = true,
                               int max_cuts = 0);

}  // namespace tvm::collage
