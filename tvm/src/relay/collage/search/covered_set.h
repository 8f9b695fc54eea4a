// SPDX-License-Identifier: Apache-2.0
// The covered nodes of a search state: a word offset below which all is covered, and words
// from there on, past which nothing is. Its size follows the width of the search front, not the
// size of the graph. Test: tvm/tests/cpp/search_states_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tvm::collage {

// Nodes of one candidate as words from an offset on; first and last word are not zero.
struct NodeWords {
  NodeWords() = default;
  // Needs ascending nodes, at least one.
  explicit NodeWords(const std::vector<int>& nodes);

  bool Contains(int node) const {
    const int word = node / 64 - offset;
    if (word < 0 || word >= static_cast<int>(words.size())) return false;
    return (words[word] >> (node % 64) & 1) != 0;
  }

  int offset = 0;
  std::vector<uint64_t> words;
};

// Canonical: equal sets have equal offset and words. words[0] is not all ones, the last
// word is not zero.
class CoveredSet {
 public:
  CoveredSet() = default;
  CoveredSet(int offset, const uint64_t* words, size_t num_words)
      : offset_(offset), words_(words, words + num_words) {}

  int offset() const { return offset_; }
  const std::vector<uint64_t>& words() const { return words_; }

  bool Contains(int node) const {
    const int word = node / 64 - offset_;
    if (word < 0) return true;
    if (word >= static_cast<int>(words_.size())) return false;
    return (words_[word] >> (node % 64) & 1) != 0;
  }
  bool Intersects(const NodeWords& nodes) const;
  // Adds nodes none of which are in the set.
  void Add(const NodeWords& nodes);
  // Least node that is not in the set; may lie past the end of the graph.
  int FirstUncovered() const {
    return offset_ * 64 + (words_.empty() ? 0 : __builtin_ctzll(~words_.front()));
  }
  // Whether no node >= node is in the set.
  bool IsEmptyFrom(int node) const;

 private:
  int offset_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace tvm::collage
