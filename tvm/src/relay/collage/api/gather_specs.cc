// SPDX-License-Identifier: Apache-2.0
#include "gather_specs.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "../relay/device_domains.h"
#include "../relay/fields.h"
#include "backend_rules.h"
#include "rule_objects.h"

namespace tvm::collage {
namespace {

bool IsKind(const String& name) {
  for (const String& kind : Array<String>(CallGlobal("target.ListTargetKinds"))) {
    if (kind == name) return true;
  }
  return false;
}

/*!
 * \brief Makes `name` a target kind on the device type that TVM's CompilationConfig takes beside a
 * host or device target. Kinds that exist already (TVM's own, or of an earlier call) stay as they
 * are.
 * \return whether the kind is new.
 */
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

/*!
 * \brief Makes the kind accept these attributes, by name: "bool", "int" or "str". Those that it
 * accepts already stay as they are.
 */
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

/*!
 * \brief Has the kind a compiler of its own? As TVM sees it: the attribute `is_external_codegen`,
 * or a lowering of whole functions to TIR (RFC 10, `RelayToTIR`). No backend has a name here.
 */
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

RulePtr ExternalRule(const std::string& name, const ObjectRef& target) {
  // Looked up each time: a test or a user may have replaced it.
  const PackedFunc* make = runtime::Registry::Get("tvm.relay.collage.make_byoc_partition_rule");
  ICHECK(make) << "InternalError: tvm.relay.collage is not imported";
  // TVM's prototype has the name alone, which says all of a target without attributes.
  const bool has_attrs = !RefFieldAs<Map<String, ObjectRef>>(target, "attrs").empty();
  ObjectRef rule = FromPython(has_attrs ? (*make)(String(name), target) : (*make)(String(name)));
  return runtime::Downcast<PartitionRuleRef>(rule)->rule;
}

/*!
 * \brief Says once of each style in the option that it is for a backend which is not a target: a
 * script may list styles of backends that it does not always use.
 */
void WarnOfUnusedStyles(const CollageOptions& options, const std::vector<TargetSpec>& specs) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  for (const std::string& text : options.byoc_fusion_style) {
    const std::string backend = SplitFusionStyle(text).backend;
    const bool is_used = std::any_of(specs.begin(), specs.end(), [&](const TargetSpec& target) {
      return target.spec.is_external && target.spec.name == backend;
    });
    if (is_used) continue;
    std::lock_guard<std::mutex> lock(mutex);
    if (!warned.insert(text).second) continue;
    LOG(WARNING) << "option relay.collage.byoc_fusion_style has " << text << ", but " << backend
                 << " is no external target of this build: it has no effect";
  }
}

}  // namespace

std::vector<TargetSpec> GatherSpecs(const ObjectRef& compilation_config,
                                    const CollageOptions& options) {
  Fields config(compilation_config);
  std::vector<TargetSpec> specs;
  for (const ObjectRef& target :
       runtime::Downcast<Array<ObjectRef>>(config.Ref("primitive_targets"))) {
    ObjectRef kind = RefField(target, "kind");
    std::string name = Fields(kind).Str("name");
    bool is_external = IsExternalKind(kind);
    RulePtr rule = OwnRuleOf(target);
    if (!rule) rule = is_external ? ExternalRule(name, target) : TvmRule(TvmRuleOptions(options));
    specs.push_back({{name, is_external, rule, DeviceOfTarget(target)}, target});
  }
  WarnOfUnusedStyles(options, specs);
  ObjectRef host = config.Ref("host_target");
  specs.push_back({{"host", false, HostRule(), DeviceOfTarget(host)}, host});
  return specs;
}

TVM_REGISTER_GLOBAL("collage.AddTargetOptions").set_body_typed(AddTargetOptions);
TVM_REGISTER_GLOBAL("collage.IsExternalKind").set_body_typed(IsExternalKind);
TVM_REGISTER_GLOBAL("collage.RegisterTargetKind").set_body_typed([](String name, int device_type) {
  return RegisterTargetKind(name, device_type);
});

}  // namespace tvm::collage
