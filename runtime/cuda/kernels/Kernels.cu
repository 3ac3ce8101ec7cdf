//===- Kernels.cu - All kernels of the runtime, as one module -------------===//
#include "runtime/cuda/kernels/Attention.cu"
#include "runtime/cuda/kernels/AttentionGrad.cu"
#include "runtime/cuda/kernels/AttentionPlain.cu"
#include "runtime/cuda/kernels/Collectives.cu"
#include "runtime/cuda/kernels/Embedding.cu"
#include "runtime/cuda/kernels/EmbeddingGrad.cu"
