//===- Llama8B.h - The sizes of Llama-3.1-8B ------------------------------===//
#ifndef CLEAVE_TEST_LIB_COST_LLAMA8B_H
#define CLEAVE_TEST_LIB_COST_LLAMA8B_H

#include "cleave/Cost/Architecture.h"

namespace cleave::test {

inline Architecture makeLlama8B(int64_t blocks = 32) {
  Architecture model;
  model.hidden = 4096;
  model.vocab = 128256;
  Block block;
  block.heads = 32;
  block.kvHeads = 8;
  block.headDim = block.valueDim = 128;
  block.ffn = 14336;
  model.blocks = {{block, blocks}};
  return model;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_LIB_COST_LLAMA8B_H
