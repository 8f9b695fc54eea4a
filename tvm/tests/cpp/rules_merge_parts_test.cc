// SPDX-License-Identifier: Apache-2.0
// MergeParts: which neighbours become one part, and which must stay apart.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "graph_text.h"
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

/*! \brief "a b@1 | c@0" in the order of the parts. */
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

TEST_CASE("merge parts: not across backends, not for TVM") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(b); d=relu(c)");
  Parts parts = {Part(g, "a", 1), Part(g, "b", 2), Part(g, "c", 0), Part(g, "d", 0)};
  CHECK(Text(g, MergeParts(g.graph, parts)) == Text(g, parts));
}

TEST_CASE("merge parts: not where a path leaves and comes back") {
  NamedGraph g = G("x:var; a=conv(x)@4; s=sort(a)@8; b=relu(a); d=add(s,b)@1");
  Parts parts = {Part(g, "a", 1), Part(g, "s", 0), Part(g, "b", 1), Part(g, "d", 1)};
  Parts merged = MergeParts(g.graph, parts);
  CHECK(HasAcyclicQuotient(g.graph, merged));
  CHECK(merged.size() == 3);
}

TEST_CASE("merge parts: a merge that would close a circle with another part is left out") {
  // {a, d} is convex; the part {b, c} both reads a and feeds d.
  NamedGraph g =
      G("x:var; y:var; a=conv(x)@4; b=relu(a); c=tanh(y); e=relu(x); d=add(c,e)@1;"
        "t=(a,b,d)");
  Parts parts = {Part(g, "a e d", 1), Part(g, "b c", 0), Part(g, "t", 0)};
  CHECK_FALSE(HasAcyclicQuotient(g.graph, parts));
  parts = {Part(g, "a", 1), Part(g, "e d", 1), Part(g, "b c", 0), Part(g, "t", 0)};
  CHECK(HasAcyclicQuotient(g.graph, parts));
  CHECK(HasAcyclicQuotient(g.graph, MergeParts(g.graph, parts)));
}

}  // namespace tvm::collage::testing
