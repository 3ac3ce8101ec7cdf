//===- CudnnTest.cpp - What is said of cuDNN, and where it is not used ----===//
#include "runtime/cuda/CudnnAttention.h"
#include "gtest/gtest.h"
#include <cstdlib>
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#define CLEAVE_HAS_CUDNN 1
#endif

using namespace cleave;
using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

//===----------------------------------------------------------------------===//
// Numbers and prototypes
//===----------------------------------------------------------------------===//

#ifdef CLEAVE_HAS_CUDNN
namespace {

/// How CudnnApi.h writes a type of the library's.
template <typename T>
struct Ours {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <>
struct Ours<cudnnHandle_t> {
  using Type = void *;
};
template <>
struct Ours<cudaStream_t> {
  using Type = void *;
};
template <typename T>
struct Ours<T *> {
  using Type = typename Ours<T>::Type *;
};
template <>
struct Ours<cudnnHandle_t *> {
  using Type = void **;
};

template <typename T>
struct Signature;
template <typename Result, typename... Args>
struct Signature<Result(Args...)> {
  using Type = typename Ours<Result>::Type (*)(typename Ours<Args>::Type...);
};

#define CLEAVE_SAME(name, symbol, ...)                                         \
  static_assert(std::is_same_v<Signature<decltype(::symbol)>::Type,            \
                               decltype(CudnnApi::name)>);
CLEAVE_CUDNN_CALLS(CLEAVE_SAME)
CLEAVE_SAME(getVersion, cudnnGetVersion)
CLEAVE_SAME(getErrorString, cudnnGetErrorString)
CLEAVE_SAME(getLastErrorString, cudnnGetLastErrorString)
#undef CLEAVE_SAME

#define CLEAVE_EQUAL(ours, theirs)                                             \
  static_assert(int(cudnn::ours) == int(::theirs));
CLEAVE_EQUAL(dataF32, CUDNN_DATA_FLOAT)
CLEAVE_EQUAL(dataI32, CUDNN_DATA_INT32)
CLEAVE_EQUAL(dataBF16, CUDNN_DATA_BFLOAT16)
CLEAVE_EQUAL(dataBool, CUDNN_DATA_BOOLEAN)
CLEAVE_EQUAL(pointwiseAdd, CUDNN_POINTWISE_ADD)
CLEAVE_EQUAL(pointwiseMul, CUDNN_POINTWISE_MUL)
CLEAVE_EQUAL(pointwiseDiv, CUDNN_POINTWISE_DIV)
CLEAVE_EQUAL(pointwiseSub, CUDNN_POINTWISE_SUB)
CLEAVE_EQUAL(pointwiseExp, CUDNN_POINTWISE_EXP)
CLEAVE_EQUAL(pointwiseLog, CUDNN_POINTWISE_LOG)
CLEAVE_EQUAL(pointwiseIdentity, CUDNN_POINTWISE_IDENTITY)
CLEAVE_EQUAL(pointwiseGreater, CUDNN_POINTWISE_CMP_GT)
CLEAVE_EQUAL(pointwiseGreaterEqual, CUDNN_POINTWISE_CMP_GE)
CLEAVE_EQUAL(pointwiseIndex, CUDNN_POINTWISE_GEN_INDEX)
CLEAVE_EQUAL(pointwiseSelect, CUDNN_POINTWISE_BINARY_SELECT)
CLEAVE_EQUAL(reduceAdd, CUDNN_REDUCE_TENSOR_ADD)
CLEAVE_EQUAL(reduceMax, CUDNN_REDUCE_TENSOR_MAX)
CLEAVE_EQUAL(heuristicModeA, CUDNN_HEUR_MODE_A)
CLEAVE_EQUAL(descPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
CLEAVE_EQUAL(descEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
CLEAVE_EQUAL(descHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
CLEAVE_EQUAL(descPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
CLEAVE_EQUAL(descOperationPointwise,
             CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
CLEAVE_EQUAL(descGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
CLEAVE_EQUAL(descVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
CLEAVE_EQUAL(descTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
CLEAVE_EQUAL(descMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR)
CLEAVE_EQUAL(descOperationMatmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
CLEAVE_EQUAL(descReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
CLEAVE_EQUAL(descOperationReduction,
             CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
CLEAVE_EQUAL(descOperationReshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
CLEAVE_EQUAL(typeHandle, CUDNN_TYPE_HANDLE)
CLEAVE_EQUAL(typeDataType, CUDNN_TYPE_DATA_TYPE)
CLEAVE_EQUAL(typeBool, CUDNN_TYPE_BOOLEAN)
CLEAVE_EQUAL(typeInt64, CUDNN_TYPE_INT64)
CLEAVE_EQUAL(typePointer, CUDNN_TYPE_VOID_PTR)
CLEAVE_EQUAL(typeHeuristicMode, CUDNN_TYPE_HEUR_MODE)
CLEAVE_EQUAL(typePointwiseMode, CUDNN_TYPE_POINTWISE_MODE)
CLEAVE_EQUAL(typeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
CLEAVE_EQUAL(typeReduceMode, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
CLEAVE_EQUAL(typeChar, CUDNN_TYPE_CHAR)
CLEAVE_EQUAL(attrPointwiseMode, CUDNN_ATTR_POINTWISE_MODE)
CLEAVE_EQUAL(attrPointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC)
CLEAVE_EQUAL(attrPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS)
CLEAVE_EQUAL(attrHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE)
CLEAVE_EQUAL(attrHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
CLEAVE_EQUAL(attrHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS)
CLEAVE_EQUAL(attrPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
CLEAVE_EQUAL(attrPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
CLEAVE_EQUAL(attrPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
CLEAVE_EQUAL(attrOperationPointwise,
             CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
CLEAVE_EQUAL(attrOperationPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
CLEAVE_EQUAL(attrOperationPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
CLEAVE_EQUAL(attrOperationPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
CLEAVE_EQUAL(attrOperationPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
CLEAVE_EQUAL(attrGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
CLEAVE_EQUAL(attrGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
CLEAVE_EQUAL(attrTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
CLEAVE_EQUAL(attrTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE)
CLEAVE_EQUAL(attrTensorDims, CUDNN_ATTR_TENSOR_DIMENSIONS)
CLEAVE_EQUAL(attrTensorStrides, CUDNN_ATTR_TENSOR_STRIDES)
CLEAVE_EQUAL(attrTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID)
CLEAVE_EQUAL(attrTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL)
CLEAVE_EQUAL(attrTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
CLEAVE_EQUAL(attrVariantIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
CLEAVE_EQUAL(attrVariantPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
CLEAVE_EQUAL(attrVariantWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
CLEAVE_EQUAL(attrMatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE)
CLEAVE_EQUAL(attrOperationMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC)
CLEAVE_EQUAL(attrOperationMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC)
CLEAVE_EQUAL(attrOperationMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC)
CLEAVE_EQUAL(attrOperationMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC)
CLEAVE_EQUAL(attrReductionMode, CUDNN_ATTR_REDUCTION_OPERATOR)
CLEAVE_EQUAL(attrReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE)
CLEAVE_EQUAL(attrOperationReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
CLEAVE_EQUAL(attrOperationReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
CLEAVE_EQUAL(attrOperationReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
CLEAVE_EQUAL(attrOperationReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)
CLEAVE_EQUAL(attrOperationReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)
#if CUDNN_VERSION >= 90800
CLEAVE_EQUAL(descDevice, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
CLEAVE_EQUAL(attrHeuristicDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
CLEAVE_EQUAL(attrDeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
#endif
#undef CLEAVE_EQUAL

} // namespace
#endif // CLEAVE_HAS_CUDNN

//===----------------------------------------------------------------------===//
// Where it is not used
//===----------------------------------------------------------------------===//

namespace {

constexpr cleave::cuda::AttentionSizes sizes = {1, 64, 2, 2, 64, 0, 0.125f, 0};

class CudnnAttentionsTest : public testing::Test {
protected:
  void TearDown() override { unsetenv("CLEAVE_ATTENTION"); }

  CudnnAttentions attentions;
  const CudnnAttention *found = nullptr;
};

} // namespace

TEST(CudnnTest, Versions) {
  for (size_t version : {90600, 90900, 91002, 91300, 91401, 91900, 92800})
    EXPECT_TRUE(Cudnn::checkVersion(version).ok()) << version;
  for (size_t version : {91000, 91001, 91400})
    EXPECT_FALSE(Cudnn::checkVersion(version).ok()) << version;
  EXPECT_EQ(Cudnn::checkVersion(90501).message(),
            "cuDNN 9.5.1 is too old, expects 9.6 or later");
  EXPECT_EQ(Cudnn::checkVersion(91001).message(),
            "the attention of cuDNN 9.10.1 is known to be wrong");
}

TEST_F(CudnnAttentionsTest, OwnKernelsByChoice) {
  setenv("CLEAVE_ATTENTION", "own", 1);
  EXPECT_EQ(attentions.describe(), "");
  EXPECT_TRUE(attentions.find(sizes, true, false, UINT64_MAX, found).ok());
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(attentions.describe(), "own kernels (CLEAVE_ATTENTION is own)");
}

// Nothing has opened a driver here.
TEST_F(CudnnAttentionsTest, OwnKernelsWithoutADriver) {
  EXPECT_TRUE(attentions.find(sizes, true, true, UINT64_MAX, found).ok());
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(attentions.describe(),
            "own kernels (the CUDA driver has no cuGetProcAddress_v2)");
}

TEST_F(CudnnAttentionsTest, CudnnByChoiceIsMissed) {
  setenv("CLEAVE_ATTENTION", "cudnn", 1);
  Status status = attentions.find(sizes, true, false, UINT64_MAX, found);
  EXPECT_EQ(status.message(),
            "cuDNN cannot compute this attention, and the environment variable "
            "CLEAVE_ATTENTION is \"cudnn\": the CUDA driver has no "
            "cuGetProcAddress_v2");
}

TEST_F(CudnnAttentionsTest, UnknownChoice) {
  setenv("CLEAVE_ATTENTION", "cuDNN", 1);
  Status status = attentions.find(sizes, true, false, UINT64_MAX, found);
  EXPECT_EQ(status.message(),
            "the environment variable CLEAVE_ATTENTION is \"cuDNN\", expects "
            "\"own\", \"cudnn\" or \"auto\"");
}
