// SPDX-License-Identifier: Apache-2.0
#include "unplaced.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace tvm::collage {
namespace {

constexpr size_t kMostRows = 100;
constexpr double kNotTiled = -1;

/*! \brief What is known of one kernel and one backend. */
struct Reason {
  std::string why;
  std::string message;
  std::string rule;
  int candidate = -1;  // whose seconds are told
};

class Explainer {
 public:
  Explainer(const DataflowGraph& graph, const std::vector<PartitionSpec>& specs,
            const FunctionPlan& plan)
      : graph_(graph), specs_(specs), plan_(plan) {
    part_of_.assign(graph_.size(), -1);
    part_seen_by_.assign(plan.parts.size(), -1);
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      plan.parts[p].candidate.sub_graph.inside().ForEach(
          [&](int index) { part_of_[index] = static_cast<int>(p); });
    }
    holding_.resize(graph_.size());
    for (size_t id = 0; id < plan.candidates.size(); ++id) {
      if (!specs[plan.candidates[id].candidate.spec].is_external) continue;
      plan.candidates[id].candidate.sub_graph.inside().ForEach(
          [&](int index) { holding_[index].push_back(static_cast<int>(id)); });
    }
    for (size_t id = 0; id < plan.candidates.size(); ++id) Compare(static_cast<int>(id));
    refused_.resize(specs.size());
    for (size_t spec = 0; spec < specs.size(); ++spec) {
      if (specs[spec].is_external) FindRefusals(plan.logs[spec], &refused_[spec]);
    }
  }

  bool StaysOnTvm(NodeIndex index) const {
    return graph_[index].IsKernel() && part_of_[index] >= 0 &&
           !specs_[plan_.parts[part_of_[index]].candidate.spec].is_external;
  }

  const PlannedPart& PartOf(NodeIndex index) const { return plan_.parts[part_of_[index]]; }
  int PartNumber(NodeIndex index) const { return part_of_[index]; }

  Reason Why(NodeIndex index, int spec) const {
    if (!graph_[index].IsAllowedOn(specs_[spec].device)) {
      return {"device", "the program wants it on " + graph_[index].device, "", -1};
    }
    if (std::optional<Reason> reason = FromCosts(index, spec)) return *reason;
    if (const RuleLog::Refusal* refusal = refused_[spec][index]) {
      return {"refused", refusal->reason + DynamicText(index), refusal->rule, -1};
    }
    return FromTheNode(index);
  }

  double SecondsOf(int candidate) const { return plan_.candidates[candidate].cost.seconds; }
  /*! \brief Seconds of the parts that the plan has in place of a candidate that they tile. */
  double SecondsInPlaceOf(int candidate) const { return instead_[candidate]; }

  std::string OpOf(NodeIndex index) const {
    return graph_[index].IsOpCall() ? graph_[index].name : "call of a function";
  }

 private:
  /*! \brief Do parts of the plan tile the candidate, so that costs compare, and what are theirs? */
  void Compare(int id) {
    instead_.push_back(kNotTiled);
    const PlannedPart& candidate = plan_.candidates[id];
    if (!specs_[candidate.candidate.spec].is_external || !candidate.cost.IsUsable()) return;
    double seconds = 0;
    int num_nodes = 0;
    candidate.candidate.sub_graph.inside().ForEach([&](int index) {
      const int part = part_of_[index];
      if (part < 0 || part_seen_by_[part] == id) return;
      part_seen_by_[part] = id;
      seconds += plan_.parts[part].cost.seconds;
      num_nodes += plan_.parts[part].candidate.sub_graph.size();
    });
    if (num_nodes == candidate.candidate.sub_graph.size()) instead_[id] = seconds;
  }

  /*! \brief For each node the refusal of the fewest nodes: it is the one most about this node. */
  void FindRefusals(const RuleLog& log, std::vector<const RuleLog::Refusal*>* of_node) const {
    of_node->resize(graph_.size(), nullptr);
    std::vector<int> sizes(graph_.size(), 0);
    for (const RuleLog::Refusal& refusal : log.refusals) {
      const int size = refusal.inside.Count();
      refusal.inside.ForEach([&](int index) {
        if ((*of_node)[index] != nullptr && sizes[index] <= size) return;
        (*of_node)[index] = &refusal;
        sizes[index] = size;
      });
    }
  }

  /*! \brief The candidates that hold the node: the nearest to being chosen tells why. */
  std::optional<Reason> FromCosts(NodeIndex index, int spec) const {
    int slower = -1, usable = -1, unknown = -1, failed = -1;
    double least = 0;
    for (int id : holding_[index]) {
      const PlannedPart& candidate = plan_.candidates[id];
      if (candidate.candidate.spec != spec) continue;
      if (candidate.cost.status.empty()) {
        if (unknown < 0) unknown = id;
      } else if (!candidate.cost.IsUsable()) {
        if (failed < 0) failed = id;
      } else if (instead_[id] >= 0) {
        const double loss = SecondsOf(id) - SecondsInPlaceOf(id);
        if (slower < 0 || loss < least) slower = id, least = loss;
      } else if (usable < 0) {
        usable = id;
      }
    }
    const auto tell = [&](const std::string& why, const std::string& message, int id) {
      return Reason{why, message, plan_.candidates[id].candidate.rule, id};
    };
    if (slower >= 0 && least >= 0) {
      return tell("slower", "what the plan has in its place is as fast or faster", slower);
    }
    if (slower >= 0) {
      return tell("no_better_plan", "faster by itself, but not with its neighbours and borders",
                  slower);
    }
    if (usable >= 0) {
      return tell("no_better_plan", "measured, and no plan with it is faster", usable);
    }
    if (failed >= 0) {
      const EstimatedCost& cost = plan_.candidates[failed].cost;
      return tell(cost.status, cost.message, failed);
    }
    if (unknown < 0) return std::nullopt;
    return tell("not_measured", WhyUnknown(plan_.candidates[unknown].cost), unknown);
  }

  std::string WhyUnknown(const EstimatedCost& cost) const {
    if (!cost.message.empty()) return cost.message;
    return plan_.is_optimal ? "even if it took no time, no plan with it would be faster"
                            : "the plan was found without its cost";
  }

  /*! \brief Often the cause of a refusal that gives no other. */
  std::string DynamicText(NodeIndex index) const {
    for (const TensorType& type : graph_[index].types) {
      for (int64_t dim : type.shape) {
        if (dim == TensorType::kDynamic) return "; its shape is dynamic";
      }
    }
    return "";
  }

  Reason FromTheNode(NodeIndex index) const {
    const Node& node = graph_[index];
    if (!node.IsOpCall()) {
      return {"partitioned", "a kernel's or a backend's function already", "", -1};
    }
    const std::string message = "the backend has no pattern for it here" + DynamicText(index);
    return {node.kind == OpKind::kOpaque ? "opaque" : "no_pattern", message, "", -1};
  }

  const DataflowGraph& graph_;
  const std::vector<PartitionSpec>& specs_;
  const FunctionPlan& plan_;
  std::vector<int> part_of_;               // node -> part of the plan
  std::vector<std::vector<int>> holding_;  // node -> external candidates that hold it
  std::vector<int> part_seen_by_;          // part -> the last candidate that Compare looked at
  std::vector<double> instead_;            // candidate -> seconds of the parts in its place
  std::vector<std::vector<const RuleLog::Refusal*>> refused_;  // spec, node -> the nearest refusal
};

/*! \brief A row that grows; parts and candidates count once in it. */
struct Group {
  Unplaced row;
  std::set<int> parts;
  std::set<int> candidates;
};

}  // namespace

UnplacedReport WhyUnplaced(const DataflowGraph& graph, const std::vector<PartitionSpec>& specs,
                           const FunctionPlan& plan) {
  Explainer explain(graph, specs, plan);
  using Key = std::tuple<std::string, int, std::string, std::string, std::string, double, double>;
  std::map<Key, Group> groups;
  graph.placeable().ForEach([&](NodeIndex index) {
    if (!explain.StaysOnTvm(index)) return;
    for (size_t spec = 0; spec < specs.size(); ++spec) {
      if (!specs[spec].is_external) continue;
      const Reason reason = explain.Why(index, static_cast<int>(spec));
      const bool is_slower = reason.why == "slower";
      Unplaced first{explain.OpOf(index), specs[spec].name, reason.why, reason.message,
                     reason.rule};
      if (is_slower) {
        first.backend_seconds = explain.SecondsOf(reason.candidate);
        first.instead_seconds = explain.SecondsInPlaceOf(reason.candidate);
      }
      const Key key{first.op,
                    static_cast<int>(spec),
                    first.why,
                    first.message,
                    first.rule,
                    first.backend_seconds,
                    first.instead_seconds};
      Group& group = groups.try_emplace(key, Group{std::move(first), {}, {}}).first->second;
      Unplaced& row = group.row;
      ++row.count;
      if (group.parts.insert(explain.PartNumber(index)).second) {
        row.seconds += explain.PartOf(index).cost.seconds;
      }
      if (is_slower && group.candidates.insert(reason.candidate).second) ++row.regions;
    }
  });
  UnplacedReport report;
  for (auto& [key, group] : groups) report.rows.push_back(std::move(group.row));
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (size_t k = kMostRows; k < report.rows.size(); ++k) {
    report.num_left_out += report.rows[k].count;
  }
  if (report.rows.size() > kMostRows) report.rows.resize(kMostRows);
  return report;
}

}  // namespace tvm::collage
