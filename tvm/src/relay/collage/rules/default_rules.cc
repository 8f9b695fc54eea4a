// SPDX-License-Identifier: Apache-2.0
#include "default_rules.h"

#include <utility>

namespace tvm::collage {
namespace {

CombineLimits LimitsOf(const RuleOptions& options) {
  CombineLimits limits;
  limits.max_depth = options.max_depth;
  limits.max_exits = options.max_exits;
  limits.max_candidates_per_node = options.max_candidates_per_node;
  return limits;
}

// Combiners of each style; without any, only single composites that are valid remain.
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

RulePtr RegionsOf(RulePtr parts, const RuleOptions& options) {
  // A tuple between two calls of the backend must not cut its region.
  return RegionRule(UnionRule({std::move(parts), GlueRule()}), options.region_config,
                    /*keep_parts=*/false, options.region_cuts);
}

}  // namespace

RulePtr PatternEntryRule(PatternEntry entry) {
  return CompositeRule(
      entry.composite,
      DFPatternRule(entry.composite, std::move(entry.pattern), std::move(entry.predicate)),
      std::move(entry.attrs));
}

RulePtr BackendRule(std::vector<RulePtr> entries, const RuleOptions& options, CallPredicate bare) {
  if (bare) entries.push_back(OpPredicateRule("bare", std::move(bare)));
  RulePtr parts = UnionRule(std::move(entries));
  if (!options.left_out.empty()) parts = WithoutRule(options.left_out, std::move(parts));
  RulePtr combined = CombineRule(parts, CombinersOf(options.fusion_style), LimitsOf(options));
  if (!options.regions) return PrimitiveRule(combined);
  return PrimitiveRule(UnionRule({
      combined,
      RegionsOf(parts, options),
  }));
}

RulePtr TvmRule(const RuleOptions& options) {
  RulePtr calls = OpCallByKindRule("tvm");
  RulePtr fused = CombineRule(calls, TvmCombiners(), LimitsOf(options));
  if (!options.regions) return fused;
  return UnionRule({
      fused,
      RegionsOf(calls, options),
  });
}

}  // namespace tvm::collage
