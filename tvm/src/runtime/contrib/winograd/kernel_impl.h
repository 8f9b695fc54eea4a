// SPDX-License-Identifier: Apache-2.0
// The kernel for vectors of kLanes floats, included once by each instruction set's file.
//
// For a piece: transform its tiles' inputs (V), then for each group of output channels multiply by
// the transformed weights at each point (M) and transform back. Includes no header of the
// standard library but <cstdint>, see kernel.h.
// Test: backends/dnnl/test_winograd.py.
#pragma once

#include "kernel.h"
#include "transforms.h"

namespace tvm::collage::winograd {
namespace {

// Rows or columns of a window, for the compiler.
template <int kTaps, int kStride, int kOutputs>
struct Along {
  static constexpr Transforms kOf = MakeTransforms(kTaps, kStride, kOutputs);
  static constexpr Axis kAxis = {kTaps, kStride, kOutputs, kOf.points};
};

template <typename Axis, int kPoint>
struct InputRow {
  static constexpr int kLength = Axis::kOf.inputs;
  static constexpr float At(int i) { return static_cast<float>(Axis::kOf.input[kPoint][i]); }
};

template <typename Axis, int kOutput>
struct OutputRow {
  static constexpr int kLength = Axis::kOf.points;
  static constexpr float At(int i) { return static_cast<float>(Axis::kOf.output[kOutput][i]); }
};

template <int kLanes>
struct Vectors {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  // The same in memory, at any address of a float.
  typedef float Stored __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

  static Vector Load(const float* from) { return *reinterpret_cast<const Stored*>(from); }
  static void Store(float* to, Vector value) { *reinterpret_cast<Stored*>(to) = value; }
  // A NaN in `a` stays one.
  static Vector Max(Vector a, Vector b) { return b > a ? b : a; }
  static Vector Min(Vector a, Vector b) { return b < a ? b : a; }

  // The row's coefficients times numbers of memory, without those that are 0.
  template <typename Row, int kAt = 0, bool kIsFirst = true>
  static Vector Sum(const Vector* from, int stride, Vector sum = Vector{}) {
    if constexpr (kAt == Row::kLength) {
      return sum;
    } else {
      constexpr float factor = Row::At(kAt);
      if constexpr (factor == 0) return Sum<Row, kAt + 1, kIsFirst>(from, stride, sum);
      const Vector term = factor == 1 ? from[kAt * stride] : factor * from[kAt * stride];
      return Sum<Row, kAt + 1, false>(from, stride, kIsFirst ? term : sum + term);
    }
  }

  template <typename Axis, int kPoint = 0>
  static void TransformInput(const Vector* d, int stride, Vector* out, int out_stride) {
    if constexpr (kPoint < Axis::kOf.points) {
      constexpr bool is_pair = Axis::kOf.is_pair[kPoint];
      const Vector first = Sum<InputRow<Axis, kPoint>>(d, stride);
      if constexpr (is_pair) {
        const Vector second = Sum<InputRow<Axis, kPoint + 1>>(d, stride);
        out[kPoint * out_stride] = first + second;
        out[(kPoint + 1) * out_stride] = first - second;
      } else {
        out[kPoint * out_stride] = first;
      }
      TransformInput<Axis, kPoint + 1 + is_pair>(d, stride, out, out_stride);
    }
  }

  template <typename Axis>
  static void TransformOutput(const Vector* m, int stride, Vector* out, int out_stride) {
    Vector paired[Axis::kOf.points];
#pragma GCC unroll 16
    for (int i = 0; i < Axis::kOf.points; ++i) {
      paired[i] = m[i * stride];
      if (i > 0 && Axis::kOf.is_pair[i - 1]) {
        paired[i] = paired[i - 1] - m[i * stride];
        paired[i - 1] += m[i * stride];
      }
    }
    StoreOutputs<Axis>(paired, out, out_stride);
  }

  template <typename Axis, int kOutput = 0>
  static void StoreOutputs(const Vector* paired, Vector* out, int out_stride) {
    if constexpr (kOutput < Axis::kOf.outputs) {
      out[kOutput * out_stride] = Sum<OutputRow<Axis, kOutput>>(paired, 1);
      StoreOutputs<Axis, kOutput + 1>(paired, out, out_stride);
    }
  }
};

template <int kLanes, int kRows>
struct Products : Vectors<kLanes> {
  using typename Vectors<kLanes>::Vector;
  using Vectors<kLanes>::Load;
  using Vectors<kLanes>::Store;

  // m[row][0, kWide vectors) = sum over c of v[row][c] * weights[c][0, kWide vectors).
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

  // Multiply for `tiles` tiles, 1 <= tiles <= kRows.
  template <int kWide, int kTiles = kRows>
  static Product ProductOf(int64_t tiles) {
    if constexpr (kTiles == 1) {
      return Multiply<1, kWide>;
    } else {
      return tiles == kTiles ? Multiply<kTiles, kWide> : ProductOf<kWide, kTiles - 1>(tiles);
    }
  }

  // All tiles of a piece at one point, in nearly equal parts that fit the registers.
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
};

template <int kLanes, int kRows, typename Depths, typename Rows, typename Columns>
struct Tiles : Vectors<kLanes> {
  using Lanes = Vectors<kLanes>;
  using Lanes::Load;
  using Lanes::Max;
  using Lanes::Min;
  using Lanes::Store;
  using typename Lanes::Vector;

  static constexpr int kInDepths = Depths::kOf.inputs, kOutDepths = Depths::kOf.outputs;
  static constexpr int kInRows = Rows::kOf.inputs, kInColumns = Columns::kOf.inputs;
  static constexpr int kDown = Rows::kOf.points, kAcross = Columns::kOf.points;
  static constexpr int kOutRows = Rows::kOf.outputs, kOutColumns = Columns::kOf.outputs;
  static constexpr int kPlane = kDown * kAcross;  // points of one depth
  static constexpr bool kIsFlat = kInDepths == 1;
  static constexpr int kPoints = Depths::kOf.points * kPlane;

  // A tile's place: image, and its first depth, row and column of outputs.
  struct Tile {
    int64_t image, depth, row, column;
  };

  static Tile TileAt(const Shape& s, int64_t index) {
    const int64_t across = (s.out_width + kOutColumns - 1) / kOutColumns;
    const int64_t down = (s.out_height + kOutRows - 1) / kOutRows;
    Tile tile;
    tile.column = index % across * kOutColumns;
    tile.row = index / across % down * kOutRows;
    const int64_t deep = (s.out_depth + kOutDepths - 1) / kOutDepths;
    tile.depth = index / (across * down) % deep * kOutDepths;
    tile.image = index / (across * down * deep);
    return tile;
  }

  // The tile's inputs of one vector of channels; zeros beyond the image.
  static void Gather(const Problem& p, const float* plane, int64_t row, int64_t column,
                     Vector* out) {
    const Shape& s = p.shape;
    const float* from = plane + row * p.src.row + column * p.src.column;
    if (row >= 0 && column >= 0 && row + kInRows <= s.height && column + kInColumns <= s.width) {
      for (int i = 0; i < kInRows; ++i) {
        for (int j = 0; j < kInColumns; ++j) {
          out[i * kInColumns + j] = Load(from + i * p.src.row + j * p.src.column);
        }
      }
      return;
    }
    for (int i = 0; i < kInRows; ++i) {
      for (int j = 0; j < kInColumns; ++j) {
        const bool is_inside =
            row + i >= 0 && row + i < s.height && column + j >= 0 && column + j < s.width;
        const float* at = from + i * p.src.row + j * p.src.column;
        out[i * kInColumns + j] = is_inside ? Load(at) : Vector{};
      }
    }
  }

  // The points of one depth of a vector of channels.
  [[gnu::always_inline]] static void TransformPlane(const Problem& p, const float* plane,
                                                    const Tile& tile, Vector* out) {
    Vector inputs[kInRows * kInColumns], half[kDown * kInColumns];
    Gather(p, plane, tile.row * Rows::kAxis.stride - p.shape.pad_top,
           tile.column * Columns::kAxis.stride - p.shape.pad_left, inputs);
    for (int j = 0; j < kInColumns; ++j) {
      Lanes::template TransformInput<Rows>(inputs + j, kInColumns, half + j, kInColumns);
    }
    for (int i = 0; i < kDown; ++i) {
      const Vector* row = half + i * kInColumns;
      Lanes::template TransformInput<Columns>(row, 1, out + i * kAcross, 1);
    }
  }

  // Fills V of one tile: at each point, the channels of all depths of the window that are not
  // transformed.
  static void TransformTile(const Problem& p, const float* input, const Tile& tile, float* v,
                            int64_t point_stride) {
    const Shape& s = p.shape;
    Vector planes[kInDepths * kPlane];
    for (int64_t k = 0; k < s.kernel_depth; ++k) {
      const int64_t first = tile.depth * s.stride_depth + k * s.dilation_depth - s.pad_front;
      for (int64_t channel = 0; channel < s.in_channels; channel += kLanes, v += kLanes) {
        const float* block = input + tile.image * p.src.batch + channel / kLanes * p.src.block;
        for (int d = 0; d < kInDepths; ++d) {
          const int64_t depth = first + d;
          if (depth >= 0 && depth < s.depth) {
            TransformPlane(p, block + depth * p.src.depth, tile, planes + d * kPlane);
          } else {
            for (int i = 0; i < kPlane; ++i) planes[d * kPlane + i] = Vector{};
          }
        }
        if constexpr (kIsFlat) {
          for (int i = 0; i < kPoints; ++i) Store(v + i * point_stride, planes[i]);
        } else {
          for (int i = 0; i < kPlane; ++i) {
            Vector points[Depths::kOf.points];
            Lanes::template TransformInput<Depths>(planes + i, kPlane, points, 1);
            for (int d = 0; d < Depths::kOf.points; ++d) {
              Store(v + (d * kPlane + i) * point_stride, points[d]);
            }
          }
        }
      }
    }
  }

  static void Apply(const PostOp& op, Vector* values, const float* output, const Strides& dst,
                    int64_t rows, int64_t columns) {
    for (int i = 0; i < kOutRows * kOutColumns; ++i) {
      const int row = i / kOutColumns, column = i % kOutColumns;
      Vector& x = values[i];
      switch (op.kind) {
        case PostOp::kSum:
          if (row < rows && column < columns) {
            x += Load(output + row * dst.row + column * dst.column);
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

  // From M of one tile and vector of output channels to the outputs.
  static void Finish(const Problem& p, const Data& data, const Tile& tile, int64_t vector,
                     const float* m, int64_t point_stride) {
    Vector planes[kOutDepths * kPlane];
    for (int i = 0; i < kPlane; ++i) {
      Vector points[Depths::kOf.points];
      for (int d = 0; d < Depths::kOf.points; ++d) {
        points[d] = Load(m + (d * kPlane + i) * point_stride);
      }
      Lanes::template TransformOutput<Depths>(points, 1, planes + i, kPlane);
    }
    float* output = data.output + tile.image * p.dst.batch + vector * p.dst.block +
                    tile.depth * p.dst.depth + tile.row * p.dst.row + tile.column * p.dst.column;
    const float* bias = data.bias ? data.bias + vector * kLanes : nullptr;
    for (int d = 0; d < kOutDepths && tile.depth + d < p.shape.out_depth; ++d) {
      FinishPlane(p, tile, planes + d * kPlane, bias, output + d * p.dst.depth);
    }
  }

  // The outputs of one depth.
  [[gnu::always_inline]] static void FinishPlane(const Problem& p, const Tile& tile,
                                                 const Vector* points, const float* bias,
                                                 float* output) {
    Vector half[kOutRows * kAcross], out[kOutRows * kOutColumns];
    for (int j = 0; j < kAcross; ++j) {
      Lanes::template TransformOutput<Rows>(points + j, kAcross, half + j, kAcross);
    }
    for (int i = 0; i < kOutRows; ++i) {
      Vector* row = out + i * kOutColumns;
      Lanes::template TransformOutput<Columns>(half + i * kAcross, 1, row, 1);
    }
    if (bias) {
      for (Vector& x : out) x += Load(bias);
    }
    const int64_t rows = p.shape.out_height - tile.row, columns = p.shape.out_width - tile.column;
    for (int i = 0; i < p.num_post_ops; ++i) {
      Apply(p.post_ops[i], out, output, p.dst, rows, columns);
    }
    for (int i = 0; i < kOutRows && i < rows; ++i) {
      for (int j = 0; j < kOutColumns && j < columns; ++j) {
        Store(output + i * p.dst.row + j * p.dst.column, out[i * kOutColumns + j]);
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
        const auto multiply = wide == kVectors
                                  ? Products<kLanes, kRows>::template MultiplyTiles<kVectors>
                                  : Products<kLanes, kRows>::template MultiplyTiles<1>;
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

// The windows that there is code for.
template <int kLanes, int kRows>
struct Forms {
  template <typename Depths, typename Rows, typename Columns>
  static constexpr Form Of() {
    return {Depths::kAxis, Rows::kAxis, Columns::kAxis,
            Tiles<kLanes, kRows, Depths, Rows, Columns>::Run};
  }
  using One = Along<1, 1, 1>;
  using Three = Along<3, 1, 4>;
  using ThreeDeep = Along<3, 1, 2>;
  using Five = Along<5, 1, 2>;
  using Seven = Along<7, 1, 4>;
  using SevenBy2 = Along<7, 2, 4>;

  static constexpr Form kAll[] = {
      Of<ThreeDeep, Three, Three>(), Of<One, Three, Three>(),       Of<One, One, Three>(),
      Of<One, Three, One>(),         Of<One, Five, Five>(),         Of<One, One, Seven>(),
      Of<One, Seven, One>(),         Of<One, SevenBy2, SevenBy2>(),
  };
  static constexpr int kCount = sizeof(kAll) / sizeof(kAll[0]);
};

}  // namespace
}  // namespace tvm::collage::winograd
