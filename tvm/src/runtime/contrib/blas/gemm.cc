// SPDX-License-Identifier: Apache-2.0
/*!
 * \file gemm.cc
 * \brief Cutting products into tiles, and computing one.
 */
#include "gemm.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "../partition/memory.h"
#include "../partition/round_up.h"
#include "../partition/thread_pool.h"

namespace tvm {
namespace collage {
namespace blas {
namespace {

using partition::CeilDiv;

// Tiles begin at multiples of these, as kernels compute in such blocks.
constexpr int64_t kRowUnit = 4;
constexpr int64_t kColumnUnit = 16;
// gemm packs b in every call, which takes longer than few rows' products. A row at a time by gemv
// was faster up to so many rows (OpenBLAS on Zen 4), unless b is small and in cache.
constexpr int64_t kGemvRows = 3;
constexpr int64_t kGemvRowsTransposed = 6;
constexpr int64_t kGemvElements = 16384;

/*! \brief Where the i-th of `count` nearly equal pieces of [0, size) begins, on a unit. */
int64_t Begin(int64_t size, int64_t unit, int64_t i, int64_t count) {
  if (i == count) return size;
  return std::min(size, CeilDiv(size, unit) * i / count * unit);
}

bool IsSmall(const GemmShape& s) {
  if (s.one_thread) return true;
  const int64_t operations = 2 * s.batch * s.m * s.n * s.k;
  const int64_t bytes = 4 * s.batch * (s.m * s.k + s.n * s.k + s.m * s.n);
  return partition::IsSmallWork(operations, bytes);
}

struct Tile {
  int64_t matrix, row, num_rows, column, num_columns;
};

Tile TileAt(const GemmShape& s, const Grid& grid, int64_t index) {
  const int64_t j = index % grid.columns;
  const int64_t i = index / grid.columns % grid.rows;
  Tile tile;
  tile.matrix = index / grid.columns / grid.rows;
  tile.row = Begin(s.m, kRowUnit, i, grid.rows);
  tile.num_rows = Begin(s.m, kRowUnit, i + 1, grid.rows) - tile.row;
  tile.column = Begin(s.n, kColumnUnit, j, grid.columns);
  tile.num_columns = Begin(s.n, kColumnUnit, j + 1, grid.columns) - tile.column;
  return tile;
}

bool IsByRows(const GemmShape& s, const Tile& tile) {
  const int64_t limit = s.transpose_b ? kGemvRowsTransposed : kGemvRows;
  if (tile.num_rows == 1) return true;
  return tile.num_rows <= limit && tile.num_columns * s.k >= kGemvElements;
}

template <typename T>
void ComputeTile(const Api& api, const GemmShape& s, const GemmData<T>& data, const Tile& tile,
                 const void* packed_b) {
  T* c = data.c + tile.matrix * s.stride_c + tile.row * s.ldc + tile.column;
  const T* a = data.a + tile.matrix * s.stride_a + (s.transpose_a ? tile.row : tile.row * s.lda);
  const T* b = packed_b ? nullptr
                        : data.b + tile.matrix * s.stride_b +
                              (s.transpose_b ? tile.column * s.ldb : tile.column);
  T beta = data.beta;
  if (data.bias) {
    // Adding to the bias costs nothing: BLAS reads c in any case.
    beta = 1;
    for (int64_t i = 0; i < tile.num_rows; ++i) {
      std::copy_n(data.bias + tile.column, tile.num_columns, c + i * s.ldc);
    }
  }
  const int m = tile.num_rows, n = tile.num_columns, k = s.k;
  const int trans_a = s.transpose_a ? kTrans : kNoTrans;
  const int trans_b = s.transpose_b ? kTrans : kNoTrans;
  if (packed_b) {
    if constexpr (std::is_same_v<T, float>) {
      api.compute(kRowMajor, trans_a, kPacked, m, n, k, a, s.lda,
                  static_cast<const float*>(packed_b), std::max(n, k), beta, c, s.ldc);
    }
  } else if (IsByRows(s, tile)) {
    for (int i = 0; i < m; ++i) {
      // A row of c is op(b) transposed times a row of op(a).
      api.gemv<T>()(kRowMajor, s.transpose_b ? kNoTrans : kTrans, s.transpose_b ? n : k,
                    s.transpose_b ? k : n, data.alpha, b, s.ldb,
                    a + (s.transpose_a ? i : i * s.lda), s.transpose_a ? s.lda : 1, beta,
                    c + i * s.ldc, 1);
    }
  } else {
    api.gemm<T>()(kRowMajor, trans_a, trans_b, m, n, k, data.alpha, a, s.lda, b, s.ldb, beta, c,
                  s.ldc);
  }
  if (!data.relu) return;
  for (int i = 0; i < m; ++i) {
    T* row = c + i * s.ldc;
    // In the form that one max instruction computes: no branch, and NaN stays NaN.
    for (int j = 0; j < n; ++j) row[j] = T{0} > row[j] ? T{0} : row[j];
  }
}

/*! \brief One call's work, as its tasks see it. */
template <typename T>
struct Work {
  const Api& api;
  const GemmShape& shape;
  const GemmData<T>& data;
  const PackedWeights* packed;
  Grid grid;
  int64_t num_tiles;

  void Run(int64_t task, int64_t num_task) const {
    for (int64_t i = num_tiles * task / num_task; i < num_tiles * (task + 1) / num_task; ++i) {
      const Tile tile = TileAt(shape, grid, i);
      if (tile.num_rows == 0 || tile.num_columns == 0) continue;
      ComputeTile(api, shape, data, tile, packed ? packed->tiles[i].get() : nullptr);
    }
  }
};

}  // namespace

Grid ChooseGrid(const GemmShape& s, int num_threads) {
  if (num_threads <= 1 || IsSmall(s)) return {};
  // So many tiles a matrix that all threads get equally many.
  int64_t tiles = num_threads / std::gcd(s.batch, static_cast<int64_t>(num_threads));
  for (; tiles > 1; --tiles) {
    Grid best;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t rows = 1; rows <= tiles; ++rows) {
      const int64_t columns = tiles / rows;
      if (rows * columns != tiles) continue;
      if (rows > CeilDiv(s.m, kRowUnit) || columns > CeilDiv(s.n, kColumnUnit)) continue;
      const int64_t reads = rows * s.n * s.k + columns * s.m * s.k;
      if (reads >= least) continue;
      least = reads;
      best = {rows, columns};
    }
    if (best.rows * best.columns == tiles) return best;
  }
  return {};
}

std::unique_ptr<PackedWeights> PackWeights(const Api& api, const GemmShape& shape, const float* b) {
  if (!api.can_pack() || shape.batch != 1 || shape.m == 1) return nullptr;
  auto packed = std::make_unique<PackedWeights>();
  packed->grid = ChooseGrid(shape, runtime::threading::NumThreads());
  // A packed b holds for one number of rows. With several tiles of rows packing is a small part.
  if (packed->grid.rows != 1) return nullptr;
  for (int64_t j = 0; j < packed->grid.columns; ++j) {
    const Tile tile = TileAt(shape, packed->grid, j);
    const int m = shape.m, n = tile.num_columns, k = shape.k;
    std::shared_ptr<void> memory = partition::AllocateAligned(api.pack_size(kMatrixB, m, n, k));
    api.pack(kRowMajor, kMatrixB, shape.transpose_b ? kTrans : kNoTrans, m, n, k, 1.f,
             b + (shape.transpose_b ? tile.column * shape.ldb : tile.column), shape.ldb,
             static_cast<float*>(memory.get()));
    packed->tiles.push_back(std::move(memory));
  }
  return packed;
}

template <typename T>
void Gemm(const Api& api, const GemmShape& shape, const GemmData<T>& data,
          const PackedWeights* packed) {
  const Grid grid = packed ? packed->grid : ChooseGrid(shape, runtime::threading::NumThreads());
  Work<T> work{api, shape, data, packed, grid, shape.batch * grid.rows * grid.columns};
  if (work.num_tiles == 1 || IsSmall(shape)) return work.Run(0, 1);
  const auto run = [](int task, TVMParallelGroupEnv* env, void* raw) {
    static_cast<const Work<T>*>(raw)->Run(task, env->num_task);
    return 0;
  };
  ICHECK_EQ(TVMBackendParallelLaunch(run, &work, 0), 0) << TVMGetLastError();
}

template void Gemm<float>(const Api&, const GemmShape&, const GemmData<float>&,
                          const PackedWeights*);
template void Gemm<double>(const Api&, const GemmShape&, const GemmData<double>&,
                           const PackedWeights*);

void CheckSizes(const GemmShape& s, const std::string& what) {
  for (int64_t size : {s.batch, s.m, s.n, s.k, s.lda, s.ldb, s.ldc}) {
    if (size >= 1 && size <= std::numeric_limits<int>::max()) continue;
    LOG(FATAL) << "ValueError: " << what << ": a size or stride of " << size
               << " can't be given to BLAS, which takes 1 to 2147483647";
  }
}

}  // namespace blas
}  // namespace collage
}  // namespace tvm
