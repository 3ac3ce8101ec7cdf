//===- CudnnApi.h - What is called of cuDNN -------------------------------===//
//
// libcudnn.so.9 is opened when a program runs. As in DriverApi.h: our name, the
// library's symbol, and its parameters as cudnn_graph.h declares them.
// cudnnStatus_t and all enumerations are int; the handle, descriptors and
// streams are pointers.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUDNNAPI_H
#define CLEAVE_RUNTIME_CUDA_CUDNNAPI_H

#include <cstddef>
#include <cstdint>

namespace cleave::runtime::cuda {

namespace cudnn {

// cudnnDataType_t
enum DataType { dataF32 = 0, dataI32 = 4, dataBF16 = 9, dataBool = 11 };
// cudnnPointwiseMode_t
enum PointwiseMode {
  pointwiseAdd = 0,
  pointwiseMul = 1,
  pointwiseDiv = 6,
  pointwiseSub = 9,
  pointwiseExp = 13,
  pointwiseLog = 15,
  pointwiseIdentity = 21,
  pointwiseGreater = 302,
  pointwiseGreaterEqual = 303,
  pointwiseIndex = 501,
  pointwiseSelect = 601
};
// cudnnReduceTensorOp_t
enum ReduceMode { reduceAdd = 0, reduceMax = 3 };
// cudnnBackendHeurMode_t
enum HeuristicMode { heuristicModeA = 3 };

// cudnnBackendDescriptorType_t
enum DescriptorType {
  descPointwise = 0,
  descEngineConfig = 3,
  descHeuristic = 4,
  descPlan = 5,
  descOperationPointwise = 13,
  descGraph = 15,
  descVariantPack = 16,
  descTensor = 17,
  descMatmul = 18,
  descOperationMatmul = 19,
  descReduction = 21,
  descOperationReduction = 22,
  descOperationReshape = 31,
  descDevice = 38
};

// cudnnBackendAttributeType_t
enum ValueType {
  typeHandle = 0,
  typeDataType = 1,
  typeBool = 2,
  typeInt64 = 3,
  typePointer = 6,
  typeHeuristicMode = 8,
  typePointwiseMode = 14,
  typeDescriptor = 15,
  typeReduceMode = 18,
  typeChar = 24
};

// cudnnBackendAttributeName_t
enum Attribute {
  attrPointwiseMode = 0,
  attrPointwisePrecision = 1,
  attrPointwiseAxis = 9,
  attrHeuristicMode = 200,
  attrHeuristicGraph = 201,
  attrHeuristicResults = 202,
  attrHeuristicDevice = 204,
  attrPlanHandle = 400,
  attrPlanConfig = 401,
  attrPlanWorkspace = 402,
  attrOperationPointwise = 750,
  attrOperationPointwiseX = 751,
  attrOperationPointwiseB = 752,
  attrOperationPointwiseY = 753,
  attrOperationPointwiseT = 758,
  attrGraphHandle = 800,
  attrGraphOperations = 801,
  attrTensorAlignment = 900,
  attrTensorType = 901,
  attrTensorDims = 902,
  attrTensorStrides = 903,
  attrTensorId = 906,
  attrTensorIsVirtual = 907,
  attrTensorIsByValue = 908,
  attrVariantIds = 1000,
  attrVariantPointers = 1001,
  attrVariantWorkspace = 1003,
  attrMatmulPrecision = 1500,
  attrOperationMatmulA = 1520,
  attrOperationMatmulB = 1521,
  attrOperationMatmulC = 1522,
  attrOperationMatmul = 1523,
  attrReductionMode = 1600,
  attrReductionPrecision = 1601,
  attrOperationReductionX = 1610,
  attrOperationReductionY = 1611,
  attrOperationReduction = 1612,
  attrOperationReshapeX = 2200,
  attrOperationReshapeY = 2201,
  attrDeviceJson = 2702
};

} // namespace cudnn

#define CLEAVE_CUDNN_CALLS(X)                                                  \
  X(create, cudnnCreate, void **)                                              \
  X(destroy, cudnnDestroy, void *)                                             \
  X(setStream, cudnnSetStream, void *, void *)                                 \
  X(descriptorCreate, cudnnBackendCreateDescriptor, int, void **)              \
  X(descriptorDestroy, cudnnBackendDestroyDescriptor, void *)                  \
  X(descriptorFinalize, cudnnBackendFinalize, void *)                          \
  X(descriptorSet, cudnnBackendSetAttribute, void *, int, int, int64_t,        \
    const void *)                                                              \
  X(descriptorGet, cudnnBackendGetAttribute, void *, int, int, int64_t,        \
    int64_t *, void *)                                                         \
  X(execute, cudnnBackendExecute, void *, void *, void *)

/// The entry points of an opened library, by our names.
struct CudnnApi {
  size_t (*getVersion)() = nullptr;                     ///< cudnnGetVersion
  const char *(*getErrorString)(int) = nullptr;         ///< cudnnGetErrorString
  void (*getLastErrorString)(char *, size_t) = nullptr; ///< of the same name
#define CLEAVE_DECLARE(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  CLEAVE_CUDNN_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUDNNAPI_H
