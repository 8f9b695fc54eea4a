// SPDX-License-Identifier: Apache-2.0
// Signatures of an imported function's candidates; values of small constants count, weights' do
// not. Test: tvm/tests/python/collage/test_estimator.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_
#define TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_

#include "../graph/signature.h"
#include "import_relay.h"

namespace tvm::collage {

/*! \brief `imported` must outlive the result. */
Signatures SignaturesOf(const ImportedFunction& imported);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_
