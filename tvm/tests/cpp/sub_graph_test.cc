// SPDX-License-Identifier: Apache-2.0
// SubGraph: what crosses its border, and which are valid.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph_text.h"
#include "random_graph.h"
#include "src/relay/collage/graph/candidate_partition.h"

namespace tvm::collage::testing {

const char* const kDiamond =
    "x:var; c:const; a=conv(x,c)@4; b=relu(a); d=tanh(a); e=add(b,d)@1; f=relu(e)";

TEST_CASE("sub-graph: border nodes, kind and depth") {
  NamedGraph g = G(kDiamond);
  SubGraph s = g.Sub("a b e");
  CHECK(g.Names(s.entries()) == "a e");
  CHECK(g.Names(s.exits()) == "a e");
  CHECK(g.Names(s.inputs()) == "x d");
  CHECK(g.Names(s.outputs()) == "d f");
  CHECK(g.Names(s.constants()) == "c");
  CHECK(s.kind() == OpKind::kOutEWiseFusable);
  CHECK(s.depth() == 3);
  CHECK(s.size() == 3);
  CHECK(s.HasTaps(g.graph));
  CHECK(g.Names(g.Sub("f").exits()) == "f");  // the result is used outside
}

TEST_CASE("sub-graph: depth counts calls, not tuples") {
  NamedGraph g = G("x:var; a=split(x)@2; p=a.0; q=a.1; t=(p,q); b=concat(t)@2");
  CHECK(g.Sub("a p q t b").depth() == 2);
  CHECK(g.Sub("p q t").depth() == 0);
  CHECK(g.Sub("t b").kind() == OpKind::kInjective);
}

TEST_CASE("sub-graph: each limit is named when it refuses") {
  NamedGraph g = G(kDiamond);
  auto why = [&](const std::string& set, SubGraphConfig config) {
    std::string reason = "valid";
    g.Sub(set).IsValid(g.graph, config, &reason);
    return reason;
  };
  CHECK(why("a b d e", {}) == "valid");
  CHECK(why("a b d e", {3, 1, false}) == "valid");
  CHECK(why("a b d e f", {3, 1, false}) == "a path of 4 calls, the limit is 3");
  CHECK(why("b d", {0, 1, false}) == "2 values are used outside, the limit is 1");
  CHECK(why("a b", {0, 2, false}) == "a value is used both inside and outside");
  CHECK(why("a b e", {}) == "a path leaves it and comes back");
  CHECK(why("", {}) == "it holds no node");
  NamedGraph scopes = G("x:var; a=relu(x)#1; b=relu(a)#0");
  std::string reason;
  CHECK_FALSE(scopes.Sub("a b").IsValid(scopes.graph, {}, &reason));
  CHECK(reason == "it crosses the border of a function or branch");
}

TEST_CASE("sub-graph: composites overlap or reach outside") {
  NamedGraph g = G(kDiamond);
  std::string why;
  CHECK(SubGraph::Make(g.graph, g.Set("a b d e"), {{"k", g.Set("a b")}, {"l", g.Set("d")}})
            .IsValid(g.graph, {}, &why));
  for (const char* second : {"b d", "f"}) {
    SubGraph s =
        SubGraph::Make(g.graph, g.Set("a b d e"), {{"k", g.Set("a b")}, {"l", g.Set(second)}});
    CHECK_FALSE(s.IsValid(g.graph, {}, &why));
    CHECK(why == "its composites overlap or reach outside");
  }
}

TEST_CASE("sub-graph: composites that cannot run, each whole") {
  NamedGraph g =
      G("x:var; a=relu(x); b=tanh(x); c=exp(a); d=abs(b); e=add(a,b)@1; f=mul(b,a)@1; t=(c,d,e,f)");
  using Nested = std::vector<NestedSubGraph>;
  auto why = [&](const std::string& inside, const Nested& nested) {
    std::string reason = "valid";
    SubGraph::Make(g.graph, g.Set(inside), nested).IsValid(g.graph, {}, &reason);
    return reason;
  };
  const std::string all = "a b c d e f t";
  CHECK(why(all, {{"k", g.Set("a t")}}) == "a path leaves its composite k and comes back");
  CHECK(why(all, {{"k", g.Set("")}}) == "its composite k holds no node");
  // k reads l's b, l reads k's a; one of them alone can run.
  const Nested both = {{"k", g.Set("a e")}, {"l", g.Set("b f")}};
  CHECK(why(all, both) == "its composites need each other's results");
  CHECK(why("a b e f", both) == "its composites need each other's results");
  CHECK(why(all, {both[0]}) == "valid");
  // Not connected, each convex, and each waits for the other.
  CHECK(why(all, {{"k", g.Set("a d")}, {"l", g.Set("b c")}}) ==
        "its composites need each other's results");
  CHECK(why(all, {{"k", g.Set("a c")}, {"l", g.Set("b d")}}) == "valid");
  CHECK(why(all, {{"k", g.Set("a b e")}, {"l", g.Set("c d")}, {"m", g.Set("f t")}}) == "valid");
}

// Straight from the definition: parts and the other nodes go one by one when ready.
bool CanRunWhole(const DataflowGraph& graph, IndexSet left, std::vector<IndexSet> sets) {
  for (size_t round = sets.size(); round > 0; --round) {
    for (const IndexSet& set : sets) {
      bool is_ready = true;
      set.ForEach([&](NodeIndex i) {
        for (NodeIndex input : graph[i].inputs) {
          is_ready &= !left.Contains(input) || set.Contains(input);
        }
      });
      if (is_ready) left -= set;
    }
  }
  return left.IsEmpty();
}

TEST_CASE("sub-graph: composites are sound exactly when they can run one after the other") {
  std::mt19937 random(13);
  int num_sound = 0;
  int num_other = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string text = RandomGraphText(&random, {7, true});
    CAPTURE(text);
    NamedGraph g = G(text);
    IndexSet inside(g.graph.size());
    std::vector<NestedSubGraph> nested(1 + random() % 3);
    for (NestedSubGraph& part : nested) part = {"k", IndexSet(g.graph.size())};
    std::vector<IndexSet> sets;
    g.graph.placeable().ForEach([&](NodeIndex i) {
      if (random() % 8 == 0) return;
      inside.Add(i);
      const size_t part = random() % (nested.size() + 1);
      if (part < nested.size()) {
        nested[part].inside.Add(i);
      } else {
        sets.push_back(IndexSet(g.graph.size(), {i}));
      }
    });
    if (!IsConvex(g.graph, inside)) continue;
    if (std::any_of(nested.begin(), nested.end(),
                    [](const auto& part) { return part.inside.IsEmpty(); })) {
      continue;
    }
    for (const NestedSubGraph& part : nested) sets.push_back(part.inside);
    const SubGraph sub_graph = SubGraph::Make(g.graph, inside, nested);
    if (!sub_graph.IsInOneScope(g.graph)) continue;
    const bool expected = CanRunWhole(g.graph, inside, sets);
    ++(expected ? num_sound : num_other);
    CHECK(sub_graph.IsValid(g.graph, {}) == expected);
  }
  CHECK(num_sound > 200);
  CHECK(num_other > 200);
}

TEST_CASE("sub-graph: what cannot be placed, or is of another graph, is an error") {
  NamedGraph g = G("x:var; a=relu(x)");
  CHECK_THROWS_WITH_AS(
      g.Sub("x a"),
      "%0 = var x cannot be placed: a sub-graph holds calls, tuples, projections, functions and "
      "control flow",
      std::invalid_argument);
  CHECK_THROWS_AS(SubGraph::Make(g.graph, g.Set("a"), {{"k", IndexSet(99)}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(SubGraph::Make(g.graph, IndexSet(99, {1})), std::invalid_argument);
}

TEST_CASE("sub-graph: control flow, functions and calls of function values are no dataflow") {
  NamedGraph g =
      G("x:var; v:var; f:fn; a=relu(x); b=call(v,a); c=call(f,b); d=If(x,a,c); e=Let(a,v,d); "
        "t=(a,e); p=t.0");
  CHECK(IsDataflow(g.graph, g.Set("a t p")));
  for (const char* name : {"b", "c", "d", "e", "f"}) {
    CAPTURE(name);
    CHECK_FALSE(IsDataflow(g.graph, g.Set(std::string("a ") + name)));
  }
}

TEST_CASE("sub-graph: union keeps composites, identity is nodes with composites") {
  NamedGraph g = G(kDiamond);
  SubGraph ab = g.Sub("a").WithComposite("k").Union(g.graph, g.Sub("b").WithComposite("l"));
  SubGraph ba = g.Sub("b").WithComposite("l").Union(g.graph, g.Sub("a").WithComposite("k"));
  CHECK(ab == ba);
  CHECK(ab.Hash() == ba.Hash());
  CHECK(ab.nested().size() == 2);
  CHECK_FALSE(ab == g.Sub("a b"));
  CHECK_FALSE(ab == g.Sub("a b").WithComposite("k"));
  CHECK(ab.WithComposite("m").nested().size() == 1);
  CHECK(ab.Summary(g.graph) == g.Set("a b").Summary() + " conv+relu [k] [l]");
}

TEST_CASE("sub-graph: connected when edges are taken both ways") {
  NamedGraph g = G(kDiamond);
  CHECK(IsConnected(g.graph, g.Set("b e d")));
  CHECK_FALSE(IsConnected(g.graph, g.Set("b d")));
  CHECK_FALSE(IsConnected(g.graph, g.Set("")));
}

TEST_CASE("candidates: equal ones are kept once, other backends and composites apart") {
  NamedGraph g = G(kDiamond);
  auto make = [&](SubGraph sub_graph, int spec, std::string rule) {
    CandidatePartition candidate;
    candidate.sub_graph = std::move(sub_graph);
    candidate.spec = spec;
    candidate.rule = std::move(rule);
    return candidate;
  };
  CandidateSet set;
  CHECK(set.Add(make(g.Sub("a b"), 0, "first")));
  CHECK_FALSE(set.Add(make(g.Sub("a b"), 0, "second")));
  CHECK(set.Add(make(g.Sub("a b"), 1, "first")));
  CHECK(set.Add(make(g.Sub("a b").WithComposite("k"), 0, "first")));
  CHECK(set.size() == 3);
  CHECK(set.candidates()[0].rule == "first");
}

// Straight from the definition: a path from inside through outside nodes to inside.
bool IsConvexByDefinition(const DataflowGraph& graph, const IndexSet& inside) {
  std::function<bool(NodeIndex)> comes_back = [&](NodeIndex outside) {
    for (NodeIndex output : graph[outside].outputs) {
      if (inside.Contains(output) || comes_back(output)) return true;
    }
    return false;
  };
  bool is_convex = true;
  inside.ForEach([&](NodeIndex i) {
    for (NodeIndex output : graph[i].outputs) {
      if (!inside.Contains(output) && comes_back(output)) is_convex = false;
    }
  });
  return is_convex;
}

TEST_CASE("sub-graph: convexity equals its definition on all subsets of random graphs") {
  std::mt19937 random(11);
  int num_convex = 0;
  int num_other = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string text = RandomGraphText(&random, {8, true});
    CAPTURE(text);
    NamedGraph g = G(text);
    ForEachSubset(g.graph, [&](const IndexSet& set) {
      const bool expected = IsConvexByDefinition(g.graph, set);
      ++(expected ? num_convex : num_other);
      if (IsConvex(g.graph, set) != expected) FAIL(g.Names(set));
    });
  }
  CHECK(num_convex > 1000);
  CHECK(num_other > 1000);
}

TEST_CASE("sub-graph: convexity of a union equals that of its nodes") {
  std::mt19937 random(12);
  int num_convex = 0;
  int num_other = 0;
  for (int round = 0; round < 20; ++round) {
    const std::string text = RandomGraphText(&random, {6, true});
    CAPTURE(text);
    NamedGraph g = G(text);
    std::vector<IndexSet> convex;
    ForEachSubset(g.graph, [&](const IndexSet& set) {
      if (IsConvex(g.graph, set)) convex.push_back(set);
    });
    for (const IndexSet& whole : convex) {
      for (const IndexSet& part : convex) {
        if (whole.Intersects(part)) continue;
        const bool expected = IsConvex(g.graph, whole | part);
        ++(expected ? num_convex : num_other);
        if (IsConvexUnion(g.graph, whole, part) != expected) FAIL(g.Names(whole | part));
      }
    }
  }
  CHECK(num_convex > 1000);
  CHECK(num_other > 1000);
}

TEST_CASE("sub-graph: a summary names ops, and other nodes only where there is no op") {
  NamedGraph g = G("x:var; a=conv(x)@4; t=(a,x); p=t.1");
  CHECK(g.Sub("a t").Summary(g.graph) == g.Set("a t").Summary() + " conv");
  CHECK(g.Sub("t p").Summary(g.graph) == g.Set("t p").Summary() + " tuple+projection");
}

TEST_CASE("sub-graph: limits in words") {
  CHECK(SubGraphConfig().Summary() == "no limit");
  CHECK(SubGraphConfig{4, 1, false}.Summary() == "depth <= 4, exits <= 1, no taps");
  CHECK(SubGraphConfig{0, 2, true}.Summary() == "exits <= 2");
}

}  // namespace tvm::collage::testing
