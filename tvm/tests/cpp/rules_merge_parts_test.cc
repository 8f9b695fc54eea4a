// SPDX-License-Identifier: Apache-2.0
// MergeParts: which neighbours become one part, and which must stay apart.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "graph_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"
#include "src/relay/collage/rules/merge_parts.h"

namespace tvm::collage::testing {
namespace {

using Parts = std::vector<CandidatePartition>;

CandidatePartition Part(const NamedGraph& g, const std::string& names, int spec,
                        const std::string& composite = "") {
  CandidatePartition part;
  part.sub_graph = g.Sub(names);
  if (!composite.empty()) part.sub_graph = part.sub_graph.WithComposite(composite);
  part.spec = spec;
  part.is_primitive = spec > 0;  // spec 0 is TVM
  return part;
}

// Can the parts run one after the other, each whole?
bool CanRunInTurn(const DataflowGraph& graph, const Parts& parts) {
  std::vector<IndexSet> sets;
  for (const CandidatePartition& part : parts) sets.push_back(part.sub_graph.inside());
  return FindCycle(graph, sets).empty();
}

// "a b@1 | c@0" in the order of the parts.
std::string Text(const NamedGraph& g, const Parts& parts) {
  std::string text;
  for (const CandidatePartition& part : parts) {
    text += (text.empty() ? "" : " | ") + g.Names(part.sub_graph.inside()) + "@" +
            std::to_string(part.spec);
  }
  return text;
}

}  // namespace

TEST_CASE("merge parts: neighbours of one backend, composites kept") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=conv(b)@4; d=tanh(c)");
  Parts merged = MergeParts(
      g.graph, {Part(g, "a b", 1, "conv_relu"), Part(g, "c", 1, "conv"), Part(g, "d", 0)});
  CHECK(Text(g, merged) == "d@0 | a b c@1");
  REQUIRE(merged[1].sub_graph.nested().size() == 2);
  CHECK(merged[1].sub_graph.nested()[0].composite == "conv_relu");
  CHECK(merged[1].is_primitive);
}

TEST_CASE("merge parts: only joinable parts where that is the scope") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=conv(b)@4; d=relu(c)");
  Parts parts = {Part(g, "a", 1), Part(g, "b", 1), Part(g, "c", 2), Part(g, "d", 2)};
  CHECK(Text(g, MergeParts(g.graph, parts, MergeScope::kJoinable)) == Text(g, parts));
  parts[0].is_joinable = parts[1].is_joinable = true;
  Parts merged = MergeParts(g.graph, parts, MergeScope::kJoinable);
  CHECK(Text(g, merged) == "c@2 | d@2 | a b@1");
  CHECK(merged[2].rule == kMergedRule);
}

TEST_CASE("merge parts: the joinable rule marks what its sub-rule finds") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a)");
  RuleLog log;
  const Parts found = JoinableRule(HostRule())->AllCandidates(g.graph, 1, &log);
  REQUIRE(found.size() == 2);
  for (const CandidatePartition& candidate : found) CHECK(candidate.is_joinable);
  CHECK(JoinableRule(HostRule())->Summary() == "Joinable(Host())");
}

TEST_CASE("merge parts: not across backends, not for TVM") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(b); d=relu(c)");
  Parts parts = {Part(g, "a", 1), Part(g, "b", 2), Part(g, "c", 0), Part(g, "d", 0)};
  CHECK(Text(g, MergeParts(g.graph, parts)) == Text(g, parts));
}

TEST_CASE("merge parts: not where a path leaves and comes back") {
  NamedGraph g = G("x:var; a=conv(x)@4; s=sort(a)@8; b=relu(a); d=add(s,b)@1");
  Parts parts = {Part(g, "a", 1), Part(g, "s", 0), Part(g, "b", 1), Part(g, "d", 1)};
  Parts merged = MergeParts(g.graph, parts);
  CHECK(CanRunInTurn(g.graph, merged));
  CHECK(merged.size() == 3);
}

TEST_CASE("merge parts: a merge that would close a circle with another part is left out") {
  // {a, d} is convex; the part {b, c} both reads a and feeds d.
  NamedGraph g =
      G("x:var; y:var; a=conv(x)@4; b=relu(a); c=tanh(y); e=relu(x); d=add(c,e)@1;"
        "t=(a,b,d)");
  Parts parts = {Part(g, "a e d", 1), Part(g, "b c", 0), Part(g, "t", 0)};
  CHECK_FALSE(CanRunInTurn(g.graph, parts));
  parts = {Part(g, "a", 1), Part(g, "e d", 1), Part(g, "b c", 0), Part(g, "t", 0)};
  CHECK(CanRunInTurn(g.graph, parts));
  CHECK(CanRunInTurn(g.graph, MergeParts(g.graph, parts)));
}

TEST_CASE("merge parts: of regions that cannot all be joined, the first that can are") {
  // {a, c} and {b, d} would each read the other.
  NamedGraph g =
      G("x:var; a=relu(x); b=tanh(x); c=add(a,b)@1; d=add(a,b)@1; e=add(c,d)@1; f=relu(e);"
        "g=tanh(f); h=tanh(g)");
  Parts parts;
  for (const char* name : {"a", "c", "e", "f"}) parts.push_back(Part(g, name, 1));
  for (const char* name : {"b", "d", "g", "h"}) parts.push_back(Part(g, name, 2));
  parts[2].spec = 0;
  parts[2].is_primitive = false;
  CHECK(Text(g, MergeParts(g.graph, parts)) == "e@0 | f@1 | b@2 | d@2 | a c@1 | g h@2");
}

TEST_CASE("merge parts: a chain of thousands becomes one part") {
  constexpr int kNodes = 4000;
  std::string text = "x:var; n0=relu(x)";
  for (int k = 1; k < kNodes; ++k) {
    text += "; n" + std::to_string(k) + "=relu(n" + std::to_string(k - 1) + ")";
  }
  NamedGraph g = G(text);
  Parts parts;
  for (int k = 0; k < kNodes; ++k) {
    parts.push_back(Part(g, "n" + std::to_string(k), 1, "k" + std::to_string(k)));
  }
  Parts merged = MergeParts(g.graph, parts);
  REQUIRE(merged.size() == 1);
  CHECK(merged[0].sub_graph.size() == kNodes);
  CHECK(merged[0].sub_graph.nested().size() == kNodes);
  CHECK(merged[0].sub_graph.exits().size() == 1);
}

}  // namespace tvm::collage::testing
