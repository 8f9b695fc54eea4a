// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <algorithm>
#include <sstream>

#include "../partition/round_up.h"
#include "nested_buffers.h"

namespace tvm::collage::onednn {
namespace {

void FindLifetimes(Plan* plan) {
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    for (const StepArg& arg : plan->steps[i].args) {
      Buffer& buffer = plan->buffers[arg.buffer];
      if (buffer.first_step < 0) buffer.first_step = static_cast<int>(i);
      buffer.last_step = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < plan->buffers.size(); ++i) {
    const Buffer& inner = plan->buffers[i];
    Buffer& outer = plan->buffers[PlaceOf(plan->buffers, static_cast<int>(i)).buffer];
    if (inner.first_step < 0) continue;
    if (outer.first_step < 0) outer.first_step = inner.first_step;
    outer.first_step = std::min(outer.first_step, inner.first_step);
    outer.last_step = std::max(outer.last_step, inner.last_step);
  }
}

bool AliveTogether(const Buffer& a, const Buffer& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

// The lowest offset for `buffer` that keeps clear of those already placed.
int64_t LowestFreeOffset(const Buffer& buffer, const std::vector<const Buffer*>& placed) {
  std::vector<const Buffer*> rivals;
  for (const Buffer* other : placed) {
    if (AliveTogether(buffer, *other)) rivals.push_back(other);
  }
  std::sort(rivals.begin(), rivals.end(),
            [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
  int64_t offset = 0;
  for (const Buffer* rival : rivals) {
    if (offset + buffer.bytes <= rival->offset) break;
    offset = std::max(offset, partition::RoundUp(rival->offset + rival->bytes, kAlignment));
  }
  return offset;
}

}  // namespace

void AssignMemory(Plan* plan) {
  FindLifetimes(plan);
  std::vector<Buffer*> todo;
  for (Buffer& buffer : plan->buffers) {
    if (buffer.first_step < 0) buffer.constant.reset();
    const bool has_place = buffer.place == Place::kArena && buffer.inside < 0;
    if (has_place && buffer.first_step >= 0) todo.push_back(&buffer);
  }
  std::stable_sort(todo.begin(), todo.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  std::vector<const Buffer*> placed;
  for (Buffer* buffer : todo) {
    buffer->offset = LowestFreeOffset(*buffer, placed);
    plan->arena_bytes = std::max(plan->arena_bytes, buffer->offset + buffer->bytes);
    placed.push_back(buffer);
  }
  for (size_t i = 0; i < plan->buffers.size(); ++i) {
    if (plan->buffers[i].inside < 0) continue;
    const BufferPlace place = PlaceOf(plan->buffers, static_cast<int>(i));
    plan->buffers[i].offset = plan->buffers[place.buffer].offset + place.begin;
  }
}

std::string Plan::Summary() const {
  std::ostringstream os;
  for (const Step& step : steps) os << step.summary << "\n";
  for (const std::string& node : without_step) os << node << "\n";
  os << "arena " << arena_bytes << " bytes, scratchpad " << scratch_bytes << " bytes\n";
  return os.str();
}

}  // namespace tvm::collage::onednn
