// SPDX-License-Identifier: Apache-2.0
/*!
 * \file memory.h
 * \brief Memory of programs: aligned blocks, and one for each running call.
 *
 * Tested by backends/dnnl/test_lower.py, backends/blas/test_deploy.py.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tvm {
namespace collage {
namespace partition {

/*! \brief Zeroed memory aligned to 64 bytes, or to huge pages when large. */
std::shared_ptr<void> AllocateAligned(int64_t bytes);

/*! \brief Blocks of one size: each running call borrows one, kept for the next. */
class ScratchPool {
 public:
  explicit ScratchPool(int64_t bytes) : bytes_(bytes) {}

  /*! \brief A block that goes back to the pool when it leaves its scope. */
  class Block {
   public:
    explicit Block(ScratchPool* pool) : pool_(pool), data_(pool->Acquire()) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { pool_->Release(std::move(data_)); }
    char* data() const { return static_cast<char*>(data_.get()); }

   private:
    ScratchPool* pool_;
    std::shared_ptr<void> data_;
  };

 private:
  std::shared_ptr<void> Acquire();
  void Release(std::shared_ptr<void> block);

  const int64_t bytes_;
  std::mutex mutex_;  // guards idle_
  std::vector<std::shared_ptr<void>> idle_;
};

}  // namespace partition
}  // namespace collage
}  // namespace tvm
