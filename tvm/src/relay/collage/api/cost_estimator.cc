// SPDX-License-Identifier: Apache-2.0
#include "cost_estimator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "../graph/json.h"
#include "../relay/fields.h"
#include "../relay/import_relay.h"
#include "../rules/work_estimate.h"
#include "../search/cover_problem.h"

namespace tvm::collage {
namespace {

/*! \brief A Work of work.py. */
String WorkOfFunction(const ObjectRef& function) {
  const ImportedPtr imported = ImportFunction(function);
  const DataflowGraph& graph = imported->graph;
  const SubGraph all = SubGraph::Make(graph, graph.placeable());
  return JsonText({{"num_calls", NumOpCalls(graph, all)},
                   {"operations", WorkOf(graph, all)},
                   {"bytes", BytesOf(graph, all)}});
}

TVM_REGISTER_GLOBAL("collage.WorkOfFunction").set_body_typed(WorkOfFunction);

}  // namespace

TVM_REGISTER_OBJECT_TYPE(CostEstimatorNode);

CostEstimator::CostEstimator(PackedFunc estimate, PackedFunc price, PackedFunc observe,
                             PackedFunc transition, PackedFunc bound) {
  auto node = runtime::make_object<CostEstimatorNode>();
  node->estimate = std::move(estimate);
  node->price = std::move(price);
  node->observe = std::move(observe);
  node->transition = std::move(transition);
  node->bound = std::move(bound);
  data_ = std::move(node);
}

std::vector<EstimatedCost> CostEstimatorNode::Estimate(
    const std::vector<CostRequest>& requests) const {
  const JsonValue answers =
      JsonValue::Parse(price == nullptr ? Measure(requests) : Price(requests));
  std::vector<EstimatedCost> costs;
  for (const JsonValue& answer : answers.Items()) costs.push_back(EstimatedCost::Of(answer));
  if (costs.size() != requests.size()) {
    ThrowUserError("ValueError", "the cost estimator was asked for " +
                                     std::to_string(requests.size()) + " costs and gave " +
                                     std::to_string(costs.size()));
  }
  return costs;
}

String CostEstimatorNode::Measure(const std::vector<CostRequest>& requests) const {
  Array<ObjectRef> mods;
  Array<ObjectRef> targets;
  Array<String> labels;
  for (const CostRequest& request : requests) {
    mods.push_back(request.module());
    targets.push_back(request.target);
    labels.push_back(request.label);
  }
  return FromPython(estimate(mods, targets, labels));
}

String CostEstimatorNode::Price(const std::vector<CostRequest>& requests) const {
  std::vector<Json> questions;
  Array<ObjectRef> targets;
  std::map<const Object*, int> place_of;
  for (const CostRequest& request : requests) {
    const auto [found, is_new] =
        place_of.emplace(request.target.get(), static_cast<int>(targets.size()));
    if (is_new) targets.push_back(request.target);
    questions.push_back(JsonObject({{"signature", request.signature},
                                    {"target", found->second},
                                    {"num_calls", request.num_calls},
                                    {"operations", request.operations},
                                    {"bytes", request.bytes}}));
  }
  return FromPython(price(String(Json(questions).text()), targets));
}

std::vector<double> CostEstimatorNode::Transitions(const Array<ObjectRef>& types,
                                                   const ObjectRef& target) const {
  const String text = FromPython(transition(types, target));
  const JsonValue answers = JsonValue::Parse(text);
  ICHECK_EQ(answers.Items().size(), types.size()) << "the cost estimator left transitions out";
  std::vector<double> seconds;
  for (const JsonValue& answer : answers.Items()) {
    seconds.push_back(answer.Real());
    ICHECK(std::isfinite(seconds.back()) && seconds.back() >= 0)
        << "a transition costs " << seconds.back() << " seconds";
  }
  return seconds;
}

std::vector<double> CostEstimatorNode::Bounds(const std::vector<BoundRequest>& requests,
                                              const ObjectRef& host) const {
  std::vector<Json> questions;
  Array<ObjectRef> targets;
  std::map<const Object*, int> place_of;
  for (const BoundRequest& request : requests) {
    const auto [found, is_new] =
        place_of.emplace(request.target.get(), static_cast<int>(targets.size()));
    if (is_new) targets.push_back(request.target);
    questions.push_back(JsonObject({{"target", found->second},
                                    {"num_calls", int{request.work.is_launched}},
                                    {"operations", request.work.operations}}));
  }
  const String text = FromPython(bound(String(Json(questions).text()), targets, host));
  const JsonValue answers = JsonValue::Parse(text);
  std::vector<double> bounds;
  for (const JsonValue& answer : answers.Items()) bounds.push_back(answer.Real());
  const bool are_usable = std::all_of(bounds.begin(), bounds.end(), IsUsableSeconds);
  if (bounds.size() != requests.size() || !are_usable) {
    ThrowUserError("ValueError",
                   "the cost estimator's least_seconds gives seconds >= 0 for each of " +
                       std::to_string(requests.size()) + " candidates");
  }
  return bounds;
}

TVM_REGISTER_GLOBAL("collage.MakeCostEstimator")
    .set_body_typed([](PackedFunc estimate, PackedFunc price, PackedFunc observe,
                       PackedFunc transition, PackedFunc bound) {
      return CostEstimator(std::move(estimate), std::move(price), std::move(observe),
                           std::move(transition), std::move(bound));
    });

}  // namespace tvm::collage
