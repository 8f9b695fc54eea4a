// SPDX-License-Identifier: Apache-2.0
/*!
 * \file successors.h
 * \brief The moves of the cover search, and why they are exact.
 * Tested by tests/cpp/search_states_test.cc and search_cover_test.cc.
 *
 * A state is a down-closed set S of covered nodes and a position p: each node below p is covered
 * or *put off*. A part is *ready* when all that it reads outside itself is in S. Moves at (S, p):
 *   use       a ready part whose first node is p; then, at once, any number of *due* parts:
 *             ready parts whose first node was put off and that read a part used in this move;
 *   put off   p, if some part that holds p, avoids S and is not ready exists.
 * After either, the position goes to the next uncovered node. A state is dropped when a node that
 * was put off has no part left that holds it, avoids S and is not ready (it could only have been
 * used already).
 *
 * Sound: only ready parts are used, so parts run in the order of use: the quotient is acyclic.
 * Complete, and each cover is met in one order only: take a cover with acyclic quotient, and always
 * use the ready part with the least first node. Invariant: at (S, p) no unused part whose first
 * node is below p is ready. At p let P be its part. If P starts at p and is ready, it is used;
 * parts that now become ready read it, and those with a first node below p are due and used in the
 * same move until none is left. Else P is not ready (by the invariant if it starts below p), so p
 * may be put off. Both keep the invariant. When p reaches the end all is covered: else the first
 * part of the rest in an order of execution would be ready. Conversely a path that leaves a ready
 * part with a node put off cannot use it later, since it would have to read a part used then; and
 * IsDue refuses the other orders within a move. So no independent branches are interleaved.
 *
 * The rest of a path depends on (S, p) alone, plus, with transition costs, on the makers of the
 * values that uncovered nodes read: these are the key, and the least cost to each key is enough.
 */
#ifndef TVM_RELAY_COLLAGE_SEARCH_SUCCESSORS_H_
#define TVM_RELAY_COLLAGE_SEARCH_SUCCESSORS_H_

#include <vector>

#include "part_table.h"
#include "search_state.h"
#include "share_bound.h"

namespace tvm {
namespace collage {

/*! \brief Takes the successors of one state. */
class SuccessorSink {
 public:
  virtual ~SuccessorSink() = default;
  /*! \brief `cost`: reduced cost of the move; `used`: its parts in order, none when put off. */
  virtual void OnSuccessor(const SearchState& next, Ticks cost, const std::vector<int>& used) = 0;
};

class Successors {
 public:
  Successors(const PartTable& parts, const ShareBound& bound)
      : parts_(parts), bound_(bound), is_waiting_(static_cast<size_t>(parts.num_nodes()), 0) {}

  /*! \brief Needs state.position < number of nodes. */
  void Visit(const SearchState& state, SuccessorSink* sink);

 private:
  bool CanUse(int id, const CoveredSet& covered) const {
    return bound_.IsUsable(id) && !covered.Intersects(parts_.part(id).words);
  }
  bool IsReady(int id, const CoveredSet& covered) const {
    return covered.ContainsAll(parts_.part(id).outside);
  }
  bool CanPutOff(int node, const CoveredSet& covered) const;
  bool CanGoOn(const SearchState& state);
  bool IsReleased(int node, const SearchState& state) const;
  bool IsDue(int id) const;
  Ticks CrossingCost(int id, const SearchState& state) const;
  SearchState After(const SearchState& state, int id) const;
  void Use(const SearchState& state, int id, Ticks cost, SuccessorSink* sink);

  const PartTable& parts_;
  const ShareBound& bound_;
  std::vector<int> used_;     // parts of the current move
  // Nodes put off that are not known to be released, as a list and by node; used by CanGoOn.
  std::vector<int> waiting_;
  std::vector<char> is_waiting_;
};

}  // namespace collage
}  // namespace tvm

#endif  // TVM_RELAY_COLLAGE_SEARCH_SUCCESSORS_H_
