// SPDX-License-Identifier: Apache-2.0
/*!
 * \file graph_desc.cc
 * \brief Reading a partition's description from JSON.
 */
#include "graph_desc.h"

#include <dmlc/json.h>
#include <tvm/runtime/logging.h>

#include <sstream>

namespace tvm {
namespace collage {
namespace partition {
namespace {

std::string ShapeText(const Dims& dims) {
  std::ostringstream os;
  for (size_t i = 0; i < dims.size(); ++i) os << (i ? "x" : "") << dims[i];
  return dims.empty() ? "scalar" : os.str();
}

template <typename Map>
const typename Map::mapped_type& Lookup(const Map& map, const std::string& key,
                                        const std::string& node_kind) {
  auto it = map.find(key);
  ICHECK(it != map.end()) << "partition: node '" << node_kind << "' lacks attribute '" << key
                          << "'";
  return it->second;
}

void CheckTensorsAreDefinedBeforeUse(const GraphDesc& graph) {
  std::vector<bool> defined(graph.shapes.size(), false);
  auto define = [&](int tensor) {
    ICHECK(tensor >= 0 && tensor < static_cast<int>(defined.size()) && !defined[tensor])
        << "partition: tensor " << tensor << " is out of range or defined twice";
    defined[tensor] = true;
  };
  auto use = [&](int tensor) {
    ICHECK(tensor >= 0 && tensor < static_cast<int>(defined.size()) && defined[tensor])
        << "partition: tensor " << tensor << " is used before it is defined";
  };
  for (int tensor : graph.inputs) define(tensor);
  for (int tensor : graph.constants) define(tensor);
  for (const NodeDesc& node : graph.nodes) {
    for (int tensor : node.inputs) use(tensor);
    for (const PostOpDesc& op : node.post_ops) {
      if (op.input >= 0) use(op.input);
    }
    define(node.output);
  }
  for (int tensor : graph.outputs) use(tensor);
}

}  // namespace

void PostOpDesc::Load(dmlc::JSONReader* reader) {
  dmlc::JSONObjectReadHelper helper;
  helper.DeclareField("kind", &kind);
  helper.DeclareOptionalField("alpha", &alpha);
  helper.DeclareOptionalField("beta", &beta);
  helper.DeclareOptionalField("input", &input);
  helper.ReadAllFields(reader);
}

void NodeDesc::Load(dmlc::JSONReader* reader) {
  dmlc::JSONObjectReadHelper helper;
  helper.DeclareField("kind", &kind);
  helper.DeclareField("inputs", &inputs);
  helper.DeclareField("output", &output);
  helper.DeclareOptionalField("ints", &ints);
  helper.DeclareOptionalField("floats", &floats);
  helper.DeclareOptionalField("strings", &strings);
  helper.DeclareOptionalField("post_ops", &post_ops);
  helper.ReadAllFields(reader);
}

const Dims& NodeDesc::Ints(const std::string& key) const { return Lookup(ints, key, kind); }
double NodeDesc::Float(const std::string& key) const { return Lookup(floats, key, kind); }
const std::string& NodeDesc::Str(const std::string& key) const {
  return Lookup(strings, key, kind);
}

void GraphDesc::Load(dmlc::JSONReader* reader) {
  int format = 0;
  dmlc::JSONObjectReadHelper helper;
  helper.DeclareField("format", &format);
  helper.DeclareField("shapes", &shapes);
  std::vector<std::string> dtype_names;
  helper.DeclareOptionalField("dtypes", &dtype_names);
  helper.DeclareField("inputs", &inputs);
  helper.DeclareField("outputs", &outputs);
  helper.DeclareField("constants", &constants);
  helper.DeclareField("nodes", &nodes);
  helper.ReadAllFields(reader);
  ICHECK_EQ(format, 1) << "partition: this library reads format 1; compile the model again";
  dtypes.assign(shapes.size(), runtime::DataType::Float(32));
  ICHECK(dtype_names.empty() || dtype_names.size() == shapes.size())
      << "partition: " << dtype_names.size() << " dtypes of " << shapes.size() << " tensors";
  for (size_t i = 0; i < dtype_names.size(); ++i) {
    dtypes[i] = runtime::DataType(runtime::String2DLDataType(dtype_names[i]));
  }
}

GraphDesc GraphDesc::FromJson(const std::string& json) {
  GraphDesc graph;
  std::istringstream is(json);
  dmlc::JSONReader reader(&is);
  graph.Load(&reader);
  CheckTensorsAreDefinedBeforeUse(graph);
  return graph;
}

std::string Summary(const GraphDesc& graph, const NodeDesc& node) {
  std::ostringstream os;
  os << node.kind;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    os << (i ? ", " : " ") << ShapeText(graph.shapes[node.inputs[i]]);
  }
  os << " -> " << ShapeText(graph.shapes[node.output]);
  for (const PostOpDesc& op : node.post_ops) os << " + " << op.kind;
  return os.str();
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
