//===- Kernels.h - What the runtime's own CUDA kernels are given ----------===//
//
// The kernels of this folder do on a GPU what runtime/cpu does on a CPU, for
// instructions that no generated kernel covers. Device code and host code both
// include this file, so it includes nothing but plain types.
//
// One instruction may take several launches; all of them get the same structure
// by value, as their only parameter.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_KERNELS_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_KERNELS_H

#include <stdint.h>

namespace cleave::cuda {

/// As cpu::EmbeddingArgs. Kernel `cleave_embedding_TABLE_OUT`, of types "f32"
/// and "bf16".
struct EmbeddingParams {
  int64_t rows, width, tableRows, first;
  const int32_t *ids;
  const void *table;
  void *out;
};

/// As cpu::EmbeddingGradArgs, with `scratch` of getEmbeddingGradScratch()
/// bytes. The last kernel is `cleave_embedding_grad_DOUT_DTABLE`.
struct EmbeddingGradParams {
  int64_t rows, width, tableRows, first;
  const int32_t *ids;
  const void *dout;
  void *dtable;
  void *scratch;
  int32_t accumulate;
};

/// out[i][0, bytes) = in[i * stride, + bytes) for i < outer. Kernel
/// `cleave_copy_rows`.
struct CopyRowsParams {
  int64_t outer, bytes, inStride, outStride; ///< in bytes
  const void *in;
  void *out;
};

/// out[i] = in[i] rounded to bf16. Kernel `cleave_convert_f32_bf16`.
struct ConvertParams {
  int64_t elements;
  const float *in;
  void *out;
};

/// out[i] of each output = reduction over the inputs in their order, in f32
/// where they are floats, as runtime::reduceInOrder. Kernel
/// `cleave_reduce_OP_TYPE`: of "sum" and "max", "f32", "bf16" and "i32".
struct ReduceParams {
  static constexpr int most = 64;
  int64_t elements;
  int32_t inputs, outputs;
  const void *in[most];
  void *out[most];
};

/// Moves `rows` rows of `bytes` bytes between buffers that each hold them in
/// groups: row r lies (r / rowsOfGroup) * groupStride + (r % rowsOfGroup) *
/// rowStride bytes from the start. Kernel `cleave_copy_parts`.
struct RowGroups {
  int64_t rowsOfGroup, rowStride, groupStride;
};
struct CopyPartsParams {
  int64_t rows, bytes;
  RowGroups inGroups, outGroups;
  const void *in;
  void *out;
};

/// As cpu::AttentionShape.
struct AttentionSizes {
  int64_t batch, seq, heads, kvHeads, headDim, window;
  float scale, softcap;
};

/// As cpu::AttentionArgs. Kernel `cleave_attention_TYPE`, where TYPE may be
/// followed by what the kernel is specialized for.
struct AttentionParams {
  AttentionSizes sizes;
  const void *q, *k, *v;
  void *out;
  float *lse;
};

/// As cpu::AttentionGradArgs, with `scratch` of getAttentionGradScratch()
/// bytes. The last kernel is `cleave_attention_grad_TYPE...`.
struct AttentionGradParams {
  AttentionSizes sizes;
  const void *q, *k, *v, *out;
  const float *lse;
  const void *dout;
  void *dq, *dk, *dv;
  void *scratch;
};

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_KERNELS_H
