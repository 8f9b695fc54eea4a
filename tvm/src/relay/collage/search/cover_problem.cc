// SPDX-License-Identifier: Apache-2.0
#include "cover_problem.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tvm::collage {

namespace {

[[noreturn]] void Refuse(const std::string& what) {
  throw std::invalid_argument("cover problem: " + what);
}

bool IsNode(const CoverProblem& problem, int node) { return node >= 0 && node < problem.num_nodes; }

void ValidateCandidate(const CoverProblem& problem, size_t id) {
  const CoverCandidate& candidate = problem.candidates[id];
  const std::string name = "candidate " + std::to_string(id);
  if (candidate.inside.empty()) Refuse(name + " is empty");
  for (size_t i = 0; i < candidate.inside.size(); ++i) {
    if (!IsNode(problem, candidate.inside[i])) {
      Refuse(name + " has no node " + std::to_string(candidate.inside[i]));
    }
    if (i > 0 && candidate.inside[i - 1] >= candidate.inside[i]) {
      Refuse(name + " does not list its nodes in ascending order");
    }
  }
  if (!IsUsableSeconds(candidate.lower_bound)) Refuse(name + " has an unusable lower bound");
  if (!(candidate.work >= 0.0) || std::isinf(candidate.work)) {
    Refuse(name + " has an unusable guess of its work");
  }
}

}  // namespace

bool IsUsableSeconds(double seconds) {
  // Written so that NaN fails.
  return seconds >= 0.0 && seconds <= kMaxSeconds;
}

void CoverProblem::Validate() const {
  if (num_nodes < 0) Refuse("negative number of nodes");
  const size_t n = static_cast<size_t>(num_nodes);
  if (inputs.size() != n) Refuse("inputs must have one entry a node");
  if (!outside_inputs.empty() && outside_inputs.size() != n) {
    Refuse("outside_inputs must be empty or have one entry a node");
  }
  for (size_t node = 0; node < n; ++node) {
    for (int input : inputs[node]) {
      if (input < 0 || input >= static_cast<int>(node)) {
        Refuse("node " + std::to_string(node) + " reads " + std::to_string(input) +
               ": nodes must be in topological order");
      }
    }
  }
  for (int output : outputs) {
    if (!IsNode(*this, output)) Refuse("output " + std::to_string(output) + " is no node");
  }
  for (size_t id = 0; id < candidates.size(); ++id) ValidateCandidate(*this, id);
  if (!costs.empty() && costs.size() != candidates.size()) {
    Refuse("costs must be empty or have one entry a candidate");
  }
  for (size_t id = 0; id < costs.size(); ++id) {
    if (costs[id].status == CandidateCost::Status::kKnown && !IsUsableSeconds(costs[id].seconds)) {
      Refuse("candidate " + std::to_string(id) + " has an unusable cost");
    }
  }
}

}  // namespace tvm::collage
