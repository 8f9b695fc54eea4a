// SPDX-License-Identifier: Apache-2.0
// The pass CollagePartition (RFC 0062): gather specs -> for each function: import, plan, rewrite.
// Precondition: Init ran. Test: tvm/tests/python/collage/test_collage_partition.py.
#include <atomic>

#include "ffi/cost_estimator.h"
#include "ffi/gather_specs.h"
#include "ffi/plan_function.h"
#include "ffi/rewrite.h"
#include "rules/merge_parts.h"

namespace tvm::collage {
namespace {

std::atomic<int64_t> num_runs{0};

/*! \brief Functions of an op's or a backend's kernel, and TIR, are somebody else's already. */
bool CanBePartitioned(const ObjectRef& function) {
  return IsA(function, "relay.Function") && !IsPartitioned(function);
}

Array<String> AsStrings(const std::vector<std::string>& texts) {
  Array<String> strings;
  for (const std::string& text : texts) strings.push_back(text);
  return strings;
}

/*! \brief Parts as rows [backend, rule, label, status, seconds, message, launches a kernel]. */
ObjectRef Rows(const std::vector<PlannedPart>& parts, const ImportedFunction& imported,
               const std::vector<TargetSpec>& specs) {
  Array<Array<ObjectRef>> rows;
  for (const PlannedPart& part : parts) {
    rows.push_back({String(specs[part.candidate.spec].spec.name), String(part.candidate.rule),
                    String(LabelOf(imported, part.candidate, specs)), String(part.cost.status),
                    runtime::Float(part.cost.seconds), String(part.cost.message),
                    runtime::Bool(!part.candidate.is_free)});
  }
  return rows;
}

void Observe(const CostEstimator& estimator, const std::string& function,
             const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
             const FunctionPlan& plan) {
  if (estimator->observe == nullptr) return;
  estimator->observe(Map<String, ObjectRef>{
      {"function", String(function)},
      {"nodes", runtime::Int(imported.graph.size())},
      {"candidates", runtime::Int(plan.num_candidates)},
      {"seconds", runtime::Float(plan.seconds)},
      {"is_optimal", runtime::Bool(plan.is_optimal)},
      {"search", String(plan.search_summary)},
      {"cuts", AsStrings(plan.cuts)},
      {"parts", Rows(plan.parts, imported, specs)},
      {"failed", Rows(plan.failed, imported, specs)},
  });
}

/*! \brief The plan's candidates as they are deployed. */
std::vector<CandidatePartition> DeployedParts(const FunctionPlan& plan, const DataflowGraph& graph,
                                              const CollageOptions& options) {
  std::vector<CandidatePartition> parts;
  for (const PlannedPart& part : plan.parts) parts.push_back(part.candidate);
  return options.merge_parts ? MergeParts(graph, parts) : parts;
}

std::vector<ExternalPart> ExternalParts(const std::vector<CandidatePartition>& parts,
                                        const std::vector<TargetSpec>& specs) {
  std::vector<ExternalPart> external;
  for (const CandidatePartition& part : parts) {
    if (part.is_primitive) external.push_back({&part.sub_graph, specs[part.spec].spec.name});
  }
  return external;
}

ObjectRef Partition(const ObjectRef& untyped, const ObjectRef& compilation_config,
                    const CostEstimator& estimator) {
  ++num_runs;
  const CollageOptions options = CollageOptions::Current();
  std::vector<TargetSpec> specs = GatherSpecs(compilation_config, options);
  ObjectRef mod = InferTypes(untyped);
  ObjectRef result = CallGlobal("ir.Module_Clone", mod);
  const auto functions = RefFieldAs<Map<ObjectRef, ObjectRef>>(mod, "functions");
  NameSupply names;
  for (const auto& [global_var, function] : functions) {
    names.Reserve(Fields(global_var).Str("name_hint"));
  }
  for (const auto& [global_var, function] : functions) {
    if (!CanBePartitioned(function)) continue;
    ImportedFunction imported = ImportFunction(function);
    FunctionPlan plan = PlanFunction(imported, specs, estimator);
    Observe(estimator, Fields(global_var).Str("name_hint"), imported, specs, plan);
    std::vector<CandidatePartition> parts = DeployedParts(plan, imported.graph, options);
    std::vector<ExternalFunction> externals;
    Expr rewritten = RewriteFunction(imported, ExternalParts(parts, specs), &names, &externals);
    for (const ExternalFunction& external : externals) {
      CallGlobal("ir.Module_Add", result, external.global_var, external.function, false);
    }
    CallGlobal("ir.Module_Add", result, global_var, rewritten, true);
  }
  return InferTypes(result);
}

ObjectRef CollagePartition(ObjectRef compilation_config, CostEstimator estimator) {
  PackedFunc pass([=](runtime::TVMArgs args, TVMRetValue* result) {
    *result = Partition(args[0], compilation_config, estimator);
  });
  constexpr int kOptLevel = 0;
  constexpr bool kTraceable = false;
  ObjectRef info = CallGlobal("transform.PassInfo", kOptLevel, String("CollagePartition"),
                              Array<String>(), kTraceable);
  return CallGlobal("transform.MakeModulePass", pass, info);
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.CollagePartition").set_body_typed(CollagePartition);
// How often the pass ran: proves to a test which implementation it has met.
TVM_REGISTER_GLOBAL("collage.NumPartitionRuns").set_body_typed([]() -> int64_t {
  return num_runs;
});

}  // namespace tvm::collage
