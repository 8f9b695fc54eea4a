// SPDX-License-Identifier: Apache-2.0
// Runs a Plan; any number of threads may call at once.
//
// Each running call has its own argument lists, which are kept for the next call, and borrows a
// block for arena and scratchpad, so that from the second call on nothing is allocated.
// Test: backends/test_contract.py (threads), backends/dnnl/test_scratch.py.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../partition/memory.h"
#include "../partition/partition_module.h"
#include "plan.h"

namespace tvm::collage::onednn {

class Executable final : public partition::Program {
 public:
  explicit Executable(std::shared_ptr<const Plan> plan);
  ~Executable() final;
  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final;
  partition::StepTimes Profile(const std::vector<void*>& inputs, const std::vector<void*>& outputs,
                               int runs) final;
  std::string Summary() const final { return plan_->Summary(); }

 private:
  struct Call;  // what one running call owns
  std::unique_ptr<Call> Acquire();
  void Release(std::unique_ptr<Call> call);
  static const std::vector<void*>& DataOf(Call* call, size_t step);
  void RunStep(Call* call, size_t i) const;
  // Runs all steps in order by `run_step`, a function of a call and a step's number.
  template <typename RunStepFn>
  void RunBy(const std::vector<void*>& inputs, const std::vector<void*>& outputs,
             const RunStepFn& run_step);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<partition::ScratchPool> pool_;
  std::mutex mutex_;  // guards idle_
  std::vector<std::unique_ptr<Call>> idle_;
};

}  // namespace tvm::collage::onednn
