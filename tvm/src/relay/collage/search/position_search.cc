// SPDX-License-Identifier: Apache-2.0
/*!
 * \file position_search.cc
 * \brief Dynamic programming over positions. Every move goes to a later position, so a position's
 * states are final when it is reached. Tested by tests/cpp/search_cover_test.cc.
 */
#include "position_search.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "search_state.h"
#include "successors.h"

namespace tvm {
namespace collage {

namespace {

class Pass : public SuccessorSink {
 public:
  Pass(const PartTable& parts, const ShareBound& bound, const PassLimits& limits)
      : limits_(limits),
        num_nodes_(parts.num_nodes()),
        successors_(parts, bound),
        tables_(static_cast<size_t>(parts.num_nodes()) + 1) {}

  PassResult Run() {
    TableAt(0).Offer(SearchState(), Way(), trail_);
    for (int position = 0; position < num_nodes_; ++position) ExpandAll(position);
    const StateTable& end = TableAt(num_nodes_);
    if (end.size() > 0) {
      result_.is_found = true;
      result_.cost = end.way(0).cost;
      result_.parts = trail_.PartsTo(end.way(0).link);  // by first nodes
    }
    return std::move(result_);
  }

  void OnSuccessor(const SearchState& next, Ticks cost, int part) override {
    ++result_.generated;
    Way way = way_;
    way.cost = AddTicks(way.cost, cost);
    if (way.cost > limits_.upper_bound) {
      ++result_.bounded;
      return;
    }
    ++way.num_parts;
    way.link = trail_.Append(way.link, part);
    if (!TableAt(next.position).Offer(next, way, trail_)) trail_.DropLast();
  }

 private:
  StateTable& TableAt(int position) {
    std::unique_ptr<StateTable>& table = tables_[static_cast<size_t>(position)];
    if (!table) table = std::make_unique<StateTable>();
    return *table;
  }

  void ExpandAll(int position) {
    const std::unique_ptr<StateTable> table = std::move(tables_[static_cast<size_t>(position)]);
    if (!table) return;
    result_.first_uncovered = position;
    result_.widest = std::max(result_.widest, static_cast<int64_t>(table->size()));
    for (size_t index : Kept(*table, position)) {
      const SearchState state = table->State(index, position);
      ++result_.expanded;
      way_ = table->way(index);
      successors_.Visit(state, this);
    }
  }

  /*! \brief The states to expand: all, or the most promising ones when there are too many. */
  std::vector<size_t> Kept(const StateTable& table, int position) {
    std::vector<size_t> kept(table.size());
    std::iota(kept.begin(), kept.end(), size_t{0});
    if (static_cast<int64_t>(kept.size()) <= limits_.max_states) return kept;
    std::stable_sort(kept.begin(), kept.end(),
                     [&](size_t a, size_t b) { return IsBetter(table.way(a), table.way(b)); });
    // A state that covers nothing past its position can always go on by single nodes, where these
    // are candidates: keep one, so that cutting does not lose every cover.
    const auto plain = std::find_if(kept.begin(), kept.end(), [&](size_t index) {
      return table.State(index, position).covered.IsEmptyFrom(position);
    });
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(limits_.max_states);
    if (plain != kept.end() && plain >= end) std::iter_swap(plain, end - 1);
    for (auto cut = end; cut != kept.end(); ++cut) {
      result_.least_cut_cost = std::min(result_.least_cut_cost, table.way(*cut).cost);
    }
    result_.cut += kept.end() - end;
    kept.erase(end, kept.end());
    return kept;
  }

  static bool IsBetter(const Way& a, const Way& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.num_parts < b.num_parts;
  }

  const PassLimits limits_;
  const int num_nodes_;
  Successors successors_;
  std::vector<std::unique_ptr<StateTable>> tables_;
  Trail trail_;
  Way way_;  // to the state being expanded
  PassResult result_;
};

}  // namespace

PassResult RunPass(const PartTable& parts, const ShareBound& bound, const PassLimits& limits) {
  return Pass(parts, bound, limits).Run();
}

}  // namespace collage
}  // namespace tvm
