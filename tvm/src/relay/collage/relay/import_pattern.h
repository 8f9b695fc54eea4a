// SPDX-License-Identifier: Apache-2.0
// relay.dataflow_pattern objects -> DataflowPattern.
// Precondition: libtvm.so is loaded. Test: relay/test_import_pattern.py.
#pragma once

#include <utility>
#include <vector>

#include "../match/pattern.h"
#include "fields.h"

namespace tvm::collage {

// The expression of a node of the graph that is matched.
using ExprGetter = const ObjectRef& (*)(NodeIndex);
// Each pattern object with what it became, once, parts before what they are part of.
using PatternParts = std::vector<std::pair<ObjectRef, DataflowPattern>>;

// Shared pattern objects stay shared; what cannot be matched becomes kUnsupported. Whole
// expressions, types that are no plain tensor's and ops' attributes are compared with `expr_of`.
DataflowPattern ImportPattern(const ObjectRef& pattern, ExprGetter expr_of,
                              PatternParts* parts = nullptr);

}  // namespace tvm::collage
