// SPDX-License-Identifier: Apache-2.0
#include "observe.h"

#include <algorithm>
#include <map>
#include <optional>

#include "../graph/json.h"
#include "../plan/replan.h"
#include "function_graph.h"

namespace tvm::collage {
namespace {

Json Rows(const std::vector<PlannedPart>& parts, const DataflowGraph& graph,
          const std::vector<PartitionSpec>& specs) {
  std::vector<Json> rows;
  for (const PlannedPart& part : parts) {
    rows.push_back(JsonObject({{"backend", specs[part.candidate.spec].name},
                               {"rule", part.candidate.rule},
                               {"ops", OpsOf(graph, part.candidate)},
                               {"nodes", part.candidate.sub_graph.inside()},
                               {"is_kernel", !part.candidate.is_free},
                               {"cost", part.cost.ToJson()}}));
  }
  return rows;
}

Json Rows(const std::vector<ChargedTransition>& transitions) {
  std::vector<Json> rows;
  for (const ChargedTransition& row : transitions) {
    rows.push_back(JsonObject({{"node", row.value}, {"seconds", row.seconds}}));
  }
  return rows;
}

bool AreSame(const std::vector<PlacedPart>& parts, const std::vector<PlacedPart>& others) {
  return std::is_permutation(parts.begin(), parts.end(), others.begin(), others.end(),
                             [](const PlacedPart& a, const PlacedPart& b) {
                               return a.backend == b.backend && a.sub_graph == b.sub_graph;
                             });
}

// Answers requests for other plans; see Observe. Made ready at the first one.
PackedFunc PlanAgain(const ImportedPtr& imported, const std::vector<PartitionSpec>& specs,
                     const std::shared_ptr<const FunctionPlan>& found) {
  auto replan = std::make_shared<std::optional<Replan>>();
  return runtime::TypedPackedFunc<String(String)>([=](const String& request) -> String {
    const DataflowGraph& graph = imported->graph;
    if (!*replan) replan->emplace(graph, *found, specs);
    std::map<std::string, int> spec_of;
    for (size_t k = 0; k < specs.size(); ++k) spec_of[specs[k].name] = static_cast<int>(k);
    const JsonValue asked = JsonValue::Parse(request);
    if (asked.Fields().empty()) {
      std::vector<Json> takers;
      for (const std::vector<int>& of_node : (*replan)->Takers()) {
        std::vector<std::string> names;
        for (int spec : of_node) names.push_back(specs[spec].name);
        takers.push_back(names);
      }
      return JsonText({{"takers", takers}});
    }
    std::vector<int> wish(graph.size(), Replan::kAnyBackend);
    for (const auto& [backend, nodes] : asked["wish"].Fields()) {
      for (const JsonValue& node : nodes.Items()) wish.at(node.Int()) = spec_of.at(backend);
    }
    const MergeScope scope = asked["join"].Bool() ? MergeScope::kAll : MergeScope::kJoinable;
    const FunctionPlan plan = (*replan)->Plan(wish, asked["part_seconds"].Real());
    return JsonText(
        {{"parts", PartsJson(Placed(graph, plan, specs, scope))}, {"seconds", plan.seconds}});
  });
}

}  // namespace

void Observe(const CostEstimator& estimator, const PlacedFunction& function,
             const std::vector<PlacedPart>& merged, const std::vector<PartitionSpec>& specs,
             const std::shared_ptr<const FunctionPlan>& found) {
  if (estimator->observe == nullptr) return;
  const FunctionPlan& plan = *found;
  const DataflowGraph& graph = function.imported->graph;
  const CostCounts& counts = plan.cost_counts;
  const std::string report = JsonText({
      {"function", function.Name()},
      {"skipped", ""},
      {"nodes", graph.size()},
      {"candidates", plan.num_candidates},
      {"costs", JsonObject({{"candidates", counts.candidates},
                            {"distinct", counts.distinct},
                            {"asked", counts.asked},
                            {"rounds", counts.rounds}})},
      {"seconds", plan.seconds},
      {"is_optimal", plan.is_optimal},
      {"lower_bound_seconds", plan.lower_bound_seconds},
      {"rival_seconds", plan.rival_seconds},
      {"is_beaten", plan.is_beaten},
      {"below_bounds", plan.num_below_bound},
      {"search", plan.search.Summary() + plan.furthest_below_bound},
      {"states_expanded", plan.search.states_expanded},
      {"widest_position", plan.search.widest_position},
      {"states_cut", plan.search.states_cut},
      {"cuts", plan.cuts},
      {"parts", Rows(plan.parts, graph, specs)},
      {"transitions", Rows(plan.transitions)},
      {"failed", Rows(plan.failed, graph, specs)},
      {"placement", PartsJson(function.parts)},
      {"merged", AreSame(merged, function.parts) ? Json(AttrValue()) : PartsJson(merged)},
      {"graph_text", FunctionGraphJson(*function.imported, specs, plan).text()},
  });
  estimator->observe(String(report), PlanAgain(function.imported, specs, found));
}

void ObserveSkipped(const CostEstimator& estimator, const ObjectRef& mod) {
  if (estimator->observe == nullptr) return;
  std::map<std::string, std::string> reasons;
  for (const auto& [global_var, function] :
       RefFieldAs<Map<ObjectRef, ObjectRef>>(mod, "functions")) {
    if (CanBePartitioned(function)) continue;
    reasons[Fields(global_var).Str("name_hint")] = WhyNotPartitioned(function);
  }
  for (const auto& [name, reason] : reasons) {
    estimator->observe(JsonText({{"function", name}, {"skipped", reason}}));
  }
}

}  // namespace tvm::collage
