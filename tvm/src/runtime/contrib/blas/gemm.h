// SPDX-License-Identifier: Apache-2.0
/*!
 * \file gemm.h
 * \brief Products of (batches of) row-major matrices by a BLAS library, over all of TVM's threads.
 *
 * A batch is cut into tiles of the results, as even as the number of threads asks for; each thread
 * computes its tiles by single-threaded calls, and their bias and relu while they are in its cache.
 * Any number of threads may call at once. Tested by backends/blas/test_lower.py.
 */
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "blas_api.h"

namespace tvm {
namespace collage {
namespace blas {

/*! \brief c[i] = op(a[i]) op(b[i]): (m, k) times (k, n), for i < batch. */
struct GemmShape {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // a lies in memory as (k, m)
  bool transpose_b = false;  // b lies in memory as (n, k)
  // Elements from one row in memory to the next, and from one matrix to the next; the latter is 0
  // where one matrix serves the whole batch.
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool one_thread = false;  // whatever it takes
};

template <typename T>
struct GemmData {
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  const T* bias = nullptr;  // n numbers, one a column, or null; needs beta == 0
  bool relu = false;
  T alpha = 1;
  T beta = 0;
};

/*! \brief Into how many tiles each matrix is cut. */
struct Grid {
  int64_t rows = 1;
  int64_t columns = 1;
};

/*! \brief The grid that keeps `num_threads` evenly busy and reads the least of a and b again. */
Grid ChooseGrid(const GemmShape& shape, int num_threads);

/*! \brief A constant b, packed for one grid of tiles that takes all rows at once. */
struct PackedWeights {
  Grid grid;
  std::vector<std::shared_ptr<void>> tiles;
};

/*! \brief Packs b for calls of this shape; null where the library can't or it would not pay. */
std::unique_ptr<PackedWeights> PackWeights(const Api& api, const GemmShape& shape, const float* b);

/*! \brief Computes the products. Sizes fit 32 bits and none is zero (CheckSizes). */
template <typename T>
void Gemm(const Api& api, const GemmShape& shape, const GemmData<T>& data,
          const PackedWeights* packed = nullptr);

/*! \brief ValueError that begins with `what` for sizes that a BLAS library can't take. */
void CheckSizes(const GemmShape& shape, const std::string& what);

}  // namespace blas
}  // namespace collage
}  // namespace tvm
