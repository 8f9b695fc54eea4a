// SPDX-License-Identifier: Apache-2.0
#include "json_text.h"

#include <cmath>
#include <cstdio>

#include "../relay/fields.h"

namespace tvm::collage {
namespace {

std::string Quoted(const std::string& string) {
  std::string text = "\"";
  for (const char c : string) {
    if (c == '"' || c == '\\') text += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      text += c;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
    text += escaped;
  }
  return text + "\"";
}

struct AttrJson {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(const AttrNumber& number) const { return std::visit(*this, number.value); }
  std::string operator()(const AttrObject& object) const { return Quoted(Summary(object)); }
  template <typename T>
  std::string operator()(const T& value) const {
    return Json(value).text();
  }
};

/*! \brief "1 64 56 56"; "?" for what is not known at compile time. */
std::string Joined(const Array<ObjectRef>& numbers) {
  std::string text;
  for (const ObjectRef& number : numbers) {
    const std::string one =
        IsA(number, "IntImm") ? std::to_string(Fields(number).Int("value")) : "?";
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

/*! \brief "float32 1 64 56 56"; empty when it is no tensor's type. */
String StaticType(const ObjectRef& type) {
  if (!IsA(type, "relay.TensorType")) return "";
  Fields fields(type);
  const auto shape = runtime::Downcast<Array<ObjectRef>>(fields.Ref("shape"));
  return runtime::DLDataType2String(fields.DType("dtype")) + " " + Joined(shape);
}

}  // namespace

Json::Json(double number) {
  if (!std::isfinite(number)) {  // as Python's json spells them
    text_ = std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  text_ = text;
  if (text_.find_first_of(".e") == std::string::npos) text_ += ".0";
}

Json::Json(const std::string& string) : text_(Quoted(string)) {}

Json::Json(const AttrValue& value) : text_(std::visit(AttrJson(), value)) {}

Json::Json(const Attrs& attrs) : text_("{") {
  for (const auto& [key, value] : attrs) {
    text_ += (text_.size() > 1 ? "," : "") + Quoted(key) + ":" + Json(value).text_;
  }
  text_ += "}";
}

Json::Json(const TensorType& type) : text_("[" + Json(type.shape).text_ + ",") {
  text_ += Quoted(type.dtype) + "]";
}

std::string JsonObject(std::initializer_list<std::pair<const char*, Json>> fields) {
  std::string text = "{";
  for (const auto& [key, value] : fields) {
    text += (text.size() > 1 ? "," : "") + Quoted(key) + ":" + value.text();
  }
  return text + "}";
}

TVM_REGISTER_GLOBAL("collage.StaticType").set_body_typed(StaticType);
TVM_REGISTER_GLOBAL("collage.PlainInts").set_body_typed([](Array<ObjectRef> numbers) {
  return String(Joined(numbers));
});

}  // namespace tvm::collage
