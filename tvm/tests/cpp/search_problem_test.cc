// SPDX-License-Identifier: Apache-2.0
// Cover problems: what is refused, how costs are counted.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "src/relay/collage/search/cover_problem.h"
#include "src/relay/collage/search/cover_search.h"
#include "src/relay/collage/search/ticks.h"

namespace tvm::collage::testing {
namespace {

CoverProblem TwoNodes() {
  CoverProblem problem;
  problem.num_nodes = 2;
  problem.inputs = {{}, {0}};
  problem.candidates = {{{0, 1}, 0, 0.0}, {{0}, 1, 0.0}, {{1}, 1, 0.0}};
  return problem;
}

// What Validate says of two nodes after a change.
template <typename Change>
std::string Refusal(Change change) {
  CoverProblem problem = TwoNodes();
  change(&problem);
  try {
    problem.Validate();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a good problem is taken") {
  CHECK(Refusal([](CoverProblem*) {}) == "");
}

TEST_CASE("each broken precondition is named") {
  using P = CoverProblem;
  CHECK(Refusal([](P* p) { p->num_nodes = -1; }) == "cover problem: negative number of nodes");
  CHECK(Refusal([](P* p) { p->inputs.pop_back(); }) ==
        "cover problem: inputs must have one entry a node");
  CHECK(Refusal([](P* p) { p->outside_inputs.resize(1); }) ==
        "cover problem: outside_inputs must be empty or have one entry a node");
  CHECK(Refusal([](P* p) { p->inputs[0] = {1}; }) ==
        "cover problem: node 0 reads 1: nodes must be in topological order");
  CHECK(Refusal([](P* p) { p->outputs = {2}; }) == "cover problem: output 2 is no node");
  CHECK(Refusal([](P* p) { p->candidates[1].inside.clear(); }) ==
        "cover problem: candidate 1 is empty");
  CHECK(Refusal([](P* p) { p->candidates[1].inside = {7}; }) ==
        "cover problem: candidate 1 has no node 7");
  CHECK(Refusal([](P* p) { p->candidates[0].inside = {1, 0}; }) ==
        "cover problem: candidate 0 does not list its nodes in ascending order");
  CHECK(Refusal([](P* p) { p->candidates[2].work = -1.0; }) ==
        "cover problem: candidate 2 has an unusable guess of its work");
  CHECK(Refusal([](P* p) { p->candidates[2].lower_bound = std::nan(""); }) ==
        "cover problem: candidate 2 has an unusable lower bound");
  CHECK(Refusal([](P* p) { p->costs.resize(1); }) ==
        "cover problem: costs must be empty or have one entry a candidate");
  CHECK(Refusal([](P* p) { p->costs.assign(3, CandidateCost::Known(2 * kMaxSeconds)); }) ==
        "cover problem: candidate 0 has an unusable cost");
}

TEST_CASE("the search refuses a broken problem and a broken transition cost") {
  CoverProblem problem = TwoNodes();
  problem.inputs.clear();
  CHECK_THROWS_AS(CoverSearch{problem}, std::invalid_argument);
  problem = TwoNodes();
  problem.transitions.between = [](int, int, int) { return -1.0; };
  CHECK_THROWS_AS(CoverSearch{problem}, std::invalid_argument);
}

TEST_CASE("which seconds can be used") {
  CHECK(IsUsableSeconds(0.0));
  CHECK(IsUsableSeconds(kMaxSeconds));
  CHECK_FALSE(IsUsableSeconds(-1e-9));
  CHECK_FALSE(IsUsableSeconds(std::nan("")));
  CHECK_FALSE(IsUsableSeconds(std::numeric_limits<double>::infinity()));
}

TEST_CASE("ticks add exactly and saturate") {
  CHECK(ToTicks(0.1) + ToTicks(0.2) == ToTicks(0.3));
  CHECK(ToTicks(kMaxSeconds) < kInfiniteTicks);
  CHECK(AddTicks(kInfiniteTicks, kInfiniteTicks) == kInfiniteTicks);
  CHECK(AddTicks(1, 2) == 3);
  CHECK(ToSeconds(ToTicks(1.5)) == 1.5);
}

}  // namespace
}  // namespace tvm::collage::testing
