// SPDX-License-Identifier: Apache-2.0
// JSON text of plain values, the one form of data between C++ and Python: in one call of TVM's FFI
// it is ten times as fast as values that are boxed one by one, and each has its name. All texts and
// their fields are in border.schema.json, against which both sides are tested; to change a field
// see tools/border_schema.py. Test: tvm/tests/cpp/json_test.cc, tvm/tests/cpp/border_test.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attr_value.h"
#include "dataflow_graph.h"

namespace tvm::collage {

// The text of one value; constructors are implicit, so that fields read as a table.
class Json {
 public:
  Json(bool flag) : text_(flag ? "true" : "false") {}
  Json(int number) : text_(std::to_string(number)) {}
  Json(int64_t number) : text_(std::to_string(number)) {}
  Json(double number);
  Json(const std::string& string);
  Json(const char* string) : Json(std::string(string)) {}
  Json(const IndexSet& set) : Json(set.ToVector()) {}
  Json(const AttrValue& value);
  Json(const Attrs& attrs);
  Json(const TensorType& type);
  template <typename T>
  Json(const std::vector<T>& items) : text_("[") {
    for (const T& item : items) Append("", Json(item));
    text_ += "]";
  }
  template <typename T>
  Json(const std::map<std::string, T>& items) : text_("{") {
    for (const auto& [key, item] : items) Append(Json(key).text_ + ":", Json(item));
    text_ += "}";
  }
  const std::string& text() const { return text_; }

 private:
  friend Json JsonObject(std::initializer_list<std::pair<const char*, Json>> fields);
  // Adds a member to an object or list that is still open.
  void Append(const std::string& key, const Json& item);

  std::string text_;
};

// {"key": value, ...}.
Json JsonObject(std::initializer_list<std::pair<const char*, Json>> fields);
inline std::string JsonText(std::initializer_list<std::pair<const char*, Json>> fields) {
  return JsonObject(fields).text();
}

// A value that was read; what is asked for and is not there throws a std::runtime_error.
class JsonValue {
 public:
  using List = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  // Of a whole text, as Python's json writes it.
  static JsonValue Parse(const std::string& text);

  bool Bool() const { return As<bool>("a boolean"); }
  int64_t Int() const { return As<int64_t>("an integer"); }
  double Real() const;
  const std::string& Text() const { return As<std::string>("a text"); }
  const List& Items() const { return As<List>("a list"); }
  // Fields in the order of the text.
  const Object& Fields() const { return As<Object>("an object"); }
  const JsonValue& operator[](const char* key) const;
  // A number, a text, or lists of such; an AttrValue has no booleans.
  AttrValue Attr() const;

 private:
  friend class JsonReader;
  template <typename T>
  const T& As(const char* wanted) const {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    Fail(wanted);
  }
  [[noreturn]] static void Fail(const std::string& wanted);

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Object> value_;
};

}  // namespace tvm::collage
