// SPDX-License-Identifier: Apache-2.0
#include "thread_error.h"

#include <dlfcn.h>

#include "c_backend_abi.h"

namespace tvm::collage::pool {
namespace {

thread_local std::string last_error;

// TVM comes into the process after this library, if at all, so functions are looked up when an
// error needs them. A missing one is not remembered: it may be loaded later.
template <typename Signature>
Signature* Find(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

// Holds Python's lock while it lives; false when there is no Python in the process.
class PythonLock {
 public:
  PythonLock()
      : ensure_(Find<int()>("PyGILState_Ensure")), release_(Find<void(int)>("PyGILState_Release")) {
    if (*this) state_ = ensure_();
  }
  ~PythonLock() {
    if (*this) release_(state_);
  }
  explicit operator bool() const { return ensure_ != nullptr && release_ != nullptr; }

 private:
  int (*ensure_)();
  void (*release_)(int);
  int state_ = 0;
};

// A reference of our own: TVM's goes when the next error of this thread takes its place.
std::shared_ptr<void> ReferencePythonException(void* exception) {
  auto add_reference = Find<void(void*)>("Py_IncRef");
  auto drop_reference = Find<void(void*)>("Py_DecRef");
  PythonLock lock;
  if (!lock || exception == nullptr || !add_reference || !drop_reference) return nullptr;
  add_reference(exception);
  return std::shared_ptr<void>(exception, [drop_reference](void* object) {
    PythonLock lock;
    drop_reference(object);
  });
}

}  // namespace

void SetThreadError(const ThreadError& error) {
  last_error = error.message;
  auto set_python = Find<void(void*)>("TVMAPISetLastPythonError");
  if (error.python_exception != nullptr && set_python != nullptr) {
    set_python(error.python_exception.get());
  } else if (auto set = Find<void(const char*)>("TVMAPISetLastError")) {
    set(error.message.c_str());
  }
}

ThreadError TakeThreadError() {
  ThreadError error{last_error};
  if (auto get = Find<const char*()>("TVMGetLastError")) {
    const char* text = get();
    error.message = text != nullptr ? text : "a Python exception";
    auto get_python = Find<void*()>("TVMGetLastPythonError");
    if (text == nullptr && get_python != nullptr) {
      error.python_exception = ReferencePythonException(get_python());
    }
  }
  SetThreadError({""});
  return error;
}

}  // namespace tvm::collage::pool

extern "C" COLLAGE_POOL_EXPORT const char* CollagePoolLastError() {
  return tvm::collage::pool::last_error.c_str();
}
