//===- CublasLt.cpp - CublasLtApi.h, held to cublasLt.h -------------------===//
#include "runtime/cuda/CublasLtApi.h"
#include "test/runtime/cuda/prototypes/Prototypes.h"
#include <cublasLt.h>

namespace cleave::prototypes {
template <>
struct Passed<cublasLtMatmulAlgo_t> {
  using Type = runtime::cuda::MatmulAlgo;
};
template <>
struct Passed<runtime::cuda::MatmulAlgo> {
  using Type = runtime::cuda::MatmulAlgo;
};
template <>
struct Passed<cublasLtMatmulHeuristicResult_t> {
  using Type = runtime::cuda::MatmulHeuristic;
};
template <>
struct Passed<runtime::cuda::MatmulHeuristic> {
  using Type = runtime::cuda::MatmulHeuristic;
};
} // namespace cleave::prototypes

#define CLEAVE_EXPECT(name, symbol, ...)                                       \
  CLEAVE_EXPECT_PROTOTYPE(CublasLtApi, name, symbol);
CLEAVE_CUBLASLT_CALLS(CLEAVE_EXPECT)
#undef CLEAVE_EXPECT
CLEAVE_EXPECT_PROTOTYPE(CublasLtApi, getVersion, cublasLtGetVersion);

CLEAVE_EXPECT_SIZE(MatmulAlgo, cublasLtMatmulAlgo_t);
CLEAVE_EXPECT_MEMBER(MatmulAlgo, data, cublasLtMatmulAlgo_t, data);
CLEAVE_EXPECT_SIZE(MatmulHeuristic, cublasLtMatmulHeuristicResult_t);
CLEAVE_EXPECT_MEMBER(MatmulHeuristic, algo, cublasLtMatmulHeuristicResult_t,
                     algo);
CLEAVE_EXPECT_MEMBER(MatmulHeuristic, workspaceBytes,
                     cublasLtMatmulHeuristicResult_t, workspaceSize);
CLEAVE_EXPECT_MEMBER(MatmulHeuristic, state, cublasLtMatmulHeuristicResult_t,
                     state);
CLEAVE_EXPECT_MEMBER(MatmulHeuristic, wavesCount,
                     cublasLtMatmulHeuristicResult_t, wavesCount);
CLEAVE_EXPECT_MEMBER(MatmulHeuristic, reserved, cublasLtMatmulHeuristicResult_t,
                     reserved);

CLEAVE_EXPECT_NUMBER(statusNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
CLEAVE_EXPECT_NUMBER(statusAllocFailed, CUBLAS_STATUS_ALLOC_FAILED);
CLEAVE_EXPECT_NUMBER(statusInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
CLEAVE_EXPECT_NUMBER(statusArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
CLEAVE_EXPECT_NUMBER(statusExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
CLEAVE_EXPECT_NUMBER(statusNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(CUBLAS_STATUS_SUCCESS == 0);
CLEAVE_EXPECT_NUMBER(dataF32, CUDA_R_32F);
CLEAVE_EXPECT_NUMBER(dataBF16, CUDA_R_16BF);
CLEAVE_EXPECT_NUMBER(computeF32, CUBLAS_COMPUTE_32F);
CLEAVE_EXPECT_NUMBER(operationN, CUBLAS_OP_N);
CLEAVE_EXPECT_NUMBER(operationT, CUBLAS_OP_T);
CLEAVE_EXPECT_NUMBER(descTransA, CUBLASLT_MATMUL_DESC_TRANSA);
CLEAVE_EXPECT_NUMBER(descTransB, CUBLASLT_MATMUL_DESC_TRANSB);
CLEAVE_EXPECT_NUMBER(descEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
CLEAVE_EXPECT_NUMBER(descBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
CLEAVE_EXPECT_NUMBER(descBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
CLEAVE_EXPECT_NUMBER(epilogueDefault, CUBLASLT_EPILOGUE_DEFAULT);
CLEAVE_EXPECT_NUMBER(epilogueBias, CUBLASLT_EPILOGUE_BIAS);
CLEAVE_EXPECT_NUMBER(preferenceMaxWorkspace,
                     CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
CLEAVE_EXPECT_NUMBER(preferenceMinAlignment[0],
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
CLEAVE_EXPECT_NUMBER(preferenceMinAlignment[1],
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
CLEAVE_EXPECT_NUMBER(preferenceMinAlignment[2],
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
CLEAVE_EXPECT_NUMBER(preferenceMinAlignment[3],
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
