// SPDX-License-Identifier: Apache-2.0
// FunctionSearch: all that the search for one function's plan needs, and its loop with the
// estimator. Precondition: the function is typed. Test:
// tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_API_FUNCTION_SEARCH_H_
#define TVM_RELAY_COLLAGE_API_FUNCTION_SEARCH_H_

#include <vector>

#include "../plan/phase_clock.h"
#include "../search/cover_search.h"
#include "cost_table.h"
#include "cover_nodes.h"

namespace tvm::collage {

struct FunctionSearch {
  /*! \brief Function and specs must outlive it; `logs` gets one log a spec. */
  FunctionSearch(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
                 const CostEstimator& estimator, std::vector<RuleLog>* logs, PhaseClock* clock);
  FunctionSearch(const FunctionSearch&) = delete;
  FunctionSearch& operator=(const FunctionSearch&) = delete;

  /*!
   * \brief The plan, after all costs that the search needs were asked for. `most_seconds` after
   * its beginning it makes do with those that it has, and those of single operators; 0: no limit.
   */
  CoverStep Run(PhaseClock* clock, double most_seconds = 0);

  // Each refers to those before it.
  const ImportedFunction& imported;
  std::vector<CandidatePartition> candidates;  // what rules found, then copies that stay plain
  const LayoutTransitions transitions;
  CostTable costs;
  const CoverNodes nodes;
  CoverSearch search;
  /*! \brief Distinct candidates that were given up when the time was over. */
  int num_given_up = 0;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_FUNCTION_SEARCH_H_
