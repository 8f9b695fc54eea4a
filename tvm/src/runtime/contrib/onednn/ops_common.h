// SPDX-License-Identifier: Apache-2.0
// What the builders of nodes share: axis orders, attributes, post-ops.
// Test: backends/dnnl/test_lower.py.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner.h"

namespace tvm::collage::onednn {

// Attributes with the caller's scratchpad (calls may run at once) and these post-ops.
PrimitiveAttr NewAttr(const PostOps* post_ops = nullptr);

// The primitive that a function of the Api makes of these arguments, which stand between the engine
// and the attributes; an error that names `what` where oneDNN has none.
template <typename Create, typename... Args>
PrimitiveDesc NewPrimitive(const std::string& what, const_dnnl_primitive_attr_t attr, Create create,
                           Args... args) {
  PrimitiveDesc pd;
  CheckStatus(create(pd.out(), GetApi().engine, args..., attr), what);
  return pd;
}

// Whether a primitive is oneDNN's reference code, many times slower than its kernels; what it calls
// simple are copies, but for its pools.
bool IsReferenceCode(const PrimitiveDesc& pd);

// How a layout's axes (as "NHWC") map to oneDNN's order (as "NCHW"), and back.
class AxisOrder {
 public:
  AxisOrder(const std::string& from, const std::string& to);
  MemDesc To(const MemDesc& desc) const { return desc.Permute(to_); }
  MemDesc Back(const MemDesc& desc) const { return desc.Permute(back_); }
  Dims To(const Dims& dims) const;

 private:
  std::vector<int> to_;    // axis i of `from` is axis to_[i] of `to`
  std::vector<int> back_;  // the inverse
};

// "NC" or "OI" or another head, then the layout's spatial axes in the order DHW.
std::string CanonicalLayout(const std::string& layout, const std::string& head);

// How the layouts of operands as large as a primitive's result are left to oneDNN.
struct FreeLayouts {
  Dims dims;                                         // the result's, as the primitive has it
  std::function<MemDesc(const MemDesc&)> to_tensor;  // a layout of those in the tensor's own axes
};

// A node's post-ops for oneDNN, with their operands as steps' arguments.
class PostOpChain {
 public:
  // An operand, a tensor as a value in the axes of the primitive's own result.
  using Operand = std::function<Value(int)>;

  // `may_sum`: whether the primitive can add to what is in its destination already.
  // `free`: where given, oneDNN chooses the layouts of operands as large as the result: in another
  // than the result's it has reference code alone.
  PostOpChain(Planner* planner, const NodeDesc& node, const Operand& operand, bool may_sum = true,
              std::optional<FreeLayouts> free = std::nullopt);

  const_dnnl_primitive_attr_t attr() const { return attr_.get(); }
  // The result's memory: new, or the summand's (reordered to desc where it has to be).
  Value Result(Planner* planner, const MemDesc& desc) const;
  void AppendArgs(Planner* planner, const PrimitiveDesc& pd, std::vector<StepArg>* args) const;

 private:
  struct Whole {  // an operand in a layout of oneDNN's choice
    int arg;
    int tensor;
  };

  int result_;
  int summand_ = -1;
  PrimitiveAttr attr_;
  std::vector<StepArg> operands_;
  std::vector<Whole> whole_;
  std::optional<FreeLayouts> free_;
};

// A primitive with a node's post-ops, or without them where oneDNN has fast code only so.
//
// create makes the primitive of some attributes. Without post-ops the node's bare result goes to
// EmitPostOps.
struct FusedPrimitive {
  using Create = std::function<PrimitiveDesc(const_dnnl_primitive_attr_t)>;
  FusedPrimitive(Planner* planner, const NodeDesc& node, const PostOpChain& chain,
                 const Create& create);

  PrimitiveDesc pd;
  bool has_post_ops;
};

// The type in which a product reads its data: floats are converted to that of its weights while
// they are laid out.
dnnl_data_type_t TypeOfData(const Planner& planner, const NodeDesc& node);

// Whether a node's post-ops may be steps of their own: not where rounding comes last.
bool CanSplit(const Planner& planner, const NodeDesc& node);

// Runs a node's post-ops as steps of their own, in place where they can, on its bare result;
// defines the node's result.
void EmitPostOps(Planner* planner, const NodeDesc& node, const Value& bare);

// Post-ops of a node are known functions, and operands there where they need one.
void CheckPostOps(const partition::NodeChecks& checks);

// oneDNN's name of an elementwise function ("relu", ...) or binary one ("add", ...).
dnnl_alg_kind_t EltwiseAlgorithm(const std::string& kind);
dnnl_alg_kind_t BinaryAlgorithm(const std::string& kind);
bool IsBinary(const std::string& kind);
bool IsEltwise(const std::string& kind);

// A tensor's axes sorted: first those as long as the result's, which stay, then those that are 1
// there.
struct SortedAxes {
  SortedAxes(const Dims& source, const Dims& result);

  std::vector<int> to, back;  // as MemDesc::Permute takes them
  Dims dims, reduced_to;      // of operand and result, sorted
  size_t kept = 0;            // how many axes stay
};

// Adds the step of `first` and a tensor of its shape, or one that broadcasts to it.
//
// oneDNN has kernels for few broadcasts, those of channels or of the last axis; others run as one
// of them on the same memory seen with other axes. place says where the result goes, given the
// first operand in the layout that both will have.
Value EmitBinary(Planner* planner, const std::string& kind, const Value& first, int second,
                 const std::function<Value(const Value&)>& place, const std::string& what);

// Adds the step of an elementwise function; buffer `target` may be the value's own.
void EmitEltwise(Planner* planner, const PostOpDesc& function, const Value& value, int target,
                 const std::string& what);

// Adds the step of PReLU: a tensor of slopes broadcasts to the value; place as above.
Value EmitPRelu(Planner* planner, const Value& value, int slopes,
                const std::function<Value(const Value&)>& place, const std::string& what);

// The value seen in another shape of as many numbers; its layout must allow it.
Value Reshaped(const Value& value, const Dims& dims);

// The tensor's value as a desc of `rank` axes (leading ones added), made plain if need be.
Value WithRank(Planner* planner, int tensor, size_t rank);

}  // namespace tvm::collage::onednn
