// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "round_up.h"

namespace tvm::collage::partition {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

std::shared_ptr<void> AllocateAligned(int64_t bytes) {
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const int64_t size = RoundUp(std::max<int64_t>(bytes, 1), alignment);
  void* data = std::aligned_alloc(alignment, size);
  ICHECK(data) << "partition: out of memory for " << bytes << " bytes";
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) madvise(data, size, MADV_HUGEPAGE);  // a hint: may fail
#endif
  std::memset(data, 0, size);  // pages are touched here, not in the first call
  return std::shared_ptr<void>(data, std::free);
}

std::shared_ptr<ScratchPool> ScratchPool::Shared(int64_t bytes) {
  static std::mutex mutex;  // guards last
  static std::weak_ptr<ScratchPool> last;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<ScratchPool> pool = last.lock();
  if (!pool) last = pool = std::make_shared<ScratchPool>();
  const Block block(pool.get(), bytes);
  return pool;
}

ScratchPool::Block::Memory ScratchPool::Acquire(int64_t bytes) {
  Block::Memory memory;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto fits = std::find_if(idle_.rbegin(), idle_.rend(),
                                   [&](const auto& idle) { return idle.bytes >= bytes; });
    const auto found = fits != idle_.rend() ? fits : idle_.rbegin();
    if (found != idle_.rend()) {
      memory = std::move(*found);
      idle_.erase(std::next(found).base());
    }
  }
  if (memory.bytes < bytes) {
    memory.data.reset();  // before there is another one
    memory = {AllocateAligned(bytes), bytes};
  }
  return memory;
}

void ScratchPool::Release(Block::Memory memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(memory));
}

}  // namespace tvm::collage::partition
