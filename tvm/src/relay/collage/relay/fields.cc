// SPDX-License-Identifier: Apache-2.0
#include "fields.h"

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>

namespace tvm::collage {
namespace {

class Visitor final : public AttrVisitor {
 public:
  using Callback = std::function<void(const char*, FieldPointer)>;
  explicit Visitor(const Callback& callback) : callback_(callback) {}
  void Visit(const char* key, double* field) final { callback_(key, field); }
  void Visit(const char* key, int64_t* field) final { callback_(key, field); }
  void Visit(const char* key, uint64_t* field) final { callback_(key, field); }
  void Visit(const char* key, int* field) final { callback_(key, field); }
  void Visit(const char* key, bool* field) final { callback_(key, field); }
  void Visit(const char* key, std::string* field) final { callback_(key, field); }
  void Visit(const char* key, void** field) final { callback_(key, field); }
  void Visit(const char* key, runtime::DataType* field) final { callback_(key, field); }
  void Visit(const char* key, NDArray* field) final { callback_(key, field); }
  void Visit(const char* key, ObjectRef* field) final { callback_(key, field); }

 private:
  const Callback& callback_;
};

FieldValue Read(FieldPointer pointer) {
  return std::visit(
      [](auto* field) -> FieldValue {
        using T = std::decay_t<decltype(*field)>;
        if constexpr (std::is_pointer_v<T>) {
          return {};
        } else if constexpr (std::is_integral_v<T>) {
          return static_cast<int64_t>(*field);
        } else {
          return *field;
        }
      },
      pointer);
}

}  // namespace

void VisitFields(const ObjectRef& object,
                 const std::function<void(const char* key, FieldPointer)>& visit) {
  Visitor visitor(visit);
  ReflectionVTable::Global()->VisitAttrs(const_cast<Object*>(object.get()), &visitor);
}

Fields::Fields(const ObjectRef& object) {
  ICHECK(object.defined()) << "a null object has no fields";
  type_key_ = object->GetTypeKey();
  VisitFields(object, [this](const char* key, FieldPointer field) {
    fields_.emplace_back(key, Read(field));
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
  const ObjectRef* result = nullptr;
  VisitFields(object, [&](const char* name, FieldPointer field) {
    if (std::strcmp(name, key) != 0) return;
    if (auto* ref = std::get_if<ObjectRef*>(&field)) result = *ref;
  });
  if (result == nullptr) {
    LOG(FATAL) << "InternalError: " << object->GetTypeKey()
               << " of the base TVM package has no object field " << key;
  }
  return *result;
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

bool IsStructurallyEqual(const ObjectRef& a, const ObjectRef& b, bool map_free_vars) {
  constexpr bool kAssert = false;
  return CallGlobal("node.StructuralEqual", a, b, kAssert, map_free_vars);
}

uint64_t StructuralHash(const ObjectRef& object) {
  if (!object.defined()) return 0;
  constexpr bool kMapFreeVars = true;
  return static_cast<uint64_t>(
      CallGlobal("node.StructuralHash", object, kMapFreeVars).operator int64_t());
}

TVMRetValue FromPython(TVMRetValue answer) {
  if (answer.type_code() == kTVMNullptr) {
    CallGlobal("tvm.relay.collage.raise_if_interrupted");
    LOG(FATAL) << "InternalError: a callback in Python gave nothing: was it interrupted?";
  }
  return answer;
}

void ThrowUserError(const std::string& kind, const std::string& message) {
  if (auto* raise = runtime::Registry::Get("tvm.relay.collage.raise_error")) {
    (*raise)(kind, message);
  }
  throw std::runtime_error(kind + ": " + message);  // Python's side is not imported yet
}

}  // namespace tvm::collage
