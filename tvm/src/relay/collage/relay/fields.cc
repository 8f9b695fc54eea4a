// SPDX-License-Identifier: Apache-2.0
#include "fields.h"

#include <cstring>
#include <unordered_map>

namespace tvm::collage {
namespace {

/*! \brief Hands every field to a callable as a FieldValue. */
template <typename Callback>
class Visitor final : public AttrVisitor {
 public:
  explicit Visitor(Callback callback) : callback_(std::move(callback)) {}
  void Visit(const char* key, double* value) final { callback_(key, FieldValue(*value)); }
  void Visit(const char* key, int64_t* value) final { callback_(key, FieldValue(*value)); }
  void Visit(const char* key, uint64_t* value) final { VisitInt(key, *value); }
  void Visit(const char* key, int* value) final { VisitInt(key, *value); }
  void Visit(const char* key, bool* value) final { VisitInt(key, *value); }
  void Visit(const char* key, std::string* value) final { callback_(key, FieldValue(*value)); }
  void Visit(const char* key, void**) final { callback_(key, FieldValue()); }
  void Visit(const char* key, runtime::DataType* value) final {
    callback_(key, FieldValue(*value));
  }
  void Visit(const char* key, NDArray* value) final { callback_(key, FieldValue(*value)); }
  void Visit(const char* key, ObjectRef* value) final { callback_(key, FieldValue(*value)); }

 private:
  template <typename T>
  void VisitInt(const char* key, T value) {
    callback_(key, FieldValue(static_cast<int64_t>(value)));
  }
  Callback callback_;
};

template <typename Callback>
void VisitFields(const ObjectRef& object, Callback callback) {
  Visitor<Callback> visitor(std::move(callback));
  ReflectionVTable::Global()->VisitAttrs(const_cast<Object*>(object.get()), &visitor);
}

}  // namespace

Fields::Fields(const ObjectRef& object) {
  ICHECK(object.defined()) << "a null object has no fields";
  type_key_ = object->GetTypeKey();
  VisitFields(object, [this](const char* key, FieldValue value) {
    fields_.emplace_back(key, std::move(value));
  });
}

const FieldValue& Fields::Find(const char* key) const {
  for (const auto& [name, value] : fields_) {
    if (std::strcmp(name, key) == 0) return value;
  }
  LOG(FATAL) << "InternalError: " << type_key_ << " of the base TVM package has no field " << key;
  throw;  // LOG(FATAL) has thrown
}

bool Fields::Has(const char* key) const {
  for (const auto& field : fields_) {
    if (std::strcmp(field.first, key) == 0) return true;
  }
  return false;
}

ObjectRef Fields::Ref(const char* key) const { return std::get<ObjectRef>(Find(key)); }
runtime::DataType Fields::DType(const char* key) const {
  return std::get<runtime::DataType>(Find(key));
}
NDArray Fields::Tensor(const char* key) const { return std::get<NDArray>(Find(key)); }

double Fields::Real(const char* key) const { return std::get<double>(Find(key)); }

int64_t Fields::Int(const char* key) const {
  const FieldValue& value = Find(key);
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  // Integer attributes may be boxed as IntImm.
  return Fields(std::get<ObjectRef>(value)).Int("value");
}

std::string Fields::Str(const char* key) const {
  const FieldValue& value = Find(key);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return runtime::Downcast<String>(std::get<ObjectRef>(value));
}

ObjectRef RefField(const ObjectRef& object, const char* key) {
  ICHECK(object.defined()) << "a null object has no field " << key;
  ObjectRef result;
  bool found = false;
  VisitFields(object, [&](const char* name, FieldValue value) {
    if (std::strcmp(name, key) != 0) return;
    if (auto* ref = std::get_if<ObjectRef>(&value)) {
      result = *ref;
      found = true;
    }
  });
  if (!found) {
    LOG(FATAL) << "InternalError: " << object->GetTypeKey()
               << " of the base TVM package has no object field " << key;
  }
  return result;
}

bool IsA(const ObjectRef& object, const char* type_key) {
  if (!object.defined()) return false;
  // The literal's address is the key: one look-up by text per call site.
  static thread_local std::unordered_map<const char*, uint32_t> indexes;
  auto [entry, is_new] = indexes.try_emplace(type_key, 0);
  if (is_new) entry->second = Object::TypeKey2Index(type_key);
  return object->type_index() == entry->second;
}

const PackedFunc& Global(const char* name) {
  // Never destroyed: a PackedFunc must not be released after the interpreter has gone.
  static thread_local auto& functions = *new std::unordered_map<const char*, PackedFunc>();
  auto [entry, is_new] = functions.try_emplace(name);
  if (is_new) {
    const PackedFunc* function = runtime::Registry::Get(name);
    if (function == nullptr) {
      functions.erase(entry);
      LOG(FATAL) << "InternalError: the base TVM package has no global function " << name;
    }
    entry->second = *function;
  }
  return entry->second;
}

TVMRetValue FromPython(TVMRetValue answer) {
  if (answer.type_code() == kTVMNullptr) {
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    LOG(FATAL) << "InternalError: a callback in Python gave nothing: was it interrupted?";
  }
  return answer;
}

}  // namespace tvm::collage
