// SPDX-License-Identifier: Apache-2.0
#include "default_rules.h"

#include <utility>

namespace tvm::collage {
namespace {

CombineLimits LimitsOf(const RuleOptions& options) {
  CombineLimits limits;
  limits.max_depth = options.max_depth;
  limits.max_candidates_per_node = options.max_candidates_per_node;
  return limits;
}

/*! \brief Combiners of each style; without any, only single composites that are valid remain. */
std::vector<CombinerPtr> CombinersOf(FusionStyle style) {
  switch (style) {
    case FusionStyle::kNone:
      return {};
    case FusionStyle::kTvm:
      return TvmCombiners();
    case FusionStyle::kArbitrary:
      return {JoinAnythingCombiner()};
  }
  return {};
}

/*! \brief The parts combined in the backend's style, and whole regions of them if wanted. */
RulePtr BackendRule(RulePtr parts, const RuleOptions& options) {
  RulePtr combined = CombineRule(parts, CombinersOf(options.fusion_style), LimitsOf(options));
  if (!options.regions) return PrimitiveRule(combined);
  return PrimitiveRule(UnionRule({
      combined,
      // A tuple between two calls of the backend must not cut its region.
      RegionRule(UnionRule({parts, GlueRule()}), options.region_config, /*keep_parts=*/false),
  }));
}

}  // namespace

RulePtr TvmRule(const RuleOptions& options) {
  RulePtr fused = CombineRule(OpCallByKindRule("tvm"), TvmCombiners(), LimitsOf(options));
  if (!options.regions) return fused;
  return UnionRule({
      fused,
      RegionRule(UnionRule({OpCallByKindRule("tvm"), GlueRule()}), options.region_config,
                 /*keep_parts=*/false),
  });
}

RulePtr PatternBackendRule(const std::vector<PatternEntry>& entries, const RuleOptions& options,
                           CallPredicate bare) {
  std::vector<RulePtr> composites;
  for (const PatternEntry& entry : entries) {
    composites.push_back(CompositeRule(
        entry.composite, DFPatternRule(entry.composite, entry.pattern, entry.predicate)));
  }
  if (bare) composites.push_back(OpPredicateRule("bare", std::move(bare)));
  return BackendRule(UnionRule(std::move(composites)), options);
}

RulePtr PredicateBackendRule(CallPredicate predicate, const RuleOptions& options) {
  RuleOptions joined = options;
  // Without composites nothing else says how calls may share a partition.
  if (joined.fusion_style == FusionStyle::kNone) joined.fusion_style = FusionStyle::kArbitrary;
  return BackendRule(OpPredicateRule("op_predicate", std::move(predicate)), joined);
}

}  // namespace tvm::collage
