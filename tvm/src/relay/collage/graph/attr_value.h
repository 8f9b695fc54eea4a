// SPDX-License-Identifier: Apache-2.0
// AttrValue: any attribute of a call, operator or function as plain data, so that two that differ
// anywhere are different. Test: tvm/tests/cpp/attr_value_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tvm::collage {

// A number with a type of its own, as lists hold them: 1 of int32 is not 1 of int64.
struct AttrNumber {
  using Value = std::variant<int64_t, double>;
  std::string dtype;
  Value value;
  bool operator==(const AttrNumber& that) const {
    return dtype == that.dtype && value == that.value;
  }
};

// What has no plain form: its type and a hash over all that it holds.
struct AttrObject {
  std::string type;
  uint64_t hash = 0;
  bool operator==(const AttrObject& that) const { return type == that.type && hash == that.hash; }
};

struct AttrValue;
using AttrList = std::vector<AttrValue>;
// Sorted by key.
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

// monostate: null. int64_t (booleans too), double and string (data types too): a field of just that
// type. Lists may be nested.
struct AttrValue
    : std::variant<std::monostate, int64_t, double, std::string, AttrNumber, AttrList, AttrObject> {
  using variant::variant;
};

// One text for each value: equal values, and only they, print the same.
std::string Summary(const AttrValue& value);

}  // namespace tvm::collage
