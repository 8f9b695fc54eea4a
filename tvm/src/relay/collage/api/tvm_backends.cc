// SPDX-License-Identifier: Apache-2.0
#include "tvm_backends.h"

#include <string>
#include <utility>

#include "../relay/identity.h"
#include "../relay/rewrite.h"
#include "../rules/work_estimate.h"

namespace tvm::collage {
namespace {

std::vector<PartitionSpec> SpecsOf(const std::vector<TargetSpec>& targets) {
  std::vector<PartitionSpec> specs;
  for (const TargetSpec& target : targets) specs.push_back(target.spec);
  return specs;
}

/*! \brief Not by ir.OpHasAttr, which tells whether any op has the attribute. */
bool OpHas(const ObjectRef& call, const char* attribute) {
  TVMRetValue value = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
  return value.type_code() != kTVMNullptr;
}

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
  std::vector<CostRequest> requests;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    const TargetSpec& target = targets_[candidate.spec];
    CostRequest request;
    request.target = target.target;
    request.signature = question.signature;
    if (ArePricesCheap()) {
      request.num_calls = NumOpCalls(graph, candidate.sub_graph);
      request.operations = WorkOf(graph, candidate.sub_graph);
      request.bytes = BytesOf(graph, candidate.sub_graph);
    } else {
      request.label = LabelOf(graph, candidate, target.spec.name);
      request.module = [this, &candidate, &target] {
        return CandidateModule(imported_, candidate.sub_graph, candidate.is_primitive,
                               target.spec.name);
      };
    }
    requests.push_back(std::move(request));
  }
  return estimator_.value()->Estimate(requests);
}

std::vector<double> TvmBackends::LeastSeconds(const DataflowGraph& graph,
                                              const std::vector<CostQuestion>& questions) const {
  if (estimator_.value()->bound == nullptr) return {};
  std::vector<BoundRequest> requests;
  for (const CostQuestion& question : questions) {
    const CandidatePartition& candidate = question.candidate;
    const bool is_call = SpecOf(candidate).is_external && candidate.is_primitive;
    requests.push_back(
        {LeastWorkOf(graph, candidate.sub_graph, is_call), targets_[candidate.spec].target});
  }
  return estimator_.value()->Bounds(requests, targets_.back().target);
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
  return estimator_.value()->Transitions(types, targets_.back().target);
}

double TvmBackends::SecondsWaited() const { return CallGlobal("tvm.relay.collage.seconds_waited"); }

}  // namespace tvm::collage
