// SPDX-License-Identifier: Apache-2.0
// JSON text of plain values: in one call of TVM's FFI, ten times as fast as boxed values one by
// one. Test: views/test_views.py.
#ifndef TVM_RELAY_COLLAGE_API_JSON_TEXT_H_
#define TVM_RELAY_COLLAGE_API_JSON_TEXT_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "../graph/attr_value.h"
#include "../graph/dataflow_graph.h"

namespace tvm::collage {

/*! \brief One value; constructors are implicit, so that fields read as a table. */
class Json {
 public:
  Json(bool flag) : text_(flag ? "true" : "false") {}
  Json(int number) : text_(std::to_string(number)) {}
  Json(int64_t number) : text_(std::to_string(number)) {}
  Json(double number);
  Json(const std::string& string);
  Json(const char* string) : Json(std::string(string)) {}
  Json(const AttrValue& value);
  Json(const Attrs& attrs);
  Json(const TensorType& type);
  template <typename T>
  Json(const std::vector<T>& items) : text_("[") {
    for (const T& item : items) text_ += (text_.size() > 1 ? "," : "") + Json(item).text_;
    text_ += "]";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/*! \brief {"key": value, ...}. */
std::string JsonObject(std::initializer_list<std::pair<const char*, Json>> fields);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_JSON_TEXT_H_
