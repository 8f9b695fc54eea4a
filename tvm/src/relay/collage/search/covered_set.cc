// SPDX-License-Identifier: Apache-2.0
#include "covered_set.h"

#include <cassert>

namespace tvm::collage {

NodeWords::NodeWords(const std::vector<int>& nodes) : offset(nodes.front() / 64) {
  words.assign(static_cast<size_t>(nodes.back() / 64 - offset) + 1, 0);
  for (int node : nodes) {
    words[node / 64 - offset] |= uint64_t{1} << (node % 64);
  }
}

bool CoveredSet::Intersects(const NodeWords& nodes) const {
  // All below our offset is covered, and the candidate's first word is not zero.
  if (nodes.offset < offset_) return true;
  const size_t shift = static_cast<size_t>(nodes.offset - offset_);
  for (size_t w = 0; w < nodes.words.size() && w + shift < words_.size(); ++w) {
    if ((nodes.words[w] & words_[w + shift]) != 0) return true;
  }
  return false;
}

void CoveredSet::Add(const NodeWords& nodes) {
  assert(!Intersects(nodes));
  const size_t shift = static_cast<size_t>(nodes.offset - offset_);
  if (words_.size() < shift + nodes.words.size()) words_.resize(shift + nodes.words.size(), 0);
  for (size_t w = 0; w < nodes.words.size(); ++w) words_[w + shift] |= nodes.words[w];
  size_t full = 0;
  while (full < words_.size() && words_[full] == ~uint64_t{0}) ++full;
  words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(full));
  offset_ += static_cast<int>(full);
}

bool CoveredSet::IsEmptyFrom(int node) const {
  const int word = node / 64 - offset_;
  if (word < 0) return false;
  if (word >= static_cast<int>(words_.size())) return true;
  return word + 1 == static_cast<int>(words_.size()) && words_.back() >> (node % 64) == 0;
}

}  // namespace tvm::collage
