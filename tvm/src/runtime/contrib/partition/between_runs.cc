// SPDX-License-Identifier: Apache-2.0
// What the rest of a network does between two runs of one of its parts.
//
// `collage.occupy_threads(microseconds)`: each thread that a launch has turns for so long. The
// threads of another pool fall asleep meanwhile, and these do while that one works.
// `collage.read_bytes(array, count)`: the threads read the first bytes of an array, each its share,
// which are in the caches then, in place of what was read longest ago.
// Test: measure/profiler/test_in_network.py.
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/registry.h>

#include <chrono>

namespace tvm::collage::partition {
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

// The array lies in the memory of this CPU, without gaps.
void ReadBytes(runtime::NDArray array, int64_t count) {
  struct Bytes {
    const volatile char* data;
    size_t count;
  };
  const auto read = [](int task, TVMParallelGroupEnv* group, void* raw) {
    constexpr size_t kLine = 64;  // of a cache
    const Bytes& bytes = *static_cast<Bytes*>(raw);
    const size_t lines = (bytes.count + kLine - 1) / kLine;
    const size_t end = lines * (task + 1) / group->num_task;
    for (size_t line = lines * task / group->num_task; line < end; ++line) {
      static_cast<void>(bytes.data[line * kLine]);
    }
    return 0;
  };
  const size_t size = runtime::GetDataSize(*array.operator->());
  ICHECK(0 <= count && static_cast<size_t>(count) <= size) << count << " of " << size << " bytes";
  Bytes bytes{static_cast<const char*>(array->data) + array->byte_offset,
              static_cast<size_t>(count)};
  ICHECK_EQ(TVMBackendParallelLaunch(read, &bytes, 0), 0) << TVMGetLastError();
}

TVM_REGISTER_GLOBAL("collage.occupy_threads").set_body_typed(OccupyThreads);
TVM_REGISTER_GLOBAL("collage.read_bytes").set_body_typed(ReadBytes);

}  // namespace
}  // namespace tvm::collage::partition
