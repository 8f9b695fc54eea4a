// SPDX-License-Identifier: Apache-2.0
// Everything that must happen once after libtvm_collage.so is loaded, in one call from Python.
// Precondition: libtvm.so of the pinned release is loaded; a static initialiser that throws would
// end the process, so static ones only register functions. Test: relay/test_base_package.py.
#include "gather_specs.h"

namespace tvm::collage {
namespace {

// Names of TVM's prototype, and what answers to them from now on.
constexpr std::pair<const char*, const char*> kReplaced[] = {
    {"relay._transform.CollagePartition", "collage.CollagePartition"},
    {"relay.collage.PartitionForTesting", "collage.PartitionForTesting"},
};

void Init() {
  static bool is_done = false;
  if (is_done) return;
  for (const auto& [theirs, ours] : kReplaced) {
    constexpr bool kCanOverride = true;
    runtime::Registry::Register(theirs, kCanOverride).set_body(PackedFunc(Global(ours)));
  }
  RegisterPartitionRuleAttribute();
  is_done = true;
}

// Makes the PassContext accept options. Those that it knows already stay as they are.
// `boxes`: by option the type key of its values.
// `check`: (option, value) raises what is wrong with a value.
void RegisterOptions(Map<String, String> boxes, PackedFunc check) {
  const Map<String, ObjectRef> known = CallGlobal("transform.ListConfigs");
  for (const auto& entry : boxes) {
    const String option = entry.first;
    if (known.count(option)) continue;
    transform::PassContext::RegisterConfigOption(
        option.c_str(), Object::TypeKey2Index(entry.second), [option, check](ObjectRef value) {
          check(option, value);
          return value;
        });
  }
}

TVM_REGISTER_GLOBAL("collage.RegisterOptions").set_body_typed(RegisterOptions);
TVM_REGISTER_GLOBAL("collage.Init").set_body_typed(Init);

}  // namespace
}  // namespace tvm::collage
