// SPDX-License-Identifier: Apache-2.0
// Rules as the pass assembles them for TVM, for a backend with patterns or predicates, and for the
// host. Test: tvm/tests/cpp/rules_default_test.cc.
#pragma once

#include <string>
#include <vector>

#include "base_rules.h"
#include "combinators.h"

namespace tvm::collage {

// How a backend's composites may share a partition (option byoc_fusion_style).
enum class FusionStyle { kNone, kTvm, kArbitrary };

// One line of a backend's pattern table.
struct PatternEntry {
  std::string composite;
  DataflowPattern pattern;
  MatchPredicate predicate;  // null accepts every match
  AttrsGetter attrs = {};
};

struct RuleOptions {
  int max_depth = 8;
  int max_candidates_per_node = 2048;
  int max_exits = 1;  // of fused groups and combined composites; 0 means no limit
  FusionStyle fusion_style = FusionStyle::kNone;
  // Also offer maximal regions, whole.
  bool regions = false;
  // Limits of regions; without any, a region may give several values.
  SubGraphConfig region_config;
  // Also what is left of each region without its 1, 2, .. most expensive parts.
  int region_cuts = 0;
  // Nodes that the backend is not to take, whatever its rules say.
  std::vector<NodeIndex> left_out = {};
};

// Pattern -> composite: the rule of one line of a table.
COLLAGE_API RulePtr PatternEntryRule(PatternEntry entry);
// What a backend takes, its table's lines and calls `bare`, outside any pattern, combined in its
// style, and whole regions of the same if wanted.
COLLAGE_API RulePtr BackendRule(std::vector<RulePtr> entries, const RuleOptions& options = {},
                                CallPredicate bare = nullptr);

// Fused groups, and every single call, left unwrapped for FuseOps.
COLLAGE_API RulePtr TvmRule(const RuleOptions& options = {});
}  // namespace tvm::collage
