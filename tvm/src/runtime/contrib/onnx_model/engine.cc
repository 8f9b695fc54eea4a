// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <tvm/runtime/data_type.h>
#include <tvm/runtime/logging.h>

#include <map>

#include "../partition/printable.h"

namespace tvm::collage::onnx_model {
namespace {

struct ElementType {
  const char* name;
  DLDataType dtype;
  int onnx;  // onnx.TensorProto.DataType
};

constexpr ElementType kElementTypes[] = {
    {"float32", {kDLFloat, 32, 1}, 1},    {"uint8", {kDLUInt, 8, 1}, 2},
    {"int8", {kDLInt, 8, 1}, 3},          {"uint16", {kDLUInt, 16, 1}, 4},
    {"int16", {kDLInt, 16, 1}, 5},        {"int32", {kDLInt, 32, 1}, 6},
    {"int64", {kDLInt, 64, 1}, 7},        {"bool", {kDLUInt, 1, 1}, 9},
    {"float16", {kDLFloat, 16, 1}, 10},   {"float64", {kDLFloat, 64, 1}, 11},
    {"uint32", {kDLUInt, 32, 1}, 12},     {"uint64", {kDLUInt, 64, 1}, 13},
    {"bfloat16", {kDLBfloat, 16, 1}, 16},
};

}  // namespace

int OnnxElementType(DLDataType dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.dtype.code == dtype.code && type.dtype.bits == dtype.bits) return type.onnx;
  }
  return 0;
}

DLDataType ElementTypeOfName(const std::string& name) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == name) return type.dtype;
  }
  return {};
}

int64_t TensorSpec::NumElements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

size_t TensorSpec::NumBytes() const {
  return static_cast<size_t>(NumElements()) * ((dtype.bits + 7) / 8);
}

bool TensorSpec::operator==(const TensorSpec& other) const {
  return runtime::TypeEqual(dtype, other.dtype) && shape == other.shape;
}

std::unique_ptr<Results> Engine::RunOnAny(const std::vector<TensorSpec>&,
                                          const std::vector<void*>&) {
  LOG(FATAL) << "ValueError: this library runs models on inputs of fixed shapes alone";
  throw;  // not reached
}

const EngineKind& GetEngineKind(const std::string& name) {
  static const std::map<std::string, EngineKind> kinds = {
      {"onnxruntime", OnnxRuntimeEngineKind()},
      {"openvino", OpenVinoEngineKind()},
      {"openvino_bf16", OpenVinoBf16EngineKind()},
      {"openvino_w8", OpenVinoEngineKind()},
  };
  auto found = kinds.find(name);
  if (found == kinds.end()) {
    std::string known;
    for (const auto& kind : kinds) known += (known.empty() ? "" : ", ") + kind.first;
    LOG(FATAL) << "ValueError: nothing runs ONNX models as '" << partition::Printable(name)
               << "'; known: " << known;
  }
  return found->second;
}

}  // namespace tvm::collage::onnx_model
