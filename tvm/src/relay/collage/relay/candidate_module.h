// SPDX-License-Identifier: Apache-2.0
// Candidate -> the module that is measured: @main computes the candidate, as it would be deployed.
// Precondition: the candidate is of this function's graph. Test:
// tvm/tests/python/collage/test_rewrite.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_CANDIDATE_MODULE_H_
#define TVM_RELAY_COLLAGE_RELAY_CANDIDATE_MODULE_H_

#include <string>

#include "../graph/sub_graph.h"
#include "rewrite.h"

namespace tvm::collage {

/*!
 * \brief IRModule with @main(tensors) -> exits. What an external backend compiles (`is_primitive`)
 * is one global function that @main calls; what is TVM's is @main's body. Parameters of tuple type
 * are taken apart, since an executor is fed tensors.
 */
ObjectRef CandidateModule(const ImportedFunction& imported, const SubGraph& sub_graph,
                          bool is_primitive, const std::string& compiler);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_CANDIDATE_MODULE_H_
