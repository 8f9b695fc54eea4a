// SPDX-License-Identifier: Apache-2.0
// The runtime module of a partition that a library runs; a backend brings the compiling.
//
// A module of kind K is made by `collage.K.create(symbol, graph_json, constants)`. It offers what
// TVM asks of an external module: get_symbol, get_const_vars and <symbol>(inputs..., outputs...),
// and profile(runs, inputs..., outputs...), which gives StepTimes as JSON. A program is made at the
// first run.
//
// The constants are arrays, which the module holds and saves itself: one that was loaded from a
// file drops them when its program is made, so that none stays in memory beside its packed form.
// One made in this process keeps them, as it may be saved again. Or they are names: then TVM's
// const loader holds the arrays, for good, and hands them to __init_<symbol>(constants) before the
// first run.
// Test: backends/test_contract.py, runtime/test_partition_memory.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph_desc.h"
#include "step_times.h"

namespace tvm::collage::partition {

// A partition ready to run; any number of threads may call Run at once.
class Program {
 public:
  virtual ~Program() = default;
  // Runs once; data are compact tensors in the description's order of inputs, outputs.
  virtual void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) = 0;
  // Runs so often, after one run more, with each step timed; gives the medians. Nothing for a
  // program that is one step, or cannot look inside.
  virtual StepTimes Profile(const std::vector<void*>& /*inputs*/,
                            const std::vector<void*>& /*outputs*/, int /*runs*/) {
    return {};
  }
  // What runs, for people: get_source("plan") of the module.
  virtual std::string Summary() const = 0;
};

// Throws a ValueError unless all that compiling relies on holds of a description.
using Check = void (*)(const GraphDesc& graph);

// Makes the program of a checked description whose constants have these values.
//
// The graph lives as long as the module; a constant lives as long as its shared pointer is kept.
using Compile = std::unique_ptr<Program> (*)(const GraphDesc& graph,
                                             std::vector<std::shared_ptr<void>> constants);

// Registers creating and loading modules of a kind; for static initialisers, once a kind.
bool RegisterPartitionKind(const std::string& kind, Check check, Compile compile);

}  // namespace tvm::collage::partition
