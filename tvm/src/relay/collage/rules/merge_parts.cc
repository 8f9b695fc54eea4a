// SPDX-License-Identifier: Apache-2.0
#include "merge_parts.h"

#include <map>
#include <set>
#include <utility>

#include "region_merger.h"

namespace tvm::collage {
namespace {

using Parts = std::vector<CandidatePartition>;

CandidatePartition Joined(const DataflowGraph& graph, const std::vector<const SubGraph*>& tiles,
                          int spec) {
  SubGraph sub_graph = *tiles[0];
  for (size_t k = 1; k < tiles.size(); ++k) sub_graph = sub_graph.Union(graph, *tiles[k]);
  CandidatePartition part;
  part.sub_graph = std::move(sub_graph);
  part.spec = spec;
  part.rule = "merged";
  part.is_primitive = true;
  return part;
}

/*! \brief The parts with those inside `merged` replaced by it. */
Parts Replace(const Parts& parts, const CandidatePartition& merged) {
  Parts result;
  for (const CandidatePartition& part : parts) {
    if (!part.sub_graph.inside().IsSubsetOf(merged.sub_graph.inside())) result.push_back(part);
  }
  result.push_back(merged);
  return result;
}

}  // namespace

bool HasAcyclicQuotient(const DataflowGraph& graph, const Parts& parts) {
  std::vector<int> part_of(graph.size(), -1);
  for (size_t p = 0; p < parts.size(); ++p) {
    parts[p].sub_graph.inside().ForEach([&](NodeIndex i) { part_of[i] = static_cast<int>(p); });
  }
  std::vector<std::set<int>> readers(parts.size());
  std::vector<int> waiting(parts.size(), 0);
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<NodeIndex> open = parts[p].sub_graph.inputs();
    while (!open.empty()) {
      const NodeIndex input = open.back();
      open.pop_back();
      const int producer = part_of[input];
      if (producer < 0) {  // a variable, which stands for its value when it is let-bound
        open.insert(open.end(), graph[input].inputs.begin(), graph[input].inputs.end());
      } else if (readers[producer].insert(static_cast<int>(p)).second) {
        ++waiting[p];
      }
    }
  }
  std::vector<int> ready;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (waiting[p] == 0) ready.push_back(static_cast<int>(p));
  }
  size_t num_done = 0;
  for (; num_done < ready.size(); ++num_done) {
    for (int reader : readers[ready[num_done]]) {
      if (--waiting[reader] == 0) ready.push_back(reader);
    }
  }
  return num_done == parts.size();
}

Parts MergeParts(const DataflowGraph& graph, const Parts& parts) {
  std::map<int, std::vector<const SubGraph*>> tiles_of_spec;
  for (const CandidatePartition& part : parts) {
    if (part.is_primitive) tiles_of_spec[part.spec].push_back(&part.sub_graph);
  }
  Parts result = parts;
  for (const auto& [spec, tiles] : tiles_of_spec) {
    for (const auto& region : RegionMerger(graph, tiles).Merge()) {
      if (region.size() < 2) continue;
      Parts merged = Replace(result, Joined(graph, region, spec));
      if (HasAcyclicQuotient(graph, merged)) result = std::move(merged);
    }
  }
  return result;
}

}  // namespace tvm::collage
