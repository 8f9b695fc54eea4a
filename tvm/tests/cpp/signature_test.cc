// SPDX-License-Identifier: Apache-2.0
// Signatures: which candidates are the same computation.
#include "src/relay/collage/graph/signature.h"

#include <doctest/doctest.h>

#include <string>

#include "graph_text.h"

namespace tvm::collage::testing {
namespace {

std::string NoText(NodeIndex) { return ""; }

// The signature of the nodes named in `set`; with a label they are one composite.
Signature Of(const NamedGraph& g, const std::string& set, const std::string& label = "") {
  CandidatePartition candidate;
  candidate.sub_graph = g.Sub(set);
  if (!label.empty()) candidate.sub_graph = candidate.sub_graph.WithComposite(label);
  return Signatures(g.graph, NoText).Of(candidate);
}

// Whether "a b" of both graphs is the same computation.
bool IsSame(const std::string& one, const std::string& other) {
  return Of(G(one), "a b") == Of(G(other), "a b");
}

const char* const kChain = "x:var; a=conv(x,x){pad=1}@4; b=relu(a)";

}  // namespace

TEST_CASE("signature: the same wherever it stands in whatever graph, names left out") {
  CHECK(IsSame(kChain, "y:var; z=tanh(y); a=conv(z,z){pad=1}@4; b=relu(a); c=exp(b)"));
  const NamedGraph g = G("x:var; a=relu(x); b=tanh(a); c=relu(b); d=tanh(c)");
  CHECK(Of(g, "a b") == Of(g, "c d"));
  CHECK(SignatureHash()(Of(g, "a b")) == SignatureHash()(Of(g, "c d")));
}

TEST_CASE("signature: ops, attributes, wiring, taps and inputs tell candidates apart") {
  for (const char* other : {
           "x:var; a=conv(x,x){pad=2}@4; b=relu(a)",
           "x:var; a=conv(x,x){pads=1}@4; b=relu(a)",
           "x:var; a=conv(x,x){pad=one}@4; b=relu(a)",
           "x:var; a=conv(x,x){pad=1}@4; b=tanh(a)",
           "x:var; y:var; a=conv(x,y){pad=1}@4; b=relu(a)",
           "x:var; c:const; a=conv(x,c){pad=1}@4; b=relu(a)",
           "x:var; a=conv(x,x){pad=1}@4; b=relu(a); c=add(a,b)",
           "x:var; a=conv(x,x){pad=1}@4; b=relu(x); c=add(a,b)",
       }) {
    CAPTURE(other);
    CHECK_FALSE(IsSame(kChain, other));
  }
  CHECK_FALSE(Of(G(kChain), "a b") == Of(G(kChain), "a"));
}

TEST_CASE("signature: which argument is which") {
  CHECK_FALSE(IsSame("x:var; y:var; a=relu(x); b=sub(a,y)", "x:var; y:var; a=relu(x); b=sub(y,a)"));
  CHECK_FALSE(IsSame("x:var; a=relu(x); b=sub(a,x)", "x:var; y:var; a=relu(x); b=sub(a,y)"));
}

TEST_CASE("signature: types, projections, composites, spec") {
  NamedGraph g = G("x:var; t=split(x)@2; a=t.0; b=t.1");
  CHECK_FALSE(Of(g, "t a") == Of(g, "t b"));
  CHECK_FALSE(Of(G(kChain), "a b") == Of(G(kChain), "a b", "one"));
  CHECK_FALSE(Of(G(kChain), "a b", "two") == Of(G(kChain), "a b", "one"));
  g = G(kChain);
  CandidatePartition candidate{g.Sub("a b"), 0, "", false, false};
  const Signatures signatures(g.graph, NoText);
  const Signature first = signatures.Of(candidate);
  candidate.spec = 1;
  CHECK_FALSE(signatures.Of(candidate) == first);
  candidate = {g.Sub("a b"), 0, "", true, false};
  CHECK_FALSE(signatures.Of(candidate) == first);

  DataflowGraph typed;
  for (const int64_t extent : {4, 4, 8}) {
    Node var;
    var.type = NodeType::kVar;
    var.types = {{{1, extent}, "float32"}};
    Node call;
    call.type = NodeType::kCall;
    call.name = "relu";
    call.types = var.types;
    call.inputs = {typed.Append(var)};
    typed.Append(call);
  }
  typed.Finish(5);
  const auto of = [&](NodeIndex i) {
    return Signatures(typed, NoText)
        .Of({SubGraph::Make(typed, IndexSet(typed.size(), {i})), 0, "", false, false});
  };
  CHECK(of(1) == of(3));
  CHECK_FALSE(of(1) == of(5));
}

TEST_CASE("signature: values of small constants count, weights' do not") {
  NamedGraph g = G("x:var; c:const; d:const; a=add(x,c); b=add(x,d); r=add(a,b)");
  const auto text = [&](NodeIndex i) { return i == g["c"] ? "1.0" : "2.0"; };
  const auto of = [&](const Signatures& signatures, const char* name) {
    return signatures.Of({g.Sub(name), 0, "", false, false});
  };
  const Signatures small(g.graph, text);
  CHECK_FALSE(of(small, "a") == of(small, "b"));
  const Signatures weights(g.graph, NoText);
  CHECK(of(weights, "a") == of(weights, "b"));
}

TEST_CASE("signature: one weight used twice is not two weights") {
  CHECK_FALSE(IsSame("x:var; c:const; a=mul(x,c); b=mul(a,c)",
                     "x:var; c:const; d:const; a=mul(x,c); b=mul(a,d)"));
}

TEST_CASE("signature: what is not known to be equal differs") {
  const NamedGraph closure = G("x:var; f:fn; a=call(f,x); b=call(f,a)");
  CHECK_FALSE(Of(closure, "a") == Of(closure, "b"));
  CHECK(Of(closure, "a") != Of(closure, "a"));  // not even across two readings of the graph
}

}  // namespace tvm::collage::testing
