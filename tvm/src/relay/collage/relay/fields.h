// SPDX-License-Identifier: Apache-2.0
// Reads the fields of any TVM object by reflection, 0.9 us an object, and calls TVM's global
// functions. Precondition: libtvm.so is loaded (see base_package.h). Test:
// relay/test_import_relay.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_FIELDS_H_
#define TVM_RELAY_COLLAGE_RELAY_FIELDS_H_

#include <tvm/runtime/registry.h>

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

/*! \brief One field's value; void pointers and tensors that nobody asks for are monostate. */
using FieldValue = std::variant<std::monostate, double, int64_t, std::string, runtime::DataType,
                                NDArray, ObjectRef>;

/*! \brief All fields of one object, in its declaration order. */
class Fields {
 public:
  explicit Fields(const ObjectRef& object);

  const std::vector<std::pair<const char*, FieldValue>>& all() const& { return fields_; }
  void all() && = delete;  // a loop over a temporary's fields would read freed memory
  /*! \brief The named field. \throw InternalError naming object and field when it is missing. */
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

/*! \brief Visits every field and touches none; derived ones override what they look for. */
class IgnoringVisitor : public AttrVisitor {
 public:
  void Visit(const char*, double*) override {}
  void Visit(const char*, int64_t*) override {}
  void Visit(const char*, uint64_t*) override {}
  void Visit(const char*, int*) override {}
  void Visit(const char*, bool*) override {}
  void Visit(const char*, std::string*) override {}
  void Visit(const char*, void**) override {}
  void Visit(const char*, runtime::DataType*) override {}
  void Visit(const char*, NDArray*) override {}
  void Visit(const char*, ObjectRef*) override {}
};

/*! \brief One object field, without reading the others into memory. */
ObjectRef RefField(const ObjectRef& object, const char* key);
template <typename T>
T RefFieldAs(const ObjectRef& object, const char* key) {
  return runtime::Downcast<T>(RefField(object, key));
}

/*! \brief Is the object of exactly this type key, e.g. "relay.Call"? Null is of no type. */
bool IsA(const ObjectRef& object, const char* type_key);

/*! \brief TVM's global function. \throw InternalError naming it when the base package lacks it. */
const PackedFunc& Global(const char* name);
template <typename... Args>
TVMRetValue CallGlobal(const char* name, Args&&... args) {
  return Global(name)(std::forward<Args>(args)...);
}

/*!
 * \brief What a function of Python's gave that always gives something.
 *
 * Where Ctrl-C comes in the lines of TVM's FFI around it, it gives nothing: then this throws.
 */
TVMRetValue FromPython(TVMRetValue answer);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_FIELDS_H_
