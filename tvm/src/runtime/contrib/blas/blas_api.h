// SPDX-License-Identifier: Apache-2.0
/*!
 * \file blas_api.h
 * \brief A BLAS library as a table of the functions that we call; OpenBLAS and MKL fill one each.
 *
 * Both are opened when first needed and run on the calling thread alone: work is divided over
 * TVM's threads by gemm.cc, so that no second thread pool comes to life (OpenBLAS' threads would
 * wait for one another, spinning: 30 times slower beside a busy neighbour). Row-major matrices,
 * 32-bit sizes.
 * Tested by backends/blas/test_lower.py, backends/blas/test_errors.py, backends/test_threads.py.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../partition/open_library.h"

namespace tvm {
namespace collage {
namespace blas {

// CBLAS' enumerators, the same in every implementation.
enum : int { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };
// MKL's: an operand that was packed, and which one to pack.
enum : int { kPacked = 151, kMatrixB = 162 };

/*! \brief c = alpha * op(a) op(b) + beta * c */
template <typename T>
using GemmFunction = void (*)(int layout, int trans_a, int trans_b, int m, int n, int k, T alpha,
                              const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
/*! \brief y = alpha * op(a) x + beta * y */
template <typename T>
using GemvFunction = void (*)(int layout, int trans, int m, int n, T alpha, const T* a, int lda,
                              const T* x, int incx, T beta, T* y, int incy);
/*! \brief Bytes that an operand needs when packed; packing it; multiplying with it. */
using PackSizeFunction = size_t (*)(int identifier, int m, int n, int k);
using PackFunction = void (*)(int layout, int identifier, int trans, int m, int n, int k,
                              float alpha, const float* source, int ld, float* packed);
using ComputeFunction = void (*)(int layout, int trans_a, int trans_b, int m, int n, int k,
                                 const float* a, int lda, const float* b, int ldb, float beta,
                                 float* c, int ldc);
/*! \brief c = alpha * (op(a) + ao)(op(b) + bo) + beta * c + oc, of unsigned and signed bytes */
using ByteGemmFunction = void (*)(int layout, int trans_a, int trans_b, int offset_kind, int m,
                                  int n, int k, float alpha, const void* a, int lda, int8_t ao,
                                  const void* b, int ldb, int8_t bo, float beta, int32_t* c,
                                  int ldc, const int32_t* oc);

struct Api {
  GemmFunction<float> sgemm = nullptr;
  GemmFunction<double> dgemm = nullptr;
  GemvFunction<float> sgemv = nullptr;
  GemvFunction<double> dgemv = nullptr;
  // Null where the library has no such thing.
  PackSizeFunction pack_size = nullptr;
  PackFunction pack = nullptr;
  ComputeFunction compute = nullptr;
  ByteGemmFunction byte_gemm = nullptr;

  bool can_pack() const { return compute != nullptr; }
  template <typename T>
  GemmFunction<T> gemm() const;
  template <typename T>
  GemvFunction<T> gemv() const;
};

template <>
inline GemmFunction<float> Api::gemm<float>() const {
  return sgemm;
}
template <>
inline GemmFunction<double> Api::gemm<double>() const {
  return dgemm;
}
template <>
inline GemvFunction<float> Api::gemv<float>() const {
  return sgemv;
}
template <>
inline GemvFunction<double> Api::gemv<double>() const {
  return dgemv;
}

using Library = partition::Opened<Api>;

/*! \brief Looked for at the first call, then kept for ever. */
const Library& OpenBlas();
const Library& Mkl();

}  // namespace blas
}  // namespace collage
}  // namespace tvm
