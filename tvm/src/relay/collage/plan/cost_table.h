// SPDX-License-Identifier: Apache-2.0
// CostTable: what is known of each candidate's cost, filled as the search asks. Used by
// plan.cc. Test: tvm/tests/cpp/plan_test.cc, plan_foreseen_test.cc.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "../graph/signature.h"
#include "../search/cover_search.h"
#include "backends.h"

namespace tvm::collage {

// How many costs the search had to ask for, of how many; the host's are never asked for.
struct CostCounts {
  int candidates = 0;
  // Of those, how many differ as computations: equal ones share a cost.
  int distinct = 0;
  // Distinct ones asked for; no plan that could still win needs the others.
  int asked = 0;
  // Batches in which they were asked for.
  int rounds = 0;
  // Distinct ones that were given up when the time was over.
  int given_up = 0;
};

class CostTable {
 public:
  // All arguments must outlive the table.
  CostTable(const DataflowGraph& graph, const Backends& backends,
            const std::vector<CandidatePartition>& candidates);

  // What needs no measuring: what launches no kernel is free on the host, and a kernel of its own
  // is a last resort, so that a cover always exists. Where TVM's cost of the kernel is known, TVM's
  // own candidate stands beside it.
  void SetHostCosts(CoverSearch* search);
  // Has the backends tell the lower bounds that they know and what a profile says is likely, unless
  // all are priced.
  void AskForBounds();
  // Has them tell once more what is likely, as well as that can be known.
  void AskSharply() { Foresee(AllQuestions(), /*sharply=*/true); }
  // Gives candidates these bounds, or what is likely where that is known.
  void SetLowerBounds(CoverProblem* problem) const;
  // What the fastest backend alone takes; 0 where that is not known.
  double rival_seconds() const { return rival_seconds_; }
  // Is what is likely all that will be known?
  bool is_final() const { return is_final_; }
  // Is it less than AskSharply tells?
  bool is_rough() const { return is_rough_; }
  bool are_foreseen() const { return !likely_seconds_.empty(); }
  // What these parts take by known costs, and by what as many of the others are below as above.
  double SecondsAsForeseen(const CoverProblem& problem, const std::vector<int>& plan) const;
  // For so long costs may be asked for; 0 where nobody says.
  double asking_seconds() const { return asking_seconds_; }
  // Has the cost of each of these parts that has none be what the search took for it.
  void LeaveAsForeseen(const CoverProblem& problem, const std::vector<int>& plan);
  // How many costs that were asked for are below what they hardly ever are.
  int NumBelowBound() const;
  // No cover of what is known by now costs less, but for what hardly ever happens. `problem` is the
  // one that was searched.
  double LeastOfAnyCover(CoverProblem problem) const;
  // "; furthest: mine(a): measured 1 s, its bound 2 s" where a cost is below its bound.
  std::string FurthestBelowBound() const;
  // Writes down which kernels of a plan are the host's, as nothing with a cost fits.
  void LeaveToHost(const std::vector<int>& plan);
  // Asks for the costs of these candidates, none of them the host's, once for all that are equal.
  // Returns them and all others that are equal to one of them, whose costs are now known.
  std::vector<int> Ask(const std::vector<int>& ids);
  // Asks for all at once where costs are not measured: then one round does.
  void EstimateAllIfCheap(CoverSearch* search);
  // Takes candidates of unknown cost from the search, but for TVM's single operators, and other
  // backends' where TVM has none: with these each node can still have a cost.
  void GiveUpUnknown(CoverSearch* search);
  // Of these the ones that are foreseen to cost the most, if they are many: the answers may show
  // that the others are not needed. All of them where nothing is foreseen.
  std::vector<int> FirstToAsk(std::vector<int> needed) const;
  // Raises what is likely of unknown costs in the search, where nothing is proven, by known ones of
  // their backend: by those of their size, and by those of what is inside them.
  void RaiseLikely(CoverSearch* search) const;
  // Asks, and tells the search whatever is then known.
  void Estimate(CoverSearch* search, const std::vector<int>& needed);

  const EstimatedCost& operator[](int id) const { return costs_[id]; }
  // The candidate's lower bound, also where a cost has shown that such bounds are wrong.
  double LeastSeconds(int id) const { return least_seconds_[id]; }
  const CostCounts& counts() const { return counts_; }

 private:
  CostQuestion QuestionFor(int id) const;
  // One for all that are equal, in the order of `equal_`.
  std::vector<CostQuestion> AllQuestions() const;
  void Foresee(const std::vector<CostQuestion>& questions, bool sharply);
  // Nodes of TVM's single operators whose cost is known or can still be asked for.
  IndexSet SinglesOfTvm() const;
  bool IsSingle(int id) const;
  // Notes for all that hold a candidate what that takes.
  void NoteInside(int id);
  // The size of what is likely of a candidate's cost, as a logarithm.
  int SizeOf(int id) const;

  const DataflowGraph& graph_;
  const Backends& backends_;
  const std::vector<CandidatePartition>& candidates_;
  std::vector<EstimatedCost> costs_;
  std::vector<double> proven_seconds_;  // by candidate
  std::vector<double> least_seconds_;   // by candidate, those and what is foreseen
  std::vector<double> likely_seconds_;  // by candidate; none where no run was profiled
  // By candidate, the most that a part of it takes on its backend, as far as that is known.
  std::vector<double> most_inside_;
  std::vector<std::vector<int>> of_backend_;  // candidates by spec
  double rival_seconds_ = 0;
  bool is_final_ = false;
  bool is_rough_ = false;
  double asking_seconds_ = 0;
  CostCounts counts_;
  std::vector<const Signature*> signature_of_;                            // by candidate
  std::unordered_map<Signature, std::vector<int>, SignatureHash> equal_;  // candidates, ascending
};

}  // namespace tvm::collage
