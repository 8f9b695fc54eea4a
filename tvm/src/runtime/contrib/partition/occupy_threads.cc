// SPDX-License-Identifier: Apache-2.0
/*!
 * \file occupy_threads.cc
 * \brief Keeps the threads of TVM's pool at work for a while, as parts beside a measured one do.
 *
 * `collage.occupy_threads(microseconds)`: each thread that a launch has turns for so long. The
 * threads of another pool fall asleep meanwhile, and these do while that one works. Tested by
 * timing/test_in_network.py.
 */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <chrono>

namespace tvm {
namespace collage {
namespace partition {
namespace {

void OccupyThreads(int64_t microseconds) {
  const auto turn = [](int, TVMParallelGroupEnv*, void* raw) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::microseconds(*static_cast<int64_t*>(raw));
    while (Clock::now() < end) {
    }
    return 0;
  };
  ICHECK_EQ(TVMBackendParallelLaunch(turn, &microseconds, 0), 0) << TVMGetLastError();
}

TVM_REGISTER_GLOBAL("collage.occupy_threads").set_body_typed(OccupyThreads);

}  // namespace
}  // namespace partition
}  // namespace collage
}  // namespace tvm
