// SPDX-License-Identifier: Apache-2.0
// What a pattern matches in a function, for authors of pattern tables: matches.py gives it a form.
// Precondition: the graph's function is typed. Test: tvm/tests/python/collage/test_matches.py.
#include "../match/matcher.h"
#include "../relay/user_error.h"
#include "import_pattern.h"
#include "user_functions.h"
#include "view_objects.h"

namespace tvm::collage {
namespace {

/*!
 * \brief One row a match: [root, [[part of the pattern, [node, ...]], ...], [inside node, ...]];
 * parts of the pattern in its own order, those left out that took no part.
 */
Array<ObjectRef> FindMatchesOf(ObjectRef object, DataflowGraphView view) {
  const std::vector<TargetSpec> no_specs;
  ImportScope scope(view->imported.get(), &no_specs);
  PatternParts parts;
  DataflowPattern pattern = ImportPattern(object, &parts);
  std::string reason = UnsupportedReason(pattern);
  if (!reason.empty()) ThrowUserError("TypeError", reason);
  Array<ObjectRef> rows;
  for (const Match& match : FindMatches(view.graph(), pattern)) {
    Array<ObjectRef> bindings;
    for (const auto& [part_object, part] : parts) {
      std::vector<int> nodes;
      for (const auto& [bound, index] : match.bindings) {
        if (bound == part.get()) nodes.push_back(index);
      }
      if (!nodes.empty()) bindings.push_back(Array<ObjectRef>{part_object, BoxedInts(nodes)});
    }
    std::vector<int> inside;
    match.inside.ForEach([&](int index) { inside.push_back(index); });
    rows.push_back(
        Array<ObjectRef>{runtime::Int(match.root), std::move(bindings), BoxedInts(inside)});
  }
  return rows;
}

TVM_REGISTER_GLOBAL("collage.FindMatches").set_body_typed(FindMatchesOf);

}  // namespace
}  // namespace tvm::collage
