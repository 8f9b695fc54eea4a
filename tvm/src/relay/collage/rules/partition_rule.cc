// SPDX-License-Identifier: Apache-2.0
#include "partition_rule.h"

namespace tvm::collage {
namespace {

// Why it can be no part for the backend; empty when it can. Rules may be users' own.
std::string WhyRefused(const PartitionSpec& backend, const DataflowGraph& graph, int spec,
                       const CandidatePartition& candidate) {
  const SubGraph& sub_graph = candidate.sub_graph;
  if (candidate.spec != spec) {
    return "it is for backend " + std::to_string(candidate.spec) + ", the rule was asked by " +
           std::to_string(spec);
  }
  if (sub_graph.inside().size() != graph.size()) return "it is of another graph";
  std::string why;
  if (!sub_graph.IsValid(graph, SubGraphConfig(), &why)) return why;
  const bool is_bare = !candidate.is_primitive && sub_graph.nested().empty();
  if (is_bare && backend.is_external) {
    return "neither wrapped for " + backend.name + " (rule Primitive) nor a composite";
  }
  return is_bare || IsDataflow(graph, sub_graph.inside()) ? "" : kNotDataflow;
}

}  // namespace

std::vector<CandidatePartition> CandidatesOf(const RulePtr& sub_rule, const DataflowGraph& graph,
                                             int spec, RuleLog* log) {
  // What only its parent holds is not asked again, and need not be kept.
  if (!log->found || sub_rule.use_count() == 1) {
    return sub_rule->AllCandidates(graph, spec, log);
  }
  auto known = log->found->find(sub_rule);
  if (known == log->found->end()) {
    known = log->found->emplace(sub_rule, sub_rule->AllCandidates(graph, spec, log)).first;
  }
  return known->second;
}

bool IsValidOrRefused(const DataflowGraph& graph, const CandidatePartition& candidate,
                      const SubGraphConfig& config, RuleLog* log) {
  std::string why;
  if (candidate.sub_graph.IsValid(graph, config, &why)) return true;
  log->Refuse(candidate.rule, candidate.sub_graph.inside(), std::move(why));
  return false;
}

std::vector<CandidatePartition> PartitionSpec::AllCandidates(const DataflowGraph& graph, int spec,
                                                             RuleLog* log) const {
  log->found.emplace();
  std::vector<CandidatePartition> result;
  for (CandidatePartition& candidate : CandidatesOf(rule, graph, spec, log)) {
    candidate.is_primitive &= is_external;
    std::string why = WhyRefused(*this, graph, spec, candidate);
    if (why.empty()) {
      result.push_back(std::move(candidate));
      continue;
    }
    const IndexSet& inside = candidate.sub_graph.inside();
    const bool is_ours = inside.size() == graph.size();
    log->Refuse(candidate.rule, is_ours ? inside : IndexSet(graph.size()), std::move(why));
  }
  log->found.reset();
  return result;
}

std::string PartitionSpec::Summary() const {
  return name + (is_external ? " (external): " : ": ") + (rule ? rule->Summary() : "no rule");
}

std::string NestRuleNames(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty()) return outer + inner;
  return outer + "/" + inner;
}

std::vector<std::string> RuleLog::CutLines() const {
  std::vector<std::string> lines;
  for (const auto& [where, count] : cuts) {
    lines.push_back("rule " + where.first + ": limit " + where.second + " cut " +
                    std::to_string(count));
  }
  return lines;
}

}  // namespace tvm::collage
