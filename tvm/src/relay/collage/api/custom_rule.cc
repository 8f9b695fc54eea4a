// SPDX-License-Identifier: Apache-2.0
// A rule written in Python: it looks at a view of the graph and gives sub-graphs of it.
// Precondition: it runs inside an ImportScope. Test: rules/test_custom.py.
#include "../relay/fields.h"
#include "rule_objects.h"
#include "user_functions.h"
#include "view_objects.h"

namespace tvm::collage {
namespace {

class Custom : public PartitionRule {
 public:
  // `find`: (graph, backend) -> sub-graphs, or a text that says why there are none.
  Custom(std::string name, PackedFunc find)
      : PartitionRule(std::move(name)), find_(std::move(find)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    const ImportScope& scope = ImportScope::Current();
    const std::string& backend = scope.BackendOf(spec);
    TVMRetValue found =
        find_(DataflowGraphView({scope.imported().shared_from_this()}), String(backend));
    if (found.type_code() == kTVMStr) {
      log->Refuse(name(), graph.placeable(), found);
      return {};
    }
    CandidateSet result;
    for (const SubGraphView& view : Array<SubGraphView>(FromPython(found))) {
      if (view->imported.get() != &scope.imported()) {
        ThrowUserError("ValueError",
                       "rule " + name() + " of backend " + backend +
                           " gave a sub-graph of another graph than it was asked for");
      }
      CandidatePartition candidate{view->sub_graph, spec, name()};
      if (IsValidOrRefused(graph, candidate, {}, log)) result.Add(std::move(candidate));
    }
    return result.Take();
  }

  std::string Summary() const override { return "Custom(" + name() + ")"; }

 private:
  PackedFunc find_;
};

TVM_REGISTER_GLOBAL("collage.rules.Custom").set_body_typed([](String name, PackedFunc find) {
  return PartitionRuleRef(RulePtr(std::make_shared<Custom>(name, find)));
});

}  // namespace
}  // namespace tvm::collage
