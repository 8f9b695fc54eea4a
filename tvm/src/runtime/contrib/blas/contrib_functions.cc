// SPDX-License-Identifier: Apache-2.0
/*!
 * \file contrib_functions.cc
 * \brief `tvm.contrib.cblas.*` and `tvm.contrib.mkl.*`, which `llvm -libs=cblas` and `-libs=mkl`
 * compile calls to. Arguments as in TVM's python/tvm/contrib/cblas.py and mkl.py: a, b, c,
 * transpose_a, transpose_b[, alpha[, beta]]. Tested by backends/blas/test_contrib.py.
 */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <string>

#include "gemm.h"

namespace tvm {
namespace collage {
namespace blas {
namespace {

using runtime::DataType;
using runtime::TVMArgs;
using runtime::TVMRetValue;

/*! \brief The last two axes of an operand in memory; strides may say that they are swapped. */
struct Matrix {
  const DLTensor* tensor;
  bool is_transposed = false;
  int64_t ld = 0;
  int64_t stride = 0;  // from one matrix of a batch to the next

  Matrix(const DLTensor* given, bool transpose, const char* what) : tensor(given) {
    const int rank = tensor->ndim;
    const int64_t rows = tensor->shape[rank - 2], columns = tensor->shape[rank - 1];
    const int64_t* strides = tensor->strides;
    const bool swapped = strides && strides[rank - 1] != 1 && strides[rank - 2] == 1;
    is_transposed = transpose != swapped;
    ld = strides ? strides[swapped ? rank - 1 : rank - 2] : columns;
    // An axis of one element may have any stride.
    ld = std::max(ld, swapped ? rows : columns);
    stride = rank == 2 ? 0 : (strides ? strides[0] : rows * columns);
    if (rank == 3 && tensor->shape[0] == 1) stride = 0;
    const bool ok = !strides || swapped || strides[rank - 1] == 1 || columns == 1;
    if (!ok) LOG(FATAL) << "ValueError: " << what << ": one axis of each matrix must be compact";
  }

  /*! \brief Extents of op(matrix). */
  int64_t rows(bool transpose) const { return tensor->shape[tensor->ndim - (transpose ? 1 : 2)]; }
  int64_t columns(bool transpose) const {
    return tensor->shape[tensor->ndim - (transpose ? 2 : 1)];
  }
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
  }
};

/*! \brief What a call asks for, checked. */
struct Call {
  Matrix a, b, c;
  GemmShape shape;

  Call(TVMArgs args, int rank, const char* what)
      : a(Checked(args, 0, rank, what), args[3], what),
        b(Checked(args, 1, rank, what), args[4], what),
        c(Checked(args, 2, rank, what), false, what) {
    const bool transpose_a = args[3], transpose_b = args[4];
    shape.m = a.rows(transpose_a);
    shape.k = a.columns(transpose_a);
    shape.n = b.columns(transpose_b);
    shape.transpose_a = a.is_transposed;
    shape.transpose_b = b.is_transposed;
    shape.lda = a.ld;
    shape.ldb = b.ld;
    shape.ldc = c.ld;
    bool fits = b.rows(transpose_b) == shape.k && c.rows(false) == shape.m &&
                c.columns(false) == shape.n && !c.is_transposed;
    if (rank == 3) {
      shape.batch = c.tensor->shape[0];
      shape.stride_a = a.stride;
      shape.stride_b = b.stride;
      shape.stride_c = c.stride;
      for (const Matrix* each : {&a, &b}) {
        fits = fits && (each->tensor->shape[0] == shape.batch || each->tensor->shape[0] == 1);
      }
    }
    if (!fits) LOG(FATAL) << "ValueError: " << what << ": the shapes of a, b and c don't fit";
    CheckSizes(shape, what);
  }

  static const DLTensor* Checked(TVMArgs args, int i, int rank, const char* what) {
    const DLTensor* tensor = args[i];
    if (tensor->ndim != rank) {
      LOG(FATAL) << "ValueError: " << what << " takes tensors of " << rank << " axes, not "
                 << tensor->ndim;
    }
    return tensor;
  }

  bool IsAll(DataType dtype) const {
    return DataType(a.tensor->dtype) == dtype && DataType(b.tensor->dtype) == dtype &&
           DataType(c.tensor->dtype) == dtype;
  }
};

void CheckCount(TVMArgs args, const char* what) {
  if (args.size() >= 5 && args.size() <= 7) return;
  LOG(FATAL) << "ValueError: " << what
             << " takes a, b, c, transpose_a, transpose_b[, alpha[, beta]], not " << args.size()
             << " arguments";
}

template <typename T>
void Run(const Api& api, const Call& call, TVMArgs args) {
  GemmData<T> data;
  data.a = call.a.data<T>();
  data.b = call.b.data<T>();
  data.c = call.c.data<T>();
  if (args.size() > 5) data.alpha = static_cast<T>(args[5].operator double());
  if (args.size() > 6) data.beta = static_cast<T>(args[6].operator double());
  Gemm(api, call.shape, data);
}

template <const Library& (*kLibrary)(), int kRank>
void Matmul(TVMArgs args, TVMRetValue*) {
  const char* what = kRank == 2 ? "matmul" : "batch_matmul";
  const Api& api = kLibrary().Require();
  CheckCount(args, what);
  const Call call(args, kRank, what);
  if (call.IsAll(DataType::Float(32))) return Run<float>(api, call, args);
  if (call.IsAll(DataType::Float(64))) return Run<double>(api, call, args);
  LOG(FATAL) << "ValueError: " << what << ": a, b and c must all be float32 or all be float64";
}

/*! \brief int32 c of uint8 a and int8 b, on the calling thread. */
void ByteMatmul(TVMArgs args, TVMRetValue*) {
  const char* what = "matmul_u8s8s32";
  const Api& api = Mkl().Require();
  CheckCount(args, what);
  const Call call(args, 2, what);
  if (DataType(call.a.tensor->dtype) != DataType::UInt(8) ||
      DataType(call.b.tensor->dtype) != DataType::Int(8) ||
      DataType(call.c.tensor->dtype) != DataType::Int(32)) {
    LOG(FATAL) << "ValueError: " << what << ": a must be uint8, b int8 and c int32";
  }
  const float alpha = args.size() > 5 ? static_cast<float>(args[5].operator double()) : 1.f;
  const float beta = args.size() > 6 ? static_cast<float>(args[6].operator double()) : 0.f;
  constexpr int kFixOffset = 173;
  const int32_t no_offset = 0;
  const GemmShape& s = call.shape;
  api.byte_gemm(kRowMajor, s.transpose_a ? kTrans : kNoTrans, s.transpose_b ? kTrans : kNoTrans,
                kFixOffset, s.m, s.n, s.k, alpha, call.a.data<void>(), s.lda, 0,
                call.b.data<void>(), s.ldb, 0, beta, call.c.data<int32_t>(), s.ldc, &no_offset);
}

}  // namespace

TVM_REGISTER_GLOBAL("tvm.contrib.cblas.matmul").set_body(Matmul<OpenBlas, 2>);
TVM_REGISTER_GLOBAL("tvm.contrib.cblas.batch_matmul").set_body(Matmul<OpenBlas, 3>);
TVM_REGISTER_GLOBAL("tvm.contrib.cblas.batch_matmul_iterative").set_body(Matmul<OpenBlas, 3>);
TVM_REGISTER_GLOBAL("tvm.contrib.mkl.matmul").set_body(Matmul<Mkl, 2>);
TVM_REGISTER_GLOBAL("tvm.contrib.mkl.matmul_u8s8s32").set_body(ByteMatmul);
TVM_REGISTER_GLOBAL("tvm.contrib.mkl.batch_matmul").set_body(Matmul<Mkl, 3>);
TVM_REGISTER_GLOBAL("tvm.contrib.mkl.batch_matmul_iterative").set_body(Matmul<Mkl, 3>);

}  // namespace blas
}  // namespace collage
}  // namespace tvm
