// SPDX-License-Identifier: Apache-2.0
// Everything that must happen once after libtvm_collage.so is loaded, in one call from Python.
// Precondition: libtvm.so of the pinned release is loaded; a static initialiser that throws would
// end the process, so static ones only register functions. Test:
// tvm/tests/python/collage/test_base_package.py.
#include "options.h"

namespace tvm::collage {
namespace {

// Global functions of the base package that this library calls; Init checks that they exist.
constexpr const char* kNeededGlobals[] = {
    "ir.BaseFuncWithAttr",
    "ir.GlobalVar",
    "ir.IRModule",
    "ir.OpGetAttr",
    "node.MakeNode",
    "relay._transform.InferType",
    "relay.ir.Call",
    "relay.ir.Function",
    "relay.ir.If",
    "relay.ir.Let",
    "relay.ir.Tuple",
    "relay.ir.TupleGetItem",
    "relay.ir.Var",
    "target.ListTargetKinds",
    "transform.GetCurrentPassContext",
    "transform.ListConfigs",
    "transform.MakeModulePass",
    "transform.RunPass",
};

// Names of TVM's prototype, and what answers to them from now on.
constexpr std::pair<const char*, const char*> kReplaced[] = {
    {"relay._transform.CollagePartition", "collage.CollagePartition"},
    {"relay.collage.MakeLabelledDFPatternPartitionRule", "collage.MakePatternEntry"},
    {"relay.collage.MakeLabelledDFPatternPartitionRuleWithPredicate",
     "collage.MakePatternEntryWithPredicate"},
    {"relay.collage.MakePatternBYOCPartitionRule", "collage.MakePatternBackendRule"},
};

void Init() {
  static bool is_done = false;
  if (is_done) return;
  for (const char* name : kNeededGlobals) Global(name);
  for (const auto& [theirs, ours] : kReplaced) {
    constexpr bool kCanOverride = true;
    runtime::Registry::Register(theirs, kCanOverride).set_body(PackedFunc(Global(ours)));
  }
  RegisterPassOptions();
  is_done = true;
}

TVM_REGISTER_GLOBAL("collage.Init").set_body_typed(Init);

}  // namespace
}  // namespace tvm::collage
