// SPDX-License-Identifier: Apache-2.0
// The matcher on patterns and graphs written by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "graph_text.h"
#include "src/relay/collage/match/matcher.h"

namespace tvm::collage::testing {
namespace {

using namespace pattern;

// "root: inside" of each match, those that differ in bindings only once, with "; ".
std::string Found(const NamedGraph& g, const DataflowPattern& pattern) {
  std::vector<std::string> lines;
  for (const Match& match : FindMatches(g.graph, pattern)) {
    std::string line = g.Names(std::vector<NodeIndex>{match.root}) + ": " + g.Names(match.inside);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

// TVM's match rooted at `root`, if there is one.
std::optional<Match> MatchAt(const DataflowGraph& graph, const DataflowPattern& pattern,
                             NodeIndex root) {
  for (Match& match : FindMatches(graph, pattern)) {
    if (match.root == root) return std::move(match);
  }
  return std::nullopt;
}

NodeTest IsNode(NodeIndex expected) {
  return [expected](NodeIndex index) { return index == expected; };
}

DataflowPattern Conv() { return Call("conv", Patterns{Wildcard(), Constant()}); }

const char* const kTwoConvs =
    "x:var; c:const; b:const; a=conv(x,c)@4; d=add(a,b)@1; e=relu(d); f=conv(e,c)@4; g=relu(f)";

}  // namespace

TEST_CASE("match: overlapping matches, optional parts, other roots left alone") {
  NamedGraph g = G(kTwoConvs);
  CHECK(Found(g, Conv()) == "a: a; f: f");
  CHECK(Found(g, Call("relu", Patterns{Conv()})) == "g: f g");
  DataflowPattern bias = Optional(Conv(), Call("add", Patterns{Conv(), Constant()}));
  CHECK(Found(g, bias) == "a: a; d: a d; f: f");
  DataflowPattern conv = Conv();
  DataflowPattern biased = Optional(conv, Call("add", Patterns{conv, Constant()}));
  DataflowPattern chain = Optional(biased, Call("relu", Patterns{biased}));
  CHECK(Found(g, chain) == "a: a; d: a d; e: a d e; f: f; g: f g");
  CHECK(Found(g, Call("tanh", std::nullopt)).empty());
  CHECK(Found(g, Call("conv", Patterns{Wildcard()})).empty());
}

TEST_CASE("match: bindings name the nodes, parts that took no part are -1") {
  NamedGraph g = G(kTwoConvs);
  DataflowPattern data = Wildcard();
  DataflowPattern weight = Constant();
  DataflowPattern bias = Constant();
  DataflowPattern conv = Call("conv", Patterns{data, weight});
  DataflowPattern whole = Optional(conv, Call("add", Patterns{conv, bias}));
  auto first = MatchAt(g.graph, whole, g["d"]);
  REQUIRE(first);
  CHECK(first->Bound(data) == g["x"]);
  CHECK(first->Bound(weight) == g["c"]);
  CHECK(first->Bound(bias) == g["b"]);
  CHECK(first->Bound(conv) == g["a"]);
  auto second = MatchAt(g.graph, whole, g["f"]);
  REQUIRE(second);
  CHECK(second->Bound(bias) == -1);
  CHECK_FALSE(MatchAt(g.graph, whole, g["g"]));
}

TEST_CASE("match: a shared pattern binds one node, equal patterns may differ") {
  NamedGraph g = G("x:var; y:var; a=mul(x,x)@1; b=mul(x,y)@1; t=(a,b)");
  DataflowPattern any = Wildcard();
  CHECK(Found(g, Call("mul", Patterns{any, any})) == "a: a");
  CHECK(Found(g, Call("mul", Patterns{Wildcard(), Wildcard()})) == "a: a; b: b");
}

TEST_CASE("match: add and multiply also with swapped arguments, others not") {
  NamedGraph g = G("x:var; c:const; a=add(c,x)@1; b=multiply(c,a)@1; d=subtract(c,b)@1");
  for (const char* op : {"add", "multiply"}) {
    CHECK_FALSE(Found(g, Call(op, Patterns{Wildcard(), Constant()})).empty());
  }
  CHECK(Found(g, Call("subtract", Patterns{Wildcard(), Constant()})).empty());
  CHECK(Found(g, Call("subtract", Patterns{Constant(), Wildcard()})) == "d: d");
  // A failed order leaves no binding behind.
  DataflowPattern shared = Wildcard();
  DataflowPattern sum = Call("add", Patterns{shared, Constant()});
  auto match = MatchAt(g.graph, sum, g["a"]);
  REQUIRE(match);
  CHECK(match->Bound(shared) == g["x"]);
}

TEST_CASE("match: the other order of arguments is a match of its own, TVM's first") {
  NamedGraph g = G("x:var; y:var; c:const; a=conv(x,c)@4; b=conv(y,c)@4; d=add(a,b)@1; e=relu(d)");
  CHECK(Found(g, Call("add", Patterns{Conv(), Wildcard()})) == "d: a d; d: b d");
  CHECK(Found(g, Call("add", Patterns{Wildcard(), Conv()})) == "d: b d; d: a d");
  CHECK(Found(g, Call("relu", Patterns{Call("add", Patterns{Conv(), Wildcard()})})) ==
        "e: a d e; e: b d e");
  CHECK(Found(g, Call("add", Patterns{Conv(), Conv()})) == "d: a b d");
  // Optional pieces keep both orders, a pattern that occurs twice keeps one node.
  DataflowPattern conv = Conv();
  DataflowPattern sum = Call("add", Patterns{conv, Wildcard()});
  CHECK(Found(g, Optional(sum, Call("relu", Patterns{sum}))) ==
        "d: a d; d: b d; e: a d e; e: b d e");
  CHECK(Found(g, Call("add", Patterns{conv, conv})).empty());
  // Bindings tell the mirrored matches of the same nodes apart.
  DataflowPattern left = Wildcard(), right = Wildcard();
  const auto mirrored = FindMatches(g.graph, Call("add", Patterns{left, right}));
  REQUIRE(mirrored.size() == 2);
  CHECK(mirrored[0].Bound(left) == g["a"]);
  CHECK(mirrored[1].Bound(left) == g["b"]);
  CHECK(mirrored[0].inside == mirrored[1].inside);
  CHECK(
      MatchAt(g.graph, Call("add", Patterns{Wildcard(), Conv()}), g["d"])->inside.Contains(g["b"]));
}

TEST_CASE("match: of a root with very many matches the first ones, and it is told") {
  // Both orders of each add: 2^8 ways.
  std::string text = "x:var; y:var; a0=add(x,y)@1;";
  Patterns sums = {Call("add", Patterns{Wildcard(), Wildcard()})};
  std::string fields = "a0";
  for (int i = 1; i < 8; ++i) {
    text += "a" + std::to_string(i) + "=add(x,y)@1;";
    fields += ",a" + std::to_string(i);
    sums.push_back(Call("add", Patterns{Wildcard(), Wildcard()}));
  }
  NamedGraph wide = G(text + "t=(" + fields + ")");
  int64_t num_cut = 0;
  CHECK(FindMatches(wide.graph, Tuple(sums), &num_cut).size() == kMaxMatchesOfRoot);
  CHECK(num_cut == 1);
  const Patterns few = {sums[0], sums[1]};
  CHECK(FindMatches(G("x:var; y:var; a=add(x,y)@1; b=add(y,x)@1; t=(a,b)").graph, Tuple(few),
                    &num_cut)
            .size() == 4);
  CHECK(num_cut == 1);
}

TEST_CASE("match: products of quotients in either association") {
  NamedGraph g =
      G("x:var; y:var; z:var; q=divide(y,z)@1; p=multiply(x,q)@1;"
        "m=multiply(x,y)@1; r=divide(m,z)@1; t=(p,r)");
  DataflowPattern a = Wildcard(), b = Wildcard(), c = Wildcard();
  CHECK(Found(g, Call("divide", Patterns{Call("multiply", Patterns{a, b}), c})) ==
        "p: q p; r: m r");
  DataflowPattern d = Wildcard(), e = Wildcard(), f = Wildcard();
  CHECK(Found(g, Call("multiply", Patterns{d, Call("divide", Patterns{e, f})})) ==
        "p: q p; r: m r");
}

TEST_CASE("match: left alternative first, and the right one after it failed inside") {
  NamedGraph g = G("x:var; a=relu(x); b=relu(a); c=tanh(b)");
  DataflowPattern deep = Call("relu", Patterns{Call("relu", Patterns{Wildcard()})});
  DataflowPattern flat = Call("relu", Patterns{Wildcard()});
  DataflowPattern either = Call("tanh", Patterns{Alternative(deep, flat)});
  CHECK(Found(g, either) == "c: a b c; c: b c");
  CHECK(Found(g, Call("tanh", Patterns{Alternative(flat, deep)})) == "c: b c; c: a b c");
  CHECK(Found(g, Alternative(deep, flat)) == "a: a; b: a b; b: b");
  DataflowPattern op = Alternative(Op("tanh"), Op("relu"));
  CHECK(Found(g, Call(op, Patterns{Wildcard()})) == "a: a; b: b; c: c");
}

TEST_CASE("match: tuples, projections, calls of anything") {
  NamedGraph g = G("x:var; s=split(x)@2; p=s.0; q=s.1; t=(q,p); c=concat(t)@2; f:fn; u=call(f,c)");
  CHECK(Found(g, Call("concat", Patterns{Tuple(std::nullopt)})) == "c: t c");
  CHECK(Found(g, Tuple(Patterns{Wildcard(), Wildcard()})) == "t: t");
  CHECK(Found(g, Tuple(Patterns{Wildcard()})).empty());
  CHECK(Found(g, Projection(Call("split", std::nullopt), 1)) == "q: s q");
  CHECK(Found(g, Projection(Wildcard())) == "p: p; q: q");
  CHECK(Found(g, Call(Wildcard(), std::nullopt)) == "s: s; c: c; u: u");
}

TEST_CASE("match: attributes of calls and of ops, types, shapes, variables, whole expressions") {
  NamedGraph g = G("x:var; a=conv(x){strides=2,layout=NCHW}@4; b=conv(a){strides=1}@4; c=relu(b)");
  auto conv = [](Attrs attrs) { return Attributes(Call("conv", std::nullopt), attrs); };
  CHECK(Found(g, conv({{"strides", int64_t{2}}})) == "a: a");
  CHECK(Found(g, conv({{"strides", int64_t{2}}, {"layout", std::string("NCHW")}})) == "a: a");
  CHECK(Found(g, conv({{"groups", int64_t{1}}})).empty());
  CHECK(Found(g, conv({})) == "a: a; b: b");
  DataflowPattern fusable = Attributes(Wildcard(), {{"TOpPattern", int64_t{4}}});
  CHECK(Found(g, Call(fusable, std::nullopt)) == "a: a; b: b");
  CHECK(Found(g, Attributes(Wildcard(), {{"strides", int64_t{1}}})) == "b: ");

  CHECK(Found(g, Shape(Call("relu", std::nullopt), {1, 4})) == "c: c");
  CHECK(Found(g, Shape(Call("relu", std::nullopt), {4, 1})).empty());
  CHECK(Found(g, DataType(Call("relu", std::nullopt), "float32")) == "c: c");
  CHECK(Found(g, DataType(Call("relu", std::nullopt), "int8")).empty());
  CHECK(Found(g, Type(Call("relu", std::nullopt), TensorType{{1, 4}, "float32"})) == "c: c");
  CHECK(Found(g, Type(Call("relu", std::nullopt), TensorType{{1, 4}, "int8"})).empty());
  CHECK(Found(g, Call("conv", Patterns{Var("x")})) == "a: a");
  CHECK(Found(g, Call("conv", Patterns{Var("y")})).empty());
  CHECK(Found(g, Call("conv", Patterns{Var()})) == "a: a");
  CHECK(Found(g, Call("conv", Patterns{Expr(IsNode(g["a"]))})) == "b: b");
  CHECK(Found(g, Expr(IsNode(-2))).empty());
  // A test stands in for types and shapes that are no plain data.
  CHECK(Found(g, Type(Wildcard(), IsNode(g["c"]))) == "c: ");
  CHECK(Found(g, Shape(Call("conv", std::nullopt), IsNode(g["b"]))) == "b: b");
  // An op's attributes beside TOpPattern are the test's business; a call's never are.
  DataflowPattern of_op = Attributes(Wildcard(), {{"mine", int64_t{1}}}, IsNode(g["c"] - 1));
  CHECK(Found(g, Call(of_op, std::nullopt)) == "c: c");
}

TEST_CASE("match: an attribute equals what is asked for by value, type and structure") {
  auto typed = [](int64_t value, const char* dtype) { return AttrNumber{dtype, value}; };
  CHECK(IsAttrEqual(int64_t{1}, int64_t{1}));
  CHECK_FALSE(IsAttrEqual(int64_t{1}, 1.0));
  CHECK_FALSE(IsAttrEqual(std::string("1"), int64_t{1}));
  CHECK(IsAttrEqual(typed(1, "int32"), int64_t{1}));
  CHECK(IsAttrEqual(typed(1, "int64"), int64_t{1}));
  CHECK(IsAttrEqual(AttrNumber{"float32", 0.5}, 0.5));
  CHECK_FALSE(IsAttrEqual(AttrNumber{"float32", 1.0}, int64_t{1}));
  CHECK(IsAttrEqual(typed(1, "int32"), typed(1, "int32")));
  CHECK_FALSE(IsAttrEqual(typed(1, "int64"), typed(1, "int32")));

  const AttrList pads = {AttrList{typed(0, "int32")}, AttrList{typed(1, "int32"), int64_t{2}}};
  CHECK(IsAttrEqual(pads, pads));
  CHECK(IsAttrEqual(AttrList{AttrList{typed(2, "int32")}}, AttrList{AttrList{int64_t{2}}}));
  CHECK_FALSE(IsAttrEqual(pads, AttrList{AttrList{typed(0, "int32")}}));
  CHECK_FALSE(IsAttrEqual(pads, int64_t{0}));
  CHECK_FALSE(IsAttrEqual(int64_t{0}, pads));
  CHECK(IsAttrEqual(AttrList{}, AttrList{}));
  CHECK_FALSE(IsAttrEqual(AttrValue(), AttrValue()));
  CHECK(IsAttrEqual(AttrObject{"Target", 3}, AttrObject{"Target", 3}));
  CHECK_FALSE(IsAttrEqual(AttrObject{"Target", 3}, AttrObject{"Target", 4}));
}

TEST_CASE("match: what a leaf pattern bound is input, also when described elsewhere") {
  NamedGraph g = G("x:var; a=relu(x); b=add(a,a)@1");
  CHECK(Found(g, Call("add", Patterns{Wildcard(), Call("relu", Patterns{Wildcard()})})) == "b: b");
  CHECK(Found(g, Call("add", std::nullopt)) == "b: b");
  CHECK(Found(g, Wildcard()).find("b: ") != std::string::npos);
}

TEST_CASE("match: dominator over any number of elementwise calls, negative cases") {
  auto elementwise = Attributes(Wildcard(), {{"TOpPattern", int64_t{0}}});
  auto conv = Call("conv", Patterns{Wildcard(), Wildcard()});
  auto fused = Dominator(conv, Call(elementwise, std::nullopt), Call("relu", std::nullopt));
  CHECK(Found(G("x:var; w:var; a=conv(x,w)@4; b=tanh(a); d=relu(b)"), fused) == "d: a b d");
  CHECK(Found(G("x:var; w:var; a=conv(x,w)@4; d=relu(a)"), fused) == "d: a d");
  NamedGraph diamond =
      G("x:var; w:var; a=conv(x,w)@4; b=tanh(a); c=exp(a); e=maximum(b,c); d=relu(e)");
  CHECK(Found(diamond, fused) == "d: a b c e d");
  CHECK(Found(G("x:var; w:var; a=conv(x,w)@4; b=sum(a)@3; d=relu(b)"), fused).empty());
  CHECK(Found(G("x:var; w:var; a=conv(x,w)@4; b=tanh(a); d=relu(b); t=(a,d)"), fused).empty());
  NamedGraph two = G("x:var; w:var; a=conv(x,w)@4; c=conv(a,w)@4; e=maximum(a,c); d=relu(e)");
  CHECK(Found(two, fused).empty());
}

TEST_CASE("match: a dominator looks up through bodies only, and once through each node") {
  auto any = Call(Wildcard(), std::nullopt);
  auto over = [&](DataflowPattern child) {
    return Dominator(Call("conv", std::nullopt),
                     Alternative(any, Function(std::nullopt, Wildcard())), std::move(child));
  };
  // The function's parameter p is no way up.
  NamedGraph g = G("x:var; p:var; a=conv(x)@4; b=tanh(a); f=fn(p,b)");
  CHECK(Found(g, over(Function(std::nullopt, Wildcard()))) == "f: a b f");
  // 2^40 ways up meet in the convolution.
  std::string text = "x:var; n0=conv(x)@4;";
  for (int i = 0; i < 40; ++i) {
    const std::string below = "n" + std::to_string(i);
    text += "n" + std::to_string(i + 1) + "=add(" + below + "," + below + ")@1;";
  }
  NamedGraph diamonds = G(text + "r=relu(n40)");
  auto match = MatchAt(diamonds.graph, over(Call("relu", std::nullopt)), diamonds["r"]);
  REQUIRE(match);
  CHECK(match->inside.Count() == 42);
}

TEST_CASE("match: a wildcard that leads back matches chains of any length, and always ends") {
  auto back = std::make_shared<std::weak_ptr<const Pattern>>();
  DataflowPattern more = Alternative(RedirectedBack(back), Call("tanh", std::nullopt));
  DataflowPattern chain = Call("relu", Patterns{more});
  *back = chain;
  NamedGraph g = G("x:var; a=tanh(x); b=relu(a); c=relu(b); d=exp(x); e=relu(d); t=(c,e)");
  CHECK(Found(g, chain) == "b: a b; c: a b c");
  CHECK(Summary(chain) == "relu(((back) | tanh(..)))");
  auto self = std::make_shared<std::weak_ptr<const Pattern>>();
  DataflowPattern endless = Alternative(RedirectedBack(self), Call("exp", std::nullopt));
  *self = endless;
  CHECK(Found(g, endless) == "d: d");
}

TEST_CASE("match: if, let and functions") {
  NamedGraph g = G("x:var; y:var; a=relu(x); i=If(x,a,y); v:var; l=Let(a,v,i); f=fn(x,y,a)");
  DataflowPattern relu = Call("relu", std::nullopt);
  CHECK(Found(g, If(Var("x"), relu, Var())) == "i: a i");
  CHECK(Found(g, If(Var("y"), relu, Var())).empty());
  CHECK(Found(g, Let(Var("v"), relu, Wildcard())) == "l: a l");
  CHECK(Found(g, Let(Var("x"), relu, Wildcard())).empty());
  CHECK(Found(g, Function(Patterns{Var("x"), Var("y")}, relu)) == "f: a f");
  CHECK(Found(g, Function(Patterns{Var("x")}, relu)).empty());
  CHECK(Found(g, Function(std::nullopt, relu)) == "f: a f");
}

TEST_CASE("match: an unsupported part matches nothing and says why") {
  NamedGraph g = G(kTwoConvs);
  DataflowPattern p = Call("relu", Patterns{Unsupported("match clauses have no pattern form")});
  CHECK(UnsupportedReason(p) == "match clauses have no pattern form");
  CHECK(UnsupportedReason(Conv()).empty());
  CHECK(Found(g, p).empty());
}

// `conv` with so many optional relus: what Python's `pattern.optional` makes.
DataflowPattern Optionals(int num, DataflowPattern pattern = Conv()) {
  for (int i = 0; i < num; ++i) {
    pattern = Optional(pattern, Call("relu", Patterns{pattern}));
  }
  return pattern;
}

TEST_CASE("match: optional parts cost steps and text by their number, not by their combinations") {
  NamedGraph g =
      G("x:var; c:const; a=conv(x,c)@4; b=relu(a); d=relu(b); e=relu(d); f=tanh(e);"
        "h=relu(f); i=relu(h)");
  std::vector<int64_t> steps;
  std::vector<size_t> lengths;
  for (int num : {8, 16, 32, 64}) {
    int64_t num_cut = 0;
    int64_t num_steps = 0;
    const DataflowPattern pattern = Optionals(num);
    const std::vector<Match> matches = FindMatches(g.graph, pattern, &num_cut, &num_steps);
    steps.push_back(num_steps);
    lengths.push_back(Summary(pattern).size());
    // One, and each way to choose one, two, three of them; none where tanh is in the way.
    const size_t one = num, two = num * (num - 1) / 2, three = two * (num - 2) / 3;
    const auto most = static_cast<size_t>(kMaxMatchesOfRoot);
    CHECK(matches.size() == 1 + one + std::min(two, most) + std::min(three, most));
    CHECK(num_cut == (two > most) + (three > most));
    CHECK(matches.back().inside == g.Set("a b d e"));
    CHECK(UnsupportedReason(pattern).empty());
  }
  for (size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k] <= 3 * steps[k - 1]);
    CHECK(lengths[k] <= 3 * lengths[k - 1]);
  }
  CHECK(steps.back() < 64 * 1000);
  CHECK(lengths.back() < 64 * 40);
}

TEST_CASE("match: a part behind optional ones that never matches costs no combinations") {
  // Each piece wants a constant that is a variable here, and the last one an op that is not there.
  std::string text = "x:var; c:const; a0=conv(x,c)@4;";
  for (int i = 0; i < 40; ++i) {
    const std::string below = "a" + std::to_string(i);
    text += "a" + std::to_string(i + 1) + "=minimum(" + below + ",x)@1;";
  }
  NamedGraph g = G(text + "r=relu(a40)");
  DataflowPattern pattern = Conv();
  for (int i = 0; i < 40; ++i) {
    pattern = Optional(pattern, Call("minimum", Patterns{pattern, Constant()}));
    pattern = Optional(pattern, Call("minimum", Patterns{pattern, Wildcard()}));
  }
  int64_t num_steps = 0;
  CHECK(FindMatches(g.graph, Call("relu", Patterns{Call("tanh", Patterns{pattern})}), nullptr,
                    &num_steps)
            .empty());
  CHECK(num_steps < 40 * 10);
  CHECK_FALSE(FindMatches(g.graph, Call("relu", Patterns{pattern}), nullptr, &num_steps).empty());
  CHECK(num_steps < 40 * 80 * 64);
}

TEST_CASE("match: patterns print in one line") {
  DataflowPattern shared = Call("conv2d_of_a_very_long_name_that_nobody_would_like_to_read_twice",
                                Patterns{Wildcard(), Constant()});
  CHECK(
      Summary(Optional(shared, Call("relu", Patterns{shared}))) ==
      "(%1=conv2d_of_a_very_long_name_that_nobody_would_like_to_read_twice(*, const) | relu(%1))");
  DataflowPattern brief = Conv();
  CHECK(Summary(Optional(brief, Call("relu", Patterns{brief}))) ==
        "(conv(*, const) | relu(conv(*, const)))");
  CHECK(Summary(Conv()) == "conv(*, const)");
  CHECK(Summary(Optional(Conv(), Call("relu", Patterns{Conv()}))) ==
        "(conv(*, const) | relu(conv(*, const)))");
  CHECK(Summary(Projection(Tuple(std::nullopt))) == "tuple(..).*");
  CHECK(Summary(Shape(Wildcard(), {1})) == "*{shape}");
}

}  // namespace tvm::collage::testing
