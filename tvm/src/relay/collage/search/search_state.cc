// SPDX-License-Identifier: Apache-2.0
#include "search_state.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tvm::collage {
namespace {

uint64_t Packed(const Note& note) {
  return static_cast<uint64_t>(note.node) << 32 | static_cast<uint32_t>(note.value);
}

uint64_t Mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 32;
}

uint64_t HashOf(const SearchState& state) {
  uint64_t hash = Mixed(0x9e3779b97f4a7c15ull, static_cast<uint64_t>(state.covered.offset()));
  for (uint64_t word : state.covered.words()) hash = Mixed(hash, word);
  for (const auto* notes : {&state.waits, &state.makers, &state.readers}) {
    hash = Mixed(hash, notes->size());
    for (const Note& note : *notes) hash = Mixed(hash, Packed(note));
  }
  return hash;
}

}  // namespace

int Trail::Append(int link, int part) {
  links_.push_back({link, part});
  return static_cast<int>(links_.size()) - 1;
}

std::vector<int> Trail::PartsTo(int link) const {
  std::vector<int> parts;
  for (; link != kRoot; link = links_[link].parent) {
    parts.push_back(links_[link].part);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

bool Trail::ComesBefore(int a, int b) const {
  bool before = false;
  while (a != b) {
    const Link& of_a = links_[a];
    const Link& of_b = links_[b];
    // The earliest difference decides: the last one seen on the way to the root.
    if (of_a.part != of_b.part) before = of_a.part < of_b.part;
    a = of_a.parent;
    b = of_b.parent;
  }
  return before;
}

bool IsBetter(const Way& a, const Way& b, const Trail& trail) {
  if (a.cost != b.cost) return a.cost < b.cost;
  if (a.num_parts != b.num_parts) return a.num_parts < b.num_parts;
  return a.link == b.link ? a.part < b.part : trail.ComesBefore(a.link, b.link);
}

void StateTable::Offer(const SearchState& state, const Way& way, const Trail& trail) {
  if (entries_.size() * 2 >= slots_.size()) Rehash(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t hash = HashOf(state);
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash != hash || !IsSame(entry, state)) continue;
    if (IsBetter(way, entry.way, trail)) entry.way = way;
    return;
  }
  const bool is_plain = state.covered.IsEmptyFrom(position_);
  if (way.cost > worst_kept_ && !is_plain) {
    Cut(way.cost);
    return;
  }
  const std::vector<uint64_t>& words = state.covered.words();
  entries_.push_back(
      {way, hash, pool_.size(), static_cast<uint32_t>(words.size()),
       static_cast<uint32_t>(state.waits.size()), static_cast<uint32_t>(state.makers.size()),
       static_cast<uint32_t>(state.readers.size()), state.covered.offset(), is_plain});
  slots_[slot] = static_cast<uint32_t>(entries_.size());
  pool_.insert(pool_.end(), words.begin(), words.end());
  for (const auto* notes : {&state.waits, &state.makers, &state.readers}) {
    for (const Note& note : *notes) pool_.push_back(Packed(note));
  }
  most_held_ = std::max(most_held_, static_cast<int64_t>(size()));
  if (static_cast<int64_t>(size()) >= 2 * max_states_) CutToLimit();
}

void StateTable::Cut(Ticks cost) {
  ++num_cut_;
  least_cut_cost_ = std::min(least_cut_cost_, cost);
}

void StateTable::CutToLimit() {
  if (static_cast<int64_t>(size()) <= max_states_) return;
  std::vector<uint32_t> ranked(size());
  std::iota(ranked.begin(), ranked.end(), uint32_t{0});
  const auto is_better = [this](uint32_t a, uint32_t b) {
    const Way& of_a = entries_[a].way;
    const Way& of_b = entries_[b].way;
    if (of_a.cost != of_b.cost) return of_a.cost < of_b.cost;
    return of_a.num_parts != of_b.num_parts ? of_a.num_parts < of_b.num_parts : a < b;
  };
  std::sort(ranked.begin(), ranked.end(), is_better);
  const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(max_states_);
  worst_kept_ = entries_[*(end - 1)].way.cost;
  const auto plain = std::find_if(ranked.begin(), ranked.end(),
                                  [this](uint32_t index) { return entries_[index].is_plain; });
  if (plain != ranked.end() && plain >= end) std::iter_swap(plain, end - 1);
  for (auto cut = end; cut != ranked.end(); ++cut) Cut(entries_[*cut].way.cost);
  ranked.erase(end, ranked.end());
  std::sort(ranked.begin(), ranked.end());  // in the order first met, as before
  std::vector<Entry> entries;
  std::vector<uint64_t> pool;
  for (uint32_t index : ranked) {
    Entry entry = entries_[index];
    const auto stored = pool_.begin() + static_cast<std::ptrdiff_t>(entry.begin);
    entry.begin = pool.size();
    pool.insert(pool.end(), stored, stored + static_cast<std::ptrdiff_t>(entry.num_pooled()));
    entries.push_back(entry);
  }
  entries_ = std::move(entries);
  pool_ = std::move(pool);
  Rehash(slots_.size());
}

SearchState StateTable::State(size_t index) const {
  const Entry& entry = entries_[index];
  const uint64_t* stored = pool_.data() + entry.begin;
  SearchState state{position_, CoveredSet(entry.offset, stored, entry.num_words), {}, {}, {}};
  stored += entry.num_words;
  const auto take = [&](std::vector<Note>* notes, uint32_t count) {
    notes->reserve(count);
    for (; count-- > 0; ++stored) {
      notes->push_back({static_cast<int>(*stored >> 32), static_cast<int>(*stored & 0xffffffffu)});
    }
  };
  take(&state.waits, entry.num_waits);
  take(&state.makers, entry.num_makers);
  take(&state.readers, entry.num_readers);
  return state;
}

bool StateTable::IsSame(const Entry& entry, const SearchState& state) const {
  const std::vector<uint64_t>& words = state.covered.words();
  if (entry.offset != state.covered.offset() || entry.num_words != words.size() ||
      entry.num_waits != state.waits.size() || entry.num_makers != state.makers.size() ||
      entry.num_readers != state.readers.size()) {
    return false;
  }
  const uint64_t* stored = pool_.data() + entry.begin;
  if (!std::equal(words.begin(), words.end(), stored)) return false;
  stored += words.size();
  for (const auto* notes : {&state.waits, &state.makers, &state.readers}) {
    for (const Note& note : *notes) {
      if (*stored++ != Packed(note)) return false;
    }
  }
  return true;
}

// A power of two slots, more than entries, each entry in its place.
void StateTable::Rehash(size_t num_slots) {
  slots_.assign(num_slots, 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = entries_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace tvm::collage
