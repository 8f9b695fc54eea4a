// SPDX-License-Identifier: Apache-2.0
// Memory of programs: aligned blocks, and one for each running call.
// Test: backends/dnnl/test_scratch.py.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tvm::collage::partition {

// Of what kernels read and write.
constexpr int64_t kAlignment = 64;

// Zeroed memory so aligned, or to huge pages when large.
std::shared_ptr<void> AllocateAligned(int64_t bytes);

// Blocks that running calls borrow, and whose contents mean nothing to the next one.
//
// All programs of the process share one pool while there are any. The parts of a network run one
// after another, so each gets the block that was given back last of those that are large enough,
// which the caches hold. If all are too small, the last one is replaced by a larger one; blocks
// never shrink.
class ScratchPool {
 public:
  // The pool of the process, with an idle block of so many bytes at least.
  static std::shared_ptr<ScratchPool> Shared(int64_t bytes);

  // A block of so many bytes at least, given back when it leaves its scope.
  class Block {
   public:
    Block(ScratchPool* pool, int64_t bytes) : pool_(pool), memory_(pool->Acquire(bytes)) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { pool_->Release(std::move(memory_)); }
    char* data() const { return static_cast<char*>(memory_.data.get()); }

   private:
    friend class ScratchPool;
    struct Memory {
      std::shared_ptr<void> data;
      int64_t bytes = 0;
    };

    ScratchPool* pool_;
    Memory memory_;
  };

 private:
  Block::Memory Acquire(int64_t bytes);
  void Release(Block::Memory memory);

  std::mutex mutex_;  // guards idle_
  std::vector<Block::Memory> idle_;
};

}  // namespace tvm::collage::partition
