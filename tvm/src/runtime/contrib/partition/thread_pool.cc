// SPDX-License-Identifier: Apache-2.0
#include "thread_pool.h"

#include <dlfcn.h>

namespace tvm::collage::partition {
namespace {

// A thread that sleeps takes some 30 us to wake on a virtual machine, one that still turns 1 us.
constexpr int64_t kSmallNanoseconds = 10000;
// What a core is taken to do in a nanosecond.
constexpr int64_t kOperationsPerNanosecond = 100;
constexpr int64_t kBytesPerNanosecond = 20;

// The pool's function of that name, or null.
template <typename F>
F* Find(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void FollowFlushDenormals() {
  static const auto follow = Find<void()>("CollagePoolFollowFlushDenormals");
  if (follow) follow();
}

bool WantsFlushDenormals() {
  static const auto wants = Find<int()>("CollagePoolFlushDenormals");
  return wants && wants() != 0;
}

bool IsSmallWork(int64_t operations, int64_t bytes) {
  return operations / kOperationsPerNanosecond + bytes / kBytesPerNanosecond < kSmallNanoseconds;
}

void OthersWorked(int threads) {
  static const auto tell = Find<void(int)>("CollagePoolOthersWorked");
  if (tell) tell(threads);
}

ScopedSpread::ScopedSpread() {
  static const auto begin = Find<void()>("CollagePoolBeginPart");
  if (begin) begin();
}

ScopedSpread::~ScopedSpread() {
  static const auto end = Find<void()>("CollagePoolEndPart");
  if (end) end();
}

}  // namespace tvm::collage::partition
