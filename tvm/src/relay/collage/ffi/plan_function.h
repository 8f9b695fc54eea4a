// SPDX-License-Identifier: Apache-2.0
// Phases 2 and 3 (RFC 0062): one function -> its candidates -> the cheapest cover.
// Precondition: the function is typed. Test: tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_FFI_PLAN_FUNCTION_H_
#define TVM_RELAY_COLLAGE_FFI_PLAN_FUNCTION_H_

#include <string>
#include <vector>

#include "../graph/candidate_partition.h"
#include "cost_estimator.h"
#include "gather_specs.h"
#include "import_relay.h"
#include "phase_clock.h"

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

/*! \brief What the specs' rules find, each once, small ones first; `logs` gets one a spec. */
std::vector<CandidatePartition> AllCandidates(const ImportedFunction& imported,
                                              const std::vector<TargetSpec>& specs,
                                              std::vector<RuleLog>* logs);

/*!
 * \brief Alternates between the search, which names the costs that it needs, and the estimator.
 * A kernel that no candidate with a cost covers falls to the host target, as a constant of the
 * plan. Times its phases on `clock`.
 */
FunctionPlan PlanFunction(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
                          const CostEstimator& estimator, double search_seconds, PhaseClock* clock);

/*! \brief "<backend>(nn.conv2d, add)". */
std::string LabelOf(const ImportedFunction& imported, const CandidatePartition& candidate,
                    const std::vector<TargetSpec>& specs);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_PLAN_FUNCTION_H_
