// SPDX-License-Identifier: Apache-2.0
#include "successors.h"

#include <algorithm>

namespace tvm::collage {
namespace {

// The notes of one node, in notes sorted by node.
std::pair<const Note*, const Note*> NotesOf(const std::vector<Note>& notes, int node) {
  const auto first = std::lower_bound(notes.begin(), notes.end(), node,
                                      [](const Note& note, int n) { return note.node < n; });
  auto last = first;
  while (last != notes.end() && last->node == node) ++last;
  return {notes.data() + (first - notes.begin()), notes.data() + (last - notes.begin())};
}

void SortAndUnique(std::vector<int>* nodes) {
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
}

}  // namespace

bool Successors::HasUncoveredReader(int node) const {
  // Readers come greatest first, which is covered last.
  for (int reader : parts_.Readers(node)) {
    if (!next_.covered.Contains(reader)) return true;
  }
  return false;
}

// Sets waits_; false when using the part would close a cycle.
bool Successors::FindWaits(const SearchState& state, const Part& part) {
  waits_.clear();
  for (int read : part.outside) {
    if (!state.covered.Contains(read)) {
      waits_.push_back(read);
    } else if (!state.waits.empty()) {
      const auto [first, last] = NotesOf(state.waits, read);
      for (const Note* note = first; note != last; ++note) {
        if (part.words.Contains(note->value)) return false;
        waits_.push_back(note->value);
      }
    }
  }
  SortAndUnique(&waits_);
  return true;
}

// Sets next_.waits.
void Successors::CarryWaits(const SearchState& state, const Part& part) {
  next_.waits.clear();
  for (size_t i = 0; i < state.waits.size();) {
    const int node = state.waits[i].node;
    bool meets = false;
    const size_t begin = next_.waits.size();
    for (; i < state.waits.size() && state.waits[i].node == node; ++i) {
      if (part.words.Contains(state.waits[i].value)) {
        meets = true;
      } else {
        next_.waits.push_back(state.waits[i]);
      }
    }
    if (!HasUncoveredReader(node)) {
      next_.waits.resize(begin);
    } else if (meets) {
      for (int wait : waits_) next_.waits.push_back({node, wait});
    }
  }
  if (!waits_.empty()) {
    for (int node : part.exits) {
      if (!HasUncoveredReader(node)) continue;
      for (int wait : waits_) next_.waits.push_back({node, wait});
    }
  }
  std::sort(next_.waits.begin(), next_.waits.end());
  next_.waits.erase(std::unique(next_.waits.begin(), next_.waits.end()), next_.waits.end());
}

// Sets next_.makers and next_.readers.
void Successors::CarryTransitions(const SearchState& state, int id) {
  const TransitionTable& transitions = parts_.transitions();
  const Part& part = parts_.part(id);
  const int layout_class = transitions.LayoutClassOf(id);
  next_.makers.clear();
  next_.readers.clear();
  if (!transitions.IsAnyDependent()) return;
  for (const Note& note : state.makers) {
    if (HasUncoveredReader(note.node)) next_.makers.push_back(note);
  }
  for (int node : part.exits) {
    if (transitions.DependsOnMaker(node) && HasUncoveredReader(node)) {
      next_.makers.push_back({node, transitions.MakerClassOf(node, layout_class)});
    }
  }
  for (const Note& note : state.readers) {
    if (!part.words.Contains(note.node)) next_.readers.push_back(note);
  }
  for (int read : part.outside) {
    if (transitions.DependsOnMaker(read) && !state.covered.Contains(read)) {
      next_.readers.push_back({read, layout_class});
    }
  }
  std::sort(next_.makers.begin(), next_.makers.end());
  std::sort(next_.readers.begin(), next_.readers.end());
}

// What the part pays on top for the makers it reads, and its readers so far for it.
Ticks Successors::TransitionCost(const SearchState& state, int id) const {
  const TransitionTable& transitions = parts_.transitions();
  if (!transitions.IsAnyDependent()) return 0;
  const Part& part = parts_.part(id);
  const int layout_class = transitions.LayoutClassOf(id);
  Ticks cost = 0;
  for (int read : part.outside) {
    if (!transitions.DependsOnMaker(read) || !state.covered.Contains(read)) continue;
    const int maker_class = NotesOf(state.makers, read).first->value;
    const int num_readers = parts_.NumReaders(read, part);
    cost = AddTicks(cost, bound_.Crossing(read, maker_class, layout_class, num_readers));
  }
  for (size_t i = 0; i < state.readers.size();) {
    const int node = state.readers[i].node;
    if (!part.words.Contains(node)) {
      ++i;
      continue;
    }
    // What is returned for each node that reads it already, one of which each of these parts has.
    const int maker_class = transitions.MakerClassOf(node, layout_class);
    const std::vector<int>& all = parts_.Readers(node);
    int more = static_cast<int>(std::count_if(
        all.begin(), all.end(), [&](int reader) { return state.covered.Contains(reader); }));
    for (; i < state.readers.size() && state.readers[i].node == node; ++i, --more) {
      cost = AddTicks(cost, bound_.Crossing(node, maker_class, state.readers[i].value, 1));
    }
    cost = AddTicks(cost, more * bound_.Returned(node, maker_class));
  }
  return cost;
}

void Successors::Visit(const SearchState& state, Ticks most, SuccessorSink* sink) {
  for (int id : parts_.StartingAt(state.position)) {
    const Part& part = parts_.part(id);
    if (!bound_.IsUsable(id) || bound_.Reduced(id) > most) continue;
    if (state.covered.Intersects(part.words)) continue;
    if (!FindWaits(state, part)) continue;
    next_.covered = state.covered;
    next_.covered.Add(part.words);
    next_.position = std::min(next_.covered.FirstUncovered(), parts_.num_nodes());
    CarryWaits(state, part);
    CarryTransitions(state, id);
    sink->OnSuccessor(next_, AddTicks(bound_.Reduced(id), TransitionCost(state, id)), id);
  }
}

}  // namespace tvm::collage
