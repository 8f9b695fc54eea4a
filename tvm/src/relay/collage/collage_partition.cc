// SPDX-License-Identifier: Apache-2.0
// The pass CollagePartition (RFC 0062): the module's placement, found or saved before -> rewrite.
// To find one: gather specs -> for each function: import, plan.
// Precondition: Init ran. Test: tvm/tests/python/collage/test_collage_partition.py.
#include <map>
#include <string>

#include "api/candidates.h"
#include "api/cost_estimator.h"
#include "api/gather_specs.h"
#include "api/observe.h"
#include "api/plan_function.h"
#include "api/run_counter.h"
#include "plan/phase_clock.h"
#include "relay/fields.h"
#include "relay/placement.h"
#include "relay/rewrite.h"
#include "rules/merge_parts.h"

namespace tvm::collage {
namespace {

thread_local std::map<std::string, PhaseSeconds> last_phases;

/*! \brief Costs of deployed candidates, found by their first nodes: parts are disjoint. */
class PlannedCosts {
 public:
  PlannedCosts(const FunctionPlan& plan, int num_nodes) : by_first_(num_nodes, nullptr) {
    for (const PlannedPart& part : plan.parts) by_first_[FirstOf(part.candidate)] = &part;
  }
  /*! \brief One that was joined from several has none. */
  EstimatedCost Of(const CandidatePartition& candidate) const {
    const PlannedPart* part = by_first_[FirstOf(candidate)];
    if (part && part->candidate.sub_graph == candidate.sub_graph) return part->cost;
    return {"unknown", 0, "joined from neighbouring parts after the search"};
  }

 private:
  static int FirstOf(const CandidatePartition& candidate) {
    return candidate.sub_graph.inside().First();
  }
  std::vector<const PlannedPart*> by_first_;
};

/*! \brief The plan's candidates as they are deployed, joined within that scope. */
std::vector<PlacedPart> DeployedParts(const FunctionPlan& plan, const ImportedFunction& imported,
                                      const std::vector<TargetSpec>& specs, MergeScope scope) {
  std::vector<CandidatePartition> candidates;
  for (const PlannedPart& part : plan.parts) candidates.push_back(part.candidate);
  candidates = MergeParts(imported.graph, candidates, scope);
  const PlannedCosts costs(plan, imported.graph.size());
  std::vector<PlacedPart> parts;
  for (const CandidatePartition& candidate : candidates) {
    parts.push_back({candidate.sub_graph, specs[candidate.spec].spec.name, candidate.rule,
                     LabelOf(imported, candidate, specs), candidate.is_primitive,
                     costs.Of(candidate)});
  }
  return parts;
}

Placement FindPlacement(const ObjectRef& mod, const ObjectRef& compilation_config,
                        const CollageOptions& options, const CostEstimator& estimator,
                        PhaseClock* clock) {
  clock->Enter("rules");
  std::vector<TargetSpec> specs = GatherSpecs(compilation_config, options);
  clock->Enter("import");
  Placement placement = EmptyPlacement(mod);
  for (PlacedFunction& function : placement.functions) {
    FunctionPlan plan =
        PlanFunction(*function.imported, specs, estimator, options.search_seconds, clock);
    clock->Enter("deploy");
    const std::vector<PlacedPart> merged =
        DeployedParts(plan, *function.imported, specs, MergeScope::kAll);
    function.parts = options.merge_parts
                         ? merged
                         : DeployedParts(plan, *function.imported, specs, MergeScope::kJoinable);
    clock->Enter("report");
    Observe(estimator, function, merged, specs, plan);
  }
  ObserveSkipped(estimator, mod);
  return placement;
}

/*! \brief The saved placement, refused by Python when it is not for this module and machine. */
Placement ReadPlacement(const ObjectRef& mod, const ObjectRef& compilation_config,
                        const CollageOptions& options) {
  const PackedFunc* read = runtime::Registry::Get("tvm.relay.collage.read_placement");
  ICHECK(read) << "InternalError: tvm.relay.collage is not imported";
  Placement placement = EmptyPlacement(mod);
  SetParts(FromPython((*read)(String(options.placement), mod, compilation_config)), &placement);
  return placement;
}

ObjectRef Partition(const ObjectRef& untyped, const ObjectRef& compilation_config,
                    const CostEstimator& estimator) {
  ++num_partition_runs;
  PhaseClock clock;
  clock.Enter("types");
  const CollageOptions options = CollageOptions::Current();
  // TVM infers all types anew each time, which can take longer than the search.
  const ObjectRef mod = IsTyped(untyped) ? untyped : InferTypes(untyped);
  const Placement placement =
      options.placement.empty() ? FindPlacement(mod, compilation_config, options, estimator, &clock)
                                : ReadPlacement(mod, compilation_config, options);
  clock.Enter("rewrite");
  ObjectRef result = RewriteModule(placement);
  clock.Leave();
  last_phases = clock.seconds();
  return result;
}

ObjectRef CollagePartition(ObjectRef compilation_config, CostEstimator estimator) {
  return MakeModulePass("CollagePartition", [=](const ObjectRef& mod) {
    return Partition(mod, compilation_config, estimator);
  });
}

/*! \brief The module with the parts that rows (see PartRows) name by function. */
ObjectRef ApplyPlacement(ObjectRef untyped, Map<String, Array<ObjectRef>> rows_of) {
  Placement placement = EmptyPlacement(InferTypes(untyped));
  SetParts(rows_of, &placement);
  return RewriteModule(placement);
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.CollagePartition").set_body_typed(CollagePartition);
TVM_REGISTER_GLOBAL("collage.ApplyPlacement").set_body_typed(ApplyPlacement);
TVM_REGISTER_GLOBAL("collage.NumPartitionRuns").set_body_typed([]() -> int64_t {
  return num_partition_runs;
});
// Wall and CPU seconds by phase of this thread's last run.
TVM_REGISTER_GLOBAL("collage.LastPhases").set_body_typed([]() {
  Map<String, Array<ObjectRef>> phases;
  for (const auto& [name, seconds] : last_phases) {
    phases.Set(name, {runtime::Float(seconds.wall), runtime::Float(seconds.cpu)});
  }
  return phases;
});

}  // namespace tvm::collage
