// SPDX-License-Identifier: Apache-2.0
// relay.dataflow_pattern objects -> DataflowPattern.
// Precondition: libtvm.so is loaded. Test: tvm/tests/python/collage/test_import_pattern.py.
#ifndef TVM_RELAY_COLLAGE_FFI_IMPORT_PATTERN_H_
#define TVM_RELAY_COLLAGE_FFI_IMPORT_PATTERN_H_

#include "../match/pattern.h"
#include "fields.h"

namespace tvm::collage {

/*! \brief Shared pattern objects stay shared; what cannot be matched becomes kUnsupported. */
DataflowPattern ImportPattern(const ObjectRef& pattern);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_IMPORT_PATTERN_H_
