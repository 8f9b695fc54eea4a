// SPDX-License-Identifier: Apache-2.0
// The moves of the cover search, and why they are exact.
// Test: tvm/tests/cpp/search_states_test.cc, search_cover_test.cc.
//
// A state is a set C of covered nodes; its position p is the first node not in C. A move uses a
// candidate whose first node is p and which avoids C. So every set of disjoint candidates that
// covers all nodes is met, and in one order only, by first nodes: independent branches are not
// interleaved. What is left is to refuse cyclic quotients, exactly, from the state alone.
//
// A used part may read nodes not covered yet: then it is open. For each value v of C that uncovered
// nodes read the state holds Waits(v): the uncovered nodes that v's part reads directly or through
// a path of used parts. Using part X, with
//   W = (uncovered nodes that X reads) + Waits(v) for all covered v that X reads,
// is refused if X holds a node of some Waits(v) in W; else X's values wait for W, and in every
// other Waits(u) that meets X the nodes of X are replaced by W.
//
// Exact: suppose a cycle X -> Y1 -> .. -> Yk -> X whose last part to be used is X, with x in X read
// by Y1, and v in Yk read by X. When Y1 was used x was uncovered, so Y1 waits for x. If Y(i+1) was
// used after Y(i) it took over Waits of the value that it reads, x among them; if before, it waited
// for a node of Y(i), and took x over when that was used. So x is in Waits(v), v still has an
// uncovered reader (in X), and X is refused. Conversely each node of Waits(v) feeds v by a path of
// used parts, so that a refused X does close a cycle.
//
// What may follow depends on C and the Waits alone, and what it costs, with transition costs, on
// the makers of values that uncovered nodes read and on the layout classes of the parts that read
// values not made yet. These are the key; the best way to each key is enough. (By C alone it is
// not: see the six nodes in search_cover_test.cc.)
#pragma once

#include <vector>

#include "dual_bound.h"
#include "part_table.h"
#include "search_state.h"

namespace tvm::collage {

// Takes the successors of one state.
class SuccessorSink {
 public:
  virtual ~SuccessorSink() = default;
  // Using `part` at reduced cost `cost` leads to `next`, which is only lent.
  virtual void OnSuccessor(const SearchState& next, Ticks cost, int part) = 0;
};

class Successors {
 public:
  Successors(const PartTable& parts, const DualBound& bound) : parts_(parts), bound_(bound) {}

  // Needs state.position < number of nodes. Leaves out parts whose reduced cost is above `most`;
  // crossings can still bring a successor above it.
  void Visit(const SearchState& state, Ticks most, SuccessorSink* sink);

 private:
  bool FindWaits(const SearchState& state, const Part& part);
  void CarryWaits(const SearchState& state, const Part& part);
  void CarryTransitions(const SearchState& state, int id);
  Ticks TransitionCost(const SearchState& state, int id) const;
  bool HasUncoveredReader(int node) const;

  const PartTable& parts_;
  const DualBound& bound_;
  SearchState next_;
  std::vector<int> waits_;  // W of the part being used, ascending
};

}  // namespace tvm::collage
