// SPDX-License-Identifier: Apache-2.0
// What one thread does of a Winograd convolution, and its implementations by instruction set.
//
// Plain data alone crosses this header: the implementations are compiled for newer CPUs than the
// rest, so they may share no inline function with it.
// Test: backends/dnnl/test_winograd.py.
#pragma once

#include <cstdint>

namespace tvm::collage::winograd {

// Vectors of output channels that are computed together.
constexpr int kVectors = 2;

// Rows or columns of a window, of which so many outputs are computed at once (F(outputs, taps),
// transforms.h) by so many products. One tap is what it is.
struct Axis {
  int taps, stride, outputs, points;
};

// A convolution over rows and columns by one of the forms.
struct Shape {
  int64_t batch, in_channels, out_channels;
  int64_t depth, height, width;
  int64_t out_depth, out_height, out_width;
  int64_t pad_front, pad_top, pad_left;
  int64_t kernel_depth, stride_depth, dilation_depth;  // of depths that are added up
};

// Where data lie, in floats; `block` leads from one vector of channels to the next.
struct Strides {
  int64_t batch, block, depth, row, column;
};

struct PostOp {
  enum Kind { kSum, kRelu, kClip, kLinear } kind;
  float alpha;  // kRelu: slope below 0; kClip: lower bound; kLinear: factor
  float beta;   // kClip: upper bound; kLinear: summand
};

struct Data {
  const float* input;
  const float* weights;  // as PackWeights leaves them
  const float* bias;     // out_channels numbers, or null
  float* output;         // kSum adds to what is there
};

struct Problem {
  Shape shape;
  Strides src, dst;
  int64_t tile_stride;  // floats from a tile's transformed inputs at a point to the next tile's
  const PostOp* post_ops;
  int num_post_ops;
};

// Numbers of tiles and of groups of kVectors vectors of output channels.
struct Piece {
  int64_t first_tile, num_tiles;
  int64_t first_group, end_group;
};

// `scratch`: points * num_tiles * (tile_stride + kVectors * lanes) floats.
using RunPiece = void (*)(const Problem& problem, const Data& data, const Piece& piece,
                          float* scratch);

// A window that there is code for, nested of its axes: a tile has so many results along each (Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). Depths of one tap stand for
// any number: those of a window are then added up as channels are.
struct Form {
  Axis depths, rows, columns;
  RunPiece run;

  int points() const { return depths.points * rows.points * columns.points; }
  int taps() const { return depths.taps * rows.taps * columns.taps; }
};

struct Kernel {
  const char* name;
  int lanes;  // floats in a vector
  int rows;   // tiles whose products the registers hold
  const Form* forms;
  int num_forms;
};

extern const Kernel kAvx512;
extern const Kernel kAvx2;

}  // namespace tvm::collage::winograd
