// SPDX-License-Identifier: Apache-2.0
// Treats denormal floats as zero while tasks run, if asked to: they can make a kernel tens of times
// slower. Off by default, since it changes results below 1e-38.
// Test: runtime/test_thread_pool.py.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tvm::collage::pool {

// Whether tasks are asked to: CollagePoolSetFlushDenormals, at first COLLAGE_FLUSH_DENORMALS=1.
bool WantsFlushDenormals();

constexpr unsigned kFlushBits = 0x8000 | 0x0040;  // flush-to-zero, denormals-are-zero

// Sets or clears flush-to-zero and denormals-are-zero on the current thread.
inline void SetFlushDenormals([[maybe_unused]] bool enabled) {
#if defined(__SSE__)
  _mm_setcsr(enabled ? _mm_getcsr() | kFlushBits : _mm_getcsr() & ~kFlushBits);
#endif
}

// Whether the current thread has one of them set.
inline bool FlushesDenormals() {
#if defined(__SSE__)
  return (_mm_getcsr() & kFlushBits) != 0;
#else
  return false;
#endif
}

// Sets flush-to-zero and denormals-are-zero on the current thread while it lives, then restores
// what was there. Does nothing when not enabled.
class ScopedFlushDenormals {
 public:
#if defined(__SSE__)
  static constexpr bool kSupported = true;
  explicit ScopedFlushDenormals(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    saved_ = _mm_getcsr();
    SetFlushDenormals(true);
  }
  ~ScopedFlushDenormals() {
    if (enabled_) _mm_setcsr(saved_);
  }

 private:
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

}  // namespace tvm::collage::pool
