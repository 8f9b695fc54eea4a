// SPDX-License-Identifier: Apache-2.0
/*!
 * \file graph_desc.cc
 * \brief Reading a partition's description from JSON.
 */
#include "graph_desc.h"

#include <dmlc/json.h>
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <exception>
#include <sstream>

namespace tvm {
namespace collage {
namespace partition {

std::string ShapeText(const Dims& dims) {
  std::ostringstream os;
  for (size_t i = 0; i < dims.size(); ++i) os << (i ? "x" : "") << dims[i];
  return dims.empty() ? "scalar" : os.str();
}

namespace {

// What libraries take; no tensor of it has more numbers than its size in bytes can say.
constexpr int kFormat = 2;
constexpr size_t kMostAxes = 12;
constexpr int64_t kMostElements = int64_t{1} << 40;

[[noreturn]] void Refuse(const std::string& reason) {
  LOG(FATAL) << "ValueError: the description of a part is wrong: " << reason;
  throw;  // LOG(FATAL) has thrown
}

void CheckShapes(const std::vector<Dims>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Dims& dims = shapes[i];
    int64_t elements = 1;  // as if no extent were 0: strides are computed so
    bool fits = dims.size() <= kMostAxes;
    for (int64_t extent : dims) {
      fits = fits && extent >= 0 && extent <= kMostElements / elements;
      if (fits) elements *= std::max<int64_t>(extent, 1);
    }
    if (!fits) Refuse("tensor " + std::to_string(i) + " cannot have shape " + ShapeText(dims));
  }
}

template <typename Map>
const typename Map::mapped_type& Lookup(const Map& map, const std::string& key,
                                        const std::string& node_kind) {
  auto it = map.find(key);
  if (it == map.end()) Refuse("node '" + node_kind + "' lacks attribute '" + key + "'");
  return it->second;
}

void CheckTensorsAreDefinedBeforeUse(const GraphDesc& graph) {
  std::vector<bool> defined(graph.shapes.size(), false);
  const auto exists = [&](int tensor) {
    return tensor >= 0 && tensor < static_cast<int>(defined.size());
  };
  auto define = [&](int tensor, const std::string& where) {
    if (!exists(tensor) || defined[tensor]) {
      Refuse(where + ": tensor " + std::to_string(tensor) + " is out of range or defined twice");
    }
    defined[tensor] = true;
  };
  auto use = [&](int tensor, const std::string& where) {
    if (!exists(tensor) || !defined[tensor]) {
      Refuse(where + ": tensor " + std::to_string(tensor) + " is used before it is defined");
    }
  };
  for (int tensor : graph.inputs) define(tensor, "inputs");
  for (int tensor : graph.constants) define(tensor, "constants");
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeDesc& node = graph.nodes[i];
    const std::string step = "step " + std::to_string(i) + " (" + node.kind + "): ";
    for (int tensor : node.inputs) use(tensor, step + "inputs");
    for (const PostOpDesc& op : node.post_ops) {
      if (op.input != -1) use(op.input, step + "post_ops");
    }
    define(node.output, step + "output");
  }
  for (int tensor : graph.outputs) use(tensor, "outputs");
}

/*! \brief The reader's message without time, place and trace. */
std::string Message(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const size_t place = line.find("json.h:");
  const size_t end = place == std::string::npos ? place : line.find(": ", place);
  return end == std::string::npos ? line : line.substr(end + 2);
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
  if (format != kFormat) {
    Refuse("format " + std::to_string(format) + " where this library reads " +
           std::to_string(kFormat) + "; compile the model again");
  }
  dtypes.assign(shapes.size(), runtime::DataType::Float(32));
  if (!dtype_names.empty() && dtype_names.size() != shapes.size()) {
    Refuse(std::to_string(dtype_names.size()) + " dtypes of " + std::to_string(shapes.size()) +
           " tensors");
  }
  for (size_t i = 0; i < dtype_names.size(); ++i) {
    dtypes[i] = runtime::DataType(runtime::String2DLDataType(dtype_names[i]));
  }
}

GraphDesc GraphDesc::FromJson(const std::string& json) {
  GraphDesc graph;
  std::istringstream is(json);
  dmlc::JSONReader reader(&is);
  try {
    graph.Load(&reader);
  } catch (const std::exception& error) {
    Refuse(Message(error.what()));
  }
  CheckShapes(graph.shapes);
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
