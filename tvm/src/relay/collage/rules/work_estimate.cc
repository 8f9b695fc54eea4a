// SPDX-License-Identifier: Apache-2.0
#include "work_estimate.h"

#include <algorithm>
#include <set>
#include <string>
#include <variant>

namespace tvm::collage {
namespace {

double Product(const std::vector<int64_t>& dims) {
  double product = 1;
  for (int64_t dim : dims) product *= dim == TensorType::kDynamic ? 1 : static_cast<double>(dim);
  return product;
}

double Elements(const Node& node) {
  double sum = 0;
  for (const TensorType& type : node.types) sum += Product(type.shape);
  return sum;
}

// Elements of `operand` that go into one of the output's.
double Reduction(const std::vector<int64_t>& operand, std::vector<int64_t> output) {
  std::vector<int64_t> reduced;
  for (int64_t dim : operand) {
    auto same = std::find(output.begin(), output.end(), dim);
    if (same == output.end()) {
      reduced.push_back(dim);
    } else {
      output.erase(same);
    }
  }
  return Product(reduced);
}

// Two operations for each element of the result and each that goes into it.
double ProductsOf(const DataflowGraph& graph, NodeIndex index) {
  const std::vector<NodeIndex> args = graph.Args(index);
  const Node& node = graph[index];
  if (args.size() < 2 || node.types.size() != 1 || graph[args[1]].types.size() != 1) return 0;
  return 2 * Elements(node) * Reduction(graph[args[1]].types[0].shape, node.types[0].shape);
}

// Operators by name, for what is certain of them; of others nothing is.
const std::set<std::string> kMatrixProducts = {"nn.dense", "nn.matmul", "nn.batch_matmul"};
const std::set<std::string> kConvolutions = {"nn.conv1d", "nn.conv2d", "nn.conv3d"};
const std::set<std::string> kPools = {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d",
                                      "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"};
// They read each element of their arguments, though their kinds do not say so ...
const std::set<std::string> kReadAll = {"reshape",          "transpose",
                                        "squeeze",          "expand_dims",
                                        "concatenate",      "stack",
                                        "nn.pad",           "reverse",
                                        "nn.batch_flatten", "layout_transform",
                                        "nn.softmax",       "nn.bias_add",
                                        "nn.layer_norm",    "nn.global_avg_pool2d",
                                        "nn.log_softmax",   "nn.group_norm",
                                        "broadcast_to",     "nn.global_max_pool2d"};
// ... and these may not, though their kinds are of such as do.
const std::set<std::string> kReadSome = {"zeros_like", "ones_like",    "full_like",
                                         "shape_of",   "ndarray_size", "where"};

// The numbers of a list attribute; empty where there is none.
std::vector<int64_t> NumbersOf(const Node& node, const std::string& key) {
  std::vector<int64_t> numbers;
  const AttrValue* attr = node.FindAttr(key);
  const AttrList* list = attr ? std::get_if<AttrList>(attr) : nullptr;
  if (list == nullptr) return numbers;
  for (const AttrValue& each : *list) {
    const int64_t* plain = std::get_if<int64_t>(&each);
    const AttrNumber* number = std::get_if<AttrNumber>(&each);
    if (number) plain = std::get_if<int64_t>(&number->value);
    if (plain == nullptr) return {};
    numbers.push_back(*plain);
  }
  return numbers;
}

// Do windows of that size leave nothing out between them?
bool AreWindowsDense(const Node& node, const char* size_key) {
  const std::vector<int64_t> sizes = NumbersOf(node, size_key);
  const std::vector<int64_t> strides = NumbersOf(node, "strides");
  const std::vector<int64_t> dilation = NumbersOf(node, "dilation");
  const auto is_one = [](int64_t each) { return each == 1; };
  if (sizes.empty() || sizes.size() != strides.size()) return false;
  if (!std::all_of(strides.begin(), strides.end(), is_one) &&
      !std::all_of(dilation.begin(), dilation.end(), is_one)) {
    return false;
  }
  return std::equal(sizes.begin(), sizes.end(), strides.begin(),
                    [](int64_t size, int64_t stride) { return size >= stride; });
}

// Their second argument gives a type or a shape alone.
const std::set<std::string> kReadFirst = {"cast_like", "broadcast_to_like", "collapse_sum_like",
                                          "reshape_like", "slice_like"};

// Does whoever needs the node's value whole need each element of that argument?
bool ReadsAll(const Node& node, size_t position) {
  if (node.type == NodeType::kTuple) return true;
  if (position > 0 && kReadFirst.count(node.name) > 0) return false;
  if (!node.IsOpCall() || kReadSome.count(node.name) > 0) return false;
  if (kMatrixProducts.count(node.name) > 0 || kReadAll.count(node.name) > 0) return true;
  if (kConvolutions.count(node.name) > 0) {
    return position == 1 || AreWindowsDense(node, "kernel_size");
  }
  if (kPools.count(node.name) > 0) return AreWindowsDense(node, "pool_size");
  return node.kind == OpKind::kElemWise || node.kind == OpKind::kBroadcast ||
         node.kind == OpKind::kCommReduce;
}

// The products that any algorithm for the node's whole result takes.
double LeastOperations(const DataflowGraph& graph, NodeIndex index) {
  const Node& node = graph[index];
  if (!node.IsOpCall() || node.types.size() != 1 || node.types[0].dtype != "float32") return 0;
  for (NodeIndex arg : graph.Args(index)) {
    if (graph[arg].types.size() != 1 || graph[arg].types[0].dtype != "float32") return 0;
  }
  if (kMatrixProducts.count(node.name) > 0) return ProductsOf(graph, index);
  if (kConvolutions.count(node.name) == 0) return 0;
  const std::vector<int64_t> window = NumbersOf(node, "kernel_size");
  return window.empty() ? 0 : ProductsOf(graph, index) / Product(window);
}

}  // namespace

double WorkOf(const DataflowGraph& graph, NodeIndex index) {
  const Node& node = graph[index];
  if (!node.IsKernel()) return 0;
  const std::vector<NodeIndex> args = graph.Args(index);
  double work = Elements(node);
  for (NodeIndex arg : args) work += Elements(graph[arg]);
  if (node.kind != OpKind::kOutEWiseFusable) return work;
  return std::max(work, ProductsOf(graph, index));
}

double WorkOf(const DataflowGraph& graph, const SubGraph& sub_graph) {
  double sum = 0;
  sub_graph.inside().ForEach([&](NodeIndex i) { sum += WorkOf(graph, i); });
  return sum;
}

double BytesOf(const DataflowGraph& graph, const SubGraph& sub_graph) {
  double sum = 0;
  for (const auto* nodes : {&sub_graph.inputs(), &sub_graph.constants(), &sub_graph.exits()}) {
    for (NodeIndex node : *nodes) sum += static_cast<double>(graph[node].NumBytes());
  }
  return sum;
}

LeastWork LeastWorkOf(const DataflowGraph& graph, const SubGraph& sub_graph, bool is_call) {
  LeastWork least;
  least.is_launched = is_call;
  IndexSet is_variable(graph.size());  // inside, and no constant could stand in its place
  for (NodeIndex input : sub_graph.inputs()) is_variable.Add(input);
  sub_graph.inside().ForEach([&](NodeIndex i) {
    const std::vector<NodeIndex> args = graph.Args(i);
    const bool reads = std::any_of(args.begin(), args.end(),
                                   [&](NodeIndex arg) { return is_variable.Contains(arg); });
    if (reads) is_variable.Add(i);
  });
  IndexSet is_needed(graph.size());  // each element of its value
  for (NodeIndex exit : sub_graph.exits()) is_needed.Add(exit);
  const std::vector<int> inside = sub_graph.inside().ToVector();
  for (auto i = inside.rbegin(); i != inside.rend(); ++i) {
    if (!is_needed.Contains(*i)) continue;
    const Node& node = graph[*i];
    const std::vector<NodeIndex> args = graph.Args(*i);
    for (size_t position = 0; position < args.size(); ++position) {
      if (ReadsAll(node, position)) is_needed.Add(args[position]);
    }
    if (!is_variable.Contains(*i) || !node.IsOpCall()) continue;
    least.operations += LeastOperations(graph, *i);
    least.is_launched = least.is_launched || node.kind == OpKind::kCommReduce ||
                        node.kind == OpKind::kOutEWiseFusable;
  }
  return least;
}

int NumOpCalls(const DataflowGraph& graph, const SubGraph& sub_graph) {
  int count = 0;
  sub_graph.inside().ForEach([&](int index) { count += graph[index].IsOpCall(); });
  return count;
}

}  // namespace tvm::collage
