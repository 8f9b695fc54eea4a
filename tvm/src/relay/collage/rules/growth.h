// SPDX-License-Identifier: Apache-2.0
// Growth: enumerates unions of units (sub-candidates, tuples, projections) that combiners build one
// unit at a time, each union once. Used by combine.cc; test: tvm/tests/cpp/rules_combine_test.cc.
//
// With one exit and no taps every part of a union must be read inside, so a union is grown upwards
// from the unit that holds its exit, a unit being added once all its readers are inside: every
// step is itself a valid, convex candidate, and no other set is ever built. With several exits or
// taps, unions are grown in both directions from the unit that comes first, through convex sets
// only; that loses none, since a connected convex set always has a source or sink unit, other than
// the first, without which it still hangs together.
//
// Units may overlap (patterns do), so one set may be made of different units. Where the same nodes
// lie in composites, only the making with the fewest units is kept, on equal terms that of the
// earlier ones: unions are made level by level, one unit more on each, so it is the first one met.
#ifndef TVM_RELAY_COLLAGE_RULES_GROWTH_H_
#define TVM_RELAY_COLLAGE_RULES_GROWTH_H_

#include <string>
#include <vector>

#include "combinators.h"
#include "marks.h"

namespace tvm::collage {

class Growth {
 public:
  struct Unit {
    SubGraph sub_graph;
    int candidate = -1;   // position among the sub-rule's candidates, -1 for glue
    NodeIndex glue = -1;  // the tuple or projection
    Marks marks = {};
  };
  /*! \brief A union, and the unit from which it was grown. */
  struct Grown {
    SubGraph sub_graph;
    int first_unit = -1;
    Marks marks;
  };

  Growth(const DataflowGraph& graph, std::vector<Unit> units,
         const std::vector<CombinerPtr>& combiners, const CombineLimits& limits, std::string rule,
         RuleLog* log);
  /*! \brief All unions within the limits, single units that are valid alone among them. */
  std::vector<Grown> All();

 private:
  struct State {
    SubGraph sub_graph;
    IndexSet labelled;  // what lies in composites
    int first_unit = -1;
    NodeIndex glue = -1;  // when it is one glue unit
    Marks marks;
    int num_units = 1;
  };

  bool IsSingleExit() const { return limits_.max_exits == 1 && !limits_.allow_taps; }
  bool IsTooDeep(const SubGraph& sub_graph) const {
    return limits_.max_depth > 0 && sub_graph.depth() > limits_.max_depth;
  }
  bool HasTooManyExits(const SubGraph& sub_graph) const {
    return limits_.max_exits > 0 && static_cast<int>(sub_graph.exits().size()) > limits_.max_exits;
  }
  NodeIndex StartNode(const Unit& unit) const;
  bool CanStart(const Unit& unit) const;
  bool IsAccepted(const SubGraph& sub_graph) const;
  bool FiresAny(const CombinePart& upstream, const CombinePart& downstream) const;
  bool CanJoin(const State& state, const Unit& unit, bool is_upstream) const;
  std::vector<int> Extensions(const State& state) const;
  void AppendTouching(const State& state, const std::vector<NodeIndex>& border, bool is_upstream,
                      std::vector<int>* out) const;
  State Join(const State& state, int unit) const;
  void GrowFrom(const std::vector<int>& starts, std::vector<Grown>* out);
  void GrowGreedily(State state, std::vector<Grown>* out);

  const DataflowGraph& graph_;
  std::vector<Unit> units_;
  const std::vector<CombinerPtr>& combiners_;
  CombineLimits limits_;
  std::string rule_;
  RuleLog* log_;
  std::vector<std::vector<int>> units_by_exit_;
  std::vector<std::vector<int>> units_by_entry_;
  std::vector<IndexSet> labelled_;  // of each unit
  IndexSet glue_projections_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_GROWTH_H_
