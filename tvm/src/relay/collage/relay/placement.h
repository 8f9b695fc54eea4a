// SPDX-License-Identifier: Apache-2.0
// Placement: which nodes of each function of a module run where. The search makes one, a file holds
// one, and rewriting needs nothing else. Test: plans/placement/test_parts.py.
#pragma once

#include <string>
#include <vector>

#include "../graph/json.h"
#include "../graph/sub_graph.h"
#include "../plan/plan.h"
#include "import_relay.h"

namespace tvm::collage {

struct PlacedFunction {
  ObjectRef global_var;
  ImportedPtr imported;
  // Disjoint; a node that none holds stays in the body for the host target.
  std::vector<PlacedPart> parts;

  std::string Name() const { return Fields(global_var).Str("name_hint"); }
};

struct Placement {
  ObjectRef mod;
  // By name; functions that are somebody else's already are left out.
  std::vector<PlacedFunction> functions;
};

// The module's functions that can be partitioned, without parts yet. `mod`: typed.
Placement EmptyPlacement(const ObjectRef& mod);

// PlacedParts of plans/placement/types.py; C++ writes their costs and does not read them.
Json PartsJson(const std::vector<PlacedPart>& parts);

// Fills in the parts from JSON: such parts by function name.
// Throws PlacementError, in one line, when they name a function or a node that is not there, or
// overlap, leave their scope, or cannot run one after the other.
void SetParts(const String& parts_of, Placement* placement);

}  // namespace tvm::collage
