// SPDX-License-Identifier: Apache-2.0
#include "attr_value.h"

#include <charconv>
#include <cmath>

namespace tvm::collage {
namespace {

struct Printer {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(int64_t number) const { return std::to_string(number); }
  // In hexadecimal every double has its own text; the mark tells it from integers.
  std::string operator()(double real) const {
    char text[40];
    const auto format = std::chars_format::hex;
    char* const end = std::to_chars(text, text + sizeof(text), std::abs(real), format).ptr;
    return (std::signbit(real) ? "-0x" : "0x") + std::string(text, end) + "r";
  }
  std::string operator()(const std::string& text) const {
    std::string quoted = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + "\"";
  }
  std::string operator()(const AttrNumber& number) const {
    return std::visit(*this, number.value) + ":" + number.dtype;
  }
  std::string operator()(const AttrList& list) const {
    std::string text;
    for (const AttrValue& item : list) text += (text.empty() ? "" : ", ") + Summary(item);
    return "[" + text + "]";
  }
  std::string operator()(const AttrObject& object) const {
    return object.type + "#" + std::to_string(object.hash);
  }
};

}  // namespace

std::string Summary(const AttrValue& value) {
  using Base =
      std::variant<std::monostate, int64_t, double, std::string, AttrNumber, AttrList, AttrObject>;
  return std::visit(Printer(), static_cast<const Base&>(value));
}

}  // namespace tvm::collage
