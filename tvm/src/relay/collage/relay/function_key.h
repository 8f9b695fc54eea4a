// SPDX-License-Identifier: Apache-2.0
// FunctionKey: what tells whether a saved placement's node indexes still mean the same nodes.
// Equal in every process for the same model, however its variables are called. Precondition: the
// function is typed. Test: relay/test_function_key.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_FUNCTION_KEY_H_
#define TVM_RELAY_COLLAGE_RELAY_FUNCTION_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "construct.h"
#include "import_relay.h"

namespace tvm::collage {

struct FunctionKey {
  /*! \brief By node: what it is, its attributes, type and device, and which nodes it reads. */
  std::vector<uint64_t> nodes;
  /*! \brief All of them and the result: the function without the values of its weights. */
  uint64_t structure = 0;
  /*! \brief The values of its weights, in the order of the nodes. */
  uint64_t weights = 0;
};

/*! \brief What is no weight (WeightsOf) belongs to the structure with its values. */
FunctionKey KeyOf(const ImportedFunction& imported);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_FUNCTION_KEY_H_
