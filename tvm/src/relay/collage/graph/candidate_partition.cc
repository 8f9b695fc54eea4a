// SPDX-License-Identifier: Apache-2.0
#include "candidate_partition.h"

namespace tvm::collage {

bool CandidateSet::Add(CandidatePartition candidate) {
  const size_t hash =
      Hash().Add(candidate.sub_graph.Hash()).Add(static_cast<uint64_t>(candidate.spec)).Get();
  auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    CandidatePartition& other = candidates_[it->second];
    if (other.spec == candidate.spec && other.is_primitive == candidate.is_primitive &&
        other.sub_graph == candidate.sub_graph) {
      other.is_joinable |= candidate.is_joinable;
      other.is_free |= candidate.is_free;
      return false;
    }
  }
  by_hash_.emplace(hash, candidates_.size());
  candidates_.push_back(std::move(candidate));
  return true;
}

}  // namespace tvm::collage
