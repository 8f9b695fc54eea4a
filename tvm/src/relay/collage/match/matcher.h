// SPDX-License-Identifier: Apache-2.0
// FindMatches: every match of one pattern in a graph, overlapping ones and several of one root too.
// Where TVM's matcher finds one, that is the first: left alternative first, arguments of add and
// multiply also swapped, one binding for a shared pattern. Test: tvm/tests/cpp/match_test.cc.
#pragma once

#include <utility>
#include <vector>

#include "../graph/dataflow_graph.h"
#include "pattern.h"

namespace tvm::collage {

struct Match {
  NodeIndex root = -1;
  // In order of binding; only a dominator's path binds a pattern more than once.
  std::vector<std::pair<const Pattern*, NodeIndex>> bindings;
  // Placeable nodes that the pattern describes. What leaf patterns bound is input, also
  // when another part of the pattern describes the same node.
  IndexSet inside;

  // Node of `pattern`'s first binding, -1 when it took no part (an optional piece).
  NodeIndex Bound(const DataflowPattern& pattern) const;
};

// How many matches of one root are found, and how many ways to bind it are tried.
constexpr int kMaxMatchesOfRoot = 64;
constexpr int kMaxTriesOfRoot = 1024;

// Ascending by root; of one root TVM's match first, then those by other alternatives and orders of
// arguments, equal bindings once. A root that TVM's matcher does not take has none.
// `num_cut`: If given, at how many roots one of the limits above left ways untried.
// `num_steps`: If given, how many pairs of a part and a node were looked at.
COLLAGE_API std::vector<Match> FindMatches(const DataflowGraph& graph,
                                           const DataflowPattern& pattern,
                                           int64_t* num_cut = nullptr,
                                           int64_t* num_steps = nullptr);

}  // namespace tvm::collage
