// SPDX-License-Identifier: Apache-2.0
// What the pass would choose from, and what one pattern matches, for researchers and authors of
// backends; nothing is searched. Precondition: functions are typed. Test:
// views/test_views.py, inspect/test_matches.py.
#include "../graph/json.h"
#include "../match/matcher.h"
#include "../plan/cost_table.h"
#include "../relay/import_pattern.h"
#include "../relay/rewrite.h"
#include "function_graph.h"
#include "gather_specs.h"
#include "tvm_backends.h"
#include "user_functions.h"
#include "view_objects.h"

namespace tvm::collage {
namespace {

Array<PartitionSpecView> ListSpecs(const ObjectRef& compilation_config) {
  Array<PartitionSpecView> views;
  for (TargetSpec& spec : GatherSpecs(compilation_config)) {
    views.push_back(PartitionSpecView({std::move(spec)}));
  }
  return views;
}

std::vector<TargetSpec> TargetsOf(const Array<PartitionSpecView>& views) {
  std::vector<TargetSpec> targets;
  for (const PartitionSpecView& view : views) targets.push_back(view->target_spec);
  return targets;
}

std::vector<EstimatedCost> CostsOf(const DataflowGraph& graph, const Backends& backends,
                                   const std::vector<CandidatePartition>& candidates,
                                   bool has_estimator) {
  std::vector<EstimatedCost> costs(candidates.size(), EstimatedCost{"unknown", 0.0, ""});
  std::vector<int> asked;
  for (size_t k = 0; k < candidates.size(); ++k) {
    if (candidates[k].is_free) {
      costs[k] = {"estimated", 0.0, ""};
    } else if (!backends.IsHost(candidates[k])) {
      asked.push_back(static_cast<int>(k));
    }
  }
  if (!has_estimator) return costs;
  CostTable table(graph, backends, candidates);
  for (int id : table.Ask(asked)) costs[id] = table[id];
  return costs;
}

// `estimator` may be null: costs of kernels are then unknown.
Array<CandidatePartitionView> ListCandidates(const ObjectRef& function,
                                             const Array<PartitionSpecView>& spec_views,
                                             const Optional<CostEstimator>& estimator) {
  const ImportedPtr imported = ImportFunction(function);
  const TvmBackends backends(*imported, TargetsOf(spec_views), estimator);
  std::vector<RuleLog> logs;
  std::vector<CandidatePartition> candidates = AllCandidates(imported->graph, backends, &logs);
  std::vector<EstimatedCost> costs =
      CostsOf(imported->graph, backends, candidates, estimator.defined());
  Array<CandidatePartitionView> views;
  for (size_t k = 0; k < candidates.size(); ++k) {
    const PartitionSpecView& spec = spec_views[candidates[k].spec];
    views.push_back(
        CandidatePartitionView({imported, std::move(candidates[k]), spec, std::move(costs[k])}));
  }
  return views;
}

// What was turned down and why: Refusals of function_report.py.
String ListRefusals(const ObjectRef& function, const Array<PartitionSpecView>& spec_views) {
  const ImportedPtr imported = ImportFunction(function);
  const TvmBackends backends(*imported, TargetsOf(spec_views), tvm::NullOpt);
  std::vector<RuleLog> logs;
  AllCandidates(imported->graph, backends, &logs);
  return RefusalsJson(imported->graph, backends.specs(), logs).text();
}

// "dnnl {4,5} nn.conv2d+nn.relu by combine, measured 1.23 ms".
std::string SummaryOf(const CandidatePartitionView& view) {
  const CandidatePartition& candidate = view->candidate;
  std::string text =
      view->spec->target_spec.spec.name + " " + candidate.sub_graph.Summary(view->imported->graph);
  if (!candidate.rule.empty()) text += " by " + candidate.rule;
  if (view->cost.status != "unknown") text += ", " + view->cost.Summary();
  return text;
}

String CandidateFields(const CandidatePartitionView& view) {
  const CandidatePartition& candidate = view->candidate;
  return JsonText({
      {"backend", view->spec->target_spec.spec.name},
      {"rule", candidate.rule},
      {"is_primitive", candidate.is_primitive},
      {"is_joinable", candidate.is_joinable},
      {"is_free", candidate.is_free},
      {"cost", view->cost.ToJson()},
      {"summary", SummaryOf(view)},
  });
}

TVM_REGISTER_GLOBAL("collage.view.Specs").set_body_typed(ListSpecs);
TVM_REGISTER_GLOBAL("collage.view.PartitionSpecFields").set_body_typed([](PartitionSpecView view) {
  const PartitionSpec& spec = view->target_spec.spec;
  return String(JsonText({{"name", spec.name},
                          {"is_external", spec.is_external},
                          {"rule", spec.rule->Summary()},
                          {"summary", spec.Summary()}}));
});
TVM_REGISTER_GLOBAL("collage.view.TargetOf").set_body_typed([](PartitionSpecView view) {
  return view->target_spec.target;
});
TVM_REGISTER_GLOBAL("collage.view.Candidates").set_body_typed(ListCandidates);
TVM_REGISTER_GLOBAL("collage.view.Refusals").set_body_typed(ListRefusals);
TVM_REGISTER_GLOBAL("collage.view.CandidatePartitionFields").set_body_typed(CandidateFields);
TVM_REGISTER_GLOBAL("collage.view.SpecOf").set_body_typed([](CandidatePartitionView view) {
  return view->spec;
});
TVM_REGISTER_GLOBAL("collage.view.SubGraphOf").set_body_typed([](CandidatePartitionView view) {
  return SubGraphView({view->imported, view->candidate.sub_graph});
});
TVM_REGISTER_GLOBAL("collage.view.Module").set_body_typed([](CandidatePartitionView view) {
  return CandidateModule(*view->imported, view->candidate.sub_graph, view->candidate.is_primitive,
                         view->spec->target_spec.spec.name);
});
TVM_REGISTER_GLOBAL("collage.view.CanBePartitioned").set_body_typed(CanBePartitioned);

// The parts of a pattern, in its own order; matches name them by their place.
Array<ObjectRef> PartsOfPattern(ObjectRef object) {
  PatternParts parts;
  ImportPattern(object, ExprOf, &parts);
  Array<ObjectRef> objects;
  for (const auto& [part_object, part] : parts) objects.push_back(part_object);
  return objects;
}

// FoundMatches of inspect/matches.py, without parts that took none in a match.
String FindMatchesOf(ObjectRef object, DataflowGraphView view) {
  const std::vector<PartitionSpec> no_specs;
  ImportScope scope(view->imported.get(), &no_specs);
  PatternParts parts;
  DataflowPattern pattern = ImportPattern(object, ExprOf, &parts);
  std::string reason = UnsupportedReason(pattern);
  if (!reason.empty()) ThrowUserError("TypeError", reason);
  std::vector<Json> found;
  for (const Match& match : FindMatches(view->graph(), pattern)) {
    std::vector<Json> bindings;
    for (size_t k = 0; k < parts.size(); ++k) {
      std::vector<int> nodes;
      for (const auto& [bound, index] : match.bindings) {
        if (bound == parts[k].second.get()) nodes.push_back(index);
      }
      if (nodes.empty()) continue;
      bindings.push_back(JsonObject({{"part", static_cast<int>(k)}, {"nodes", nodes}}));
    }
    found.push_back(
        JsonObject({{"root", match.root}, {"bindings", bindings}, {"inside", match.inside}}));
  }
  return Json(found).text();
}

TVM_REGISTER_GLOBAL("collage.PartsOfPattern").set_body_typed(PartsOfPattern);
TVM_REGISTER_GLOBAL("collage.FindMatches").set_body_typed(FindMatchesOf);

}  // namespace

}  // namespace tvm::collage
