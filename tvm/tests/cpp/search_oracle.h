// SPDX-License-Identifier: Apache-2.0
// For tests: every cover of a small problem by plain enumeration, written without any part of the
// search but its problem type; and random problems. Needs about 12 nodes or fewer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "src/relay/collage/search/cover_problem.h"

namespace tvm::collage::testing {

struct OracleResult {
  bool is_found = false;
  int64_t last_resorts = 0;
  int64_t picoseconds = 0;
  // The best, by first nodes: fewest last resorts, then least time, fewest parts, least ids.
  std::vector<int> cover;
  std::vector<int> order;  // in execution order, least first node first among what can run
  int64_t acyclic_covers = 0;
  int64_t cyclic_covers = 0;
};

class Oracle {
 public:
  explicit Oracle(const CoverProblem& problem) : problem_(problem) {}

  OracleResult Run() {
    owner_.assign(static_cast<size_t>(problem_.num_nodes), -1);
    Enumerate();
    return result_;
  }

  // The execution order of disjoint candidates, leaving nodes that none of them holds out of
  // account; empty when their quotient has a cycle.
  static std::vector<int> Order(const CoverProblem& problem, std::vector<int> cover) {
    std::vector<int> order;
    std::vector<uint32_t> inside;
    std::vector<uint32_t> reads;
    uint32_t rest = 0;
    for (int id : cover) {
      inside.push_back(Inside(problem, id));
      reads.push_back(Reads(problem, id) & ~inside.back());
      rest |= inside.back();
    }
    while (order.size() < cover.size()) {
      size_t best = cover.size();
      for (size_t i = 0; i < cover.size(); ++i) {
        if ((inside[i] & rest) == 0 || (reads[i] & rest) != 0) continue;
        const bool is_least =
            best == cover.size() || First(problem, cover[i]) < First(problem, cover[best]);
        if (is_least) best = i;
      }
      if (best == cover.size()) return {};
      order.push_back(cover[best]);
      rest &= ~inside[best];
    }
    return order;
  }

  // What a cover costs by the words of cover_problem.h.
  static int64_t Picoseconds(const CoverProblem& problem, const std::vector<int>& cover) {
    const TransitionCosts& transitions = problem.transitions;
    std::vector<int> owner(static_cast<size_t>(problem.num_nodes), -1);
    for (int id : cover) {
      for (int node : problem.candidates[static_cast<size_t>(id)].inside) {
        owner[static_cast<size_t>(node)] = id;
      }
    }
    int64_t sum = 0;
    const auto charge = [&](double seconds) { sum += std::llround(seconds * 1e12); };
    for (int id : cover) charge(problem.costs[static_cast<size_t>(id)].seconds);
    if (!transitions.between && !transitions.from_outside && !transitions.to_outside) return sum;
    std::set<std::pair<int, int>> crossings;
    std::set<std::pair<int, int>> entries;
    for (int node = 0; node < problem.num_nodes; ++node) {
      const size_t at = static_cast<size_t>(node);
      for (int input : problem.inputs[at]) {
        if (owner[static_cast<size_t>(input)] != owner[at]) crossings.insert({input, owner[at]});
      }
      if (problem.outside_inputs.empty()) continue;
      for (int value : problem.outside_inputs[at]) entries.insert({value, owner[at]});
    }
    for (const auto& [node, reader] : crossings) {
      if (!transitions.between) break;
      charge(transitions.between(node, LayoutClass(problem, owner[static_cast<size_t>(node)]),
                                 LayoutClass(problem, reader)));
    }
    for (const auto& [value, reader] : entries) {
      if (!transitions.from_outside) break;
      charge(transitions.from_outside(value, LayoutClass(problem, reader)));
    }
    for (int node : problem.outputs) {
      if (!transitions.to_outside) break;
      charge(transitions.to_outside(node, LayoutClass(problem, owner[static_cast<size_t>(node)])));
    }
    return sum;
  }

  static int64_t LastResorts(const CoverProblem& problem, const std::vector<int>& cover) {
    return std::count_if(cover.begin(), cover.end(), [&](int id) {
      const CandidateCost& cost = problem.costs[static_cast<size_t>(id)];
      return cost.status == CandidateCost::Status::kLastResort;
    });
  }

  static uint32_t Inside(const CoverProblem& problem, int id) {
    uint32_t mask = 0;
    for (int node : problem.candidates[static_cast<size_t>(id)].inside) mask |= 1u << node;
    return mask;
  }

 private:
  static uint32_t Reads(const CoverProblem& problem, int id) {
    uint32_t mask = 0;
    for (int node : problem.candidates[static_cast<size_t>(id)].inside) {
      for (int input : problem.inputs[static_cast<size_t>(node)]) mask |= 1u << input;
    }
    return mask;
  }
  static int First(const CoverProblem& problem, int id) {
    return problem.candidates[static_cast<size_t>(id)].inside.front();
  }
  static int LayoutClass(const CoverProblem& problem, int id) {
    return problem.candidates[static_cast<size_t>(id)].layout_class;
  }
  void Enumerate() {
    int node = 0;
    while (node < problem_.num_nodes && owner_[static_cast<size_t>(node)] >= 0) ++node;
    if (node == problem_.num_nodes) {
      Judge();
      return;
    }
    for (size_t id = 0; id < problem_.candidates.size(); ++id) {
      const CandidateCost::Status status = problem_.costs[id].status;
      if (status == CandidateCost::Status::kFailed) continue;
      if (status == CandidateCost::Status::kUnknown) continue;
      const std::vector<int>& inside = problem_.candidates[id].inside;
      bool fits = false;
      for (int member : inside) fits = fits || member == node;
      for (int member : inside) fits = fits && owner_[static_cast<size_t>(member)] < 0;
      if (!fits) continue;
      for (int member : inside) owner_[static_cast<size_t>(member)] = static_cast<int>(id);
      cover_.push_back(static_cast<int>(id));
      Enumerate();
      cover_.pop_back();
      for (int member : inside) owner_[static_cast<size_t>(member)] = -1;
    }
  }

  void Judge() {
    const std::vector<int> order = Order(problem_, cover_);
    if (order.size() != cover_.size()) {
      ++result_.cyclic_covers;
      return;
    }
    ++result_.acyclic_covers;
    const int64_t cost = Picoseconds(problem_, cover_);
    const int64_t last_resorts = LastResorts(problem_, cover_);
    const auto found = std::make_tuple(last_resorts, cost, cover_.size(), cover_);
    const auto best = std::make_tuple(result_.last_resorts, result_.picoseconds,
                                      result_.cover.size(), result_.cover);
    if (result_.is_found && best <= found) return;
    result_.cover = cover_;
    result_.is_found = true;
    result_.last_resorts = last_resorts;
    result_.picoseconds = cost;
    result_.order = order;
  }

  const CoverProblem& problem_;
  std::vector<int> owner_;
  std::vector<int> cover_;
  OracleResult result_;
};

struct RandomProblemOptions {
  int max_nodes = 12;
  bool transitions = false;
  bool failures = false;
  bool last_resorts = false;  // one for each node, alone
};

// A random graph with candidates that overlap and feed each other. Costs are small whole
// microseconds, so that ties are frequent. All costs are known, failed or last resorts; lower
// bounds are true, guesses of work are wild.
inline CoverProblem RandomProblem(unsigned seed, RandomProblemOptions options) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  CoverProblem problem;
  const int n = 1 + below(options.max_nodes);
  problem.num_nodes = n;
  problem.inputs.resize(static_cast<size_t>(n));
  for (int node = 1; node < n; ++node) {
    for (int i = below(3); i-- > 0;) {
      problem.inputs[static_cast<size_t>(node)].push_back(
          below(2) ? below(node) : node - 1 - below(std::min(node, 4)));
    }
  }
  const auto add = [&](const std::set<int>& nodes) {
    const int size = static_cast<int>(nodes.size());
    CandidateCost cost = CandidateCost::Known(1e-6 * (below(4) + 2 * size));
    const double lower = below(3) == 0 ? 0.0 : cost.seconds * 0.25 * below(5);
    if (options.failures && below(6) == 0) cost = CandidateCost::Failed();
    problem.candidates.push_back({{nodes.begin(), nodes.end()}, below(3), lower});
    problem.costs.push_back(cost);
  };
  for (int node = 0; node < n; ++node) {
    for (int i = below(8) == 0 ? 0 : 1 + below(2); i-- > 0;) add({node});
  }
  for (int i = below(2 * n + 1); i-- > 0;) {
    // Some sets are grown along edges, others are picked freely (and so often not convex).
    std::set<int> nodes{below(n)};
    const bool freely = below(3) == 0;
    for (int grow = 1 + below(3); grow-- > 0;) {
      const int member = below(static_cast<int>(nodes.size()));
      const int node = freely ? below(n) : *std::next(nodes.begin(), member);
      if (freely) {
        nodes.insert(node);
      } else if (below(2) && !problem.inputs[static_cast<size_t>(node)].empty()) {
        nodes.insert(problem.inputs[static_cast<size_t>(node)].front());
      } else {
        for (int reader = node + 1; reader < n; ++reader) {
          const std::vector<int>& inputs = problem.inputs[static_cast<size_t>(reader)];
          if (std::find(inputs.begin(), inputs.end(), node) == inputs.end()) continue;
          nodes.insert(reader);
          if (below(2)) break;
        }
      }
    }
    if (nodes.size() <= 5) add(nodes);
  }
  for (int node = 0; node < n && options.last_resorts; ++node) {
    problem.candidates.push_back({{node}, node % 3, 0.0});
    problem.costs.push_back(CandidateCost::LastResort());
  }
  for (size_t id = 0; id < problem.candidates.size() && seed % 3 != 0; ++id) {
    problem.candidates[id].work =
        static_cast<double>(id * 7 % 5 * problem.candidates[id].inside[0]);
  }
  if (!options.transitions) return problem;
  const unsigned salt = random();
  const auto hashed = [salt](int a, int b, int c) {
    const unsigned mixed = salt ^ static_cast<unsigned>(a * 7919 + b * 104729 + c * 1299709);
    return 1e-6 * static_cast<double>((mixed * 2654435761u >> 16) % 4);
  };
  problem.transitions.between = [hashed](int node, int from, int to) {
    return from == to ? 0.0 : hashed(node, from, to);
  };
  problem.transitions.from_outside = [hashed](int value, int to) { return hashed(value, 50, to); };
  problem.transitions.to_outside = [hashed](int node, int from) { return hashed(node, from, 60); };
  problem.outputs.push_back(n - 1);
  problem.outside_inputs.resize(static_cast<size_t>(n));
  for (int node = 0; node < n; node += 2) {
    problem.outside_inputs[static_cast<size_t>(node)] = {0, below(3)};
  }
  return problem;
}

}  // namespace tvm::collage::testing
