// SPDX-License-Identifier: Apache-2.0
// RuleLog: what rules refused or left out, and why, for reports. Test: tests of the rules.
#ifndef TVM_RELAY_COLLAGE_RULES_RULE_LOG_H_
#define TVM_RELAY_COLLAGE_RULES_RULE_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../graph/candidate_partition.h"
#include "../graph/index_set.h"

namespace tvm::collage {

class PartitionRule;

struct COLLAGE_API RuleLog {
  /*! \brief A match that its predicate, or a sub-graph that a limit, turned down. */
  struct Refusal {
    std::string rule;
    IndexSet inside;
    std::string reason;
  };
  std::vector<Refusal> refusals;
  /*! \brief (rule, limit) -> number of growth steps or candidates that the limit cut. */
  std::map<std::pair<std::string, std::string>, int64_t> cuts;
  /*! \brief By rule, what it found. */
  using Found =
      std::unordered_map<std::shared_ptr<const PartitionRule>, std::vector<CandidatePartition>>;
  /*! \brief Of the rules that ran, while a backend's does; otherwise null (see CandidatesOf). */
  Found* found = nullptr;

  void Refuse(std::string rule, IndexSet inside, std::string reason) {
    refusals.push_back({std::move(rule), std::move(inside), std::move(reason)});
  }
  void Cut(const std::string& rule, const std::string& limit, int64_t count = 1) {
    if (count > 0) cuts[{rule, limit}] += count;
  }
  /*! \brief One line a limit that cut something; empty when none did. */
  std::vector<std::string> CutLines() const;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_RULE_LOG_H_
