// SPDX-License-Identifier: Apache-2.0
#include "observe.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../plan/unplaced.h"

namespace tvm::collage {
namespace {

Array<String> AsStrings(const std::vector<std::string>& texts) {
  Array<String> strings;
  for (const std::string& text : texts) strings.push_back(text);
  return strings;
}

/*! \brief Parts as rows [backend, rule, label, status, seconds, message, launches a kernel]. */
ObjectRef Rows(const std::vector<PlannedPart>& parts, const DataflowGraph& graph,
               const std::vector<PartitionSpec>& specs) {
  Array<Array<ObjectRef>> rows;
  for (const PlannedPart& part : parts) {
    const std::string& backend = specs[part.candidate.spec].name;
    rows.push_back({String(backend), String(part.candidate.rule),
                    String(LabelOf(graph, part.candidate, backend)), String(part.cost.status),
                    runtime::Float(part.cost.seconds), String(part.cost.message),
                    runtime::Bool(!part.candidate.is_free)});
  }
  return rows;
}

/*!
 * \brief Rows [op, backend, why, message, rule, operators, seconds, the backend's seconds, seconds
 * in their place].
 */
ObjectRef Rows(const UnplacedReport& report) {
  Array<Array<ObjectRef>> rows;
  for (const Unplaced& row : report.rows) {
    rows.push_back({String(row.op), String(row.backend), String(row.why), String(row.message),
                    String(row.rule), runtime::Int(row.count), runtime::Float(row.seconds),
                    runtime::Float(row.backend_seconds), runtime::Float(row.instead_seconds),
                    runtime::Int(row.regions)});
  }
  return rows;
}

/*! \brief Made when asked for: when a placement is saved, when a plan is rewritten. */
ObjectRef LazyRows(std::vector<PlacedPart> parts) {
  return PackedFunc(
      [parts = std::move(parts)](runtime::TVMArgs, TVMRetValue* rows) { *rows = PartRows(parts); });
}

bool AreSame(const std::vector<PlacedPart>& parts, const std::vector<PlacedPart>& others) {
  return std::is_permutation(parts.begin(), parts.end(), others.begin(), others.end(),
                             [](const PlacedPart& a, const PlacedPart& b) {
                               return a.backend == b.backend && a.sub_graph == b.sub_graph;
                             });
}

/*! \brief [candidates, distinct ones, asked for, rounds]. */
ObjectRef Row(const CostCounts& counts) {
  return Array<ObjectRef>{runtime::Int(counts.candidates), runtime::Int(counts.distinct),
                          runtime::Int(counts.asked), runtime::Int(counts.rounds)};
}

/*! \brief Rows [node, seconds]. */
ObjectRef Rows(const std::vector<ChargedTransition>& transitions) {
  Array<Array<ObjectRef>> rows;
  for (const ChargedTransition& row : transitions) {
    rows.push_back({runtime::Int(row.value), runtime::Float(row.seconds)});
  }
  return rows;
}

}  // namespace

void Observe(const CostEstimator& estimator, const PlacedFunction& function,
             const std::vector<PlacedPart>& merged, const std::vector<PartitionSpec>& specs,
             const FunctionPlan& plan) {
  if (estimator->observe == nullptr) return;
  const DataflowGraph& graph = function.imported->graph;
  const UnplacedReport unplaced = WhyUnplaced(graph, specs, plan);
  estimator->observe(Map<String, ObjectRef>{
      {"function", String(Fields(function.global_var).Str("name_hint"))},
      {"nodes", runtime::Int(graph.size())},
      {"candidates", runtime::Int(plan.num_candidates)},
      {"costs", Row(plan.cost_counts)},
      {"seconds", runtime::Float(plan.seconds)},
      {"is_optimal", runtime::Bool(plan.is_optimal)},
      {"lower_bound_seconds", runtime::Float(plan.lower_bound_seconds)},
      {"search", String(plan.search_summary)},
      {"cuts", AsStrings(plan.cuts)},
      {"parts", Rows(plan.parts, graph, specs)},
      {"transitions", Rows(plan.transitions)},
      {"failed", Rows(plan.failed, graph, specs)},
      {"placement", LazyRows(function.parts)},
      {"merged", AreSame(merged, function.parts) ? ObjectRef() : LazyRows(merged)},
      {"unplaced", Rows(unplaced)},
      {"unplaced_left_out", runtime::Int(unplaced.num_left_out)},
      {"skipped", String("")},
  });
}

void ObserveSkipped(const CostEstimator& estimator, const ObjectRef& mod) {
  if (estimator->observe == nullptr) return;
  std::map<std::string, std::string> reasons;
  for (const auto& [global_var, function] :
       RefFieldAs<Map<ObjectRef, ObjectRef>>(mod, "functions")) {
    if (CanBePartitioned(function)) continue;
    reasons[Fields(global_var).Str("name_hint")] = WhyNotPartitioned(function);
  }
  const Array<ObjectRef> none;
  for (const auto& [name, reason] : reasons) {
    estimator->observe(Map<String, ObjectRef>{
        {"function", String(name)},
        {"nodes", runtime::Int(0)},
        {"candidates", runtime::Int(0)},
        {"costs", Row(CostCounts())},
        {"seconds", runtime::Float(0.0)},
        {"is_optimal", runtime::Bool(true)},
        {"lower_bound_seconds", runtime::Float(0.0)},
        {"search", String("")},
        {"cuts", none},
        {"parts", none},
        {"transitions", none},
        {"failed", none},
        {"unplaced", none},
        {"unplaced_left_out", runtime::Int(0)},
        {"skipped", String(reason)},
    });
  }
}

}  // namespace tvm::collage
