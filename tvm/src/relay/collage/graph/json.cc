// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

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

void AppendUtf8(unsigned code, std::string* text) {
  const auto add = [&](unsigned byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace

Json::Json(double number) {
  if (!std::isfinite(number)) {  // as Python's json spells them
    text_ = std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char text[32];  // not by printf, whose decimal point is the locale's
  text_.assign(text, std::to_chars(text, text + sizeof(text), number).ptr);
  if (text_.find_first_of(".e") == std::string::npos) text_ += ".0";
}

Json::Json(const std::string& string) : text_(Quoted(string)) {}

Json::Json(const AttrValue& value) : text_(std::visit(AttrJson(), value)) {}

Json::Json(const Attrs& attrs) : text_("{") {
  for (const auto& [key, value] : attrs) Append(Quoted(key) + ":", Json(value));
  text_ += "}";
}

Json::Json(const TensorType& type) {
  std::vector<Json> dims;  // null where it is not known at compile time
  for (const int64_t dim : type.shape) dims.push_back(dim < 0 ? Json(AttrValue()) : Json(dim));
  text_ = JsonObject({{"shape", dims}, {"dtype", type.dtype}}).text_;
}

void Json::Append(const std::string& key, const Json& item) {
  if (text_.size() > 1) text_ += ',';
  text_ += key;
  text_ += item.text_;
}

Json JsonObject(std::initializer_list<std::pair<const char*, Json>> fields) {
  Json object("");
  object.text_ = "{";
  for (const auto& [key, value] : fields) object.Append(Quoted(key) + ":", value);
  object.text_ += "}";
  return object;
}

// Reads one text from its beginning to its end.
class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : at_(text.c_str()), end_(at_ + text.size()) {}

  JsonValue ReadAll() {
    JsonValue value = Read();
    SkipSpace();
    if (*at_ != '\0') JsonValue::Fail("the end of a text");
    return value;
  }

 private:
  JsonValue Read() {
    JsonValue value;
    SkipSpace();
    if (*at_ == '{') {
      auto& fields = value.value_.emplace<JsonValue::Object>();
      ReadMembers('}', [&] {
        SkipSpace();
        std::string key = ReadText();
        SkipSpace();
        Expect(':');
        fields.emplace_back(std::move(key), Read());
      });
    } else if (*at_ == '[') {
      auto& items = value.value_.emplace<JsonValue::List>();
      ReadMembers(']', [&] { items.push_back(Read()); });
    } else if (*at_ == '"') {
      value.value_ = ReadText();
    } else if (Takes("true")) {
      value.value_ = true;
    } else if (Takes("false")) {
      value.value_ = false;
    } else if (!Takes("null")) {
      ReadNumber(&value);
    }
    return value;
  }

  template <typename ReadMember>
  void ReadMembers(char end, ReadMember read) {
    ++at_;
    SkipSpace();
    for (bool is_first = true; *at_ != end; is_first = false) {
      if (!is_first) Expect(',');
      read();
      SkipSpace();
    }
    ++at_;
  }

  std::string ReadText() {
    Expect('"');
    std::string text;
    while (*at_ != '"') {
      if (*at_ == '\0') JsonValue::Fail("the end of a quoted text");
      if (*at_ != '\\') {
        text += *at_++;
        continue;
      }
      ++at_;
      ReadEscaped(&text);
    }
    ++at_;
    return text;
  }

  void ReadEscaped(std::string* text) {
    const char kind = *at_;
    if (kind == '\0') JsonValue::Fail("the end of a quoted text");
    ++at_;
    if (kind == 'u') {
      unsigned code = ReadHex();
      const bool is_high_half = 0xD800 <= code && code < 0xDC00;
      if (is_high_half && Takes("\\u"))
        code = 0x10000 + ((code - 0xD800) << 10) + ReadHex() - 0xDC00;
      const bool is_half = 0xD800 <= code && code < 0xE000;  // stands for no character
      return AppendUtf8(is_half ? 0xFFFD : code, text);
    }
    const std::string kinds = "bfnrt";
    const size_t found = kinds.find(kind);
    *text += found == std::string::npos ? kind : "\b\f\n\r\t"[found];
  }

  unsigned ReadHex() {
    unsigned code = 0;
    for (int k = 0; k < 4; ++k, ++at_) {
      const char digit = static_cast<char>(std::tolower(static_cast<unsigned char>(*at_)));
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
        JsonValue::Fail("four hexadecimal digits");
      }
      code = code * 16 + static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return code;
  }

  void ReadNumber(JsonValue* value) {
    double real = 0;  // Infinity and NaN as well
    const auto [end, error] = std::from_chars(at_, end_, real);
    if (error == std::errc::invalid_argument) JsonValue::Fail("a value");
    int64_t integer = 0;
    if (const auto read = std::from_chars(at_, end_, integer); read.ptr == end) {
      if (read.ec != std::errc()) JsonValue::Fail("an integer of 64 bits");
      value->value_ = integer;
    } else {
      if (error == std::errc::result_out_of_range) JsonValue::Fail("a number of 64 bits");
      value->value_ = real;
    }
    at_ = end;
  }

  void SkipSpace() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }

  bool Takes(const char* word) {
    const char* at = at_;
    while (*word != '\0' && *at == *word) ++at, ++word;
    if (*word != '\0') return false;
    at_ = at;
    return true;
  }

  void Expect(char wanted) {
    if (*at_ != wanted) JsonValue::Fail(std::string(1, wanted));
    ++at_;
  }

  const char* at_;
  const char* end_;
};

JsonValue JsonValue::Parse(const std::string& text) { return JsonReader(text).ReadAll(); }

double JsonValue::Real() const {
  if (const auto* number = std::get_if<int64_t>(&value_)) return static_cast<double>(*number);
  return As<double>("a number");
}

const JsonValue& JsonValue::operator[](const char* key) const {
  for (const auto& [name, value] : Fields()) {
    if (name == key) return value;
  }
  Fail("the field " + std::string(key));
}

AttrValue JsonValue::Attr() const {
  if (const auto* number = std::get_if<int64_t>(&value_)) return *number;
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  if (const auto* flag = std::get_if<bool>(&value_)) return int64_t{*flag};
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  AttrList list;
  for (const JsonValue& item : Items()) list.push_back(item.Attr());
  return list;
}

void JsonValue::Fail(const std::string& wanted) {
  throw std::runtime_error("InternalError: JSON lacks " + wanted);
}

}  // namespace tvm::collage
