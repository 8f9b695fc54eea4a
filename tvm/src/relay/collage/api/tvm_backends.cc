// SPDX-License-Identifier: Apache-2.0
#include "tvm_backends.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "../relay/identity.h"
#include "../relay/rewrite.h"
#include "../rules/work_estimate.h"
#include "../search/cover_problem.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(CostEstimator::ContainerType);

namespace {

// `functions`: by the names of EstimatorFunctions; one that is null is left out.
CostEstimator MakeCostEstimator(Map<String, PackedFunc> functions) {
  const auto named = [&](const char* name) {
    return functions.Get(name).value_or(PackedFunc(nullptr));
  };
  return CostEstimator({named("network"), named("estimate"), named("price"), named("observe"),
                        named("transition"), named("bound"), named("foresee")});
}

TVM_REGISTER_GLOBAL("collage.MakeCostEstimator").set_body_typed(MakeCostEstimator);

std::vector<PartitionSpec> SpecsOf(const std::vector<TargetSpec>& targets) {
  std::vector<PartitionSpec> specs;
  for (const TargetSpec& target : targets) specs.push_back(target.spec);
  return specs;
}

// Not by ir.OpHasAttr, which tells whether any op has the attribute.
bool OpHas(const ObjectRef& call, const char* attribute) {
  TVMRetValue value = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
  return value.type_code() != kTVMNullptr;
}

Json WorkJson(int num_calls, double operations, double bytes) {
  return JsonObject({{"num_calls", num_calls}, {"operations", operations}, {"bytes", bytes}});
}

Json WorkJson(const DataflowGraph& graph, const SubGraph& sub_graph) {
  return WorkJson(NumOpCalls(graph, sub_graph), WorkOf(graph, sub_graph),
                  BytesOf(graph, sub_graph));
}

// CostQuestions of estimators/estimator.py, and the targets that they name by their places.
class QuestionsOfWork {
 public:
  void Add(const CostQuestion& question, const Json& work, const ObjectRef& target) {
    const auto [place, is_new] = places_.emplace(target.get(), static_cast<int>(targets_.size()));
    if (is_new) targets_.push_back(target);
    questions_.push_back(JsonObject({{"signature", question.signature},
                                     {"work", work},
                                     {"target", place->second},
                                     {"nodes", question.candidate.sub_graph.inside()}}));
  }
  String text() const { return Json(questions_).text(); }
  const Array<ObjectRef>& targets() const { return targets_; }

 private:
  std::vector<Json> questions_;
  Array<ObjectRef> targets_;
  std::map<const Object*, int> places_;
};

std::vector<double> NumbersOf(const std::string& text) {
  const JsonValue list = JsonValue::Parse(text);
  std::vector<double> numbers;
  for (const JsonValue& number : list.Items()) numbers.push_back(number.Real());
  return numbers;
}

// A Work of work.py.
String WorkOfFunction(const ObjectRef& function) {
  const ImportedPtr imported = ImportFunction(function);
  const DataflowGraph& graph = imported->graph;
  return WorkJson(graph, SubGraph::Make(graph, graph.placeable())).text();
}

TVM_REGISTER_GLOBAL("collage.WorkOfFunction").set_body_typed(WorkOfFunction);

// The calls of operators whose results a node reads, those inside of tuples as well.
void AppendCallsRead(const DataflowGraph& graph, NodeIndex index, std::vector<int>* calls) {
  for (NodeIndex arg : graph.Args(index)) {
    const NodeType type = graph[arg].type;
    if (graph[arg].IsOpCall()) calls->push_back(arg);
    if (type == NodeType::kTuple || type == NodeType::kProjection) {
      AppendCallsRead(graph, arg, calls);
    }
  }
}

// OperatorCalls of shares.py: operations and bytes, as a kernel of its own has them.
String WorkOfCalls(const ObjectRef& function) {
  const ImportedPtr imported = ImportFunction(function);
  const DataflowGraph& graph = imported->graph;
  std::vector<Json> calls;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (!graph[i].IsOpCall()) continue;
    std::vector<int> inputs;
    AppendCallsRead(graph, i, &inputs);
    double work = WorkOf(graph, i) + static_cast<double>(graph[i].NumBytes());
    for (NodeIndex arg : graph.Args(i)) work += static_cast<double>(graph[arg].NumBytes());
    calls.push_back(JsonObject({{"node", i}, {"inputs", inputs}, {"work", work}}));
  }
  return Json(calls).text();
}

TVM_REGISTER_GLOBAL("collage.WorkOfCalls").set_body_typed(WorkOfCalls);

}  // namespace

TvmBackends::TvmBackends(const ImportedFunction& imported, std::vector<TargetSpec> targets,
                         const Optional<CostEstimator>& estimator)
    : Backends(SpecsOf(targets)),
      imported_(imported),
      targets_(std::move(targets)),
      estimator_(estimator),
      scope_(&imported_, &specs()) {}

std::vector<CandidatePartition> TvmBackends::AskRule(const DataflowGraph& graph, int spec,
                                                     RuleLog* log) const {
  auto raise = [&](const std::string& what) {
    ThrowUserError("RuntimeError", "backend " + specs()[spec].name + ": its rule " +
                                       specs()[spec].rule->Summary() + " raised " + what);
  };
  try {
    return Backends::AskRule(graph, spec, log);
  } catch (const dmlc::Error&) {
    throw;  // carries a Python exception, an error of ours too, or is an internal one
  } catch (const std::exception& error) {
    raise(error.what());
  } catch (...) {
    raise("what is no std::exception");
  }
  return {};
}

Signatures TvmBackends::SignaturesOf(const DataflowGraph&) const {
  return collage::SignaturesOf(imported_);
}

bool TvmBackends::ArePricesCheap() const { return estimator_.value()->price != nullptr; }

std::vector<EstimatedCost> TvmBackends::Price(const DataflowGraph& graph,
                                              const std::vector<CostQuestion>& questions) const {
  const String text = ArePricesCheap() ? PriceByWork(graph, questions) : Measure(graph, questions);
  const JsonValue answers = JsonValue::Parse(text);
  std::vector<EstimatedCost> costs;
  for (const JsonValue& answer : answers.Items()) costs.push_back(EstimatedCost::Of(answer));
  if (costs.size() != questions.size()) {
    ThrowUserError("ValueError", "the cost estimator was asked for " +
                                     std::to_string(questions.size()) + " costs and gave " +
                                     std::to_string(costs.size()));
  }
  return costs;
}

String TvmBackends::Measure(const DataflowGraph& graph,
                            const std::vector<CostQuestion>& questions) const {
  Array<ObjectRef> mods;
  Array<ObjectRef> targets;
  Array<String> labels;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    const TargetSpec& target = targets_[candidate.spec];
    mods.push_back(
        CandidateModule(imported_, candidate.sub_graph, candidate.is_primitive, target.spec.name));
    targets.push_back(target.target);
    labels.push_back(LabelOf(graph, candidate, target.spec.name));
  }
  return FromPython(estimator_.value()->estimate(mods, targets, labels));
}

String TvmBackends::PriceByWork(const DataflowGraph& graph,
                                const std::vector<CostQuestion>& questions) const {
  QuestionsOfWork asked;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    asked.Add(question, WorkJson(graph, candidate.sub_graph), targets_[candidate.spec].target);
  }
  return FromPython(estimator_.value()->price(asked.text(), asked.targets()));
}

std::vector<double> TvmBackends::LeastSeconds(const DataflowGraph& graph,
                                              const std::vector<CostQuestion>& questions) const {
  if (estimator_.value()->bound == nullptr) return {};
  QuestionsOfWork asked;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    const bool is_call = SpecOf(candidate).is_external && candidate.is_primitive;
    const LeastWork least = LeastWorkOf(graph, candidate.sub_graph, is_call);
    asked.Add(question, WorkJson(least.is_launched, least.operations, 0),
              targets_[candidate.spec].target);
  }
  const String text =
      FromPython(estimator_.value()->bound(asked.text(), asked.targets(), targets_.back().target));
  const std::vector<double> bounds = NumbersOf(text);
  const bool are_usable = std::all_of(bounds.begin(), bounds.end(), IsUsableSeconds);
  if (bounds.size() != questions.size() || !are_usable) {
    ThrowUserError("ValueError",
                   "the cost estimator's least_seconds gives seconds >= 0 for each of " +
                       std::to_string(questions.size()) + " candidates");
  }
  return bounds;
}

Foresight TvmBackends::Foresee(const DataflowGraph& graph,
                               const std::vector<CostQuestion>& questions, bool sharply) const {
  if (estimator_.value()->foresee == nullptr) return {};
  QuestionsOfWork asked;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    asked.Add(question, WorkJson(graph, candidate.sub_graph), targets_[candidate.spec].target);
  }
  const String text =
      FromPython(estimator_.value()->foresee(asked.text(), asked.targets(), sharply));
  const JsonValue answer = JsonValue::Parse(text);
  Foresight foresight;
  for (const JsonValue& each : answer["least"].Items()) foresight.least.push_back(each.Real());
  for (const JsonValue& each : answer["likely"].Items()) foresight.likely.push_back(each.Real());
  foresight.rival_seconds = answer["rival_seconds"].Real();
  foresight.is_final = answer["is_final"].Bool();
  foresight.is_rough = answer["is_rough"].Bool();
  foresight.asking_seconds = answer["asking_seconds"].Real();
  for (const std::vector<double>* each : {&foresight.least, &foresight.likely}) {
    ICHECK_EQ(each->size(), questions.size()) << "candidates that are not foreseen";
  }
  return foresight;
}

bool TvmBackends::HasTransitions() const {
  return estimator_ && estimator_.value()->transition != nullptr;
}

LayoutRole TvmBackends::RoleOf(NodeIndex call) const {
  const ObjectRef& expr = imported_.exprs[call];
  if (OpHas(expr, "FTVMAlterOpLayout")) return LayoutRole::kRewritten;
  return OpHas(expr, "FInferCorrectLayout") ? LayoutRole::kFollows : LayoutRole::kPlain;
}

std::vector<double> TvmBackends::TransitionSeconds(const std::vector<NodeIndex>& values) const {
  Array<ObjectRef> types;
  for (NodeIndex i : values) types.push_back(RefField(imported_.exprs[i], "_checked_type_"));
  const String text = FromPython(estimator_.value()->transition(types, targets_.back().target));
  const std::vector<double> seconds = NumbersOf(text);
  ICHECK_EQ(seconds.size(), types.size()) << "the cost estimator left transitions out";
  for (double each : seconds) {
    ICHECK(std::isfinite(each) && each >= 0) << "a transition costs " << each << " seconds";
  }
  return seconds;
}

double TvmBackends::SecondsWaited() const { return CallGlobal("tvm.relay.collage.seconds_waited"); }

}  // namespace tvm::collage
