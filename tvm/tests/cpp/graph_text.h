// SPDX-License-Identifier: Apache-2.0
// Graphs from one line of text, for tests: statements separated by `;`, the last one is the result.
//   x:var   c:const   y=nn.conv2d(x,c)@4   t=(y,x)   p=t.0   f=call(g,x)   g:fn
// `@k` is the op's kind (0 if left out), `{key=1,other=text}` its attributes, `#s` the scope.
#pragma once

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/relay/collage/graph/dataflow_graph.h"
#include "src/relay/collage/graph/sub_graph.h"

namespace tvm::collage::testing {

struct NamedGraph {
  DataflowGraph graph;
  std::map<std::string, NodeIndex> names;

  NodeIndex operator[](const std::string& name) const {
    auto found = names.find(name);
    if (found == names.end()) throw std::invalid_argument("no node named " + name);
    return found->second;
  }
  // The set of nodes named in "a b c".
  IndexSet Set(const std::string& text) const {
    IndexSet result(graph.size());
    std::istringstream stream(text);
    for (std::string name; stream >> name;) result.Add((*this)[name]);
    return result;
  }
  // The other way round: names in index order.
  std::string Names(const IndexSet& set) const {
    std::string text;
    set.ForEach([&](NodeIndex i) {
      for (const auto& [name, index] : names) {
        if (index == i) text += (text.empty() ? "" : " ") + name;
      }
    });
    return text;
  }
  std::string Names(const std::vector<NodeIndex>& nodes) const {
    IndexSet set(graph.size());
    for (NodeIndex i : nodes) set.Add(i);
    return Names(set);
  }
  SubGraph Sub(const std::string& text) const { return SubGraph::Make(graph, Set(text)); }
};

class GraphReader {
 public:
  NamedGraph Read(const std::string& text) {
    std::istringstream stream(text);
    NodeIndex last = -1;
    for (std::string statement; std::getline(stream, statement, ';');) {
      std::string packed;
      for (char c : statement) {
        if (!std::isspace(static_cast<unsigned char>(c))) packed += c;
      }
      if (!packed.empty()) last = ReadStatement(packed);
    }
    result_.graph.Finish(last);
    return std::move(result_);
  }

 private:
  static std::vector<std::string> Split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
  }
  // Cuts `text` at `mark` and gives what follows it.
  static std::string TakeAfter(std::string* text, char mark) {
    const size_t at = text->rfind(mark);
    if (at == std::string::npos) return "";
    std::string after = text->substr(at + 1);
    text->resize(at);
    return after;
  }

  NodeIndex Append(Node node) {
    node.scope = scope_;
    if (node.types.empty()) node.types = {{{1, 4}, "float32"}};
    return result_.graph.Append(std::move(node));
  }
  NodeIndex Op(const std::string& name, OpKind kind) {
    auto found = ops_.find(name);
    if (found != ops_.end()) return found->second;
    Node node;
    node.type = NodeType::kOp;
    node.kind = kind;
    node.name = name;
    node.attrs = {{"TOpPattern", static_cast<int64_t>(kind)}};
    return ops_[name] = Append(std::move(node));
  }
  void ReadAttrs(const std::string& text, Node* node) {
    for (const std::string& part : Split(text, ',')) {
      std::vector<std::string> pair = Split(part, '=');
      const bool is_number = std::isdigit(static_cast<unsigned char>(pair[1][0])) != 0;
      node->attrs.emplace_back(
          pair[0], is_number ? AttrValue(int64_t{std::stoi(pair[1])}) : AttrValue(pair[1]));
    }
    std::sort(node->attrs.begin(), node->attrs.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  NodeIndex ReadStatement(std::string text) {
    const std::string scope = TakeAfter(&text, '#');
    scope_ = scope.empty() ? 0 : std::stoi(scope);
    const std::string kind = TakeAfter(&text, '@');
    Node node;
    node.kind = kind.empty() ? OpKind::kElemWise : static_cast<OpKind>(std::stoi(kind));
    if (text.find('=') == std::string::npos) return ReadLeaf(text, std::move(node));
    const size_t brace = text.find('{');
    if (brace != std::string::npos) {
      ReadAttrs(text.substr(brace + 1, text.rfind('}') - brace - 1), &node);
      text.resize(brace);
    }
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::string body = text.substr(equals + 1);
    const size_t open = body.find('(');
    if (open == std::string::npos) {
      node.type = NodeType::kProjection;
      node.projection = std::stoi(TakeAfter(&body, '.'));
      node.kind = OpKind::kInjective;
      node.inputs = {result_[body]};
      return result_.names[name] = Append(std::move(node));
    }
    const std::string op = body.substr(0, open);
    std::vector<NodeIndex> args;
    for (const std::string& arg : Split(body.substr(open + 1, body.size() - open - 2), ',')) {
      args.push_back(result_[arg]);
    }
    if (op.empty()) {
      node.type = NodeType::kTuple;
      node.kind = OpKind::kTuple;
      node.is_tuple_typed = true;
      node.types.assign(args.size(), TensorType{{1, 4}, "float32"});
    } else if (op == "call") {
      node.type = NodeType::kCallOther;
      node.kind = OpKind::kOpaque;
    } else if (op == "If" || op == "Let") {
      node.type = NodeType::kOther;
      node.kind = OpKind::kOpaque;
      node.name = op;
    } else if (op == "fn") {
      node.type = NodeType::kFunction;
      node.kind = OpKind::kOpaque;
    } else {
      node.type = NodeType::kCall;
      node.name = op;
      node.inputs = {Op(op, node.kind)};
    }
    node.inputs.insert(node.inputs.end(), args.begin(), args.end());
    return result_.names[name] = Append(std::move(node));
  }

  NodeIndex ReadLeaf(const std::string& text, Node node) {
    const std::vector<std::string> parts = Split(text, ':');
    if (parts.size() != 2) throw std::invalid_argument("cannot read statement " + text);
    if (parts[1] == "const") {
      node.type = NodeType::kConstant;
    } else if (parts[1] == "fn") {
      node.type = NodeType::kFunction;
      node.kind = OpKind::kOpaque;
    } else {
      node.type = NodeType::kVar;
      node.kind = OpKind::kOpaque;
    }
    node.name = parts[0];
    return result_.names[parts[0]] = Append(std::move(node));
  }

  NamedGraph result_;
  std::map<std::string, NodeIndex> ops_;
  int scope_ = 0;
};

// The graph that `text` describes.
inline NamedGraph G(const std::string& text) { return GraphReader().Read(text); }

}  // namespace tvm::collage::testing
