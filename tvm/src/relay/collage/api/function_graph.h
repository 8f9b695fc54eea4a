// SPDX-License-Identifier: Apache-2.0
// A function as reports draw and explain it: its nodes, every candidate whose cost was asked for,
// why backends did not get a kernel, and what rules refused. Precondition: the plan is of this
// function and these specs. Test: views/test_function_report.py.
#pragma once

#include <vector>

#include "../graph/json.h"
#include "../plan/plan.h"
#include "../relay/import_relay.h"

namespace tvm::collage {

// A FunctionGraph of function_report.py.
Json FunctionGraphJson(const ImportedFunction& imported, const std::vector<PartitionSpec>& specs,
                       const FunctionPlan& plan);

// What each spec's rule turned down: Refusals of function_report.py.
Json RefusalsJson(const DataflowGraph& graph, const std::vector<PartitionSpec>& specs,
                  const std::vector<RuleLog>& logs);

}  // namespace tvm::collage
