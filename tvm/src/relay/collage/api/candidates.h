// SPDX-License-Identifier: Apache-2.0
// What the backends' rules find in a function, for the search to choose from.
// Test: tvm/tests/python/collage/test_views.py.
#ifndef TVM_RELAY_COLLAGE_API_CANDIDATES_H_
#define TVM_RELAY_COLLAGE_API_CANDIDATES_H_

#include <vector>

#include "../relay/import_relay.h"
#include "target_spec.h"

namespace tvm::collage {

/*! \brief Is it the host target's, whose costs are never asked for? */
bool IsHost(const CandidatePartition& candidate, const std::vector<TargetSpec>& specs);

/*! \brief What the specs' rules find, each once, small ones first; `logs` gets one a spec. */
std::vector<CandidatePartition> AllCandidates(const ImportedFunction& imported,
                                              const std::vector<TargetSpec>& specs,
                                              std::vector<RuleLog>* logs);

/*! \brief "<backend>(nn.conv2d, add)". */
std::string LabelOf(const ImportedFunction& imported, const CandidatePartition& candidate,
                    const std::vector<TargetSpec>& specs);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_CANDIDATES_H_
