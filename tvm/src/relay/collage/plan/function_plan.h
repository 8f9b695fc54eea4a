// SPDX-License-Identifier: Apache-2.0
// FunctionPlan: what planning found for one function, and what it knew when it chose.
// Test: tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_PLAN_FUNCTION_PLAN_H_
#define TVM_RELAY_COLLAGE_PLAN_FUNCTION_PLAN_H_

#include <string>
#include <vector>

#include "../graph/candidate_partition.h"
#include "../rules/rule_log.h"
#include "estimated_cost.h"

namespace tvm::collage {

struct PlannedPart {
  CandidatePartition candidate;
  EstimatedCost cost;
};

/*! \brief How many costs the search had to ask for, of how many; the host's are never asked for. */
struct CostCounts {
  int candidates = 0;
  /*! \brief Of those, how many differ as computations: equal ones share a cost. */
  int distinct = 0;
  /*! \brief Distinct ones asked for; no plan that could still win needs the others. */
  int asked = 0;
  /*! \brief Batches in which they were asked for. */
  int rounds = 0;
};

/*! \brief A value that changes its layout between two parts of a plan. */
struct ChargedTransition {
  NodeIndex value;
  double seconds;
};

struct FunctionPlan {
  std::vector<PlannedPart> parts;
  /*! \brief What `seconds` holds besides the parts' costs. */
  std::vector<ChargedTransition> transitions;
  double seconds = 0;
  /*! \brief No plan of these candidates can cost less. */
  double lower_bound_seconds = 0;
  bool is_optimal = false;
  int num_candidates = 0;
  CostCounts cost_counts;
  /*! \brief Candidates whose cost was asked for and is of no use, with the reason. */
  std::vector<PlannedPart> failed;
  /*! \brief All that the search chose from; an empty status is a cost that it did not need. */
  std::vector<PlannedPart> candidates;
  /*! \brief What each spec's rule refused and cut, by spec. */
  std::vector<RuleLog> logs;
  std::string search_summary;
  /*! \brief One line a limit that cut candidates. */
  std::vector<std::string> cuts;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_PLAN_FUNCTION_PLAN_H_
