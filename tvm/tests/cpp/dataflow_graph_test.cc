// SPDX-License-Identifier: Apache-2.0
// DataflowGraph: its arrays, scopes and dominators, on graphs written as text.
#include <doctest/doctest.h>

#include <string>

#include "graph_text.h"
#include "random_graph.h"

namespace tvm::collage::testing {

TEST_CASE("graph: outputs, placeable nodes, result, calls by op") {
  NamedGraph g = G("x:var; c:const; y=conv(x,c)@4; z=add(y,y)@1; t=(y,z); p=t.1; q=add(p,x)@1");
  CHECK(g.Names(g.graph.placeable()) == "y z t p q");
  CHECK(g.Names(g.graph[g["y"]].outputs) == "z t");
  CHECK(g.graph[g["z"]].inputs.size() == 3);
  CHECK(g.Names(g.graph.Args(g["z"])) == "y");
  CHECK(g.graph[g["q"]].is_external);
  CHECK_FALSE(g.graph[g["z"]].is_external);
  CHECK(g.Names(g.graph.CallsOf("add")) == "z q");
  CHECK(g.graph.CallsOf("mul").empty());
  CHECK(g.graph.result() == g["q"]);
  CHECK(g.graph.Summary() == "graph of 9 nodes, 5 to place, 3 calls");
  CHECK(g.graph.Summary(g["y"]) == "%3 = conv(%0, %1)");
  CHECK(g.graph.Summary(g["p"]) == "%7 = projection 1(%6)");
}

TEST_CASE("graph: bytes of tensors, tuples, vectors and dynamic shapes") {
  CHECK(TensorType{{2, 3}, "float32"}.NumBytes() == 24);
  CHECK(TensorType{{}, "float64"}.NumBytes() == 8);
  CHECK(TensorType{{5}, "bool"}.NumBytes() == 5);
  CHECK(TensorType{{4}, "int8x4"}.NumBytes() == 16);
  CHECK(TensorType{{2, TensorType::kDynamic}, "float32"}.NumBytes() == 0);
  NamedGraph g = G("x:var; t=(x,x)");
  CHECK(g.graph[g["t"]].NumBytes() == 32);
}

TEST_CASE("graph: attributes are found by name") {
  NamedGraph g = G("x:var; y=conv(x){strides=2,layout=NCHW}@4");
  const Node& y = g.graph[g["y"]];
  CHECK(std::get<int64_t>(*y.FindAttr("strides")) == 2);
  CHECK(std::get<std::string>(*y.FindAttr("layout")) == "NCHW");
  CHECK(y.FindAttr("padding") == nullptr);
}

TEST_CASE("graph: post-dominators") {
  NamedGraph g = G("x:var; a=relu(x); b=relu(a); c=tanh(a); d=add(b,c)@1; e=relu(d)");
  CHECK(g.graph[g["a"]].dominator == g["d"]);
  CHECK(g.graph[g["b"]].dominator == g["d"]);
  CHECK(g.graph[g["d"]].dominator == g["e"]);
  CHECK(g.graph[g["e"]].dominator == -1);
  CHECK(g.Names(g.graph.DominatedBy(g["d"])) == "a b c");

  SUBCASE("values flow through what reads a parameter or a let's variable") {
    NamedGraph f = G("p:var; a=relu(p); b=tanh(a); f=fn(p,b)");
    CHECK(f.graph[f["p"]].dominator == f["a"]);
    NamedGraph l = G("x:var; v:var; a=relu(x); b=tanh(v); l=Let(a,v,b)");
    CHECK(l.graph[l["v"]].dominator == l["b"]);
    CHECK(l.graph.FlowInputs(l["l"]) == std::vector<NodeIndex>{l["b"]});
  }
  SUBCASE("none where a value is the result itself") {
    NamedGraph h = G("x:var; a=relu(x); b=relu(a); t=(a,b)");
    CHECK(h.graph[h["a"]].dominator == h["t"]);
    NamedGraph unread = G("x:var; a=relu(x); b=relu(a); d=relu(a)");
    CHECK(unread.graph[unread["a"]].dominator == -1);  // b is read by nobody
  }
}

// Does every way from `node` to an end of the graph pass `through`?
bool IsPostDominated(const DataflowGraph& graph, NodeIndex node, NodeIndex through) {
  if (node == through) return true;
  if (graph[node].is_external || graph[node].outputs.empty()) return false;
  for (NodeIndex output : graph[node].outputs) {
    if (!IsPostDominated(graph, output, through)) return false;
  }
  return true;
}

TEST_CASE("graph: post-dominators equal brute force on random graphs") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::string text = RandomGraphText(&random, {10, true});
    CAPTURE(text);
    NamedGraph g = G(text);
    for (NodeIndex i = 0; i < g.graph.size(); ++i) {
      NodeIndex nearest = -1;
      for (NodeIndex j = g.graph.size() - 1; j > i; --j) {
        if (IsPostDominated(g.graph, i, j)) nearest = j;
      }
      // External nodes are roots, also when something reads them.
      CHECK(g.graph[i].dominator == nearest);
    }
  }
}

}  // namespace tvm::collage::testing
