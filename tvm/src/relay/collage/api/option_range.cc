// SPDX-License-Identifier: Apache-2.0
#include "option_range.h"

#include <algorithm>

namespace tvm::collage {
namespace {

std::string Listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool Holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

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
