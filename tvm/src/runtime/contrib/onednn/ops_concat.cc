// SPDX-License-Identifier: Apache-2.0
// Concatenation, in the layout of the operands.
//
// concat: ints.axis, not negative. Where the operands would lie one after the other in the result,
// the steps that make them write them there. Else oneDNN copies large pieces at the memory's speed,
// parts of other tensors too, but 15 ns for each of the few channels that a point of an image has
// in a layout with channels last. Such pieces are copied by us.
// Test: backends/dnnl/test_lower.py, backends/dnnl/test_concat.py, backends/dnnl/test_parts.py,
// backends/dnnl/test_kernels.py.
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

constexpr size_t kMostConcatenated = DNNL_ARG_MULTIPLE_DST - DNNL_ARG_MULTIPLE_SRC;
// Bytes of a piece from which oneDNN's copies are as fast.
constexpr int64_t kLargePiece = 512;
// What a piece is copied in, so that no call is made for it.
constexpr int64_t kVector = 16, kNumber = 4;

void CheckConcat(const partition::NodeChecks& checks) {
  checks.NumInputs(1, kMostConcatenated);
  for (size_t i = 0; i < checks.node().inputs.size(); ++i) {
    checks.Rank("operand", checks.input(i), checks.output().size(), checks.output().size());
  }
  checks.Int("axis", 0, static_cast<int64_t>(checks.output().size()) - 1);
  checks.NoPostOps();
}

// What is copied: rows of the result, each a piece of each operand after the other.
struct Copies {
  int64_t rows = 1;
  int64_t row_bytes = 0;
  std::vector<int64_t> pieces;  // their bytes

  void Run(const std::vector<void*>& data, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      char* to = static_cast<char*>(data.back()) + row * row_bytes;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const char* from = static_cast<const char*>(data[i]) + row * pieces[i];
        int64_t byte = 0;
        for (; byte + kVector <= pieces[i]; byte += kVector) {
          std::memcpy(to + byte, from + byte, kVector);
        }
        for (; byte < pieces[i]; byte += kNumber) std::memcpy(to + byte, from + byte, kNumber);
        to += pieces[i];
      }
    }
  }
};

void RunOnThreads(const Copies& copies, const std::vector<void*>& data, int num_threads) {
  struct Call {
    const Copies& copies;
    const std::vector<void*>& data;
  } call{copies, data};
  const auto run = [](int task, TVMParallelGroupEnv* env, void* raw) {
    const Call& call = *static_cast<const Call*>(raw);
    const int64_t rows = call.copies.rows, tasks = env->num_task;
    call.copies.Run(call.data, rows * task / tasks, rows * (task + 1) / tasks);
    return 0;
  };
  ICHECK_EQ(TVMBackendParallelLaunch(run, &call, num_threads), 0) << TVMGetLastError();
}

// The copies of whole operands that lie as the result, whose axes are in this order in memory, if
// their pieces are small and of whole numbers. A part would be read from the beginning of its
// tensor.
std::optional<Copies> SmallPieces(const std::vector<StepArg>& operands, size_t axis,
                                  const std::vector<int>& order) {
  const auto place = std::find(order.begin(), order.end(), static_cast<int>(axis));
  if (place == order.end()) return std::nullopt;
  Copies copies;
  const Dims first = operands.front().desc.dims();
  for (auto outer = order.begin(); outer != place; ++outer) copies.rows *= first[*outer];
  for (const StepArg& operand : operands) {
    std::vector<int> wanted = order;  // in which axes of 1 have no place
    if (operand.desc.dims()[axis] == 1) wanted.erase(wanted.begin() + (place - order.begin()));
    if (!operand.desc.IsWhole() || operand.desc.OrderInMemory() != wanted) return std::nullopt;
    const int64_t bytes = operand.desc.Bytes() / copies.rows;
    if (bytes % kNumber != 0 || bytes >= kLargePiece) return std::nullopt;
    copies.pieces.push_back(bytes);
    copies.row_bytes += bytes;
  }
  return copies;
}

// The operands; parts of other tensors where they lie if nothing is gained by a copy that has no
// gaps.
std::vector<Value> Operands(Planner* planner, const NodeDesc& node, size_t axis) {
  const int64_t bytes = planner->graph().dtypes[node.output].bytes();
  const bool are_parts = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int tensor) {
    const Value& value = planner->AsItLies(tensor);
    return !value.desc.IsWhole() && bytes * value.desc.NumbersOfPiece(axis) >= kLargePiece;
  });
  std::vector<Value> operands;
  for (int tensor : node.inputs) {
    operands.push_back(are_parts ? planner->AsItLies(tensor) : planner->Any(tensor));
  }
  return operands;
}

void BuildConcat(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  const size_t axis = node.Int("axis");
  const std::vector<Value> operands = Operands(planner, node, axis);
  std::vector<const_dnnl_memory_desc_t> descs;
  std::vector<StepArg> args;
  for (size_t i = 0; i < operands.size(); ++i) {
    descs.push_back(operands[i].desc.get());
    args.push_back(
        {DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), operands[i].desc, operands[i].buffer});
  }
  const MemDesc any = MemDesc::Any(planner->shape(node.output), planner->type(node.output));
  PrimitiveDesc pd =
      NewPrimitive(what, NewAttr().get(), GetApi().concat_primitive_desc_create, any.get(),
                   static_cast<int>(descs.size()), static_cast<int>(axis), descs.data());
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const bool lie_in_turn = std::all_of(operands.begin(), operands.end(), [&](const Value& operand) {
    return operand.desc.IsWhole() && operand.desc.IsPieceOf(dst_desc, axis);
  });
  if (lie_in_turn && planner->DefineInPlace(node.output, dst_desc, operands, what)) return;
  const Value dst = planner->NewResult(node.output, dst_desc);
  const std::optional<std::vector<int>> order = dst_desc.OrderInMemory();
  const auto copies = order ? SmallPieces(args, axis, *order) : std::optional<Copies>();
  args.push_back({DNNL_ARG_DST, dst_desc, dst.buffer});
  if (copies) {
    const auto run = [copies = *copies](const std::vector<void*>& data, int num_threads, void*) {
      RunOnThreads(copies, data, num_threads);
    };
    planner->Emit({[](int) { return int64_t{0}; }, run}, std::move(args), what + " by copies");
  } else {
    planner->Emit(std::move(pd), std::move(args), what);
  }
  planner->Define(node.output, dst);
}

[[maybe_unused]] const bool registered = RegisterNode("concat", CheckConcat, BuildConcat);

}  // namespace
}  // namespace tvm::collage::onednn
