// SPDX-License-Identifier: Apache-2.0
// Work follows the size of nets of one shape, by counts.
#include <doctest/doctest.h>

#include "search_nets.h"
#include "src/relay/collage/search/cover_search.h"

namespace tvm::collage::testing {
namespace {

struct Shape {
  const char* name;
  CoverProblem (*make)(const NetOptions&);
  bool transitions;
  double most_states_per_node;
  int max_nodes;
};
const Shape kShapes[] = {
    {"chain", ChainNet, false, 1.0, 10000},
    {"chain, transitions", ChainNet, true, 4.0, 10000},
    {"inception", InceptionNet, false, 25.0, 3000},
    {"inception, transitions", InceptionNet, true, 150.0, 300},
    {"dense", DenseNet, false, 1.0, 1000},
    {"cells", CellNet, false, 120.0, 300},
};

TEST_CASE("states per node do not grow with the number of nodes") {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.name);
    for (const int nodes : {100, 300, 1000, 3000, 10000}) {
      if (nodes > shape.max_nodes) continue;
      CAPTURE(nodes);
      CoverProblem problem = shape.make({nodes, 4, true});
      if (shape.transitions) {
        problem.transitions.between = [](int, int from, int to) { return from == to ? 0.0 : 3e-6; };
      }
      CoverSearch search(std::move(problem));
      const CoverStep step = search.Step();
      REQUIRE(step.kind == CoverStep::Kind::kPlan);
      CHECK(step.plan.optimal);
      CHECK_FALSE(search.stats().IsLimitBinding());
      CHECK(static_cast<double>(search.stats().states_expanded) <=
            shape.most_states_per_node * search.stats().nodes);
    }
  }
}

TEST_CASE("the limit of states bounds what is held at a position, not only what is expanded") {
  CoverProblem problem = CellNet({300, 6, true});
  problem.costs.clear();  // nothing is known, so no bound helps: all are as good
  constexpr int64_t kLimit = 64;
  CoverSearch search(std::move(problem), {kLimit, kLimit});
  search.Step();
  CHECK(search.stats().widest_position <= 2 * kLimit);
}

TEST_CASE("regions of any size, the whole net's too, add hardly any states") {
  CoverSearch without(InceptionNet({1000, 4, false}));
  CoverSearch with(InceptionNet({1000, 4, true}));
  const CoverStep plain = without.Step();
  const CoverStep regions = with.Step();
  CHECK(regions.plan.seconds < plain.plan.seconds);
  CHECK(with.stats().states_expanded < without.stats().states_expanded * 11 / 10);
}

}  // namespace
}  // namespace tvm::collage::testing
