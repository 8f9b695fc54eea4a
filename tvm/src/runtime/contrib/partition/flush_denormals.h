// SPDX-License-Identifier: Apache-2.0
/*!
 * \file flush_denormals.h
 * \brief The thread pool's wish to treat denormals as zero, followed by libraries that run parts.
 *
 * Tested by test_flush_denormals.py.
 */
#ifndef TVM_COLLAGE_RUNTIME_PARTITION_FLUSH_DENORMALS_H_
#define TVM_COLLAGE_RUNTIME_PARTITION_FLUSH_DENORMALS_H_

namespace tvm {
namespace collage {
namespace partition {

/*! \brief Has this thread, its OpenMP team and threads that they start do what is asked for. */
void FollowFlushDenormals();

/*! \brief Whether it is asked for now. False where our thread pool is not in the process. */
bool WantsFlushDenormals();

}  // namespace partition
}  // namespace collage
}  // namespace tvm
#endif  // TVM_COLLAGE_RUNTIME_PARTITION_FLUSH_DENORMALS_H_
