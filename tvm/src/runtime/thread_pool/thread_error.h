// SPDX-License-Identifier: Apache-2.0
// The last error of the current thread: a text, or a Python exception from a packed function.
// It is TVM's own when TVM is in the process, found by name, so that nothing here needs TVM.
// Test: runtime/test_thread_pool.py.
#pragma once

#include <memory>
#include <string>

namespace tvm::collage::pool {

struct ThreadError {
  std::string message;
  // A reference to the exception object, or null; `message` then only says that there is one.
  std::shared_ptr<void> python_exception = nullptr;
};

// Makes `error` this thread's last error, for TVMGetLastError and CollagePoolLastError.
void SetThreadError(const ThreadError& error);

// Takes (and clears) this thread's last error; the message is "" when there is none.
ThreadError TakeThreadError();

}  // namespace tvm::collage::pool
