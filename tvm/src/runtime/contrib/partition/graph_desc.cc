// SPDX-License-Identifier: Apache-2.0
#include "graph_desc.h"

#include <dmlc/json.h>
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <exception>
#include <sstream>

#include "printable.h"

namespace tvm::collage::partition {

std::string ShapeText(const Dims& dims) {
  std::ostringstream os;
  for (size_t i = 0; i < dims.size(); ++i) os << (i ? "x" : "") << dims[i];
  return dims.empty() ? "scalar" : os.str();
}

namespace {

// The parts of format 1 had names for their constants, never arrays; all else is the same.
constexpr int kOldestFormat = 1;
constexpr int kFormat = 2;
// What libraries take; no tensor of it has more numbers than its size in bytes can say.
constexpr size_t kMostAxes = 12;
constexpr int64_t kMostElements = int64_t{1} << 40;

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

void SetTypes(const std::vector<std::string>& names, GraphDesc* graph) {
  const size_t tensors = graph->shapes.size();
  if (!names.empty() && names.size() != tensors) {
    Refuse(std::to_string(names.size()) + " dtypes of " + std::to_string(tensors) + " tensors");
  }
  graph->dtypes.assign(tensors, runtime::DataType::Float(32));
  for (size_t i = 0; i < names.size(); ++i) {
    try {
      graph->dtypes[i] = runtime::DataType(runtime::String2DLDataType(names[i]));
    } catch (const std::exception&) {
      Refuse("tensor " + std::to_string(i) + " has unknown type '" + names[i] + "'");
    }
  }
}

// The reader's message without time, place and trace, with the fields that it knows, a line each.
std::string Message(const std::string& text) {
  size_t stop = text.find('\n');
  while (stop != std::string::npos && text[stop + 1] == '"') stop = text.find('\n', stop + 1);
  const std::string line = text.substr(0, stop);
  const size_t place = line.find("json.h:");
  const size_t end = place == std::string::npos ? place : line.find(": ", place);
  return end == std::string::npos ? line : line.substr(end + 2);
}

}  // namespace

void Refuse(const std::string& reason) {
  LOG(FATAL) << "ValueError: the description of a part is wrong: " << Printable(reason);
  throw;  // LOG(FATAL) has thrown
}

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
  helper.DeclareOptionalField("call", &call);
  helper.ReadAllFields(reader);
}

const Dims& NodeDesc::Ints(const std::string& key) const { return Lookup(ints, key, kind); }
double NodeDesc::Float(const std::string& key) const { return Lookup(floats, key, kind); }
const std::string& NodeDesc::Str(const std::string& key) const {
  return Lookup(strings, key, kind);
}

GraphDesc GraphDesc::FromJson(const std::string& json) {
  GraphDesc graph;
  int format = 0;
  std::vector<std::string> dtypes;
  std::istringstream is(json);
  dmlc::JSONReader reader(&is);
  dmlc::JSONObjectReadHelper helper;
  helper.DeclareField("format", &format);
  helper.DeclareField("shapes", &graph.shapes);
  helper.DeclareOptionalField("dtypes", &dtypes);
  helper.DeclareField("inputs", &graph.inputs);
  helper.DeclareField("outputs", &graph.outputs);
  helper.DeclareField("constants", &graph.constants);
  helper.DeclareField("nodes", &graph.nodes);
  helper.DeclareOptionalField("one_thread", &graph.one_thread);
  try {
    helper.ReadAllFields(&reader);
  } catch (const std::exception& error) {
    Refuse(Message(error.what()));
  }
  if (is.eof()) Refuse("it is cut short");  // the reader takes the end for any number of brackets
  if (format < kOldestFormat || format > kFormat) {
    Refuse("format " + std::to_string(format) + " where this library reads " +
           std::to_string(kOldestFormat) + " to " + std::to_string(kFormat) +
           "; compile the model again");
  }
  SetTypes(dtypes, &graph);
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

}  // namespace tvm::collage::partition
