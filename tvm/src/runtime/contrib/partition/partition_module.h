// SPDX-License-Identifier: Apache-2.0
/*!
 * \file partition_module.h
 * \brief The runtime module of a partition that a library runs; a backend brings the compiling.
 *
 * A module of kind K is made by `collage.K.create(symbol, graph_json, const_names)`. It offers what
 * TVM asks of an external module with constants: get_symbol, get_const_vars,
 * __init_<symbol>(constants) and <symbol>(inputs..., outputs...). Saving keeps description and
 * names; TVM's const loader keeps the constants, and calls __init_ before the first run. Tested by
 * test_onednn_module.py.
 */
#ifndef TVM_COLLAGE_RUNTIME_PARTITION_PARTITION_MODULE_H_
#define TVM_COLLAGE_RUNTIME_PARTITION_PARTITION_MODULE_H_

#include <memory>
#include <string>
#include <vector>

#include "graph_desc.h"

namespace tvm {
namespace collage {
namespace partition {

/*! \brief A partition ready to run; any number of threads may call Run at once. */
class Program {
 public:
  virtual ~Program() = default;
  /*! \brief Runs once; data are compact tensors in the description's order of inputs, outputs. */
  virtual void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) = 0;
  /*! \brief What runs, for people: get_source("plan") of the module. */
  virtual std::string Summary() const = 0;
};

/*!
 * \brief Makes the program of a description whose constants have these values.
 *
 * The graph lives as long as the module; a constant lives as long as its shared pointer is kept.
 */
using Compile = std::unique_ptr<Program> (*)(const GraphDesc& graph,
                                             const std::vector<std::shared_ptr<void>>& constants);

/*! \brief Registers creating and loading modules of a kind; for static initialisers, once a kind.
 */
bool RegisterPartitionKind(const std::string& kind, Compile compile);

}  // namespace partition
}  // namespace collage
}  // namespace tvm
#endif  // TVM_COLLAGE_RUNTIME_PARTITION_PARTITION_MODULE_H_
