// SPDX-License-Identifier: Apache-2.0
#include "executable.h"

#include <tvm/runtime/threading_backend.h>

#include <chrono>
#include <utility>

#include "../partition/round_up.h"

namespace tvm::collage::onednn {

namespace {

// Where the scratchpad begins in a block, behind the arena.
int64_t ScratchOffset(const Plan& plan) { return partition::RoundUp(plan.arena_bytes, kAlignment); }

// So many bytes behind data.
void* At(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

// What is to be pointed at a tensor of the caller's, from which byte on.
struct OfCaller {
  dnnl_memory_t memory;
  int index;
  int64_t begin;
};

int64_t BlockBytes(const Plan& plan) { return ScratchOffset(plan) + plan.scratch_bytes; }

}  // namespace

struct Executable::Call {
  explicit Call(const Plan& plan) {
    const Api& api = GetApi();
    CheckStatus(api.stream_create(stream.out(), api.engine, dnnl_stream_default_flags), "stream");
    for (const Step& step : plan.steps) {
      std::vector<dnnl_exec_arg_t> step_args;
      for (const StepArg& arg : step.args) {
        const Buffer& buffer = plan.buffers[arg.buffer];
        void* data = DNNL_MEMORY_NONE;
        if (buffer.place == Place::kConstant) data = At(buffer.constant.get(), arg.begin);
        dnnl_memory_t memory = NewMemory(arg.desc, data);
        step_args.push_back({arg.arg, memory});
        if (buffer.place == Place::kArena) in_block.emplace_back(memory, buffer.offset + arg.begin);
        if (buffer.place == Place::kInput) inputs.push_back({memory, buffer.index, arg.begin});
        if (buffer.place == Place::kOutput) outputs.push_back({memory, buffer.index, arg.begin});
      }
      if (step.primitive.get() && step.scratch_bytes > 0) {
        dnnl_memory_t memory = NewMemory(step.scratch_desc, DNNL_MEMORY_NONE);
        step_args.push_back({DNNL_ARG_SCRATCHPAD, memory});
        in_block.emplace_back(memory, ScratchOffset(plan));
      }
      args.push_back(std::move(step_args));
    }
  }

  dnnl_memory_t NewMemory(const MemDesc& desc, void* data) {
    memories.emplace_back();
    CheckStatus(GetApi().memory_create(memories.back().out(), desc.get(), GetApi().engine, data),
                "memory");
    return memories.back().get();
  }

  // Points what lies in the borrowed block there; it mostly is that of the last call.
  void Bind(char* data) {
    if (data == block) return;
    for (const auto& [memory, offset] : in_block) {
      CheckStatus(GetApi().memory_set_data_handle(memory, data + offset), "memory");
    }
    block = data;
  }

  // So much memory for a kernel of ours: that of the plan, or when a call has more threads than who
  // made it, a block beside it that is kept for the next.
  void* Scratch(const Plan& plan, int64_t bytes) {
    if (bytes <= plan.scratch_bytes) return block + ScratchOffset(plan);
    if (bytes > larger_bytes) {
      larger_scratch = AllocateAligned(bytes);
      larger_bytes = bytes;
    }
    return larger_scratch.get();
  }

  char* block = nullptr;
  std::vector<std::pair<dnnl_memory_t, int64_t>> in_block;
  std::shared_ptr<void> larger_scratch;
  int64_t larger_bytes = 0;
  Stream stream;
  std::vector<Memory> memories;
  std::vector<OfCaller> inputs, outputs;
  std::vector<std::vector<dnnl_exec_arg_t>> args;  // by step
  std::vector<void*> data;                         // of the running step, for a kernel of ours
};

Executable::Executable(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), pool_(partition::ScratchPool::Shared(BlockBytes(*plan_))) {
  idle_.push_back(std::make_unique<Call>(*plan_));
}

Executable::~Executable() = default;

std::unique_ptr<Executable::Call> Executable::Acquire() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Call> call = std::move(idle_.back());
      idle_.pop_back();
      return call;
    }
  }
  return std::make_unique<Call>(*plan_);
}

void Executable::Release(std::unique_ptr<Call> call) {
  std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(call));
}

// Where a step's operands are in this call.
const std::vector<void*>& Executable::DataOf(Call* call, size_t step) {
  call->data.clear();
  for (const dnnl_exec_arg_t& arg : call->args[step]) {
    call->data.push_back(nullptr);
    CheckStatus(GetApi().memory_get_data_handle(arg.memory, &call->data.back()), "memory");
  }
  return call->data;
}

void Executable::RunStep(Call* call, size_t i) const {
  const Step& step = plan_->steps[i];
  const ScopedOneThread one_thread(step.is_small);
  if (step.own_kernel.run) {
    const int num_threads = step.is_small ? 1 : runtime::threading::NumThreads();
    void* scratch = call->Scratch(*plan_, step.own_kernel.scratch_bytes(num_threads));
    step.own_kernel.run(DataOf(call, i), num_threads, scratch);
    return;
  }
  const dnnl_status_t status =
      GetApi().primitive_execute(step.primitive.get(), call->stream.get(),
                                 static_cast<int>(call->args[i].size()), call->args[i].data());
  if (status != dnnl_success) CheckStatus(status, step.summary);
}

template <typename RunStepFn>
void Executable::RunBy(const std::vector<void*>& inputs, const std::vector<void*>& outputs,
                       const RunStepFn& run_step) {
  const Api& api = GetApi();
  std::unique_ptr<Call> call = Acquire();
  const partition::ScratchPool::Block block(pool_.get(), BlockBytes(*plan_));
  call->Bind(block.data());
  for (const auto& [memory, index, begin] : call->inputs) {
    api.memory_set_data_handle(memory, At(inputs[index], begin));
  }
  for (const auto& [memory, index, begin] : call->outputs) {
    api.memory_set_data_handle(memory, At(outputs[index], begin));
  }
  for (size_t i = 0; i < plan_->steps.size(); ++i) run_step(call.get(), i);
  Release(std::move(call));
}

void Executable::Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) {
  RunBy(inputs, outputs, [this](Call* call, size_t i) { RunStep(call, i); });
}

partition::StepTimes Executable::Profile(const std::vector<void*>& inputs,
                                         const std::vector<void*>& outputs, int runs) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> samples(plan_->steps.size());
  Run(inputs, outputs);  // what a step does once, such as to touch its memory, is no part of it
  for (int run = 0; run < runs; ++run) {
    RunBy(inputs, outputs, [&](Call* call, size_t i) {
      const Clock::time_point begin = Clock::now();
      RunStep(call, i);
      samples[i].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    });
  }
  partition::StepTimes times;
  for (size_t i = 0; i < samples.size(); ++i) {
    times.emplace_back(partition::CallName(plan_->steps[i].call), partition::MedianOf(samples[i]));
  }
  return times;
}

}  // namespace tvm::collage::onednn
