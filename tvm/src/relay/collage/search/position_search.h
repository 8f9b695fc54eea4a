// SPDX-License-Identifier: Apache-2.0
// One pass of the cover search for given costs: the best way to every state, position by
// position. A position that no candidate straddles has one state only, so such cuts split the work
// by themselves; a large region is one move to a far position. Test:
// tvm/tests/cpp/search_cover_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "dual_bound.h"
#include "part_table.h"
#include "ticks.h"

namespace tvm::collage {

struct PassLimits {
  // Most states to keep and expand at one position; twice as many are held for a moment.
  int64_t max_states = 0;
  // States above this reduced cost are dropped: a cover of this cost is known.
  Ticks upper_bound = kInfiniteTicks;
};

struct PassResult {
  bool is_found = false;
  // Reduced cost of the best cover found, and its parts by first nodes.
  Ticks cost = kInfiniteTicks;
  std::vector<int> parts;
  // Least reduced cost of a state cut by max_states: no cover can be below both.
  Ticks least_cut_cost = kInfiniteTicks;
  // The furthest position that states reached, where not all was covered.
  int first_uncovered = 0;

  int64_t generated = 0;
  int64_t expanded = 0;
  int64_t bounded = 0;
  int64_t cut = 0;
  int64_t widest = 0;
};

// Needs that every node is held by a usable part, and max_states >= 1.
PassResult RunPass(const PartTable& parts, const DualBound& bound, const PassLimits& limits);

}  // namespace tvm::collage
