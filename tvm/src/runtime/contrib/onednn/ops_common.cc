// SPDX-License-Identifier: Apache-2.0
#include "ops_common.h"

#include <tvm/runtime/logging.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tvm::collage::onednn {
namespace {

const std::map<std::string, dnnl_alg_kind_t>& EltwiseTable() {
  static const auto* table = new std::map<std::string, dnnl_alg_kind_t>{
      {"relu", dnnl_eltwise_relu},     // alpha: slope of the negative side
      {"clip", dnnl_eltwise_clip_v2},  // alpha, beta: bounds
      {"elu", dnnl_eltwise_elu},       // alpha: what the negative side goes to, negated
      {"sigmoid", dnnl_eltwise_logistic},
      {"tanh", dnnl_eltwise_tanh},
      {"gelu_erf", dnnl_eltwise_gelu_erf},
      {"gelu_tanh", dnnl_eltwise_gelu_tanh},
      {"swish", dnnl_eltwise_swish},              // x * sigmoid(alpha * x)
      {"hardswish", dnnl_eltwise_hardswish},      // x * min(1, max(0, alpha * x + beta))
      {"hardsigmoid", dnnl_eltwise_hardsigmoid},  // min(1, max(0, alpha * x + beta))
      {"mish", dnnl_eltwise_mish},
      {"exp", dnnl_eltwise_exp},
      {"log", dnnl_eltwise_log},
      {"sqrt", dnnl_eltwise_sqrt},
      {"square", dnnl_eltwise_square},
      {"abs", dnnl_eltwise_abs},
      {"round", dnnl_eltwise_round},
      {"linear", dnnl_eltwise_linear},  // alpha * x + beta
      {"pow", dnnl_eltwise_pow},        // alpha * x ^ beta
  };
  return *table;
}

const std::map<std::string, dnnl_alg_kind_t>& BinaryTable() {
  static const auto* table = new std::map<std::string, dnnl_alg_kind_t>{
      {"add", dnnl_binary_add}, {"sub", dnnl_binary_sub}, {"mul", dnnl_binary_mul},
      {"div", dnnl_binary_div}, {"max", dnnl_binary_max}, {"min", dnnl_binary_min},
  };
  return *table;
}

dnnl_alg_kind_t LookUp(const std::map<std::string, dnnl_alg_kind_t>& table,
                       const std::string& kind) {
  auto it = table.find(kind);
  ICHECK(it != table.end()) << "oneDNN partition: unknown function '" << kind << "'";
  return it->second;
}

}  // namespace

PrimitiveAttr NewAttr(const PostOps* post_ops) {
  PrimitiveAttr attr;
  CheckStatus(GetApi().primitive_attr_create(attr.out()), "attributes");
  CheckStatus(GetApi().primitive_attr_set_scratchpad_mode(attr.get(), dnnl_scratchpad_mode_user),
              "scratchpad mode");
  if (post_ops) {
    CheckStatus(GetApi().primitive_attr_set_post_ops(attr.get(), post_ops->get()), "post-ops");
  }
  return attr;
}

bool IsReferenceCode(const PrimitiveDesc& pd) {
  const std::string implementation = Implementation(pd);
  return implementation.rfind("ref", 0) == 0 || implementation.rfind("simple_nchw", 0) == 0;
}

AxisOrder::AxisOrder(const std::string& from, const std::string& to)
    : to_(from.size()), back_(from.size()) {
  ICHECK_EQ(from.size(), to.size()) << "layouts " << from << " and " << to;
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t j = to.find(from[i]);
    ICHECK(j != std::string::npos) << "layout " << from << " has an axis that " << to << " lacks";
    to_[i] = static_cast<int>(j);
    back_[j] = static_cast<int>(i);
  }
}

Dims AxisOrder::To(const Dims& dims) const {
  ICHECK_EQ(dims.size(), to_.size());
  Dims result(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) result[to_[i]] = dims[i];
  return result;
}

std::string CanonicalLayout(const std::string& layout, const std::string& head) {
  std::string canonical = head;
  for (char axis : {'D', 'H', 'W'}) {
    if (layout.find(axis) != std::string::npos) canonical += axis;
  }
  return canonical;
}

dnnl_alg_kind_t EltwiseAlgorithm(const std::string& kind) { return LookUp(EltwiseTable(), kind); }
dnnl_alg_kind_t BinaryAlgorithm(const std::string& kind) { return LookUp(BinaryTable(), kind); }
bool IsBinary(const std::string& kind) { return BinaryTable().count(kind) > 0; }
bool IsEltwise(const std::string& kind) { return EltwiseTable().count(kind) > 0; }

void EmitEltwise(Planner* planner, const PostOpDesc& function, const Value& value, int target,
                 const std::string& what) {
  PrimitiveDesc pd =
      NewPrimitive(what, NewAttr().get(), GetApi().eltwise_forward_primitive_desc_create,
                   dnnl_forward_inference, EltwiseAlgorithm(function.kind), value.desc.get(),
                   value.desc.get(), function.alpha, function.beta);
  planner->Emit(std::move(pd),
                {{DNNL_ARG_SRC, value.desc, value.buffer}, {DNNL_ARG_DST, value.desc, target}},
                what);
}

SortedAxes::SortedAxes(const Dims& source, const Dims& result)
    : to(source.size()), back(source.size()) {
  for (const bool is_reduced : {false, true}) {
    for (size_t axis = 0; axis < source.size(); ++axis) {
      if ((source[axis] != result[axis]) != is_reduced) continue;
      to[axis] = static_cast<int>(dims.size());
      back[dims.size()] = static_cast<int>(axis);
      dims.push_back(source[axis]);
      if (!is_reduced) ++kept;
    }
  }
  reduced_to = Dims(dims.begin(), dims.begin() + kept);
  reduced_to.resize(dims.size(), 1);
}

namespace {

struct BinaryPrimitive {
  PrimitiveDesc pd;
  MemDesc first, second;
};

BinaryPrimitive MakeBinary(const std::string& kind, const MemDesc& first, const MemDesc& second,
                           const std::string& what) {
  PrimitiveDesc pd = NewPrimitive(what, NewAttr().get(), GetApi().binary_primitive_desc_create,
                                  BinaryAlgorithm(kind), first.get(), second.get(), first.get());
  const MemDesc chosen = MemDesc::Query(pd, dnnl_query_src_md, 1);
  return {std::move(pd), first, chosen};
}

// Neighbours in memory that the second operand all has, or all lacks, as one axis.
std::pair<Dims, Dims> JoinAxes(const Dims& first, const Dims& second,
                               const std::vector<int>& order) {
  std::pair<Dims, Dims> joined;
  for (size_t i = 0; i < order.size(); ++i) {
    const int axis = order[i];
    const bool is_same_kind = i > 0 && (second[axis] == 1) == (second[order[i - 1]] == 1);
    if (is_same_kind) {
      joined.first.back() *= first[axis];
      joined.second.back() *= second[axis];
    } else {
      joined.first.push_back(first[axis]);
      joined.second.push_back(second[axis]);
    }
  }
  return joined;
}

// The first of the forms with an axis of 1 somewhere, or none, that has a kernel.
std::optional<BinaryPrimitive> FindKernel(const std::string& kind, dnnl_data_type_t type,
                                          dnnl_data_type_t second_type,
                                          const std::pair<Dims, Dims>& joined,
                                          const std::string& what) {
  for (size_t position = 0; position <= joined.first.size(); ++position) {
    Dims first = joined.first, second = joined.second;
    first.insert(first.begin() + position, 1);
    second.insert(second.begin() + position, 1);
    BinaryPrimitive made =
        MakeBinary(kind, MemDesc::Plain(first, type), MemDesc::Plain(second, second_type), what);
    if (!IsReferenceCode(made.pd)) return made;
  }
  return std::nullopt;
}

}  // namespace

Value EmitBinary(Planner* planner, const std::string& kind, const Value& first, int second,
                 const std::function<Value(const Value&)>& place, const std::string& what) {
  const Dims dims = first.desc.dims();
  auto emit = [&](BinaryPrimitive made, const Value& a, int b, const Value& result) {
    const MemDesc desc = made.first;
    planner->Emit(std::move(made.pd),
                  {{DNNL_ARG_SRC_0, desc, a.buffer},
                   {DNNL_ARG_SRC_1, made.second, b},
                   {DNNL_ARG_DST, desc, result.buffer}},
                  what);
    return result;
  };
  if (planner->shape(second) == dims) {
    const int b = planner->Require(second, first.desc).buffer;
    return emit(MakeBinary(kind, first.desc, first.desc, what), first, b, place(first));
  }
  const Value b = WithRank(planner, second, dims.size());
  // Kernels for blocked layouts want a broadcast operand in blocks as well: let oneDNN say so.
  const dnnl_data_type_t second_type = planner->type(second);
  BinaryPrimitive direct =
      MakeBinary(kind, first.desc, MemDesc::Any(b.desc.dims(), second_type), what);
  if (IsReferenceCode(direct.pd)) {
    for (const MemDesc& desc : {first.desc, MemDesc::Plain(dims, first.desc.type())}) {
      const std::optional<std::vector<int>> order = desc.OrderInMemory();
      if (!order) continue;
      auto joined = JoinAxes(dims, b.desc.dims(), *order);
      auto found = FindKernel(kind, desc.type(), second_type, joined, what);
      if (!found) continue;
      // All axes in that order, those of 1 in front.
      std::vector<int> to(dims.size());
      int next = 0;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (dims[axis] == 1) to[axis] = next++;
      }
      for (const int axis : *order) to[axis] = next++;
      const MemDesc in_order = b.desc.Permute(to);
      const MemDesc dense = MemDesc::Plain(in_order.dims(), second_type);
      const int buffer = planner->RequireFrom({in_order, b.buffer}, dense).buffer;
      const Value a = planner->RequireFrom(first, desc);
      return emit(std::move(*found), a, buffer, place(a));
    }
  }
  const int buffer = planner->RequireFrom(b, direct.second).buffer;
  return emit(std::move(direct), first, buffer, place(first));
}

Value EmitPRelu(Planner* planner, const Value& value, int slopes,
                const std::function<Value(const Value&)>& place, const std::string& what) {
  const Dims dims = value.desc.dims();
  Value given = WithRank(planner, slopes, dims.size());
  const Dims per_axis = given.desc.dims();
  const auto is_long = [](int64_t extent) { return extent > 1; };
  const auto axis = std::find_if(per_axis.begin(), per_axis.end(), is_long) - per_axis.begin();
  Value data = value;
  MemDesc seen = value.desc;
  if (axis != 1 && axis < static_cast<int64_t>(dims.size())) {
    // Along the last of three axes oneDNN's kernel (3.2, AVX-512) leaves most numbers out, along
    // others there is reference code.
    data = planner->RequireFrom(value, MemDesc::Plain(dims, value.desc.type()));
    const auto product = [&](size_t from, size_t to) {
      return std::accumulate(dims.begin() + from, dims.begin() + to, int64_t{1},
                             std::multiplies<int64_t>());
    };
    seen = Reshaped(data, {product(0, axis), dims[axis], product(axis + 1, dims.size())}).desc;
    given = Reshaped(given, {1, dims[axis], 1});
  }
  const MemDesc wanted = MemDesc::Any(given.desc.dims(), planner->type(slopes));
  PrimitiveDesc pd =
      NewPrimitive(what, NewAttr().get(), GetApi().prelu_forward_primitive_desc_create,
                   dnnl_forward_inference, seen.get(), wanted.get(), seen.get());
  const MemDesc weights = MemDesc::Query(pd, dnnl_query_weights_md, 0);
  const int buffer = planner->RequireFrom(given, weights).buffer;
  const Value result = place(data);
  planner->Emit(std::move(pd),
                {{DNNL_ARG_SRC, seen, data.buffer},
                 {DNNL_ARG_WEIGHTS, weights, buffer},
                 {DNNL_ARG_DST, seen, result.buffer}},
                what);
  return result;
}

Value Reshaped(const Value& value, const Dims& dims) {
  const std::optional<MemDesc> view = value.desc.Reshape(dims);
  ICHECK(view) << "oneDNN partition: not as many elements in another shape";
  return {*view, value.buffer};
}

Value WithRank(Planner* planner, int tensor, size_t rank) {
  const Dims& shape = planner->shape(tensor);
  if (shape.size() == rank) return planner->Any(tensor);
  ICHECK_LT(shape.size(), rank);
  Dims wider(rank - shape.size(), 1);
  wider.insert(wider.end(), shape.begin(), shape.end());
  const Value value = planner->Require(tensor, planner->Plain(tensor));
  return Reshaped(value, wider);
}

void CheckPostOps(const partition::NodeChecks& checks) {
  for (const PostOpDesc& op : checks.node().post_ops) {
    const bool has_operand =
        IsBinary(op.kind) || op.kind == "sum" || op.kind == "scaled_sum" || op.kind == "prelu";
    checks.Require(has_operand || IsEltwise(op.kind), "post_ops",
                   "unknown function '" + op.kind + "'");
    checks.Require(has_operand == (op.input >= 0), "post_ops",
                   op.kind + (has_operand ? " lacks its operand" : " has no operand"));
    checks.Require(op.kind != "scaled_sum" || op.alpha != 0.f, "post_ops", "a scale of 0");
    if (!has_operand) continue;
    checks.Rank("post_ops", checks.shape(op.input), 1, checks.output().size());
  }
}

PostOpChain::PostOpChain(Planner* planner, const NodeDesc& node, const Operand& operand,
                         bool may_sum, std::optional<FreeLayouts> free)
    : result_(node.output), free_(std::move(free)) {
  const Api& api = GetApi();
  PostOps post_ops;
  CheckStatus(api.post_ops_create(post_ops.out()), "post-ops");
  auto append_eltwise = [&](dnnl_alg_kind_t algorithm, float alpha, float beta) {
    CheckStatus(api.post_ops_append_eltwise(post_ops.get(), algorithm, alpha, beta), "post-op");
  };
  auto append_binary = [&](int tensor, dnnl_alg_kind_t algorithm) {
    const int arg =
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(api.post_ops_len(post_ops.get())) | DNNL_ARG_SRC_1;
    MemDesc desc;
    if (free_ && planner->shape(tensor) == planner->shape(result_)) {
      desc = MemDesc::Any(free_->dims, planner->type(tensor));
      whole_.push_back({arg, tensor});
    } else {
      const Value value = operand(tensor);
      desc = value.desc;
      operands_.push_back({arg, desc, value.buffer});
    }
    CheckStatus(api.post_ops_append_binary(post_ops.get(), algorithm, desc.get()), "post-op");
  };
  auto append_prelu = [&](int tensor) {
    const Value slopes = operand(tensor);
    const int arg =
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(api.post_ops_len(post_ops.get())) | DNNL_ARG_WEIGHTS;
    int mask = 0;  // the axes along which slopes differ
    for (size_t axis = 0; axis < slopes.desc.dims().size(); ++axis) {
      if (slopes.desc.dims()[axis] > 1) mask |= 1 << axis;
    }
    CheckStatus(api.post_ops_append_prelu(post_ops.get(), mask), "post-op");
    operands_.push_back({arg, slopes.desc, slopes.buffer});
  };
  for (const PostOpDesc& op : node.post_ops) {
    if (op.kind == "sum" && may_sum && summand_ < 0) {
      summand_ = op.input;
      CheckStatus(api.post_ops_append_sum(post_ops.get(), 1.f, 0, dnnl_data_type_undef), "sum");
    } else if (op.kind == "scaled_sum") {
      // Adding x * alpha + beta, in two steps that need no scaled copy of x.
      append_eltwise(dnnl_eltwise_linear, 1.f / op.alpha, op.beta / op.alpha);
      append_binary(op.input, dnnl_binary_add);
      append_eltwise(dnnl_eltwise_linear, op.alpha, 0.f);
    } else if (op.kind == "sum" || IsBinary(op.kind)) {
      append_binary(op.input, BinaryAlgorithm(op.kind == "sum" ? "add" : op.kind));
    } else if (op.kind == "prelu") {
      append_prelu(op.input);
    } else {
      append_eltwise(EltwiseAlgorithm(op.kind), op.alpha, op.beta);
    }
  }
  attr_ = NewAttr(&post_ops);
  if (node.ints.count("src_zero_point")) {
    CheckStatus(api.primitive_attr_set_zero_points_mask(attr_.get(), DNNL_ARG_SRC, 0),
                "zero point");
    operands_.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, MemDesc::Plain({1}, dnnl_s32),
                         planner->NewConstant(static_cast<int32_t>(node.Int("src_zero_point")))});
  }
}

Value PostOpChain::Result(Planner* planner, const MemDesc& desc) const {
  if (summand_ < 0) return planner->NewResult(result_, desc);
  return planner->RequireWritable(summand_, desc, result_);
}

void PostOpChain::AppendArgs(Planner* planner, const PrimitiveDesc& pd,
                             std::vector<StepArg>* args) const {
  args->insert(args->end(), operands_.begin(), operands_.end());
  for (const auto& [arg, tensor] : whole_) {
    const MemDesc desc = MemDesc::Query(pd, dnnl_query_exec_arg_md, arg);
    args->push_back({arg, desc, planner->Require(tensor, free_->to_tensor(desc)).buffer});
  }
}

FusedPrimitive::FusedPrimitive(Planner* planner, const NodeDesc& node, const PostOpChain& chain,
                               const Create& create)
    : pd(create(chain.attr())), has_post_ops(true) {
  if (node.post_ops.empty() || !CanSplit(*planner, node) || !IsReferenceCode(pd)) return;
  const PrimitiveAttr bare_attr = NewAttr();
  PrimitiveDesc bare = create(bare_attr.get());
  if (IsReferenceCode(bare)) return;
  pd = std::move(bare);
  has_post_ops = false;
}

dnnl_data_type_t TypeOfData(const Planner& planner, const NodeDesc& node) {
  const dnnl_data_type_t data = planner.type(node.inputs[0]);
  const bool is_float = data == dnnl_f32 || data == dnnl_bf16;
  return is_float ? planner.type(node.inputs[1]) : data;
}

bool CanSplit(const Planner& planner, const NodeDesc& node) {
  const dnnl_data_type_t type = planner.type(node.output);
  return type == dnnl_f32 || type == dnnl_bf16;
}

void EmitPostOps(Planner* planner, const NodeDesc& node, const Value& bare) {
  Value value = bare;
  const std::string of = " of " + Summary(planner->graph(), node);
  auto in_place = [](const Value& first) { return first; };
  auto eltwise = [&](const PostOpDesc& op) {
    EmitEltwise(planner, op, value, value.buffer, op.kind + of);
  };
  for (const PostOpDesc& op : node.post_ops) {
    if (op.kind == "scaled_sum") {  // as PostOpChain has it
      eltwise({"linear", 1.f / op.alpha, op.beta / op.alpha});
      value = EmitBinary(planner, "add", value, op.input, in_place, op.kind + of);
      eltwise({"linear", op.alpha, 0.f});
    } else if (op.kind == "prelu") {
      value = EmitPRelu(planner, value, op.input, in_place, op.kind + of);
    } else if (op.input >= 0) {
      const std::string kind = op.kind == "sum" ? "add" : op.kind;
      value = EmitBinary(planner, kind, value, op.input, in_place, kind + of);
    } else {
      eltwise(op);
    }
  }
  planner->Define(node.output, value);
}

}  // namespace tvm::collage::onednn
