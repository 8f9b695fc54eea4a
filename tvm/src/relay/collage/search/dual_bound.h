// SPDX-License-Identifier: Apache-2.0
// The bound of the search, and candidate costs relative to it.
// Test: tvm/tests/cpp/search_bound_test.cc.
//
// Each node v has a price y(v) >= 0 such that no usable candidate costs less than its nodes'
// prices together: sum_{v in c} y(v) <= cost(c), where an unknown cost counts as its lower bound.
// (These are the feasible solutions of the dual of the cover's linear program.) The bound of a set
// U of uncovered nodes is the sum of their prices.
//
// Admissible: a cover of U by candidates c1 .. ck costs at least
//   sum_i cost(ci) >= sum_i sum_{v in ci} y(v) = sum_{v in U} y(v),
// as the ci hold each node of U once; transition costs are >= 0 and only add to this.
// Consistent: using c lowers the bound by sum_{v in c} y(v) <= cost(c).
//
// So Reduced(c) = cost(c) - sum_{v in c} y(v) >= 0, and a path's cost so far plus the bound of
// the rest equals Base() plus the Reduced costs on the path: the search needs only these.
//
// Transition costs that depend on a value's maker are shifted between its maker and its readers,
// which leaves every cover's cost as it is: a maker of class m pays `returned(v, m)` less for each
// node outside of it that reads v; whoever of layout class b reads v from outside pays
// `charged(v, b)` more; and a crossing costs
//   extra(v, m, b) - charged(v, b) + returned(v, m) for each node of the reader that reads v.
// charged(v, b) is the least of extra(v, m, b) + returned(v, m) over all m, so that no crossing is
// below zero and all said above still holds. So what staying in one layout saves is in prices.
//
// Prices are found by dual ascent: a node's price is raised by the least reduced cost of the
// candidates that hold it, until none can be raised. How good the result is depends on the order of
// the nodes, so several orders are tried, then some of the best prices are lowered and raised anew
// in another order, and the prices of the greatest sum stay. In between, what makers of a class can
// spare is shifted to their readers, as far as it raises what these are charged.
#pragma once

#include <utility>
#include <vector>

#include "cover_problem.h"
#include "part_table.h"
#include "ticks.h"

namespace tvm::collage {

class DualBound {
 public:
  // Needs one cost for each part; `penalty` is what a last resort counts as.
  DualBound(const CoverProblem& problem, const PartTable& parts, Ticks penalty = 0);

  // First node that no usable candidate holds, or -1. Others need that there is none.
  int unheld_node() const { return unheld_node_; }
  bool IsUsable(int part) const { return prices_.reduced[part] >= 0; }
  // Bound of the whole graph.
  Ticks Base() const { return prices_.sum; }
  Ticks Price(int node) const { return prices_.of_node[node]; }
  // Needs IsUsable(part).
  Ticks Reduced(int part) const { return prices_.reduced[part]; }

  // What a part of layout class `to` pays for the node's value beyond Reduced, where a maker of
  // that maker class has paid already and `num_readers` of the part's nodes read it.
  Ticks Crossing(int node, int maker_class, int to, int num_readers) const {
    const Ticks extra = parts_.transitions().Extra(node, maker_class, to);
    const size_t charged = Slot(node) + static_cast<size_t>(to);
    return extra - prices_.charged[charged] + num_readers * Returned(node, maker_class);
  }
  Ticks Returned(int node, int maker_class) const {
    return prices_.returned[Slot(node) + static_cast<size_t>(maker_class)];
  }

 private:
  struct Prices {
    std::vector<Ticks> of_node;
    std::vector<Ticks> reduced;   // by part; negative: not usable
    std::vector<Ticks> returned;  // by slot of the value, and class
    std::vector<Ticks> charged;   // by slot of the value, and reading layout class
    Ticks sum = 0;
  };
  size_t Slot(int node) const { return slots_[node]; }
  void SetSlots();
  Ticks ChargeableBut(int node, int but, int to, const Prices& prices) const;
  Ticks MostToReturn(int node, int maker_class, const Prices& prices,
                     std::vector<std::pair<int, int>>* makers) const;
  void Shift(int node, Prices* prices) const;
  void Ascend(const std::vector<int>& order, Prices* prices) const;
  void Raise(const std::vector<int>& order, Prices* prices) const;
  void Lower(int node, Prices* prices) const;
  void KeepBetter(Prices prices);
  Prices EqualShares() const;
  void Improve(const std::vector<std::vector<int>>& orders);

  const PartTable& parts_;
  int unheld_node_ = -1;
  std::vector<int> dependent_;  // nodes for which the maker matters
  std::vector<size_t> slots_;   // by node; of dependent ones
  Prices prices_;               // the best so far
};

}  // namespace tvm::collage
