// SPDX-License-Identifier: Apache-2.0
// Why a kernel that stays on TVM is on none of the external backends, from what planning knew.
// Precondition: the plan is of this function and these specs. Test: plan/test_unplaced.py.
#pragma once

#include <string>
#include <vector>

#include "plan.h"

namespace tvm::collage {

/*! \brief Equal operators that one backend did not get, for one reason. */
struct Unplaced {
  std::string op;       // "nn.conv2d", or what kind of call it is
  std::string backend;  // that did not get them
  /*!
   * \brief "slower", "no_better_plan", "not_measured" (the search did without its cost), "refused",
   * "device", "partitioned", "opaque", "no_pattern", or the status of a failed measurement.
   */
  std::string why;
  std::string message;  // one sentence; for "refused" and failures the backend's own words
  std::string rule;     // that found or refused it; empty when none did
  int count = 0;        // operators
  double seconds = 0;   // of the plan's parts that hold them
  /*!
   * \brief slower: candidates of the backend that hold them, seconds of each of these, and of what
   * the plan has in the place of each. They are equal within a row and no sums: candidates overlap.
   */
  int regions = 0;
  double backend_seconds = 0;
  double instead_seconds = 0;
};

struct UnplacedReport {
  std::vector<Unplaced> rows;  // the dearest first
  int num_left_out = 0;        // operators of rows past the limit
};

/*! \brief For each kernel of the plan on TVM or the host and each external backend, grouped. */
UnplacedReport WhyUnplaced(const DataflowGraph& graph, const std::vector<PartitionSpec>& specs,
                           const FunctionPlan& plan);

}  // namespace tvm::collage
