// SPDX-License-Identifier: Apache-2.0
// States of the cover search, the parts that led to them, and the table of the best way to
// each state at one position. What a state means: docs/cover_search.md and successors.h.
// Test: tvm/tests/cpp/search_states_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "covered_set.h"
#include "ticks.h"

namespace tvm::collage {

// Something a state remembers of a node.
struct Note {
  int node;
  int value;
  bool operator==(const Note& other) const { return node == other.node && value == other.value; }
  bool operator<(const Note& other) const {
    return node != other.node ? node < other.node : value < other.value;
  }
};

struct SearchState {
  // The first uncovered node, or the number of nodes.
  int position = 0;
  CoveredSet covered;
  // All notes ascending.
  // Covered node that uncovered ones read, uncovered node that it waits for.
  std::vector<Note> waits;
  // Covered node that uncovered ones read, class of its maker. This and the next only for nodes
  // where the maker matters (TransitionTable::DependsOnMaker).
  std::vector<Note> makers;
  // Uncovered node, layout class of a used part that reads it: one note a part.
  std::vector<Note> readers;
};

// The parts on the way to a state: a tree that grows at its leaves, by link number.
class Trail {
 public:
  static constexpr int kRoot = -1;

  int Append(int link, int part);
  std::vector<int> PartsTo(int link) const;
  // Whether a's list of parts comes before b's. Both must be equally long.
  bool ComesBefore(int a, int b) const;

 private:
  struct Link {
    int parent = kRoot;
    int part = 0;
  };
  std::vector<Link> links_;
};

// One way to a state: `part` after those of `link`. It is no link itself before the state is
// expanded, so that the trail grows by the states expanded, not by all that were met.
struct Way {
  Ticks cost = 0;
  int num_parts = 0;
  int link = Trail::kRoot;
  int part = -1;
};

// Lowest cost, then fewest parts, then the parts' ids in order.
bool IsBetter(const Way& a, const Way& b, const Trail& trail);

// The states met at one position with the best way to each, in the order first met.
// Key: the state (its position is the table's). Hit: the better way stays. Of more than
// `max_states` the most promising stay, those of least cost, with one that covers nothing past its
// position among them: it can always go on by single nodes, where these are candidates, so cutting
// does not lose every cover. At most twice as many are held for a moment.
class StateTable {
 public:
  StateTable(int position, int64_t max_states) : position_(position), max_states_(max_states) {}

  size_t size() const { return entries_.size(); }
  // Adds the state or betters the way to it, unless a way as good is known.
  void Offer(const SearchState& state, const Way& way, const Trail& trail);
  // Leaves no more than `max_states` before they are expanded.
  void CutToLimit();
  const Way& way(size_t index) const { return entries_[index].way; }
  SearchState State(size_t index) const;

  // Most states held at a time.
  int64_t most_held() const { return most_held_; }
  // States cut, and the least cost of a way to one of them.
  int64_t num_cut() const { return num_cut_; }
  Ticks least_cut_cost() const { return least_cut_cost_; }

 private:
  struct Entry {
    Way way;
    uint64_t hash;
    size_t begin;  // in pool_: the words of the covered set, then one word a note
    uint32_t num_words;
    uint32_t num_waits;
    uint32_t num_makers;
    uint32_t num_readers;
    int32_t offset;
    bool is_plain;  // covers nothing past its position
    size_t num_pooled() const { return size_t{num_words} + num_waits + num_makers + num_readers; }
  };
  bool IsSame(const Entry& entry, const SearchState& state) const;
  void Cut(Ticks cost);
  void Rehash(size_t num_slots);

  const int position_;
  const int64_t max_states_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> pool_;
  std::vector<uint32_t> slots_;        // 1 + entry, by open addressing; 0: free
  Ticks worst_kept_ = kInfiniteTicks;  // a new state above this would be cut again
  int64_t most_held_ = 0;
  int64_t num_cut_ = 0;
  Ticks least_cut_cost_ = kInfiniteTicks;
};

}  // namespace tvm::collage
