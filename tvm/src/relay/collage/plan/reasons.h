// SPDX-License-Identifier: Apache-2.0
// Why a kernel is on none of the other backends, from what planning knew.
// Precondition: the plan is of this function and these specs. Test: plan/test_unplaced.py.
#pragma once

#include <string>
#include <vector>

#include "plan.h"

namespace tvm::collage {

// Kernels that one backend did not get, for one reason.
struct Reason {
  static constexpr int kNoCandidate = -1;
  static constexpr double kNotTiled = -1;

  int spec = 0;  // that did not get them
  // "slower", "no_better_plan", "not_measured" (the search did without its cost), "refused",
  // "device", "partitioned", "opaque", "no_pattern", or the status of a failed measurement.
  std::string why;
  std::string message;  // one sentence; for "refused" and failures the backend's own words
  std::string rule;     // that found or refused it; empty when none did
  // Of FunctionPlan::candidates, the one of the backend that is told of.
  int candidate = kNoCandidate;
  // Seconds of the parts that the plan has in just its place.
  double instead_seconds = kNotTiled;
  std::vector<NodeIndex> nodes;
};

// For each kernel and each backend, but the host, that the plan does not have it on.
std::vector<Reason> ReasonsAgainst(const DataflowGraph& graph,
                                   const std::vector<PartitionSpec>& specs,
                                   const FunctionPlan& plan);

// Is its cost one that is asked for: no host's, not free, and no copy for a layout?
bool HasCostToAsk(const CandidatePartition& candidate, const std::vector<PartitionSpec>& specs);

}  // namespace tvm::collage
