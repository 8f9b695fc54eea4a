// SPDX-License-Identifier: Apache-2.0
#include "reasons.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tvm::collage {
namespace {

// One that no candidate stands for.
Reason Told(int spec, std::string why, std::string message, std::string rule = "") {
  Reason reason;
  reason.spec = spec;
  reason.why = std::move(why);
  reason.message = std::move(message);
  reason.rule = std::move(rule);
  return reason;
}

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
      if (!HasCostToAsk(plan.candidates[id].candidate, specs)) continue;
      plan.candidates[id].candidate.sub_graph.inside().ForEach(
          [&](int index) { holding_[index].push_back(static_cast<int>(id)); });
    }
    for (size_t id = 0; id < plan.candidates.size(); ++id) Compare(static_cast<int>(id));
    refused_.resize(specs.size());
    for (size_t spec = 0; spec < specs.size(); ++spec) {
      FindRefusals(plan.logs[spec], &refused_[spec]);
    }
  }

  // The spec whose part holds the node.
  int SpecOf(NodeIndex index) const { return plan_.parts[part_of_[index]].candidate.spec; }
  bool IsKernelOfAPart(NodeIndex index) const {
    return graph_[index].IsKernel() && part_of_[index] >= 0;
  }

  Reason Why(NodeIndex index, int spec) const {
    if (!graph_[index].IsAllowedOn(specs_[spec].device)) {
      return Told(spec, "device", "the program wants it on " + graph_[index].device);
    }
    if (std::optional<Reason> reason = FromCosts(index, spec)) return *reason;
    if (const RuleLog::Refusal* refusal = refused_[spec][index]) {
      return Told(spec, "refused", refusal->reason + DynamicText(index), refusal->rule);
    }
    return FromTheNode(index, spec);
  }

 private:
  // Do parts of the plan tile the candidate, so that costs compare, and what are theirs?
  void Compare(int id) {
    instead_.push_back(Reason::kNotTiled);
    const PlannedPart& candidate = plan_.candidates[id];
    if (!HasCostToAsk(candidate.candidate, specs_) || !candidate.cost.IsUsable()) return;
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

  // For each node the refusal of the fewest nodes: it is the one most about this node.
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

  // The candidates that hold the node: the nearest to being chosen tells why.
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
        const double loss = candidate.cost.seconds - instead_[id];
        if (slower < 0 || loss < least) slower = id, least = loss;
      } else if (usable < 0) {
        usable = id;
      }
    }
    const auto tell = [&](const std::string& why, const std::string& message, int id) {
      Reason reason = Told(spec, why, message, plan_.candidates[id].candidate.rule);
      reason.candidate = id;
      if (why == "slower") reason.instead_seconds = instead_[id];
      return reason;
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

  // Often the cause of a refusal that gives no other.
  std::string DynamicText(NodeIndex index) const {
    for (const TensorType& type : graph_[index].types) {
      for (int64_t dim : type.shape) {
        if (dim == TensorType::kDynamic) return "; its shape is dynamic";
      }
    }
    return "";
  }

  Reason FromTheNode(NodeIndex index, int spec) const {
    const Node& node = graph_[index];
    if (!node.IsOpCall()) {
      return Told(spec, "partitioned", "a kernel's or a backend's function already");
    }
    const std::string message = "the backend has no pattern for it here" + DynamicText(index);
    return Told(spec, node.kind == OpKind::kOpaque ? "opaque" : "no_pattern", message);
  }

  const DataflowGraph& graph_;
  const std::vector<PartitionSpec>& specs_;
  const FunctionPlan& plan_;
  std::vector<int> part_of_;               // node -> part of the plan
  std::vector<std::vector<int>> holding_;  // node -> candidates that hold it
  std::vector<int> part_seen_by_;          // part -> the last candidate that Compare looked at
  std::vector<double> instead_;            // candidate -> seconds of the parts in its place
  std::vector<std::vector<const RuleLog::Refusal*>> refused_;  // spec, node -> the nearest refusal
};

}  // namespace

std::vector<Reason> ReasonsAgainst(const DataflowGraph& graph,
                                   const std::vector<PartitionSpec>& specs,
                                   const FunctionPlan& plan) {
  Explainer explain(graph, specs, plan);
  using Key = std::tuple<int, std::string, std::string, std::string, int>;
  std::map<Key, size_t> place_of;
  std::vector<Reason> reasons;
  const int host = static_cast<int>(specs.size()) - 1;
  graph.placeable().ForEach([&](NodeIndex index) {
    if (!explain.IsKernelOfAPart(index)) return;
    for (int spec = 0; spec < host; ++spec) {
      if (spec == explain.SpecOf(index)) continue;
      Reason reason = explain.Why(index, spec);
      const Key key{spec, reason.why, reason.message, reason.rule, reason.candidate};
      const auto [entry, is_new] = place_of.try_emplace(key, reasons.size());
      if (is_new) reasons.push_back(std::move(reason));
      reasons[entry->second].nodes.push_back(index);
    }
  });
  return reasons;
}

bool HasCostToAsk(const CandidatePartition& candidate, const std::vector<PartitionSpec>& specs) {
  const bool is_host = candidate.spec == static_cast<int>(specs.size()) - 1;
  return !is_host && !candidate.is_free && !candidate.stays_plain;
}

}  // namespace tvm::collage
