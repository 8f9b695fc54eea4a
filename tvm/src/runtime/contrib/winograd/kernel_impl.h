// SPDX-License-Identifier: Apache-2.0
/*!
 * \file kernel_impl.h
 * \brief The kernel for vectors of kLanes floats, included once by each instruction set's file.
 *
 * For a piece: transform its tiles' inputs (V), then for each group of output channels multiply by
 * the transformed weights at each of the 36 points (M) and transform back. Includes no header of
 * the standard library but <cstdint>, see kernel.h.
 */
#pragma once

#include "kernel.h"

namespace tvm {
namespace collage {
namespace winograd {
namespace {

template <int kLanes, int kRows>
struct Implementation {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  // The same in memory, at any address of a float.
  typedef float Stored __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

  static Vector Load(const float* from) { return *reinterpret_cast<const Stored*>(from); }
  static void Store(float* to, Vector value) { *reinterpret_cast<Stored*>(to) = value; }
  // A NaN in `a` stays one.
  static Vector Max(Vector a, Vector b) { return b > a ? b : a; }
  static Vector Min(Vector a, Vector b) { return b < a ? b : a; }

  /*! \brief Six inputs in a row at the points 0, 1, -1, 2, -2 and infinity. */
  static void TransformInput(const Vector* d, int stride, Vector* out, int out_stride) {
    const Vector d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride], d4 = d[4 * stride];
    const Vector even = d4 - 4 * d2, odd = d3 - 4 * d1;
    const Vector even2 = d4 - d2, odd2 = 2 * (d3 - d1);
    out[0] = 4 * d[0] - 5 * d2 + d4;
    out[out_stride] = even + odd;
    out[2 * out_stride] = even - odd;
    out[3 * out_stride] = even2 + odd2;
    out[4 * out_stride] = even2 - odd2;
    out[5 * out_stride] = 4 * d1 - 5 * d3 + d[5 * stride];
  }

  /*! \brief Back from six points to four outputs. */
  static void TransformOutput(const Vector* m, int stride, Vector* out, int out_stride) {
    const Vector sum = m[stride] + m[2 * stride], difference = m[stride] - m[2 * stride];
    const Vector sum2 = m[3 * stride] + m[4 * stride];
    const Vector difference2 = m[3 * stride] - m[4 * stride];
    out[0] = m[0] + sum + sum2;
    out[out_stride] = difference + 2 * difference2;
    out[2 * out_stride] = sum + 4 * sum2;
    out[3 * out_stride] = difference + 8 * difference2 + m[5 * stride];
  }

  /*! \brief A tile's place: image, depth, and its first row and column of outputs. */
  struct Tile {
    int64_t image, depth, row, column;
  };

  static Tile TileAt(const Shape& s, int64_t index) {
    const int64_t across = (s.out_width + kOut - 1) / kOut;
    const int64_t down = (s.out_height + kOut - 1) / kOut;
    Tile tile;
    tile.column = index % across * kOut;
    tile.row = index / across % down * kOut;
    tile.depth = index / (across * down) % s.out_depth;
    tile.image = index / (across * down * s.out_depth);
    return tile;
  }

  /*! \brief The tile's 6x6 inputs of one vector of channels; zeros beyond the image. */
  static void Gather(const Problem& p, const float* plane, int64_t row, int64_t column,
                     Vector* out) {
    const Shape& s = p.shape;
    const float* from = plane + row * p.src.row + column * p.src.column;
    if (row >= 0 && column >= 0 && row + kIn <= s.height && column + kIn <= s.width) {
      for (int i = 0; i < kIn; ++i) {
        for (int j = 0; j < kIn; ++j) {
          out[i * kIn + j] = Load(from + i * p.src.row + j * p.src.column);
        }
      }
      return;
    }
    for (int i = 0; i < kIn; ++i) {
      for (int j = 0; j < kIn; ++j) {
        const bool is_inside =
            row + i >= 0 && row + i < s.height && column + j >= 0 && column + j < s.width;
        out[i * kIn + j] = is_inside ? Load(from + i * p.src.row + j * p.src.column) : Vector{};
      }
    }
  }

  /*! \brief Fills V of one tile: at each point, the channels of all depths of the window. */
  static void TransformTile(const Problem& p, const float* input, const Tile& tile, float* v,
                            int64_t point_stride) {
    const Shape& s = p.shape;
    Vector a[kPoints], b[kPoints];
    for (int64_t k = 0; k < s.kernel_depth; ++k) {
      const int64_t depth = tile.depth * s.stride_depth + k * s.dilation_depth - s.pad_front;
      const bool is_inside = depth >= 0 && depth < s.depth;
      for (int64_t channel = 0; channel < s.in_channels; channel += kLanes, v += kLanes) {
        if (!is_inside) {
          for (int i = 0; i < kPoints; ++i) Store(v + i * point_stride, Vector{});
          continue;
        }
        const float* plane =
            input + tile.image * p.src.batch + depth * p.src.depth + channel / kLanes * p.src.block;
        Gather(p, plane, tile.row - s.pad_top, tile.column - s.pad_left, a);
        for (int j = 0; j < kIn; ++j) TransformInput(a + j, kIn, b + j, kIn);
        for (int i = 0; i < kIn; ++i) TransformInput(b + i * kIn, 1, a + i * kIn, 1);
        for (int i = 0; i < kPoints; ++i) Store(v + i * point_stride, a[i]);
      }
    }
  }

  /*! \brief m[row][0, kWide vectors) = sum over c of v[row][c] * weights[c][0, kWide vectors). */
  template <int kTiles, int kWide>
  static void Multiply(const float* weights, const float* v, int64_t v_stride, int64_t channels,
                       float* m) {
    Vector sums[kTiles][kWide] = {};
    for (int64_t c = 0; c < channels; ++c) {
      Vector w[kWide];
      for (int j = 0; j < kWide; ++j) w[j] = Load(weights + (c * kWide + j) * kLanes);
#pragma GCC unroll 16
      for (int t = 0; t < kTiles; ++t) {
        const float x = v[t * v_stride + c];
#pragma GCC unroll 2
        for (int j = 0; j < kWide; ++j) sums[t][j] += x * w[j];
      }
    }
    for (int t = 0; t < kTiles; ++t) {
      for (int j = 0; j < kWide; ++j) Store(m + (t * kVectors + j) * kLanes, sums[t][j]);
    }
  }

  using Product = void (*)(const float*, const float*, int64_t, int64_t, float*);

  /*! \brief Multiply for `tiles` tiles, 1 <= tiles <= kRows. */
  template <int kWide, int kTiles = kRows>
  static Product ProductOf(int64_t tiles) {
    if constexpr (kTiles == 1) {
      return Multiply<1, kWide>;
    } else {
      return tiles == kTiles ? Multiply<kTiles, kWide> : ProductOf<kWide, kTiles - 1>(tiles);
    }
  }

  /*! \brief All tiles of a piece at one point, in nearly equal parts that fit the registers. */
  template <int kWide>
  static void MultiplyTiles(const float* weights, const float* v, int64_t v_stride,
                            int64_t channels, int64_t tiles, float* m) {
    const int64_t parts = (tiles + kRows - 1) / kRows;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = tiles * i / parts, end = tiles * (i + 1) / parts;
      ProductOf<kWide>(end - begin)(weights, v + begin * v_stride, v_stride, channels,
                                    m + begin * kVectors * kLanes);
    }
  }

  static void Apply(const PostOp& op, Vector* values, const float* output, const Strides& dst,
                    int64_t rows, int64_t columns) {
    for (int i = 0; i < kOut * kOut; ++i) {
      Vector& x = values[i];
      switch (op.kind) {
        case PostOp::kSum:
          if (i / kOut < rows && i % kOut < columns) {
            x += Load(output + i / kOut * dst.row + i % kOut * dst.column);
          }
          break;
        case PostOp::kRelu:
          x = op.alpha == 0.f ? Max(x, Vector{}) : x > 0 ? x : op.alpha * x;
          break;
        case PostOp::kClip:
          x = Min(Max(x, Vector{} + op.alpha), Vector{} + op.beta);
          break;
        case PostOp::kLinear:
          x = op.alpha * x + op.beta;
          break;
      }
    }
  }

  /*! \brief From M of one tile and vector of output channels to the outputs. */
  static void Finish(const Problem& p, const Data& data, const Tile& tile, int64_t vector,
                     const float* m, int64_t point_stride) {
    const Shape& s = p.shape;
    Vector a[kPoints], b[kOut * kIn], out[kOut * kOut];
    for (int i = 0; i < kPoints; ++i) a[i] = Load(m + i * point_stride);
    for (int j = 0; j < kIn; ++j) TransformOutput(a + j, kIn, b + j, kIn);
    for (int i = 0; i < kOut; ++i) TransformOutput(b + i * kIn, 1, out + i * kOut, 1);
    if (data.bias) {
      const Vector bias = Load(data.bias + vector * kLanes);
      for (Vector& x : out) x += bias;
    }
    float* output = data.output + tile.image * p.dst.batch + vector * p.dst.block +
                    tile.depth * p.dst.depth + tile.row * p.dst.row + tile.column * p.dst.column;
    const int64_t rows = s.out_height - tile.row, columns = s.out_width - tile.column;
    for (int i = 0; i < p.num_post_ops; ++i) {
      Apply(p.post_ops[i], out, output, p.dst, rows, columns);
    }
    for (int i = 0; i < kOut && i < rows; ++i) {
      for (int j = 0; j < kOut && j < columns; ++j) {
        Store(output + i * p.dst.row + j * p.dst.column, out[i * kOut + j]);
      }
    }
  }

  static void Run(const Problem& p, const Data& data, const Piece& piece, float* scratch) {
    const Shape& s = p.shape;
    const int64_t channels = s.kernel_depth * s.in_channels;
    const int64_t v_point = piece.num_tiles * p.tile_stride;
    const int64_t m_point = piece.num_tiles * kVectors * kLanes;
    float* const v = scratch;
    float* const m = scratch + kPoints * v_point;
    for (int64_t t = 0; t < piece.num_tiles; ++t) {
      TransformTile(p, data.input, TileAt(s, piece.first_tile + t), v + t * p.tile_stride, v_point);
    }
    const int64_t vectors = s.out_channels / kLanes;
    for (int64_t group = piece.first_group; group < piece.end_group; ++group) {
      const int64_t first = group * kVectors;
      const int64_t wide = vectors - first < kVectors ? vectors - first : kVectors;
      const float* weights = data.weights + first * kLanes * kPoints * channels;
      for (int i = 0; i < kPoints; ++i, weights += wide * kLanes * channels) {
        const auto multiply = wide == kVectors ? MultiplyTiles<kVectors> : MultiplyTiles<1>;
        multiply(weights, v + i * v_point, p.tile_stride, channels, piece.num_tiles,
                 m + i * m_point);
      }
      for (int64_t t = 0; t < piece.num_tiles; ++t) {
        const Tile tile = TileAt(s, piece.first_tile + t);
        for (int64_t j = 0; j < wide; ++j) {
          Finish(p, data, tile, first + j, m + (t * kVectors + j) * kLanes, m_point);
        }
      }
    }
  }
};

}  // namespace
}  // namespace winograd
}  // namespace collage
}  // namespace tvm
