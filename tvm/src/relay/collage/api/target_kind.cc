// SPDX-License-Identifier: Apache-2.0
#include "target_kind.h"

#include <cstring>

#include "backend_rules.h"

namespace tvm::collage {
namespace {

/*! \brief Writes a new kind's name and device type, which only TVM's inline functions could. */
class KindWriter final : public AttrVisitor {
 public:
  KindWriter(String name, int device_type) : name_(std::move(name)), device_type_(device_type) {}
  void Visit(const char*, double*) final {}
  void Visit(const char*, int64_t*) final {}
  void Visit(const char*, uint64_t*) final {}
  void Visit(const char* key, int* value) final {
    if (std::strcmp(key, "default_device_type") == 0) *value = device_type_;
  }
  void Visit(const char*, bool*) final {}
  void Visit(const char*, std::string*) final {}
  void Visit(const char*, void**) final {}
  void Visit(const char*, runtime::DataType*) final {}
  void Visit(const char*, NDArray*) final {}
  void Visit(const char* key, ObjectRef* value) final {
    if (std::strcmp(key, "name") == 0) *value = name_;
  }

 private:
  String name_;
  int device_type_;
};

bool IsKind(const String& name) {
  for (const String& kind : Array<String>(CallGlobal("target.ListTargetKinds"))) {
    if (kind == name) return true;
  }
  return false;
}

}  // namespace

bool RegisterTargetKind(const std::string& name, int device_type) {
  if (IsKind(name)) return false;
  // The attributes that every target kind has.
  TargetKindRegEntry& entry = TargetKindRegEntry::RegisterOrGet(name);
  KindWriter writer(name, device_type);
  ObjectRef kind = TargetKind::Get(name).value();
  ReflectionVTable::Global()->VisitAttrs(const_cast<Object*>(kind.get()), &writer);
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

TVM_REGISTER_GLOBAL("collage.AddTargetOptions").set_body_typed(AddTargetOptions);
TVM_REGISTER_GLOBAL("collage.IsExternalKind").set_body_typed(IsExternalKind);
TVM_REGISTER_GLOBAL("collage.RegisterTargetKind").set_body_typed([](String name, int device_type) {
  return RegisterTargetKind(name, device_type);
});

}  // namespace tvm::collage
