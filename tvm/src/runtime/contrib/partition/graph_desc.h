// SPDX-License-Identifier: Apache-2.0
// A partition as the compiler describes it: operations over numbered tensors.
//
// Written by python (backends/partition/description.py) as JSON, read here; the backends that use
// it share everything but the kinds of nodes. Shapes and axes are Relay's; how data lies in memory
// is not part of it. Nodes come in execution order.
// Test: backends/dnnl/test_lower.py.
#pragma once

#include <tvm/runtime/data_type.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dmlc {
class JSONReader;
}

namespace tvm::collage::partition {

using Dims = std::vector<int64_t>;

// Something done to a node's result before it is stored.
struct PostOpDesc {
  // An elementwise function ("relu"), a binary one ("add"), or "sum" (same shape add).
  std::string kind;
  float alpha = 0.f;
  float beta = 0.f;
  // The other operand of binary and sum; -1 for elementwise.
  int input = -1;

  void Load(dmlc::JSONReader* reader);
};

struct NodeDesc {
  std::string kind;
  std::vector<int> inputs;
  int output = -1;
  std::map<std::string, Dims> ints;
  std::map<std::string, double> floats;
  std::map<std::string, std::string> strings;
  std::vector<PostOpDesc> post_ops;
  // Which of the part's calls its result is of, by that call's place among them; -1 for none.
  int call = -1;

  void Load(dmlc::JSONReader* reader);
  // An integer-list attribute; an error naming node and attribute when absent.
  const Dims& Ints(const std::string& key) const;
  int64_t Int(const std::string& key) const { return Ints(key).at(0); }
  double Float(const std::string& key) const;
  const std::string& Str(const std::string& key) const;
};

struct GraphDesc {
  // Relay shape of each tensor.
  std::vector<Dims> shapes;
  // Type of each tensor's elements; float32 where the description says nothing.
  std::vector<runtime::DataType> dtypes;
  // Tensors that callers pass, in their order.
  std::vector<int> inputs;
  std::vector<int> outputs;
  // Tensors whose values come at initialisation, in the order of the constants' names.
  std::vector<int> constants;
  std::vector<NodeDesc> nodes;
  // Whether all of it runs on the calling thread, which its plan was measured to.
  int one_thread = 0;

  // Reads and checks all that holds for every kind of node: shapes that memory may have, every
  // tensor produced before it is used. ValueError of one line.
  static GraphDesc FromJson(const std::string& json);
};

// Throws the ValueError of one line that a description is wrong.
[[noreturn]] void Refuse(const std::string& reason);

// As in "1x64x56x56", for messages.
std::string ShapeText(const Dims& dims);

// As in "conv 1x64x56x56, 64x64x1x1 -> 1x64x56x56", for messages.
std::string Summary(const GraphDesc& graph, const NodeDesc& node);

}  // namespace tvm::collage::partition
