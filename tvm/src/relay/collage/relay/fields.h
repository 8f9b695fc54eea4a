// SPDX-License-Identifier: Apache-2.0
// Reads the fields of any TVM object by reflection, 0.9 us an object, and calls TVM's global
// functions; raises errors in Python. Precondition: libtvm.so is loaded (see base_package.h). Test:
// relay/test_import_relay.py, test_errors.py.
#pragma once

#include <tvm/runtime/registry.h>

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base_package.h"

namespace tvm::collage {

using runtime::Array;
using runtime::Map;
using runtime::NDArray;
using runtime::Object;
using runtime::ObjectRef;
using runtime::Optional;
using runtime::PackedFunc;
using runtime::String;
using runtime::TVMRetValue;

// One field's value; void pointers and tensors that nobody asks for are monostate.
using FieldValue = std::variant<std::monostate, double, int64_t, std::string, runtime::DataType,
                                NDArray, ObjectRef>;

// All fields of one object, in its declaration order.
class Fields {
 public:
  explicit Fields(const ObjectRef& object);

  const std::vector<std::pair<const char*, FieldValue>>& all() const& { return fields_; }
  void all() && = delete;  // a loop over a temporary's fields would read freed memory
  // The named field. Throws InternalError naming object and field when it is missing.
  ObjectRef Ref(const char* key) const;
  std::string Str(const char* key) const;
  int64_t Int(const char* key) const;
  double Real(const char* key) const;
  runtime::DataType DType(const char* key) const;
  NDArray Tensor(const char* key) const;
  bool Has(const char* key) const;

 private:
  const FieldValue& Find(const char* key) const;

  std::string type_key_;
  std::vector<std::pair<const char*, FieldValue>> fields_;
};

// A field where it stands in its object, which may be written.
using FieldPointer = std::variant<double*, int64_t*, uint64_t*, int*, bool*, std::string*, void**,
                                  runtime::DataType*, NDArray*, ObjectRef*>;
void VisitFields(const ObjectRef& object,
                 const std::function<void(const char* key, FieldPointer)>& visit);

// One object field, without reading the others into memory.
ObjectRef RefField(const ObjectRef& object, const char* key);
template <typename T>
T RefFieldAs(const ObjectRef& object, const char* key) {
  return runtime::Downcast<T>(RefField(object, key));
}

// The functions of a module, by global variable.
inline Map<ObjectRef, ObjectRef> FunctionsOf(const ObjectRef& mod) {
  return RefFieldAs<Map<ObjectRef, ObjectRef>>(mod, "functions");
}

// Is the object of exactly this type key, e.g. "relay.Call"? Null is of no type.
bool IsA(const ObjectRef& object, const char* type_key);

// TVM's global function. Throws InternalError naming it when the base package lacks it.
const PackedFunc& Global(const char* name);
template <typename... Args>
TVMRetValue CallGlobal(const char* name, Args&&... args) {
  return Global(name)(std::forward<Args>(args)...);
}

// As TVM tells; with `map_free_vars` a free variable equals whatever stands in its place.
bool IsStructurallyEqual(const ObjectRef& a, const ObjectRef& b, bool map_free_vars);
// Free variables by their place, not by their address: equal in every process. Null: 0.
uint64_t StructuralHash(const ObjectRef& object);

// What a function of Python's gave that always gives something.
//
// Where Ctrl-C comes in the lines of TVM's FFI around it, it gives nothing: then this throws.
TVMRetValue FromPython(TVMRetValue answer);

// An error that a user can mend: Python raises the named class with this one line of text, where
// LOG(FATAL) would put a C++ stack, and TVM's FFI the kind, before it.
// `kind`: a class that TVM's FFI knows, e.g. "ValueError".
[[noreturn]] void ThrowUserError(const std::string& kind, const std::string& message);

}  // namespace tvm::collage
