// SPDX-License-Identifier: Apache-2.0
#include "node_checks.h"

#include <tvm/runtime/logging.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>

namespace tvm::collage::partition {

int64_t NumElements(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

void NodeChecks::Require(bool holds, const std::string& field, const std::string& reason) const {
  if (holds) return;
  Refuse("step " + std::to_string(step_) + " (" + node_.kind + "): " + field + ": " + reason);
}

void NodeChecks::NumInputs(size_t least, size_t most) const {
  const size_t count = node_.inputs.size();
  std::ostringstream reason;
  reason << count << " of them, not " << least;
  if (most > least) reason << " to " << most;
  Require(count >= least && count <= most, "inputs", reason.str());
}

const Dims& NodeChecks::Ints(const std::string& key, size_t length, int64_t least,
                             int64_t most) const {
  const auto found = node_.ints.find(key);
  Require(found != node_.ints.end(), key, "it is missing");
  const Dims& values = found->second;
  Require(values.size() == length, key,
          std::to_string(values.size()) + " numbers, not " + std::to_string(length));
  for (int64_t value : values) {
    std::ostringstream reason;
    reason << value << " is not from " << least << " to " << most;
    Require(value >= least && value <= most, key, reason.str());
  }
  return values;
}

void NodeChecks::Float(const std::string& key) const {
  const auto found = node_.floats.find(key);
  Require(found != node_.floats.end(), key, "it is missing");
}

const std::string& NodeChecks::Str(const std::string& key) const {
  const auto found = node_.strings.find(key);
  Require(found != node_.strings.end(), key, "it is missing");
  return found->second;
}

void NodeChecks::OneOf(const std::string& key, std::initializer_list<const char*> known) const {
  const std::string& value = Str(key);
  const bool is_known =
      std::any_of(known.begin(), known.end(), [&](const char* name) { return value == name; });
  std::string names;
  for (const char* name : known) names += std::string(names.empty() ? "" : ", ") + name;
  Require(is_known, key, "unknown '" + value + "'; known: " + names);
}

void NodeChecks::Layout(const std::string& key, std::string letters) const {
  const std::string& value = Str(key);
  std::string sorted = value;
  std::sort(sorted.begin(), sorted.end());
  std::sort(letters.begin(), letters.end());
  Require(sorted == letters, key, "'" + value + "' does not order the axes " + letters);
}

void NodeChecks::Rank(const std::string& field, const Dims& dims, size_t least, size_t most) const {
  std::ostringstream reason;
  reason << dims.size() << " axes, not " << least;
  if (most > least) reason << " to " << most;
  Require(dims.size() >= least && dims.size() <= most, field, reason.str());
}

void NodeChecks::NoPostOps() const {
  Require(node_.post_ops.empty(), "post_ops", "such a step has none");
}

void NodeChecks::SameShape(const std::string& field, const Dims& found, const Dims& wanted) const {
  Require(found == wanted, field, ShapeText(found) + " where " + ShapeText(wanted) + " is wanted");
}

}  // namespace tvm::collage::partition
