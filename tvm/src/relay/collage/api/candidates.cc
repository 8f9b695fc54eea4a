// SPDX-License-Identifier: Apache-2.0
#include "candidates.h"

#include <algorithm>
#include <string>

#include "../relay/device_domains.h"
#include "../relay/user_error.h"
#include "user_functions.h"

namespace tvm::collage {
namespace {

/*! \brief What the backend's rule finds; what it throws is an error that names both. */
std::vector<CandidatePartition> AskRule(const PartitionSpec& backend, const DataflowGraph& graph,
                                        int spec, RuleLog* log) {
  auto raise = [&](const std::string& what) {
    ThrowUserError("RuntimeError", "backend " + backend.name + ": its rule " +
                                       backend.rule->Summary() + " raised " + what);
  };
  try {
    return backend.AllCandidates(graph, spec, log);
  } catch (const dmlc::Error&) {
    throw;  // carries a Python exception, an error of ours too, or is an internal one
  } catch (const std::exception& error) {
    raise(error.what());
  } catch (...) {
    raise("what is no std::exception");
  }
  return {};
}

}  // namespace

bool IsHost(const CandidatePartition& candidate, const std::vector<TargetSpec>& specs) {
  return candidate.spec == static_cast<int>(specs.size()) - 1;
}

std::vector<CandidatePartition> AllCandidates(const ImportedFunction& imported,
                                              const std::vector<TargetSpec>& specs,
                                              std::vector<RuleLog>* logs) {
  ImportScope scope(&imported, &specs);
  CandidateSet all;
  logs->resize(specs.size());
  for (size_t s = 0; s < specs.size(); ++s) {
    for (CandidatePartition& candidate :
         AskRule(specs[s].spec, imported.graph, static_cast<int>(s), &(*logs)[s])) {
      // Its nodes are in one region, hence of one demand. The host has what nobody else may have.
      const Node& first = imported.graph[candidate.sub_graph.inside().First()];
      if (!IsAllowedOn(specs[s].device, first) && !IsHost(candidate, specs)) continue;
      all.Add(std::move(candidate));
    }
  }
  std::vector<CandidatePartition> candidates = all.Take();
  // The search breaks ties by least number: among equal plans small parts come first, as in TVM's.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.sub_graph.size() < b.sub_graph.size();
  });
  return candidates;
}

std::string LabelOf(const ImportedFunction& imported, const CandidatePartition& candidate,
                    const std::vector<TargetSpec>& specs) {
  constexpr int kMostOps = 8;  // a region's list of ops tells nothing more
  std::string ops;
  int count = 0;
  candidate.sub_graph.inside().ForEach([&](int index) {
    if (!imported.graph[index].IsOpCall()) return;
    if (++count <= kMostOps) ops += (ops.empty() ? "" : ", ") + imported.graph[index].name;
  });
  if (count > kMostOps) ops += ", ... " + std::to_string(count) + " ops";
  return specs[candidate.spec].spec.name + "(" + ops + ")";
}

}  // namespace tvm::collage
