// SPDX-License-Identifier: Apache-2.0
#include "backends.h"

#include <algorithm>
#include <charconv>

namespace tvm::collage {

std::string SecondsText(double seconds) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  for (const auto& [unit, scale] : kUnits) {
    if (seconds < 0.9995 * scale && scale > 1e-9) continue;
    char text[32];
    const double told = seconds / scale;
    const bool is_whole = told >= 999.5;
    const auto format = is_whole ? std::chars_format::fixed : std::chars_format::general;
    const auto end = std::to_chars(text, text + sizeof(text), told, format, is_whole ? 0 : 3).ptr;
    return std::string(text, end) + " " + unit;
  }
  return "";
}

std::string EstimatedCost::Summary() const {
  if (!IsUsable()) return message.empty() ? status : status + ": " + message;
  return status + " " + SecondsText(seconds) + (message.empty() ? "" : " (" + message + ")");
}

Json EstimatedCost::ToJson() const {
  return JsonObject({{"status", status},
                     {"seconds", IsUsable() ? AttrValue(seconds) : AttrValue()},
                     {"message", message},
                     {"flags", flags}});
}

EstimatedCost EstimatedCost::Of(const JsonValue& fields) {
  EstimatedCost cost{fields["status"].Text(), 0.0, fields["message"].Text()};
  if (cost.IsUsable()) cost.seconds = fields["seconds"].Real();
  for (const JsonValue& flag : fields["flags"].Items()) cost.flags.push_back(flag.Text());
  return cost;
}

std::vector<CandidatePartition> Backends::AskRule(const DataflowGraph& graph, int spec,
                                                  RuleLog* log) const {
  return specs_[spec].AllCandidates(graph, spec, log);
}

std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, const Backends& backends,
                                              std::vector<RuleLog>* logs) {
  CandidateSet all;
  logs->resize(backends.specs().size());
  for (size_t spec = 0; spec < backends.specs().size(); ++spec) {
    for (CandidatePartition& candidate :
         backends.AskRule(graph, static_cast<int>(spec), &(*logs)[spec])) {
      // Its nodes are in one scope, hence of one demand. The host has what nobody else may have.
      const Node& first = graph[candidate.sub_graph.inside().First()];
      const bool is_allowed = first.IsAllowedOn(backends.specs()[spec].device);
      if (is_allowed || backends.IsHost(candidate)) all.Add(std::move(candidate));
    }
  }
  std::vector<CandidatePartition> candidates = all.Take();
  // The search breaks ties by least number: among equal plans small parts come first, as in TVM's.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.sub_graph.size() < b.sub_graph.size();
  });
  return candidates;
}

std::string OpsOf(const DataflowGraph& graph, const CandidatePartition& candidate) {
  constexpr int kMostOps = 8;  // a region's list of ops tells nothing more
  std::string ops;
  int count = 0;
  candidate.sub_graph.inside().ForEach([&](int index) {
    if (!graph[index].IsOpCall()) return;
    if (++count <= kMostOps) ops += (ops.empty() ? "" : ", ") + graph[index].name;
  });
  if (count > kMostOps) ops += ", ... " + std::to_string(count) + " ops";
  return ops;
}

std::string LabelOf(const DataflowGraph& graph, const CandidatePartition& candidate,
                    const std::string& backend) {
  return backend + "(" + OpsOf(graph, candidate) + ")";
}

}  // namespace tvm::collage
