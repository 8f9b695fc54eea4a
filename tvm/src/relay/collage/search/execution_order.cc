// SPDX-License-Identifier: Apache-2.0
/*!
 * \file execution_order.cc
 * \brief Sorts the parts of a cover. Tested by tests/cpp/search_cover_test.cc.
 */
#include "execution_order.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <queue>
#include <utility>

namespace tvm {
namespace collage {

std::vector<int> ExecutionOrder(const PartTable& parts, const std::vector<int>& cover) {
  std::vector<size_t> owner(static_cast<size_t>(parts.num_nodes()), 0);
  for (size_t i = 0; i < cover.size(); ++i) {
    for (int node : parts.part(cover[i]).nodes) owner[static_cast<size_t>(node)] = i;
  }
  std::vector<std::vector<size_t>> readers(cover.size());
  std::vector<size_t> missing(cover.size(), 0);
  using FirstNode = std::pair<int, size_t>;
  std::priority_queue<FirstNode, std::vector<FirstNode>, std::greater<FirstNode>> ready;
  for (size_t i = 0; i < cover.size(); ++i) {
    const Part& part = parts.part(cover[i]);
    std::vector<size_t> read;
    for (int node : part.outside) read.push_back(owner[static_cast<size_t>(node)]);
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

}  // namespace collage
}  // namespace tvm
