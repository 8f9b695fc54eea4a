// SPDX-License-Identifier: Apache-2.0
// JSON text, written and read.
#include "src/relay/collage/graph/json.h"

#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace tvm::collage::testing {

TEST_CASE("json: what is written is read again") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string odd = "a \"b\" \\ \n\t\x01 \xc3\xa9";
  const Json written = JsonObject({
      {"flag", true},
      {"count", -3},
      {"large", int64_t{1} << 62},
      {"real", 0.1},
      {"whole", 2.0},
      {"infinite", -infinity},
      {"text", odd},
      {"list", std::vector<int>{1, 2}},
      {"empty", std::vector<int>{}},
      {"attrs", Attrs{{"k", AttrList{int64_t{1}, 2.5, std::string("x")}}}},
      {"inner", JsonObject({{"null", AttrValue()}})},
  });
  const JsonValue read = JsonValue::Parse(written.text());
  CHECK(read["flag"].Bool());
  CHECK(read["count"].Int() == -3);
  CHECK(read["large"].Int() == int64_t{1} << 62);
  CHECK(read["real"].Real() == 0.1);
  CHECK(read["whole"].Real() == 2.0);
  CHECK(read["count"].Real() == -3.0);
  CHECK(read["infinite"].Real() == -infinity);
  CHECK(read["text"].Text() == odd);
  CHECK(read["list"].Items().size() == 2);
  CHECK(read["empty"].Items().empty());
  CHECK(read["attrs"]["k"].Attr() == AttrValue(AttrList{int64_t{1}, 2.5, std::string("x")}));
  CHECK(read["inner"].Fields().size() == 1);
}

TEST_CASE("json: texts as Python writes them") {
  const JsonValue read = JsonValue::Parse(
      R"( {"a": "\u00e9\u20ac\ud83d\ude00\/\b\n", "b": ["\ud83d", NaN, 1e-7, true, false, null]} )");
  CHECK(read["a"].Text() == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\b\n");
  const JsonValue::List& items = read["b"].Items();
  CHECK(items[0].Text() == "\xef\xbf\xbd");
  CHECK(std::isnan(items[1].Real()));
  CHECK(items[2].Real() == 1e-7);
  CHECK(items[3].Attr() == AttrValue(int64_t{1}));
  CHECK_FALSE(items[4].Bool());
}

TEST_CASE("json: numbers are those of the format in any locale") {
  // Of those with a decimal comma, whichever the machine has; "C" is always there.
  for (const char* name : {"C", "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "pl_PL.UTF-8"}) {
    if (std::setlocale(LC_NUMERIC, name) == nullptr) continue;
    CAPTURE(name);
    CHECK(Json(0.5).text() == "0.5");
    CHECK(Json(1e300).text() == "1e+300");
    CHECK(JsonValue::Parse("[2.5e-3]").Items()[0].Real() == 2.5e-3);
  }
  std::setlocale(LC_NUMERIC, "C");
}

TEST_CASE("json: what is not there, or is something else, is an error") {
  const JsonValue read = JsonValue::Parse(R"({"a": 1, "b": null})");
  CHECK_THROWS_AS(read["c"], std::runtime_error);
  CHECK_THROWS_AS(read["a"].Text(), std::runtime_error);
  CHECK_THROWS_AS(read["a"]["b"], std::runtime_error);
  CHECK_THROWS_AS(read["b"].Attr(), std::runtime_error);
  for (const char* text : {"", "{", "[1", "[1 2]", "{\"a\" 1}", "\"a", "\"\\u12", "tru", "1 2", "-",
                           "99999999999999999999", "1e999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(JsonValue::Parse(text), std::runtime_error);
  }
}

}  // namespace tvm::collage::testing
