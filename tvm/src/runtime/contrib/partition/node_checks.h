// SPDX-License-Identifier: Apache-2.0
// Checks of one step of a description that was read from a file: what its builder relies on.
//
// A description may come from a damaged or foreign file, so nothing of it is indexed, divided by or
// allocated before it was checked. Each error is one line that names the step and the field.
// Test: runtime/test_partition_checks.py.
#pragma once

#include <initializer_list>
#include <limits>
#include <string>

#include "graph_desc.h"

namespace tvm::collage::partition {

class NodeChecks {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  // Of a window, a stride, a dilation or a padding: libraries compute with them in 32 bits.
  static constexpr int64_t kMostSteps = 1 << 20;

  NodeChecks(const GraphDesc& graph, size_t step)
      : graph_(graph), node_(graph.nodes[step]), step_(step) {}

  const NodeDesc& node() const { return node_; }
  const Dims& shape(int tensor) const { return graph_.shapes[tensor]; }
  const Dims& input(size_t i) const { return shape(node_.inputs[i]); }
  const Dims& output() const { return shape(node_.output); }
  runtime::DataType dtype(int tensor) const { return graph_.dtypes[tensor]; }

  // ValueError "step 2 (conv): groups: <reason>" unless it holds.
  void Require(bool holds, const std::string& field, const std::string& reason) const;

  void NumInputs(size_t least, size_t most) const;
  // An integer-list attribute of that length, all of its numbers within the bounds.
  const Dims& Ints(const std::string& key, size_t length, int64_t least,
                   int64_t most = kMost) const;
  int64_t Int(const std::string& key, int64_t least, int64_t most = kMost) const {
    return Ints(key, 1, least, most)[0];
  }
  // An attribute that is a number of float32.
  void Float(const std::string& key) const;
  const std::string& Str(const std::string& key) const;
  void OneOf(const std::string& key, std::initializer_list<const char*> known) const;
  // A layout that names each of the letters once.
  void Layout(const std::string& key, std::string letters) const;
  void Rank(const std::string& field, const Dims& dims, size_t least, size_t most) const;
  void NoPostOps() const;
  void SameShape(const std::string& field, const Dims& found, const Dims& wanted) const;

 private:
  const GraphDesc& graph_;
  const NodeDesc& node_;
  const size_t step_;
};

// How many numbers a tensor of a checked shape holds.
int64_t NumElements(const Dims& dims);

}  // namespace tvm::collage::partition
