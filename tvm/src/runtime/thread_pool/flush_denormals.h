// SPDX-License-Identifier: Apache-2.0
// Treats denormal floats as zero while tasks run, if asked to: they can make a kernel tens of times
// slower. Off by default, since it changes results below 1e-38.
// Test: tests/python/collage/test_thread_pool.py.
#ifndef TVM_RUNTIME_THREAD_POOL_FLUSH_DENORMALS_H_
#define TVM_RUNTIME_THREAD_POOL_FLUSH_DENORMALS_H_

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tvm {
namespace collage {
namespace pool {

// Sets flush-to-zero and denormals-are-zero on the current thread while it lives, then restores
// what was there. Does nothing when not enabled.
class ScopedFlushDenormals {
 public:
#if defined(__SSE__)
  static constexpr bool kSupported = true;
  explicit ScopedFlushDenormals(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    saved_ = _mm_getcsr();
    _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
  }
  ~ScopedFlushDenormals() {
    if (enabled_) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  bool enabled_;
  unsigned saved_ = 0;
#else
  static constexpr bool kSupported = false;
  explicit ScopedFlushDenormals(bool) {}
#endif

 public:
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;
};

}  // namespace pool
}  // namespace collage
}  // namespace tvm

#endif  // TVM_RUNTIME_THREAD_POOL_FLUSH_DENORMALS_H_
