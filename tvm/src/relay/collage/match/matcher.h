// SPDX-License-Identifier: Apache-2.0
// FindMatches: every match of one pattern in a graph, overlapping ones too, each root tried once.
// A match means what TVM's matcher means by it: left alternative first, arguments of add and
// multiply also swapped, one binding for a shared pattern. Test: tvm/tests/cpp/match_test.cc.
#ifndef TVM_RELAY_COLLAGE_MATCH_MATCHER_H_
#define TVM_RELAY_COLLAGE_MATCH_MATCHER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../graph/dataflow_graph.h"
#include "pattern.h"

namespace tvm::collage {

struct Match {
  NodeIndex root = -1;
  /*! \brief In order of binding; only a dominator's path binds a pattern more than once. */
  std::vector<std::pair<const Pattern*, NodeIndex>> bindings;
  /*!
   * \brief Placeable nodes that the pattern describes. What leaf patterns bound is input, also
   * when another part of the pattern describes the same node.
   */
  IndexSet inside;

  /*! \brief Node of `pattern`'s first binding, -1 when it took no part (an optional piece). */
  NodeIndex Bound(const DataflowPattern& pattern) const;
  std::string Summary(const DataflowGraph& graph) const;
};

/*! \brief Ascending by root. Only calls of an op that the root can be are tried. */
std::vector<Match> FindMatches(const DataflowGraph& graph, const DataflowPattern& pattern);

/*! \brief Match rooted at `root`, if there is one. */
std::optional<Match> MatchAt(const DataflowGraph& graph, const DataflowPattern& pattern,
                             NodeIndex root);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_MATCH_MATCHER_H_
