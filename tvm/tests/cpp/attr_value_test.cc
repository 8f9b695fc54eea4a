// SPDX-License-Identifier: Apache-2.0
// Attributes as plain data: what is equal, and how they print.
#include "src/relay/collage/graph/attr_value.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace tvm::collage::testing {

TEST_CASE("attributes: different values are unequal and print differently") {
  const std::vector<AttrValue> values = {
      AttrValue(),
      int64_t{1},
      int64_t{-1},
      1.0,
      1.0000000000000002,
      std::string("1"),
      std::string("null"),
      std::string("a\", \"b"),
      AttrNumber{"int32", int64_t{1}},
      AttrNumber{"int64", int64_t{1}},
      AttrNumber{"int32", 1.0},
      AttrList{},
      AttrList{AttrList{}},
      AttrList{int64_t{1}},
      AttrList{int64_t{1}, int64_t{1}},
      AttrList{int64_t{11}},
      AttrList{AttrList{int64_t{1}}, AttrList{int64_t{2}}},
      AttrList{AttrList{int64_t{1}, int64_t{2}}},
      AttrList{std::string("a"), std::string("b")},
      AttrList{std::string("a\", \"b")},
      AttrObject{"Target", 1},
      AttrObject{"Map", 1},
      AttrObject{"Map", 2},
  };
  std::set<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    texts.insert(Summary(values[i]));
    for (size_t k = 0; k < values.size(); ++k) CHECK((values[i] == values[k]) == (i == k));
  }
  CHECK(texts.size() == values.size());
}

TEST_CASE("attributes: as text") {
  CHECK(Summary(AttrList{AttrList{AttrNumber{"int32", int64_t{0}}}, std::string("x")}) ==
        "[[0:int32], \"x\"]");
  CHECK(Summary(0.5) == "0x1p-1r");
  CHECK(Summary(AttrObject{"Target", 7}) == "Target#7");
}

}  // namespace tvm::collage::testing
