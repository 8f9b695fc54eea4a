// SPDX-License-Identifier: Apache-2.0
#include "gather_specs.h"

#include <atomic>
#include <cstring>

#include "../graph/json.h"
#include "../relay/device_domains.h"
#include "../rules/base_rules.h"
#include "rule_objects.h"

namespace tvm::collage {
namespace {

constexpr char kPartitionRule[] = "partition_rule";

struct StockTargetKind {
  std::string name;
  Map<String, String> types;  // by option
};

// TVM's own target kinds and their options, both in its order, which ours would change.
std::vector<StockTargetKind>& StockTargetKinds() {
  static auto& kinds = *new std::vector<StockTargetKind>();
  return kinds;
}

String StockTargetKindsJson() {
  std::vector<Json> rows;
  for (const StockTargetKind& kind : StockTargetKinds()) {
    Attrs options;
    for (const auto& [name, type] : kind.types) options.emplace_back(name, std::string(type));
    rows.push_back(JsonObject({{"name", kind.name}, {"options", options}}));
  }
  return Json(rows).text();
}

// Makes a target kind accept the attribute `partition_rule`.
void AddPartitionRuleOption(const std::string& kind) {
  auto options = Map<String, String>(CallGlobal("target.ListTargetKindOptionsFromName", kind));
  if (options.count(kPartitionRule)) return;
  TargetKindRegEntry& entry = TargetKindRegEntry::RegisterOrGet(kind);
  entry.add_attr_option<String>(kPartitionRule);
  // An attribute that no kind has is an error to ask for; the empty name stands for no rule.
  TVMRetValue none;
  none = String("");
  entry.UpdateAttr(kPartitionRule, none, 1);
}

bool IsKind(const String& name) {
  for (const String& kind : Array<String>(CallGlobal("target.ListTargetKinds"))) {
    if (kind == name) return true;
  }
  return false;
}

// Makes `name` a target kind on the device type that TVM's CompilationConfig takes beside a host or
// device target. Kinds that exist already (TVM's own, or of an earlier call) stay as they are.
// Returns whether the kind is new.
bool RegisterTargetKind(const std::string& name, int device_type) {
  if (IsKind(name)) return false;
  TargetKindRegEntry& entry = TargetKindRegEntry::RegisterOrGet(name);
  // A kind's name and device type, which only TVM's inline functions could write.
  VisitFields(TargetKind::Get(name).value(), [&](const char* key, FieldPointer field) {
    if (std::strcmp(key, "name") == 0) *std::get<ObjectRef*>(field) = String(name);
    if (std::strcmp(key, "default_device_type") == 0) *std::get<int*>(field) = device_type;
  });
  // The attributes that every target kind has.
  entry.add_attr_option<Array<String>>("keys");
  entry.add_attr_option<String>("tag");
  entry.add_attr_option<String>("device");
  entry.add_attr_option<String>("model");
  entry.add_attr_option<Array<String>>("libs");
  entry.add_attr_option<Target>("host");
  entry.add_attr_option<runtime::Int>("from_device");
  entry.add_attr_option<runtime::Int>("target_device_type");
  AddPartitionRuleOption(name);
  TVMRetValue yes;
  yes = ObjectRef(runtime::Bool(true));
  entry.UpdateAttr("is_external_codegen", yes, 10);
  return true;
}

// Makes the kind accept these attributes, by name: "bool", "int" or "str". Those that it accepts
// already stay as they are.
void AddTargetOptions(const std::string& kind, const Map<String, String>& types) {
  auto known =
      Map<String, String>(CallGlobal("target.ListTargetKindOptionsFromName", String(kind)));
  TargetKindRegEntry& entry = TargetKindRegEntry::RegisterOrGet(kind);
  for (const auto& [name, type] : types) {
    if (known.count(name)) continue;
    if (type == "bool") {
      entry.add_attr_option<runtime::Bool>(name);
    } else if (type == "int") {
      entry.add_attr_option<runtime::Int>(name);
    } else {
      ICHECK(type == "str") << "InternalError: type of a target option: " << type;
      entry.add_attr_option<String>(name);
    }
  }
}

// Has the kind a compiler of its own? As TVM sees it: the attribute `is_external_codegen`, or a
// lowering of whole functions to TIR (RFC 10, `RelayToTIR`). No backend has a name here.
bool IsExternalKind(const ObjectRef& kind) {
  auto attr = [&](const char* name) -> TVMRetValue {
    return CallGlobal("target.TargetKindGetAttr", kind, String(name));
  };
  TVMRetValue is_external = attr("is_external_codegen");
  if (is_external.type_code() == kTVMArgInt) {
    if (is_external.operator bool()) return true;
  } else if (is_external.type_code() != kTVMNullptr) {
    // TVM's own kinds have it boxed.
    const ObjectRef boxed = is_external;
    const auto* flag = boxed.as<runtime::Bool::ContainerType>();
    if (flag != nullptr && flag->value) return true;
  }
  return attr("RelayToTIR").type_code() != kTVMNullptr;
}

}  // namespace

void RegisterPartitionRuleAttribute() {
  for (const String& kind : Array<String>(CallGlobal("target.ListTargetKinds"))) {
    StockTargetKinds().push_back({kind, CallGlobal("target.ListTargetKindOptionsFromName", kind)});
    AddPartitionRuleOption(kind);
  }
}

std::vector<TargetSpec> GatherSpecs(const ObjectRef& compilation_config) {
  Fields config(compilation_config);
  const auto targets = runtime::Downcast<Array<ObjectRef>>(config.Ref("primitive_targets"));
  const Array<PartitionRuleRef> rules =
      FromPython(CallGlobal("tvm.relay.collage.rules_of_targets", targets));
  std::vector<TargetSpec> specs;
  for (size_t k = 0; k < targets.size(); ++k) {
    const ObjectRef kind = RefField(targets[k], "kind");
    specs.push_back({{Fields(kind).Str("name"), IsExternalKind(kind), rules[k]->rule,
                      DeviceOfTarget(targets[k])},
                     targets[k]});
  }
  const ObjectRef host = config.Ref("host_target");
  specs.push_back({{"host", false, HostRule(), DeviceOfTarget(host)}, host});
  return specs;
}

// TVM's own target kinds, without this library: what stock tvmc lists.
TVM_REGISTER_GLOBAL("collage.StockTargetKinds").set_body_typed(StockTargetKindsJson);
TVM_REGISTER_GLOBAL("collage.AddTargetOptions").set_body_typed(AddTargetOptions);
TVM_REGISTER_GLOBAL("collage.IsExternalKind").set_body_typed(IsExternalKind);
TVM_REGISTER_GLOBAL("collage.RegisterTargetKind").set_body_typed([](String name, int device_type) {
  return RegisterTargetKind(name, device_type);
});

// The rule, a function that makes one, a registered name, or "" for none.
TVM_REGISTER_GLOBAL("collage.SetPartitionRule").set_body([](runtime::TVMArgs args, TVMRetValue*) {
  static std::atomic<int> level{100};  // a kind keeps the value of the highest level
  TVMRetValue value;
  value = args[1];
  TargetKindRegEntry::RegisterOrGet(args[0].operator String())
      .UpdateAttr(kPartitionRule, value, ++level);
});

}  // namespace tvm::collage
