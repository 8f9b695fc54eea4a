// SPDX-License-Identifier: Apache-2.0
#include "import_attrs.h"

#include <algorithm>
#include <exception>
#include <map>

#include "../graph/json.h"

namespace tvm::collage {
namespace {

AttrObject HashObject(const ObjectRef& value) {
  const std::string type = value->GetTypeKey();
  try {
    return {type, StructuralHash(value)};
  } catch (const std::exception&) {
    // No structural hash is defined for this type: an object equals itself alone.
    return {type, reinterpret_cast<uintptr_t>(value.get())};
  }
}

AttrNumber ImportNumber(const ObjectRef& value) {
  Fields fields(value);
  AttrNumber number;
  number.dtype = runtime::DLDataType2String(fields.DType("dtype"));
  if (IsA(value, "IntImm")) {
    number.value = fields.Int("value");
  } else {
    number.value = fields.Real("value");
  }
  return number;
}

AttrValue ImportField(const FieldValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* type = std::get_if<runtime::DataType>(&value)) {
    return runtime::DLDataType2String(*type);
  }
  if (const auto* tensor = std::get_if<NDArray>(&value)) return ImportAttr(*tensor);
  if (const auto* ref = std::get_if<ObjectRef>(&value)) return ImportAttr(*ref);
  return {};
}

}  // namespace

AttrValue ImportAttr(const ObjectRef& value) {
  if (!value.defined()) return {};
  if (IsA(value, "IntImm") || IsA(value, "FloatImm")) return ImportNumber(value);
  if (const auto* text = value.as<runtime::StringObj>()) return std::string(text->data, text->size);
  if (const auto* number = value.as<runtime::Int::ContainerType>()) return number->value;
  if (const auto* flag = value.as<runtime::Bool::ContainerType>()) return int64_t{flag->value};
  if (const auto* real = value.as<runtime::Float::ContainerType>()) return real->value;
  if (!value->IsInstance<runtime::ArrayNode>()) return HashObject(value);
  AttrList list;
  for (const ObjectRef& item : runtime::Downcast<Array<ObjectRef>>(value)) {
    list.push_back(ImportAttr(item));
  }
  return list;
}

AttrValue WithNumberTypes(AttrValue value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    const bool is_short = *number == static_cast<int32_t>(*number);
    return AttrNumber{is_short ? "int32" : "int64", *number};
  }
  if (const auto* real = std::get_if<double>(&value)) return AttrNumber{"float32", *real};
  if (auto* list = std::get_if<AttrList>(&value)) {
    for (AttrValue& item : *list) item = WithNumberTypes(std::move(item));
  }
  return value;
}

Attrs ImportAttrs(const ObjectRef& attrs) {
  Attrs result;
  if (!attrs.defined()) return result;
  if (IsA(attrs, "DictAttrs")) {
    for (const auto& [key, value] : RefFieldAs<Map<String, ObjectRef>>(attrs, "__dict__")) {
      result.emplace_back(key, ImportAttr(value));
    }
  } else {
    Fields fields(attrs);
    for (const auto& [key, value] : fields.all()) result.emplace_back(key, ImportField(value));
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

AttrValue ImportOpAttr(const ObjectRef& op, const std::string& name) {
  // To ask for an attribute that no operator has ever had is an error in TVM.
  const bool is_known = CallGlobal("ir.OpHasAttr", op, String(name));
  if (!is_known) return {};
  TVMRetValue value = CallGlobal("ir.OpGetAttr", op, String(name));
  switch (value.type_code()) {
    case kTVMArgInt:
      return value.operator int64_t();
    case kTVMArgBool:
      return int64_t{value.operator bool()};
    case kTVMArgFloat:
      return value.operator double();
    case kTVMStr:
      return value.operator std::string();
    case kTVMObjectHandle:
      return ImportAttr(value.operator ObjectRef());
    default:
      return {};  // a function, or nothing
  }
}

namespace {

// Each field's value as text, for people and tests.
String AttrsSummary(ObjectRef attrs) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : ImportAttrs(attrs)) texts[key] = Summary(value);
  return Json(texts).text();
}

TVM_REGISTER_GLOBAL("collage.AttrsSummary").set_body_typed(AttrsSummary);
// An attribute, or a list that is none, in one call: each item read from Python takes microseconds.
TVM_REGISTER_GLOBAL("collage.AttrJson").set_body_typed([](ObjectRef value) {
  return String(Json(ImportAttr(value)).text());
});

}  // namespace
}  // namespace tvm::collage
