// SPDX-License-Identifier: Apache-2.0
// Plain data that C++ writes for Python or reads from it, against the schema of all that they tell
// each other; collage/test_border.py checks the whole messages.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "src/relay/collage/graph/json.h"
#include "src/relay/collage/graph/sub_graph.h"
#include "src/relay/collage/plan/backends.h"

namespace tvm::collage::testing {
namespace {

// The fields that the schema has of a record.
std::set<std::string> FieldsInSchema(const char* record) {
  std::ostringstream text;
  text << std::ifstream(COLLAGE_BORDER_SCHEMA).rdbuf();
  const JsonValue schema = JsonValue::Parse(text.str());
  std::set<std::string> names;
  for (const auto& [name, field] : schema["$defs"][record]["properties"].Fields()) {
    names.insert(name);
  }
  return names;
}

std::set<std::string> FieldsOf(const Json& json) {
  const JsonValue value = JsonValue::Parse(json.text());
  std::set<std::string> names;
  for (const auto& [name, field] : value.Fields()) names.insert(name);
  return names;
}

// Are the fields of a record, JSON values by name, those that `read` needs and the schema has?
void CheckReads(const char* record, const std::map<std::string, std::string>& fields,
                const std::function<void(const JsonValue&)>& read) {
  const auto without = [&](const std::string& lost) {
    std::string text;
    for (const auto& [name, value] : fields) {
      if (name != lost) text += (text.empty() ? "\"" : ",\"") + name + "\":" + value;
    }
    return JsonValue::Parse("{" + text + "}");
  };
  std::set<std::string> names;
  CHECK_NOTHROW(read(without("")));
  for (const auto& [name, value] : fields) {
    CAPTURE(name);
    CHECK_THROWS_AS(read(without(name)), std::runtime_error);
    names.insert(name);
  }
  CHECK(names == FieldsInSchema(record));
}

}  // namespace

TEST_CASE("border: a cost is written as it is read") {
  const EstimatedCost cost{"measured", 0.5, "odd", {"noisy"}};
  CHECK(FieldsOf(cost.ToJson()) == FieldsInSchema("PartCost"));
  CHECK(EstimatedCost::Of(JsonValue::Parse(cost.ToJson().text())).ToJson().text() ==
        cost.ToJson().text());
  CheckReads("PartCost",
             {{"status", "\"measured\""}, {"seconds", "0.5"}, {"message", "\"\""}, {"flags", "[]"}},
             EstimatedCost::Of);
}

TEST_CASE("border: a tensor's type is written") {
  CHECK(FieldsOf(TensorType{{1, TensorType::kDynamic}, "float32"}) == FieldsInSchema("TensorType"));
}

TEST_CASE("border: the limits of a sub-graph are read") {
  CheckReads("SubGraphConfig", {{"max_depth", "8"}, {"max_exits", "1"}, {"allow_taps", "true"}},
             SubGraphConfig::Of);
}

}  // namespace tvm::collage::testing
