// SPDX-License-Identifier: Apache-2.0
// Everything that must happen once after libtvm_collage.so is loaded, in one call from Python.
// Precondition: libtvm.so of the pinned release is loaded; a static initialiser that throws would
// end the process, so static ones only register functions. Test: relay/test_base_package.py.
#include "backend_rules.h"
#include "options.h"

namespace tvm::collage {
namespace {

// Global functions of the base package that this library calls; Init checks that they exist.
constexpr const char* kNeededGlobals[] = {
    "ir.BaseFuncWithAttr",
    "ir.FloatImm",
    "ir.GetOp",
    "ir.GlobalVar",
    "ir.IRModule",
    "ir.IntImm",
    "ir.Module_Add",
    "ir.Module_Clone",
    "ir.Module_Lookup",
    "ir.OpGetAttr",
    "ir.OpHasAttr",
    "ir.TupleType",
    "node.MakeNode",
    "node.StructuralEqual",
    "node.StructuralHash",
    "relay._transform.InferType",
    "relay.ir.Bind",
    "relay.ir.Call",
    "relay.ir.CallWithFields",
    "relay.ir.Clause",
    "relay.ir.Function",
    "relay.ir.FunctionWithFields",
    "relay.ir.IfWithFields",
    "relay.ir.LetWithFields",
    "relay.ir.Match",
    "relay.ir.RefCreateWithFields",
    "relay.ir.RefReadWithFields",
    "relay.ir.RefWriteWithFields",
    "relay.ir.Tuple",
    "relay.ir.TupleGetItem",
    "relay.ir.TupleGetItemWithFields",
    "relay.ir.TupleWithFields",
    "relay.ir.Var",
    "target.ListTargetKindOptionsFromName",
    "target.ListTargetKinds",
    "target.Target",
    "target.TargetGetDeviceType",
    "target.TargetKindGetAttr",
    "transform.GetCurrentPassContext",
    "transform.ListConfigs",
    "transform.MakeModulePass",
    "transform.PassInfo",
    "transform.RunPass",
};

// Names of TVM's prototype, and what answers to them from now on.
constexpr std::pair<const char*, const char*> kReplaced[] = {
    {"relay._transform.CollagePartition", "collage.CollagePartition"},
    {"relay.collage.PartitionForTesting", "collage.PartitionForTesting"},
    {"relay.collage.MakeLabelledDFPatternPartitionRule", "collage.MakeBarePatternEntry"},
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
  RegisterPartitionRuleAttribute();
  is_done = true;
}

TVM_REGISTER_GLOBAL("collage.Init").set_body_typed(Init);

}  // namespace
}  // namespace tvm::collage
