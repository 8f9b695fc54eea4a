// SPDX-License-Identifier: Apache-2.0
#include "function_graph.h"

#include <cmath>
#include <string>

#include "../plan/reasons.h"

namespace tvm::collage {
namespace {

// What the model's file calls the expression; empty where an importer or pass lost it.
std::string SourceName(const ObjectRef& expr) {
  ObjectRef span = RefField(expr, "span");
  // What several expressions became has all of their spans; the last is the result's.
  while (IsA(span, "SequentialSpan")) {
    const auto spans = RefFieldAs<Array<ObjectRef>>(span, "spans");
    if (spans.empty()) return "";
    span = spans.back();
  }
  if (!IsA(span, "Span")) return "";
  return Fields(RefField(span, "source_name")).Str("name");
}

// What a file of JSON can hold: it has neither infinities nor, here, nulls.
AttrValue Plain(const AttrValue& value) {
  if (const auto* real = std::get_if<double>(&value); real && !std::isfinite(*real)) {
    return std::string(std::isnan(*real) ? "nan" : *real > 0 ? "inf" : "-inf");
  }
  if (std::holds_alternative<std::monostate>(value)) return std::string("null");
  if (const auto* number = std::get_if<AttrNumber>(&value)) {
    return std::visit([](auto own) { return Plain(AttrValue(own)); }, number->value);
  }
  const auto* list = std::get_if<AttrList>(&value);
  if (list == nullptr) return value;
  AttrList items;
  for (const AttrValue& item : *list) items.push_back(Plain(item));
  return items;
}

// A longer text is data, as the model of an ONNX node.
constexpr size_t kLongestText = 1000;

// Those that say something to people: no nulls, no empty texts and no data.
Attrs AttrsThatTell(const Attrs& all) {
  Attrs kept;
  for (const auto& [key, value] : all) {
    const std::string* text = std::get_if<std::string>(&value);
    if (std::holds_alternative<std::monostate>(value)) continue;
    if (text && (text->empty() || text->size() > kLongestText)) continue;
    kept.emplace_back(key, Plain(value));
  }
  return kept;
}

Json NodesJson(const ImportedFunction& imported) {
  const DataflowGraph& graph = imported.graph;
  std::vector<Json> nodes;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    const Node& node = graph[i];
    if (node.type == NodeType::kOp || node.type == NodeType::kLeftOut) continue;
    const bool is_var = node.type == NodeType::kVar;
    nodes.push_back(JsonObject({{"index", i},
                                {"kind", NameOf(node.type)},
                                {"op", is_var ? "" : node.name},
                                {"name", is_var ? node.name : SourceName(imported.exprs[i])},
                                {"type", node.TypesText()},
                                {"attrs", AttrsThatTell(node.attrs)},
                                {"inputs", graph.Args(i)},
                                {"is_kernel", node.IsKernel()},
                                {"is_opaque", node.kind == OpKind::kOpaque},
                                {"is_result", i == graph.result()},
                                {"device", node.device}}));
  }
  return nodes;
}

Json BackendsJson(const std::vector<PartitionSpec>& specs) {
  std::vector<Json> rows;
  for (const PartitionSpec& spec : specs) {
    rows.push_back(JsonObject(
        {{"name", spec.name}, {"is_external", spec.is_external}, {"device", spec.device}}));
  }
  return rows;
}

// Candidates whose cost is known; `place_of` gets each one's place by its number.
Json CostedJson(const std::vector<PartitionSpec>& specs, const FunctionPlan& plan,
                std::vector<int>* place_of) {
  std::vector<Json> rows;
  place_of->assign(plan.candidates.size(), -1);
  for (size_t id = 0; id < plan.candidates.size(); ++id) {
    const auto& [candidate, cost] = plan.candidates[id];
    if (cost.status.empty() || !HasCostToAsk(candidate, specs)) continue;
    (*place_of)[id] = static_cast<int>(rows.size());
    rows.push_back(JsonObject({{"backend", specs[candidate.spec].name},
                               {"rule", candidate.rule},
                               {"nodes", candidate.sub_graph.inside()},
                               {"cost", cost.ToJson()}}));
  }
  return rows;
}

Json ReasonsJson(const std::vector<Reason>& reasons, const std::vector<PartitionSpec>& specs,
                 const std::vector<int>& place_of) {
  std::vector<Json> rows;
  for (const Reason& reason : reasons) {
    const bool has_candidate = reason.candidate != Reason::kNoCandidate;
    const int place = has_candidate ? place_of[reason.candidate] : -1;
    const double instead = reason.instead_seconds;
    rows.push_back(JsonObject({{"backend", specs[reason.spec].name},
                               {"why", reason.why},
                               {"message", reason.message},
                               {"rule", reason.rule},
                               {"candidate", place < 0 ? Json(AttrValue()) : Json(place)},
                               {"instead_seconds", instead < 0 ? Json(AttrValue()) : Json(instead)},
                               {"nodes", reason.nodes}}));
  }
  return rows;
}

}  // namespace

Json FunctionGraphJson(const ImportedFunction& imported, const std::vector<PartitionSpec>& specs,
                       const FunctionPlan& plan) {
  std::vector<int> place_of;
  const Json costed = CostedJson(specs, plan, &place_of);
  const std::vector<Reason> reasons = ReasonsAgainst(imported.graph, specs, plan);
  return JsonObject({{"nodes", NodesJson(imported)},
                     {"backends", BackendsJson(specs)},
                     {"costed", costed},
                     {"reasons", ReasonsJson(reasons, specs, place_of)},
                     {"refusals", RefusalsJson(imported.graph, specs, plan.logs)}});
}

Json RefusalsJson(const DataflowGraph& graph, const std::vector<PartitionSpec>& specs,
                  const std::vector<RuleLog>& logs) {
  std::vector<Json> rows;
  for (size_t k = 0; k < logs.size(); ++k) {
    for (const RuleLog::Refusal& refusal : logs[k].refusals) {
      std::vector<std::string> ops;
      refusal.inside.ForEach([&](int index) {
        if (graph[index].IsOpCall()) ops.push_back(graph[index].name);
      });
      rows.push_back(JsonObject({{"backend", specs[k].name},
                                 {"rule", refusal.rule},
                                 {"nodes", refusal.inside},
                                 {"ops", ops},
                                 {"reason", refusal.reason}}));
    }
  }
  return rows;
}

}  // namespace tvm::collage
