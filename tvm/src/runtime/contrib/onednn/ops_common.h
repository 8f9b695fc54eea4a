// SPDX-License-Identifier: Apache-2.0
/*!
 * \file ops_common.h
 * \brief What the builders of nodes share: axis orders, attributes, post-ops.
 */
#ifndef TVM_COLLAGE_RUNTIME_ONEDNN_OPS_COMMON_H_
#define TVM_COLLAGE_RUNTIME_ONEDNN_OPS_COMMON_H_

#include <functional>
#include <string>
#include <vector>

#include "planner.h"

namespace tvm {
namespace collage {
namespace onednn {

/*! \brief Attributes with the caller's scratchpad (calls may run at once) and these post-ops. */
PrimitiveAttr NewAttr(const PostOps* post_ops = nullptr);

/*! \brief Whether a primitive is oneDNN's reference code, many times slower than its kernels. */
bool IsReferenceCode(const PrimitiveDesc& pd);

/*! \brief How a layout's axes (as "NHWC") map to oneDNN's order (as "NCHW"), and back. */
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

/*! \brief "NC" or "OI" or another head, then the layout's spatial axes in the order DHW. */
std::string CanonicalLayout(const std::string& layout, const std::string& head);

/*! \brief A node's post-ops for oneDNN, with their operands as steps' arguments. */
class PostOpChain {
 public:
  /*! \brief An operand, a tensor as a value in the axes of the primitive's own result. */
  using Operand = std::function<Value(int)>;

  /*! \param may_sum whether the primitive can add to what is in its destination already. */
  PostOpChain(Planner* planner, const NodeDesc& node, const Operand& operand, bool may_sum = true);

  const_dnnl_primitive_attr_t attr() const { return attr_.get(); }
  /*! \brief The result's memory: new, or the summand's (reordered to desc where it has to be). */
  Value Result(Planner* planner, const MemDesc& desc) const;
  void AppendArgs(std::vector<StepArg>* args) const;

 private:
  int result_;
  int summand_ = -1;
  PrimitiveAttr attr_;
  std::vector<StepArg> operands_;
};

/*! \brief Post-ops of a node are known functions, and operands there where they need one. */
void CheckPostOps(const partition::NodeChecks& checks);

/*! \brief oneDNN's name of an elementwise function ("relu", ...) or binary one ("add", ...). */
dnnl_alg_kind_t EltwiseAlgorithm(const std::string& kind);
dnnl_alg_kind_t BinaryAlgorithm(const std::string& kind);
bool IsBinary(const std::string& kind);
bool IsEltwise(const std::string& kind);

/*! \brief Adds the step of an elementwise function; buffer `target` may be the value's own. */
void EmitEltwise(Planner* planner, const PostOpDesc& function, const Value& value, int target,
                 const std::string& what);

/*! \brief The value seen in another shape of as many numbers; its layout must allow it. */
Value Reshaped(const Value& value, const Dims& dims);

/*! \brief The tensor's value as a desc of `rank` axes (leading ones added), made plain if need be.
 */
Value WithRank(Planner* planner, int tensor, size_t rank);

}  // namespace onednn
}  // namespace collage
}  // namespace tvm
#endif  // TVM_COLLAGE_RUNTIME_ONEDNN_OPS_COMMON_H_
