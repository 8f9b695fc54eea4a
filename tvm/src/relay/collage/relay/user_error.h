// SPDX-License-Identifier: Apache-2.0
// Errors that a user can mend: Python raises them as the named class with one line of text, where
// LOG(FATAL) would put a C++ stack before it. Test: test_errors.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_USER_ERROR_H_
#define TVM_RELAY_COLLAGE_RELAY_USER_ERROR_H_

#include <tvm/runtime/registry.h>

#include <stdexcept>
#include <string>

namespace tvm::collage {

/*!
 * \brief Python raises the error itself, so that its text is the message alone; TVM's FFI would put
 * the kind in front of it.
 * \param kind a class that TVM's FFI knows, e.g. "ValueError".
 */
[[noreturn]] inline void ThrowUserError(const std::string& kind, const std::string& message) {
  if (auto* raise = runtime::Registry::Get("tvm.relay.collage.raise_error"))
    (*raise)(kind, message);
  // Python's side is not imported yet.
  throw std::runtime_error(kind + ": " + message);
}

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_USER_ERROR_H_
