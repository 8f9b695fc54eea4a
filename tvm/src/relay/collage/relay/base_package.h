// SPDX-License-Identifier: Apache-2.0
// The symbols of the base TVM package that its headers do not declare, declared here and nowhere
// else. Precondition: libtvm.so of TVM 0.19.0 is loaded globally; each declaration names the file
// of TVM 0.19.0 whose layout it leans on. Test: relay/test_base_package.py.
#pragma once

#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/boxed_primitive.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tvm {

// include/tvm/node/reflection.h: the order of the virtual functions is the contract.
class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void Visit(const char* key, double* value) = 0;
  virtual void Visit(const char* key, int64_t* value) = 0;
  virtual void Visit(const char* key, uint64_t* value) = 0;
  virtual void Visit(const char* key, int* value) = 0;
  virtual void Visit(const char* key, bool* value) = 0;
  virtual void Visit(const char* key, std::string* value) = 0;
  virtual void Visit(const char* key, void** value) = 0;
  virtual void Visit(const char* key, runtime::DataType* value) = 0;
  virtual void Visit(const char* key, runtime::NDArray* value) = 0;
  virtual void Visit(const char* key, runtime::ObjectRef* value) = 0;
};

// include/tvm/node/reflection.h: both are exported functions, no field is touched.
class __attribute__((visibility("default"))) ReflectionVTable {
 public:
  static ReflectionVTable* Global();
  void VisitAttrs(runtime::Object* self, AttrVisitor* visitor) const;
};

// include/tvm/target/target_kind.h: a reference type over an object whose fields we reach by
// VisitAttrs ("name", "default_device_type", "default_keys").
class __attribute__((visibility("default"))) TargetKind : public runtime::ObjectRef {
 public:
  explicit TargetKind(runtime::ObjectPtr<runtime::Object> data) : ObjectRef(std::move(data)) {}
  static runtime::Optional<TargetKind> Get(const runtime::String& name);
  using ContainerType = runtime::Object;
};
class Target;

// include/tvm/target/target_kind.h: only ever handled by reference, so its size does not matter.
class __attribute__((visibility("default"))) TargetKindRegEntry {
 public:
  static TargetKindRegEntry& RegisterOrGet(const runtime::String& name);
  void UpdateAttr(const runtime::String& key, runtime::TVMRetValue value, int plevel);
  template <typename ValueType>
  TargetKindRegEntry& add_attr_option(const runtime::String& key);
};
extern template TargetKindRegEntry& TargetKindRegEntry::add_attr_option<Target>(
    const runtime::String&);
extern template TargetKindRegEntry& TargetKindRegEntry::add_attr_option<runtime::Bool>(
    const runtime::String&);
extern template TargetKindRegEntry& TargetKindRegEntry::add_attr_option<runtime::Int>(
    const runtime::String&);
extern template TargetKindRegEntry& TargetKindRegEntry::add_attr_option<runtime::String>(
    const runtime::String&);
extern template TargetKindRegEntry&
TargetKindRegEntry::add_attr_option<runtime::Array<runtime::String>>(const runtime::String&);

namespace runtime {
// src/runtime/const_loader_module.h: an exported function; arrays by name, names by function.
Module ConstLoaderModuleCreate(
    const std::unordered_map<std::string, NDArray>& const_var_ndarray,
    const std::unordered_map<std::string, std::vector<std::string>>& const_vars_by_symbol);
}  // namespace runtime

namespace relay {
// include/tvm/relay/dataflow_pattern.h: the one field of a pattern that reflection does not show,
// right behind Object's own; what `redirect_to` set, or null.
struct WildcardPatternLayout : public runtime::Object {
  runtime::ObjectRef pattern;
};
}  // namespace relay

namespace transform {
// include/tvm/ir/transform.h: one exported static function.
class __attribute__((visibility("default"))) PassContext {
 public:
  static void RegisterConfigOption(
      const char* key, uint32_t value_type_index,
      std::function<runtime::ObjectRef(runtime::ObjectRef)> legalization);
};
}  // namespace transform
}  // namespace tvm
