//===- Embedding.h - Table look-up, its gradient, and plain moves ---------===//
#ifndef CLEAVE_RUNTIME_CPU_EMBEDDING_H
#define CLEAVE_RUNTIME_CPU_EMBEDDING_H

#include "runtime/abi/Workspace.h"

namespace cleave::cpu {

class ThreadPool;

/// `out[r] = table[ids[r] - first]`, a row of zeros where the id is outside
/// [first, first + tableRows). Types f32 or bf16, converted where they differ.
struct EmbeddingArgs {
  int64_t rows, width, tableRows, first;
  ElementType typeTable, typeOut;
  const int32_t *ids; ///< [rows]
  const void *table;  ///< [tableRows, width]
  void *out;          ///< [rows, width]
};
void embedding(const EmbeddingArgs &args, ThreadPool &pool);

/// `dtable[ids[r] - first] += dout[r]` for r in order, ids outside left out;
/// the table is cleared first unless `accumulate`. Threads split the width, so
/// the sum does not depend on them. A bf16 dtable is rounded after each row.
struct EmbeddingGradArgs {
  int64_t rows, width, tableRows, first;
  ElementType typeDout, typeDtable;
  const int32_t *ids;
  const void *dout;
  void *dtable;
  bool accumulate;
};
void embeddingGrad(const EmbeddingGradArgs &args, ThreadPool &pool);

/// Zero bytes. As memset, on the pool's threads where that pays.
void fillZero(void *out, int64_t bytes, ThreadPool &pool);

/// in and out are the same buffer, or disjoint.
void copyBytes(const void *in, void *out, int64_t bytes, ThreadPool &pool);

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_EMBEDDING_H
