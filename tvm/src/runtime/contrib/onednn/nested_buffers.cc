// SPDX-License-Identifier: Apache-2.0
#include "nested_buffers.h"

#include <algorithm>
#include <map>

#include "plan.h"

namespace tvm::collage::onednn {
namespace {

// Adds the places in `outermost` of all buffers in `buffer` that steps write.
void FindWritten(const std::vector<Buffer>& buffers, int buffer, std::vector<BufferPlace>* found) {
  if (buffers[buffer].parts.empty()) found->push_back({buffer, PlaceOf(buffers, buffer).begin});
  for (int part : buffers[buffer].parts) FindWritten(buffers, part, found);
}

// Whether all that is written in an outermost buffer is inside of one of the parts that
// lie in it: then the parts hold the same there, and what else it has is not in their way.
bool HoldsNothingElse(const std::vector<Buffer>& buffers, int outermost,
                      const std::vector<int>& parts) {
  std::vector<BufferPlace> written;
  FindWritten(buffers, outermost, &written);
  return std::all_of(written.begin(), written.end(), [&](const BufferPlace& each) {
    const int64_t end = each.begin + buffers[each.buffer].bytes;
    return std::any_of(parts.begin(), parts.end(), [&](int part) {
      const int64_t begin = PlaceOf(buffers, part).begin;
      return begin <= each.begin && end <= begin + buffers[part].bytes;
    });
  });
}

}  // namespace

BufferPlace PlaceOf(const std::vector<Buffer>& buffers, int buffer) {
  BufferPlace place{buffer, 0};
  while (buffers[place.buffer].inside >= 0) {
    place.begin += buffers[place.buffer].begin;
    place.buffer = buffers[place.buffer].inside;
  }
  return place;
}

std::vector<bool> Nest(std::vector<Buffer>* buffers, int whole,
                       const std::vector<BufferPlace>& parts) {
  // Parts that lie in one buffer already move together.
  std::map<int, std::vector<size_t>> by_outermost;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t end = i + 1 < parts.size() ? parts[i + 1].begin : (*buffers)[whole].bytes;
    if ((*buffers)[parts[i].buffer].bytes != end - parts[i].begin) continue;
    by_outermost[PlaceOf(*buffers, parts[i].buffer).buffer].push_back(i);
  }
  std::vector<bool> is_nested(parts.size(), false);
  for (const auto& [outermost, members] : by_outermost) {
    Buffer& moved = (*buffers)[outermost];
    const auto begin_by = [&, buffers = buffers](size_t i) {
      return parts[i].begin - PlaceOf(*buffers, parts[i].buffer).begin;
    };
    const int64_t begin = begin_by(members.front());
    const bool agree =
        std::all_of(members.begin(), members.end(), [&](size_t i) { return begin_by(i) == begin; });
    std::vector<int> moving;
    for (size_t i : members) moving.push_back(parts[i].buffer);
    if (!agree || moved.place != Place::kArena || begin < 0 || begin % kAlignment != 0 ||
        begin + moved.bytes > (*buffers)[whole].bytes ||
        !HoldsNothingElse(*buffers, outermost, moving)) {
      continue;
    }
    moved.inside = whole;
    moved.begin = begin;
    (*buffers)[whole].parts.push_back(outermost);
    for (size_t i : members) is_nested[i] = true;
  }
  return is_nested;
}

}  // namespace tvm::collage::onednn
