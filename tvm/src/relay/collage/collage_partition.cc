// SPDX-License-Identifier: Apache-2.0
// The pass CollagePartition (RFC 0062): the module's placement, found or saved before -> rewrite.
// To find one: gather specs -> for each function: import, plan.
// Precondition: Init ran. Test: test_collage_partition.py.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/cost_estimator.h"
#include "api/gather_specs.h"
#include "api/observe.h"
#include "api/tvm_backends.h"
#include "graph/json.h"
#include "plan/plan.h"
#include "relay/fields.h"
#include "relay/placement.h"
#include "relay/rewrite.h"

namespace tvm::collage {
namespace {

// What the pass itself reads of the options, by their names in options.py.
struct PassOptions {
  bool merge_parts;
  double time_limit;
  std::string placement;  // a file

  // Throws TypeError or ValueError for any option of the current PassContext that is wrong.
  static PassOptions Current() {
    const String text = FromPython(CallGlobal("tvm.relay.collage.pass_options"));
    const JsonValue fields = JsonValue::Parse(text);
    return {fields["merge_parts"].Bool(), fields["time_limit"].Real(), fields["placement"].Text()};
  }
};

thread_local std::map<std::string, PhaseSeconds> last_phases;

Placement FindPlacement(const ObjectRef& mod, const ObjectRef& compilation_config,
                        const PassOptions& options, const CostEstimator& estimator,
                        PhaseClock* clock) {
  clock->Enter("rules");
  const std::vector<TargetSpec> targets = GatherSpecs(compilation_config);
  clock->Enter("import");
  if (estimator->network != nullptr) FromPython(estimator->network(mod));
  Placement placement = EmptyPlacement(mod);
  std::optional<double> began;  // all functions together have that time
  for (PlacedFunction& function : placement.functions) {
    const DataflowGraph& graph = function.imported->graph;
    const TvmBackends backends(*function.imported, targets, estimator);
    if (!began) began = OwnSeconds(backends);
    const auto is_over = [&] {
      return options.time_limit > 0 && OwnSeconds(backends) - *began >= options.time_limit;
    };
    const auto plan = std::make_shared<const FunctionPlan>(Plan(graph, backends, is_over, clock));
    clock->Enter("deploy");
    const std::vector<PlacedPart> merged = Placed(graph, *plan, backends.specs(), MergeScope::kAll);
    function.parts = options.merge_parts
                         ? merged
                         : Placed(graph, *plan, backends.specs(), MergeScope::kJoinable);
    clock->Enter("report");
    Observe(estimator, function, merged, backends.specs(), plan);
  }
  ObserveSkipped(estimator, mod);
  return placement;
}

// The saved placement, refused by Python when it is not for this module and machine.
Placement ReadPlacement(const ObjectRef& mod, const ObjectRef& compilation_config,
                        const PassOptions& options) {
  const PackedFunc* read = runtime::Registry::Get("tvm.relay.collage.read_placement");
  ICHECK(read) << "InternalError: tvm.relay.collage is not imported";
  Placement placement = EmptyPlacement(mod);
  SetParts(FromPython((*read)(String(options.placement), mod, compilation_config)), &placement);
  return placement;
}

ObjectRef Partition(const ObjectRef& untyped, const ObjectRef& compilation_config,
                    const CostEstimator& estimator) {
  PhaseClock clock;
  clock.Enter("types");
  const PassOptions options = PassOptions::Current();
  const ObjectRef mod = Typed(untyped);
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

// The module with these parts (see SetParts).
ObjectRef ApplyPlacement(ObjectRef untyped, String parts_of) {
  Placement placement = EmptyPlacement(Typed(untyped));
  SetParts(parts_of, &placement);
  return RewriteModule(placement);
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.CollagePartition").set_body_typed(CollagePartition);
TVM_REGISTER_GLOBAL("collage.ApplyPlacement").set_body_typed(ApplyPlacement);
// Wall and CPU seconds by phase of this thread's last run.
TVM_REGISTER_GLOBAL("collage.LastPhases").set_body_typed([]() {
  std::map<std::string, Json> phases;
  for (const auto& [name, seconds] : last_phases) {
    phases.emplace(name, JsonObject({{"wall", seconds.wall}, {"cpu", seconds.cpu}}));
  }
  return String(Json(phases).text());
});

}  // namespace tvm::collage
