// SPDX-License-Identifier: Apache-2.0
#include "part_table.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <queue>
#include <utility>

namespace tvm::collage {
namespace {

std::vector<std::vector<int>> OutsideOfAll(const CoverProblem& problem) {
  std::vector<std::vector<int>> all(problem.candidates.size());
  std::vector<size_t> holder(static_cast<size_t>(problem.num_nodes), 0);
  for (size_t id = 0; id < all.size(); ++id) {
    const std::vector<int>& inside = problem.candidates[id].inside;
    for (int node : inside) holder[node] = id + 1;
    std::vector<int>& outside = all[id];
    for (int node : inside) {
      for (int input : problem.inputs[node]) {
        if (holder[input] != id + 1) outside.push_back(input);
      }
    }
    std::sort(outside.begin(), outside.end(), std::greater<int>());
    outside.erase(std::unique(outside.begin(), outside.end()), outside.end());
  }
  return all;
}

}  // namespace

PartTable::PartTable(const CoverProblem& problem) : PartTable(problem, OutsideOfAll(problem)) {}

PartTable::PartTable(const CoverProblem& problem, std::vector<std::vector<int>> outside)
    : transitions_(problem, outside) {
  const size_t n = static_cast<size_t>(problem.num_nodes);
  readers_.resize(n);
  for (size_t node = n; node-- > 0;) {
    std::vector<int> read = problem.inputs[node];
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (int input : read) {
      readers_[input].push_back(static_cast<int>(node));
    }
  }
  starting_at_.resize(n);
  holding_.resize(n);
  reading_.resize(n);
  parts_.reserve(outside.size());
  for (size_t id = 0; id < outside.size(); ++id) {
    const std::vector<int>& inside = problem.candidates[id].inside;
    Part part{inside, NodeWords(inside), std::move(outside[id]), {}};
    for (int node : part.outside) reading_[node].push_back(static_cast<int>(id));
    for (int node : inside) {
      holding_[node].push_back(static_cast<int>(id));
      const std::vector<int>& readers = Readers(node);
      const bool is_exit = std::any_of(readers.begin(), readers.end(),
                                       [&](int reader) { return !part.words.Contains(reader); });
      if (is_exit) part.exits.push_back(node);
    }
    parts_.push_back(std::move(part));
    starting_at_[inside.front()].push_back(static_cast<int>(id));
  }
}

std::vector<int> ExecutionOrder(const PartTable& parts, const std::vector<int>& cover) {
  std::vector<size_t> owner(static_cast<size_t>(parts.num_nodes()), 0);
  for (size_t i = 0; i < cover.size(); ++i) {
    for (int node : parts.part(cover[i]).nodes) owner[node] = i;
  }
  std::vector<std::vector<size_t>> readers(cover.size());
  std::vector<size_t> missing(cover.size(), 0);
  using FirstNode = std::pair<int, size_t>;
  std::priority_queue<FirstNode, std::vector<FirstNode>, std::greater<FirstNode>> ready;
  for (size_t i = 0; i < cover.size(); ++i) {
    const Part& part = parts.part(cover[i]);
    std::vector<size_t> read;
    for (int node : part.outside) read.push_back(owner[node]);
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (size_t maker : read) readers[maker].push_back(i);
    missing[i] = read.size();
    if (read.empty()) ready.push({part.first(), i});
  }
  std::vector<int> order;
  order.reserve(cover.size());
  while (!ready.empty()) {
    const size_t i = ready.top().second;
    ready.pop();
    order.push_back(cover[i]);
    for (size_t reader : readers[i]) {
      if (--missing[reader] == 0) ready.push({parts.part(cover[reader]).first(), reader});
    }
  }
  assert(order.size() == cover.size());
  return order;
}

}  // namespace tvm::collage
