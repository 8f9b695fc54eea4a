// SPDX-License-Identifier: Apache-2.0
/*!
 * \file flush_denormals.cc
 * \brief Calls of libtvm_collage_pool.so, which a deployed program may do without.
 */
#include "flush_denormals.h"

#include <dlfcn.h>

namespace tvm {
namespace collage {
namespace partition {

void FollowFlushDenormals() {
  using Follow = void (*)();
  static const auto follow =
      reinterpret_cast<Follow>(dlsym(RTLD_DEFAULT, "CollagePoolFollowFlushDenormals"));
  if (follow) follow();
}

bool WantsFlushDenormals() {
  using Wants = int (*)();
  static const auto wants =
      reinterpret_cast<Wants>(dlsym(RTLD_DEFAULT, "CollagePoolFlushDenormals"));
  return wants && wants() != 0;
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
