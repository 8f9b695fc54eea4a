// SPDX-License-Identifier: Apache-2.0
// How often a pass of this library ran: proves to a test which implementation it has met, read as
// collage.NumPartitionRuns. Test: upstream/test_collage.py.
#ifndef TVM_RELAY_COLLAGE_API_RUN_COUNTER_H_
#define TVM_RELAY_COLLAGE_API_RUN_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace tvm::collage {

inline std::atomic<int64_t> num_partition_runs{0};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_RUN_COUNTER_H_
