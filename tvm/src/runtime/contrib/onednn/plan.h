// SPDX-License-Identifier: Apache-2.0
// A partition ready to run: primitives in order, and where each of their operands lives.
//
// Immutable after planning, shared by all calls.
// Test: backends/dnnl/test_lower.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../partition/memory.h"
#include "handles.h"

namespace tvm::collage::onednn {

using partition::AllocateAligned;
using partition::kAlignment;

enum class Place {
  kInput,     // the caller's i-th input
  kOutput,    // the caller's i-th output
  kConstant,  // packed weights, or a constant of the model as it is
  kArena,     // in the arena of the running call
};

// A piece of memory; several tensors may live in it, one after another or as views.
struct Buffer {
  Place place = Place::kArena;
  int index = 0;  // of input or output
  int64_t bytes = 0;
  std::shared_ptr<void> constant;
  // Arena only: the steps between which it is alive, and its offset.
  int first_step = -1;
  int last_step = -1;
  int64_t offset = 0;
  // Of one that lies in another (nested_buffers.h): that one, from which byte on; and those in it.
  int inside = -1;
  int64_t begin = 0;
  std::vector<int> parts;

  bool is_shared() const { return inside >= 0 || !parts.empty(); }
};

struct StepArg {
  int arg;  // DNNL_ARG_*
  MemDesc desc;
  int buffer;
  int64_t begin = 0;  // the byte of the buffer at which the operand's memory begins
};

// Code of ours in place of a primitive; runs on the threads that its caller has.
struct OwnKernel {
  std::function<int64_t(int num_threads)> scratch_bytes;
  // Gets the operands' data in the order of the step's args, and so much scratch.
  std::function<void(const std::vector<void*>& data, int num_threads, void* scratch)> run;
};

struct Step {
  Primitive primitive;   // oneDNN's,
  OwnKernel own_kernel;  // or ours in its place
  std::vector<StepArg> args;
  int64_t scratch_bytes = 0;  // of our own kernel: on the threads of who made the plan
  MemDesc scratch_desc;       // of a primitive
  bool is_small = false;      // planned for one thread, and runs on one
  int call = -1;              // which of the part's calls it is a step of; -1 for none
  std::string summary;        // node and the implementation that was chosen
};

struct Plan {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  int64_t arena_bytes = 0;
  int64_t scratch_bytes = 0;
  std::vector<std::string> without_step;  // nodes for which nothing runs, for people

  // One line a step, then what needs none, then the memory: for people who want to see what runs.
  std::string Summary() const;
};

// Gives each arena buffer an offset such that buffers alive at the same time are disjoint.
//
// Largest first, each at the lowest free offset (64-byte steps). Fills first_step, last_step,
// offset and arena_bytes. One that lies in another has its memory. Lets go of constants that no
// step reads: weights whose packed form is all that runs.
void AssignMemory(Plan* plan);

}  // namespace tvm::collage::onednn
