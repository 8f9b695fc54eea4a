// SPDX-License-Identifier: Apache-2.0
#include "cost_estimator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include "../relay/fields.h"
#include "../relay/import_relay.h"
#include "../rules/work_estimate.h"

namespace tvm::collage {
namespace {

// As costs/cost.py lists them.
constexpr const char* kStatuses[] = {"unknown",     "measured",     "estimated", "compile_failed",
                                     "run_failed",  "timeout",      "crashed",   "wrong_result",
                                     "unsupported", "machine_fault"};

void Check(const EstimatedCost& cost) {
  if (std::find(std::begin(kStatuses), std::end(kStatuses), cost.status) == std::end(kStatuses)) {
    ThrowUserError("ValueError", "the cost estimator gave the status '" + cost.status +
                                     "', which is none of measure.STATUSES");
  }
  if (cost.IsUsable() && !(std::isfinite(cost.seconds) && cost.seconds >= 0)) {
    ThrowUserError("ValueError", "the cost estimator gave " + std::to_string(cost.seconds) +
                                     " seconds as " + cost.status +
                                     "; a cost is finite and not negative");
  }
}

// [calls of operators, operations, bytes]
Array<ObjectRef> WorkOfFunction(const ObjectRef& function) {
  const ImportedPtr imported = ImportFunction(function);
  const DataflowGraph& graph = imported->graph;
  const SubGraph all = SubGraph::Make(graph, graph.placeable());
  return {runtime::Int(NumOpCalls(graph, all)), runtime::Float(WorkOf(graph, all)),
          runtime::Float(BytesOf(graph, all))};
}

TVM_REGISTER_GLOBAL("collage.WorkOfFunction").set_body_typed(WorkOfFunction);

}  // namespace

TVM_REGISTER_OBJECT_TYPE(CostEstimatorNode);

CostEstimator::CostEstimator(PackedFunc estimate, PackedFunc price, PackedFunc observe,
                             PackedFunc transition) {
  auto node = runtime::make_object<CostEstimatorNode>();
  node->estimate = std::move(estimate);
  node->price = std::move(price);
  node->observe = std::move(observe);
  node->transition = std::move(transition);
  data_ = std::move(node);
}

std::vector<EstimatedCost> CostEstimatorNode::Estimate(
    const std::vector<CostRequest>& requests) const {
  std::vector<EstimatedCost> costs = price == nullptr ? Measure(requests) : Price(requests);
  if (costs.size() != requests.size()) {
    ThrowUserError("ValueError", "the cost estimator was asked for " +
                                     std::to_string(requests.size()) + " costs and gave " +
                                     std::to_string(costs.size()));
  }
  for (const EstimatedCost& cost : costs) Check(cost);
  return costs;
}

std::vector<EstimatedCost> CostEstimatorNode::Measure(
    const std::vector<CostRequest>& requests) const {
  Array<ObjectRef> mods;
  Array<ObjectRef> targets;
  Array<String> labels;
  for (const CostRequest& request : requests) {
    mods.push_back(request.module());
    targets.push_back(request.target);
    labels.push_back(request.label);
  }
  Array<Array<ObjectRef>> answers = FromPython(estimate(mods, targets, labels));
  std::vector<EstimatedCost> costs;
  for (const Array<ObjectRef>& answer : answers) {
    costs.push_back({runtime::Downcast<String>(answer[0]),
                     runtime::Downcast<runtime::Float>(answer[1])->value,
                     runtime::Downcast<String>(answer[2])});
  }
  return costs;
}

std::vector<EstimatedCost> CostEstimatorNode::Price(
    const std::vector<CostRequest>& requests) const {
  // As texts: boxing thousands of rows takes longer than the search.
  std::ostringstream rows;
  rows.precision(std::numeric_limits<double>::max_digits10);
  Array<ObjectRef> targets;
  std::map<const Object*, size_t> place_of;
  for (const CostRequest& request : requests) {
    const auto [found, is_new] = place_of.emplace(request.target.get(), targets.size());
    if (is_new) targets.push_back(request.target);
    rows << request.signature << ' ' << found->second << ' ' << request.num_calls << ' '
         << request.operations << ' ' << request.bytes << '\n';
  }
  const String text = FromPython(price(String(rows.str()), targets));
  std::istringstream answers{std::string(text)};
  std::vector<EstimatedCost> costs;
  for (std::string line; std::getline(answers, line);) {
    const size_t status_end = line.find('\t');
    const size_t seconds_end = line.find('\t', status_end + 1);
    costs.push_back({line.substr(0, status_end), std::strtod(line.c_str() + status_end, nullptr),
                     line.substr(seconds_end + 1)});
  }
  return costs;
}

std::vector<double> CostEstimatorNode::Transitions(const Array<ObjectRef>& types,
                                                   const ObjectRef& target) const {
  Array<runtime::Float> answers = FromPython(transition(types, target));
  ICHECK_EQ(answers.size(), types.size()) << "the cost estimator left transitions out";
  std::vector<double> seconds;
  for (const runtime::Float& answer : answers) {
    seconds.push_back(answer->value);
    ICHECK(std::isfinite(seconds.back()) && seconds.back() >= 0)
        << "a transition costs " << seconds.back() << " seconds";
  }
  return seconds;
}

TVM_REGISTER_GLOBAL("collage.MakeCostEstimator")
    .set_body_typed([](PackedFunc estimate, PackedFunc price, PackedFunc observe,
                       PackedFunc transition) {
      return CostEstimator(std::move(estimate), std::move(price), std::move(observe),
                           std::move(transition));
    });

}  // namespace tvm::collage
