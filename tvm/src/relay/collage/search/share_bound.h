// SPDX-License-Identifier: Apache-2.0
/*!
 * \file share_bound.h
 * \brief The bound of the search, and candidate costs relative to it.
 * Tested by tests/cpp/search_states_test.cc.
 *
 * share(v) = min over usable candidates c that hold v of floor(cost(c) / |c|), where an unknown
 * cost counts as its lower bound. The bound of a set U of uncovered nodes is the sum of their
 * shares.
 *
 * Admissible: a cover of U by candidates c1 .. ck costs at least
 *   sum_i cost(ci) >= sum_i sum_{v in ci} cost(ci) / |ci| >= sum_{v in U} share(v),
 * as the ci hold each node of U once; transition costs are >= 0 and only add to this.
 * Consistent: using c lowers the bound by sum_{v in c} share(v) <= |c| * cost(c) / |c| = cost(c).
 *
 * So Reduced(c) = cost(c) - sum_{v in c} share(v) >= 0, and a path's cost so far plus the bound of
 * the rest equals Base() plus the Reduced costs on the path: the search needs only these.
 */
#ifndef TVM_RELAY_COLLAGE_SEARCH_SHARE_BOUND_H_
#define TVM_RELAY_COLLAGE_SEARCH_SHARE_BOUND_H_

#include <vector>

#include "cover_problem.h"
#include "part_table.h"
#include "ticks.h"

namespace tvm {
namespace collage {

class ShareBound {
 public:
  /*! \brief Needs one cost for each part. */
  ShareBound(const CoverProblem& problem, const PartTable& parts);

  /*! \brief First node that no usable candidate holds, or -1. Others need that there is none. */
  int unheld_node() const { return unheld_node_; }
  bool IsUsable(int part) const { return reduced_[static_cast<size_t>(part)] >= 0; }
  /*! \brief Bound of the whole graph. */
  Ticks Base() const { return base_; }
  Ticks Share(int node) const { return shares_[static_cast<size_t>(node)]; }
  /*! \brief Needs IsUsable(part). */
  Ticks Reduced(int part) const { return reduced_[static_cast<size_t>(part)]; }

 private:
  int unheld_node_ = -1;
  Ticks base_ = 0;
  std::vector<Ticks> shares_;
  std::vector<Ticks> reduced_;  // negative: not usable
};

}  // namespace collage
}  // namespace tvm

#endif  // TVM_RELAY_COLLAGE_SEARCH_SHARE_BOUND_H_
