// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <sstream>
#include <type_traits>

#include "../graph/json.h"

namespace tvm::collage {
namespace {

constexpr char kPrefix[] = "relay.collage.";

// What each C++ type is called for users, and the boxed type in the PassContext.
template <typename T>
struct OptionType;
template <>
struct OptionType<bool> {
  static constexpr const char* kName = "a bool";
  using Boxed = runtime::Bool;
};
template <>
struct OptionType<int64_t> {
  static constexpr const char* kName = "an int";
  using Boxed = runtime::Int;
};
template <>
struct OptionType<double> {
  static constexpr const char* kName = "a float";
  using Boxed = runtime::Float;
};
template <>
struct OptionType<std::string> {
  static constexpr const char* kName = "a str";
  using Boxed = String;
};
template <>
struct OptionType<Names> {
  static constexpr const char* kName = "a list of str";
  using Boxed = Array<String>;
};

bool IsText(const ObjectRef& value) { return value.as<runtime::StringObj>() != nullptr; }

/*! \brief The value boxed as the type is, if it is one of the type. */
template <typename T>
Optional<ObjectRef> Legalize(const ObjectRef& value) {
  using Boxed = typename OptionType<T>::Boxed;
  if (const auto* boxed = value.as<typename Boxed::ContainerType>()) {
    if constexpr (std::is_same_v<T, Names>) {
      if (!std::all_of(boxed->begin(), boxed->end(), IsText)) return tvm::NullOpt;
    }
    return value;
  }
  if constexpr (std::is_integral_v<T>) {
    // As older scripts pass it.
    if (IsA(value, "IntImm") && Fields(value).DType("dtype").is_bool() == std::is_same_v<T, bool>) {
      return ObjectRef(Boxed(static_cast<T>(Fields(value).Int("value"))));
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* number = value.as<runtime::Int::ContainerType>()) {
      return ObjectRef(Boxed(static_cast<double>(number->value)));
    }
  }
  return tvm::NullOpt;
}

// Of values that Legalize gave.
template <typename T>
void Read(const ObjectRef& value, T* out) {
  *out = runtime::Downcast<typename OptionType<T>::Boxed>(value);
}
void Read(const ObjectRef& value, Names* out) {
  out->clear();
  for (const String& name : runtime::Downcast<Array<String>>(value)) out->push_back(name);
}

/*! \brief As a user would write it in Python. */
std::string Shown(const ObjectRef& value) {
  if (!value.defined()) return "None";
  std::ostringstream text;
  if (auto* string = value.as<runtime::StringObj>()) {
    text << "'" << std::string(string->data, string->size) << "'";
  } else if (auto* number = value.as<runtime::Int::ContainerType>()) {
    text << number->value;
  } else if (auto* real = value.as<runtime::Float::ContainerType>()) {
    text << real->value;
    if (text.str().find_first_not_of("-0123456789") == std::string::npos) text << ".0";
  } else if (auto* flag = value.as<runtime::Bool::ContainerType>()) {
    text << (flag->value ? "True" : "False");
  } else if (auto* array = value.as<runtime::ArrayNode>()) {
    text << "[";
    for (const ObjectRef& item : *array) text << (text.tellp() > 1 ? ", " : "") << Shown(item);
    text << "]";
  } else {
    text << "a " << value->GetTypeKey();
  }
  return text.str();
}

[[noreturn]] void Refuse(const char* kind, const std::string& key, const std::string& takes,
                         const ObjectRef& value) {
  ThrowUserError(kind, "option " + key + " takes " + takes + ", got " + Shown(value));
}

/*! \brief What the option takes, its type if that is all. */
template <typename T>
std::string Takes(const OptionRange<T>& range) {
  return range.is_allowed ? range.takes : OptionType<T>::kName;
}

template <typename T>
ObjectRef LegalValue(const std::string& key, const ObjectRef& value) {
  Optional<ObjectRef> legal = Legalize<T>(value);
  if (!legal) Refuse("TypeError", key, OptionType<T>::kName, value);
  return legal.value();
}

/*! \brief Sets `*out` if the config has the option. */
template <typename T>
void ReadOption(const Map<String, ObjectRef>& config, const char* name, const OptionRange<T>& range,
                T* out) {
  const std::string key = std::string(kPrefix) + name;
  auto found = config.find(key);
  if (found == config.end()) return;
  const ObjectRef value = LegalValue<T>(key, (*found).second);
  Read(value, out);
  if (range.is_allowed && !range.is_allowed(*out)) Refuse("ValueError", key, Takes(range), value);
}

template <typename T>
void Register(const std::string& name, const Map<String, ObjectRef>& known) {
  const std::string key = kPrefix + name;
  if (known.count(key)) return;
  transform::PassContext::RegisterConfigOption(
      key.c_str(), OptionType<T>::Boxed::ContainerType::_GetOrAllocRuntimeTypeIndex(),
      [key](ObjectRef value) { return LegalValue<T>(key, value); });
}

std::string Listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool Holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void RegisterPassOptions() {
  Map<String, ObjectRef> known = CallGlobal("transform.ListConfigs");
#define COLLAGE_REGISTER(type, name, default_value, range, meaning) Register<type>(#name, known);
  COLLAGE_OPTIONS(COLLAGE_REGISTER)
#undef COLLAGE_REGISTER
}

CollageOptions CollageOptions::Of(const Map<String, ObjectRef>& config) {
  CollageOptions options;
#define COLLAGE_READ(type, name, default_value, range, meaning) \
  ReadOption<type>(config, #name, range, &options.name);
  COLLAGE_OPTIONS(COLLAGE_READ)
#undef COLLAGE_READ
  return options;
}

CollageOptions CollageOptions::Current() {
  ObjectRef context = CallGlobal("transform.GetCurrentPassContext");
  return Of(RefFieldAs<Map<String, ObjectRef>>(context, "config"));
}

// Options of options.py, in the order of the table.
TVM_REGISTER_GLOBAL("collage.OptionTable").set_body_typed([]() {
  std::vector<Json> table;
  CollageOptions defaults;
#define COLLAGE_ROW(type, name, default_value, range, meaning) \
  table.push_back(JsonObject({{"name", #name},                 \
                              {"default", defaults.name},      \
                              {"meaning", meaning},            \
                              {"takes", Takes<type>(range)}}));
  COLLAGE_OPTIONS(COLLAGE_ROW)
#undef COLLAGE_ROW
  return String(Json(table).text());
});
// Of a PassContext's config, or of what is to be one.
TVM_REGISTER_GLOBAL("collage.CheckOptions").set_body_typed([](Map<String, ObjectRef> config) {
  CollageOptions::Of(config);
});

OptionRange<int64_t> Between(int64_t least, int64_t greatest) {
  return {"an int from " + std::to_string(least) + " to " + std::to_string(greatest),
          [=](int64_t value) { return least <= value && value <= greatest; }};
}

OptionRange<int64_t> AtLeast(int64_t least) {
  return {"an int >= " + std::to_string(least), [=](int64_t value) { return value >= least; }};
}

OptionRange<double> UpTo(int64_t greatest) {
  return {"a number >= 0 and <= " + std::to_string(greatest),
          [=](double value) { return value >= 0 && value <= static_cast<double>(greatest); }};
}

OptionRange<double> PositiveUpTo(int64_t greatest) {
  return {"a number > 0 and <= " + std::to_string(greatest),
          [=](double value) { return value > 0 && value <= static_cast<double>(greatest); }};
}

OptionRange<std::string> OneOf(const Names& names) {
  return {"one of " + Listed(names), [=](const std::string& value) { return Holds(names, value); }};
}

OptionRange<Names> EachOneOf(const Names& names) {
  return {"a list of " + Listed(names), [=](const Names& values) {
            return std::all_of(values.begin(), values.end(),
                               [&](const std::string& value) { return Holds(names, value); });
          }};
}

const Names& LogLevelNames() {
  static const Names names{"notset", "debug", "info", "warning", "error"};
  return names;
}

const Names& FusionStyleNames() {
  static const Names names{"NoFusion", "TVMFusion", "ArbitraryFusion"};
  return names;
}

OptionRange<Names> EachAFusionStyle() {
  const auto is_style = [](const std::string& text) {
    const NamedStyle named = SplitFusionStyle(text);
    return !named.backend.empty() && Holds(FusionStyleNames(), named.style);
  };
  return {"a list of <backend>.<style> with a style of " + Listed(FusionStyleNames()),
          [=](const Names& values) { return std::all_of(values.begin(), values.end(), is_style); }};
}

NamedStyle SplitFusionStyle(const std::string& text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string::npos) return {"", text};
  return {text.substr(0, dot), text.substr(dot + 1)};
}

}  // namespace tvm::collage
