//===- CublasLtApi.h - What is called of cuBLASLt -------------------------===//
//
// libcublasLt.so.13 or .12 is opened when a program runs. As in DriverApi.h:
// our name, the library's symbol, and its parameters as cublasLt.h declares
// them. cublasStatus_t and all enumerations are int; the handle, descriptors,
// layouts and preferences are pointers.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUBLASLTAPI_H
#define CLEAVE_RUNTIME_CUDA_CUBLASLTAPI_H

#include <cstddef>
#include <cstdint>

namespace cleave::runtime::cuda {

// cublasStatus_t; success is 0, as the driver's.
constexpr int statusNotInitialized = 1, statusAllocFailed = 3,
              statusInvalidValue = 7, statusArchMismatch = 8,
              statusExecutionFailed = 13, statusNotSupported = 15;
// cudaDataType, cublasComputeType_t, cublasOperation_t
constexpr int dataF32 = 0, dataBF16 = 14, computeF32 = 68, operationN = 0,
              operationT = 1;
// cublasLtMatmulDescAttributes_t
constexpr int descTransA = 3, descTransB = 4, descEpilogue = 7,
              descBiasPointer = 8, descBiasType = 26;
// cublasLtEpilogue_t: none, and the bias of each row of a column-major D.
constexpr int epilogueDefault = 1, epilogueBias = 4;
// cublasLtMatmulPreferenceAttributes_t
constexpr int preferenceMaxWorkspace = 1;
/// Of A, B, C and D, in bytes.
constexpr int preferenceMinAlignment[] = {5, 6, 7, 8};

/// cublasLtMatmulAlgo_t
struct MatmulAlgo {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t
struct MatmulHeuristic {
  MatmulAlgo algo;
  size_t workspaceBytes;
  int state; ///< a status: 0 where the algorithm can be used
  float wavesCount;
  int reserved[4];
};

#define CLEAVE_CUBLASLT_CALLS(X)                                               \
  X(create, cublasLtCreate, void **)                                           \
  X(destroy, cublasLtDestroy, void *)                                          \
  X(descCreate, cublasLtMatmulDescCreate, void **, int, int)                   \
  X(descDestroy, cublasLtMatmulDescDestroy, void *)                            \
  X(descSet, cublasLtMatmulDescSetAttribute, void *, int, const void *,        \
    size_t)                                                                    \
  X(layoutCreate, cublasLtMatrixLayoutCreate, void **, int, uint64_t,          \
    uint64_t, int64_t)                                                         \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, void *)                        \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, void **)                 \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, void *)                \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, void *, int,          \
    const void *, size_t)                                                      \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic, void *, void *, void *,      \
    void *, void *, void *, void *, int, MatmulHeuristic *, int *)             \
  X(checkAlgo, cublasLtMatmulAlgoCheck, void *, void *, void *, void *,        \
    void *, void *, const MatmulAlgo *, MatmulHeuristic *)                     \
  X(matmul, cublasLtMatmul, void *, void *, const void *, const void *,        \
    void *, const void *, void *, const void *, const void *, void *, void *,  \
    void *, const MatmulAlgo *, void *, size_t, void *)

/// The entry points of an opened library, by our names.
struct CublasLtApi {
  size_t (*getVersion)() = nullptr; ///< cublasLtGetVersion
#define CLEAVE_DECLARE(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  CLEAVE_CUBLASLT_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUBLASLTAPI_H
