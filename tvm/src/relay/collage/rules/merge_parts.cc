// SPDX-License-Identifier: Apache-2.0
#include "merge_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../graph/quotient.h"
#include "region_merger.h"

namespace tvm::collage {
namespace {

using Parts = std::vector<CandidatePartition>;
using Region = std::vector<const SubGraph*>;

CandidatePartition Joined(const DataflowGraph& graph, const Region& tiles, int spec) {
  // All at once: unions one by one would copy the tiles so far for each tile.
  IndexSet inside(graph.size());
  std::vector<NestedSubGraph> nested;
  for (const SubGraph* tile : tiles) {
    inside |= tile->inside();
    nested.insert(nested.end(), tile->nested().begin(), tile->nested().end());
  }
  CandidatePartition part;
  part.sub_graph = SubGraph::Make(graph, std::move(inside), std::move(nested));
  part.spec = spec;
  part.rule = kMergedRule;
  part.is_primitive = true;
  return part;
}

/*! \brief Chooses the joined parts that let all parts run one after the other. */
class Joiner {
 public:
  Joiner(const DataflowGraph& graph, const Parts& parts, const Parts& joined)
      : graph_(graph), parts_(parts), joined_(joined), is_joined_(joined.size(), false) {
    std::vector<int> holder(graph.size(), -1);
    for (size_t k = 0; k < joined.size(); ++k) {
      joined[k].sub_graph.inside().ForEach([&](NodeIndex i) { holder[i] = static_cast<int>(k); });
    }
    for (const CandidatePartition& part : parts) {
      joined_of_.push_back(holder[part.sub_graph.inside().First()]);
    }
  }

  /*!
   * \brief Joins those of [begin, end) one after the other, each if it can. Where all can, none
   * stands in the way of another (a cycle among some would be one among all, as in no joined part
   * its tiles feed each other in a circle), so halves are looked at only where they cannot.
   */
  void Join(size_t begin, size_t end) {
    if (begin == end) return;
    std::fill(is_joined_.begin() + begin, is_joined_.begin() + end, true);
    if (FindCycle(graph_, Sets()).empty()) return;
    std::fill(is_joined_.begin() + begin, is_joined_.begin() + end, false);
    if (end - begin == 1) return;
    const size_t middle = begin + (end - begin) / 2;
    Join(begin, middle);
    Join(middle, end);
  }

  Parts Result() const {
    Parts result;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!IsInJoined(p)) result.push_back(parts_[p]);
    }
    for (size_t k = 0; k < joined_.size(); ++k) {
      if (is_joined_[k]) result.push_back(joined_[k]);
    }
    return result;
  }

 private:
  bool IsInJoined(size_t part) const {
    return joined_of_[part] >= 0 && is_joined_[joined_of_[part]];
  }
  std::vector<IndexSet> Sets() const {
    std::vector<IndexSet> sets;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!IsInJoined(p)) sets.push_back(parts_[p].sub_graph.inside());
    }
    for (size_t k = 0; k < joined_.size(); ++k) {
      if (is_joined_[k]) sets.push_back(joined_[k].sub_graph.inside());
    }
    return sets;
  }

  const DataflowGraph& graph_;
  const Parts& parts_;
  const Parts& joined_;
  std::vector<int> joined_of_;  // of a part, -1 for none
  std::vector<bool> is_joined_;
};

}  // namespace

Parts MergeParts(const DataflowGraph& graph, const Parts& parts, MergeScope scope) {
  std::map<int, std::vector<const SubGraph*>> tiles_of_spec;
  for (const CandidatePartition& part : parts) {
    if (!part.is_primitive) continue;
    if (scope == MergeScope::kAll || part.is_joinable)
      tiles_of_spec[part.spec].push_back(&part.sub_graph);
  }
  Parts joined;
  for (const auto& [spec, tiles] : tiles_of_spec) {
    for (const Region& region : RegionMerger(graph, tiles).Merge()) {
      if (region.size() > 1) joined.push_back(Joined(graph, region, spec));
    }
  }
  Joiner joiner(graph, parts, joined);
  joiner.Join(0, joined.size());
  return joiner.Result();
}

}  // namespace tvm::collage
