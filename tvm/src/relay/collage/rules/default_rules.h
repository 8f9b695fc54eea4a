// SPDX-License-Identifier: Apache-2.0
// Rules as the pass assembles them for TVM, for a backend with patterns or predicates, and for the
// host. Test: tvm/tests/cpp/rules_default_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_DEFAULT_RULES_H_
#define TVM_RELAY_COLLAGE_RULES_DEFAULT_RULES_H_

#include <string>
#include <vector>

#include "base_rules.h"
#include "combinators.h"

namespace tvm::collage {

/*! \brief How a backend's composites may share a partition (option byoc_fusion_style). */
enum class FusionStyle { kNone, kTvm, kArbitrary };

/*! \brief One line of a backend's pattern table. */
struct PatternEntry {
  std::string composite;
  DataflowPattern pattern;
  MatchPredicate predicate;  // null accepts every match
};

struct RuleOptions {
  int max_depth = 8;
  int max_candidates_per_node = 2048;
  FusionStyle fusion_style = FusionStyle::kNone;
  /*! \brief Also offer maximal regions, whole. */
  bool regions = false;
  /*! \brief Limits of regions; without any, a region may give several values. */
  SubGraphConfig region_config;
};

/*! \brief Fused groups, and every single call, left unwrapped for FuseOps. */
RulePtr TvmRule(const RuleOptions& options = {});
/*! \brief Composites of the table, and calls that the backend takes `bare`, outside any pattern. */
RulePtr PatternBackendRule(const std::vector<PatternEntry>& entries,
                           const RuleOptions& options = {}, CallPredicate bare = nullptr);
/*! \brief For a backend that says op by op what it takes (`target.<backend>`). */
RulePtr PredicateBackendRule(CallPredicate predicate, const RuleOptions& options = {});

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_DEFAULT_RULES_H_
