// SPDX-License-Identifier: Apache-2.0
// Dynamic programming over positions. Every move goes to a later position, so a position's states
// are final when it is reached.
#include "position_search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "search_state.h"
#include "successors.h"

namespace tvm::collage {
namespace {

class Pass : public SuccessorSink {
 public:
  Pass(const PartTable& parts, const DualBound& bound, const PassLimits& limits)
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
      result_.parts = trail_.PartsTo(LinkOf(end.way(0)));  // by first nodes
    }
    return std::move(result_);
  }

  void OnSuccessor(const SearchState& next, Ticks cost, int part) override {
    ++result_.generated;
    const Way way{AddTicks(way_.cost, cost), way_.num_parts + 1, link_, part};
    if (way.cost > limits_.upper_bound) {
      ++result_.bounded;
      return;
    }
    TableAt(next.position).Offer(next, way, trail_);
  }

 private:
  StateTable& TableAt(int position) {
    std::unique_ptr<StateTable>& table = tables_[position];
    if (!table) table = std::make_unique<StateTable>(position, limits_.max_states);
    return *table;
  }

  // A link to the way's last part; the root's has none.
  int LinkOf(const Way& way) {
    return way.num_parts == 0 ? Trail::kRoot : trail_.Append(way.link, way.part);
  }

  void ExpandAll(int position) {
    const std::unique_ptr<StateTable> table = std::move(tables_[position]);
    if (!table) return;
    table->CutToLimit();
    result_.first_uncovered = position;
    result_.widest = std::max(result_.widest, table->most_held());
    result_.cut += table->num_cut();
    result_.least_cut_cost = std::min(result_.least_cut_cost, table->least_cut_cost());
    for (size_t index = 0; index < table->size(); ++index) {
      const SearchState state = table->State(index);
      ++result_.expanded;
      way_ = table->way(index);
      link_ = LinkOf(way_);
      successors_.Visit(state, limits_.upper_bound - way_.cost, this);
    }
  }

  const PassLimits limits_;
  const int num_nodes_;
  Successors successors_;
  std::vector<std::unique_ptr<StateTable>> tables_;
  Trail trail_;
  Way way_;  // to the state being expanded
  int link_ = Trail::kRoot;
  PassResult result_;
};

}  // namespace

PassResult RunPass(const PartTable& parts, const DualBound& bound, const PassLimits& limits) {
  return Pass(parts, bound, limits).Run();
}

}  // namespace tvm::collage
