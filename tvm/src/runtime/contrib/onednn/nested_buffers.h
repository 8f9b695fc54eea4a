// SPDX-License-Identifier: Apache-2.0
// Buffers that lie in one another, so that a concatenation copies nothing.
//
// A concatenation's operands are written where its result has them. Its result may be an operand of
// a larger one in turn, and an operand one of several, as features of a dense block are: all of
// them then lie in the largest.
// Test: backends/dnnl/test_concat.py.
#pragma once

#include <cstdint>
#include <vector>

namespace tvm::collage::onednn {

struct Buffer;

// A buffer and a byte of it, or of another where it is wanted.
struct BufferPlace {
  int buffer;
  int64_t begin;
};

// The buffer that this one lies in and that lies in none, and the byte where it does.
BufferPlace PlaceOf(const std::vector<Buffer>& buffers, int buffer);

// Puts buffers into `whole`, which is new, where that can be: `parts` says which holds the piece
// that begins at each byte, in order. One can that is in the arena, holds its piece and no more,
// and where neither another byte is asked for what lies in it already nor anything else is written.
// For each whether it lies there now; the others are as they were.
std::vector<bool> Nest(std::vector<Buffer>* buffers, int whole,
                       const std::vector<BufferPlace>& parts);

}  // namespace tvm::collage::onednn
