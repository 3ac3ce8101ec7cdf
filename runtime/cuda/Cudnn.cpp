//===- Cudnn.cpp ----------------------------------------------------------===//
#include "runtime/cuda/Cudnn.h"
#include "runtime/cuda/Library.h"
#include <algorithm>
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::runtime::cuda::cudnn;

//===----------------------------------------------------------------------===//
// Library
//===----------------------------------------------------------------------===//

static constexpr EntryName entryNames[] = {
#define CLEAVE_NAME(name, symbol, ...) {#name, #symbol},
    CLEAVE_CUDNN_CALLS(CLEAVE_NAME)
#undef CLEAVE_NAME
};

Status Cudnn::check(int result, const char *call, const char *file,
                    int line) const {
  if (result == success)
    return Status();
  char details[1024] = {};
  api.getLastErrorString(details, sizeof details - 1);
  return Status::error(describeFailure(call, entryNames, file, line) +
                       api.getErrorString(result) + " (" +
                       std::to_string(result) + ")" + (details[0] ? ": " : "") +
                       details);
}

std::string Cudnn::getVersionText(size_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Status Cudnn::checkVersion(size_t version) {
  if (version < oldest)
    return Status::error("cuDNN " + getVersionText(version) +
                         " is too old, expects " + getVersionText(oldest) +
                         " or later");
  if (std::ranges::find(wrongVersions, version) != wrongVersions.end())
    return Status::error("the attention of cuDNN " + getVersionText(version) +
                         " is known to be wrong");
  return Status();
}

/// Whether libraries of CUDA can find their way about the driver: the CUDA
/// runtime that they have within asks for all entry points by this one. A
/// driver without it has only what this program calls.
static bool hasWholeDriver() {
  void *driver = dlopen(Driver::fileName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!driver)
    return false;
  bool has = dlsym(driver, "cuGetProcAddress_v2");
  dlclose(driver);
  return has;
}

Status Cudnn::load() {
  if (!hasWholeDriver())
    return Status::error("the CUDA driver has no cuGetProcAddress_v2");
  void *library = dlopen(fileName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(dlerror());
  EntryFinder find(library);
  find(api.getVersion, "cudnnGetVersion");
  find(api.getErrorString, "cudnnGetErrorString");
  find(api.getLastErrorString, "cudnnGetLastErrorString");
#define CLEAVE_FIND(name, symbol, ...) find(api.name, #symbol);
  CLEAVE_CUDNN_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
  if (find.getMissing())
    return Status::error(std::string(fileName) + " has no " +
                         find.getMissing());
  version = api.getVersion();
  return checkVersion(version);
}

void Cudnn::open(const Cudnn *&library, std::string &absence) {
  static std::once_flag once;
  static Cudnn opened;
  static Status status;
  std::call_once(once, [] { status = opened.load(); });
  library = status.ok() ? &opened : nullptr;
  absence = status.message();
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Status CudnnDescriptor::create(const Cudnn &library, DescriptorType type,
                               CudnnDescriptor &made) {
  CudnnDescriptor result;
  result.library = &library;
  CLEAVE_CUDNN(library, descriptorCreate(type, &result.handle));
  made = std::move(result);
  return Status();
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle)
    library->api.descriptorDestroy(handle);
}

Status CudnnDescriptor::set(Attribute attribute, ValueType type, int64_t count,
                            const void *values) {
  CLEAVE_CUDNN(*library, descriptorSet(handle, attribute, type, count, values));
  return Status();
}

Status CudnnDescriptor::finalize() {
  CLEAVE_CUDNN(*library, descriptorFinalize(handle));
  return Status();
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Status CudnnGraph::makeTensor(int64_t id, DataType type, const Dims &dims,
                              const Dims &strides, bool isVirtual,
                              bool isByValue, CudnnDescriptor &made) const {
  constexpr int64_t alignment = 16;
  CLEAVE_RETURN_IF_ERROR(CudnnDescriptor::create(library, descTensor, made));
  CLEAVE_RETURN_IF_ERROR(made.set(attrTensorType, typeDataType, int(type)));
  CLEAVE_RETURN_IF_ERROR(
      made.set(attrTensorDims, typeInt64, int64_t(dims.size()), dims.data()));
  CLEAVE_RETURN_IF_ERROR(made.set(attrTensorStrides, typeInt64,
                                  int64_t(strides.size()), strides.data()));
  CLEAVE_RETURN_IF_ERROR(made.set(attrTensorId, typeInt64, id));
  CLEAVE_RETURN_IF_ERROR(made.set(attrTensorAlignment, typeInt64, alignment));
  if (isVirtual)
    CLEAVE_RETURN_IF_ERROR(made.set(attrTensorIsVirtual, typeBool, true));
  if (isByValue)
    CLEAVE_RETURN_IF_ERROR(made.set(attrTensorIsByValue, typeBool, true));
  return made.finalize();
}

CudnnGraph::Tensor CudnnGraph::addTensor(int64_t id, DataType type,
                                         const Dims &dims, const Dims &strides,
                                         bool isVirtual, bool isByValue) {
  CudnnDescriptor made;
  attempt([&] {
    return makeTensor(id, type, dims, strides, isVirtual, isByValue, made);
  });
  parts.push_back(std::move(made));
  return parts.back().get();
}

CudnnGraph::Tensor CudnnGraph::addTensor(int64_t id, DataType type,
                                         const Dims &dims,
                                         const Dims &strides) {
  return addTensor(id, type, dims, strides, false, false);
}

CudnnGraph::Tensor CudnnGraph::addScalar(int64_t id, DataType type) {
  return addTensor(id, type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

CudnnGraph::Tensor CudnnGraph::addVirtual(DataType type, const Dims &dims) {
  return addVirtual(
      type, dims, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1});
}

CudnnGraph::Tensor CudnnGraph::addVirtual(DataType type, const Dims &dims,
                                          const Dims &strides) {
  return addTensor(++lastVirtual, type, dims, strides, true, false);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Status CudnnGraph::makeOperation(
    DescriptorType type,
    std::initializer_list<std::pair<Attribute, Tensor>> operands) {
  CudnnDescriptor made;
  CLEAVE_RETURN_IF_ERROR(CudnnDescriptor::create(library, type, made));
  for (const auto &[attribute, operand] : operands)
    if (operand)
      CLEAVE_RETURN_IF_ERROR(made.set(attribute, typeDescriptor, operand));
  CLEAVE_RETURN_IF_ERROR(made.finalize());
  operations.push_back(std::move(made));
  return Status();
}

void CudnnGraph::addMatmul(Tensor a, Tensor b, Tensor c) {
  attempt([&] {
    CudnnDescriptor matmul;
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(library, descMatmul, matmul));
    CLEAVE_RETURN_IF_ERROR(
        matmul.set(attrMatmulPrecision, typeDataType, int(dataF32)));
    CLEAVE_RETURN_IF_ERROR(matmul.finalize());
    parts.push_back(std::move(matmul));
    return makeOperation(descOperationMatmul,
                         {{attrOperationMatmulA, a},
                          {attrOperationMatmulB, b},
                          {attrOperationMatmulC, c},
                          {attrOperationMatmul, parts.back().get()}});
  });
}

Status CudnnGraph::addPointwise(CudnnDescriptor &pointwise, Tensor x, Tensor b,
                                Tensor y, Tensor t) {
  CLEAVE_RETURN_IF_ERROR(pointwise.finalize());
  parts.push_back(std::move(pointwise));
  return makeOperation(descOperationPointwise,
                       {{attrOperationPointwise, parts.back().get()},
                        {attrOperationPointwiseX, x},
                        {attrOperationPointwiseY, y},
                        {attrOperationPointwiseB, b},
                        {attrOperationPointwiseT, t}});
}

void CudnnGraph::addPointwise(PointwiseMode mode, Tensor x, Tensor b, Tensor y,
                              Tensor t) {
  bool compares = mode == pointwiseGreater || mode == pointwiseGreaterEqual;
  attempt([&] {
    CudnnDescriptor pointwise;
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(library, descPointwise, pointwise));
    CLEAVE_RETURN_IF_ERROR(
        pointwise.set(attrPointwiseMode, typePointwiseMode, int(mode)));
    CLEAVE_RETURN_IF_ERROR(pointwise.set(attrPointwisePrecision, typeDataType,
                                         int(compares ? dataBool : dataF32)));
    return addPointwise(pointwise, x, b, y, t);
  });
}

void CudnnGraph::addIndex(int64_t dim, Tensor x, Tensor y) {
  attempt([&] {
    CudnnDescriptor pointwise;
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(library, descPointwise, pointwise));
    CLEAVE_RETURN_IF_ERROR(pointwise.set(attrPointwiseMode, typePointwiseMode,
                                         int(pointwiseIndex)));
    CLEAVE_RETURN_IF_ERROR(
        pointwise.set(attrPointwisePrecision, typeDataType, int(dataF32)));
    CLEAVE_RETURN_IF_ERROR(pointwise.set(attrPointwiseAxis, typeInt64, dim));
    return addPointwise(pointwise, x, nullptr, y, nullptr);
  });
}

void CudnnGraph::addReduction(ReduceMode mode, Tensor x, Tensor y) {
  attempt([&] {
    CudnnDescriptor reduction;
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(library, descReduction, reduction));
    CLEAVE_RETURN_IF_ERROR(
        reduction.set(attrReductionPrecision, typeDataType, int(dataF32)));
    CLEAVE_RETURN_IF_ERROR(
        reduction.set(attrReductionMode, typeReduceMode, int(mode)));
    CLEAVE_RETURN_IF_ERROR(reduction.finalize());
    parts.push_back(std::move(reduction));
    return makeOperation(descOperationReduction,
                         {{attrOperationReduction, parts.back().get()},
                          {attrOperationReductionX, x},
                          {attrOperationReductionY, y}});
  });
}

void CudnnGraph::addReshape(Tensor x, Tensor y) {
  attempt([&] {
    return makeOperation(descOperationReshape, {{attrOperationReshapeX, x},
                                                {attrOperationReshapeY, y}});
  });
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

Status CudnnGraph::findConfigs(const CudnnTarget &target,
                               const CudnnDescriptor &graph,
                               std::vector<CudnnDescriptor> &configs) const {
  CudnnDescriptor heuristic;
  CLEAVE_RETURN_IF_ERROR(
      CudnnDescriptor::create(library, descHeuristic, heuristic));
  CLEAVE_RETURN_IF_ERROR(
      heuristic.set(attrHeuristicGraph, typeDescriptor, graph.get()));
  CLEAVE_RETURN_IF_ERROR(
      heuristic.set(attrHeuristicMode, typeHeuristicMode, int(heuristicModeA)));
  if (target.device)
    CLEAVE_RETURN_IF_ERROR(
        heuristic.set(attrHeuristicDevice, typeDescriptor, target.device));
  CLEAVE_RETURN_IF_ERROR(heuristic.finalize());
  int64_t count = 0;
  CLEAVE_CUDNN(library, descriptorGet(heuristic.get(), attrHeuristicResults,
                                      typeDescriptor, 0, &count, nullptr));
  std::vector<void *> handles;
  configs.resize(size_t(count));
  for (CudnnDescriptor &config : configs) {
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(library, descEngineConfig, config));
    handles.push_back(config.get());
  }
  CLEAVE_CUDNN(library, descriptorGet(heuristic.get(), attrHeuristicResults,
                                      typeDescriptor, count, &count,
                                      static_cast<void *>(handles.data())));
  configs.resize(size_t(count));
  return Status();
}

Status CudnnGraph::tryPlan(const CudnnTarget &target,
                           const CudnnDescriptor &config, CudnnPlan &plan) {
  const Cudnn &library = target.library;
  CudnnPlan made;
  CLEAVE_RETURN_IF_ERROR(CudnnDescriptor::create(library, descPlan, made.plan));
  if (target.handle)
    CLEAVE_RETURN_IF_ERROR(
        made.plan.set(attrPlanHandle, typeHandle, target.handle));
  CLEAVE_RETURN_IF_ERROR(
      made.plan.set(attrPlanConfig, typeDescriptor, config.get()));
  CLEAVE_RETURN_IF_ERROR(made.plan.finalize());
  int64_t count = 0, bytes = 0;
  CLEAVE_CUDNN(library, descriptorGet(made.plan.get(), attrPlanWorkspace,
                                      typeInt64, 1, &count, &bytes));
  made.workspaceBytes = uint64_t(bytes);
  plan = std::move(made);
  return Status();
}

Status CudnnGraph::build(const CudnnTarget &target, CudnnPlan &plan) {
  CLEAVE_RETURN_IF_ERROR(status);
  CudnnDescriptor graph;
  CLEAVE_RETURN_IF_ERROR(CudnnDescriptor::create(library, descGraph, graph));
  std::vector<void *> handles;
  for (const CudnnDescriptor &operation : operations)
    handles.push_back(operation.get());
  if (target.handle)
    CLEAVE_RETURN_IF_ERROR(
        graph.set(attrGraphHandle, typeHandle, target.handle));
  CLEAVE_RETURN_IF_ERROR(
      graph.set(attrGraphOperations, typeDescriptor, handles));
  CLEAVE_RETURN_IF_ERROR(graph.finalize());
  std::vector<CudnnDescriptor> configs;
  CLEAVE_RETURN_IF_ERROR(findConfigs(target, graph, configs));
  Status result = Status::error("cuDNN knows no engine");
  for (const CudnnDescriptor &config : configs)
    if (result = tryPlan(target, config, plan); result.ok())
      break;
  return result;
}

Status CudnnPlan::run(const CudnnTarget &target,
                      const std::vector<int64_t> &ids,
                      const std::vector<const void *> &pointers,
                      Address workspace) const {
  const Cudnn &library = target.library;
  CudnnDescriptor pack;
  CLEAVE_RETURN_IF_ERROR(
      CudnnDescriptor::create(library, descVariantPack, pack));
  CLEAVE_RETURN_IF_ERROR(pack.set(attrVariantPointers, typePointer, pointers));
  CLEAVE_RETURN_IF_ERROR(pack.set(attrVariantIds, typeInt64, ids));
  CLEAVE_RETURN_IF_ERROR(
      pack.set(attrVariantWorkspace, typePointer, toPointer(workspace)));
  CLEAVE_RETURN_IF_ERROR(pack.finalize());
  CLEAVE_CUDNN(library, execute(target.handle, plan.get(), pack.get()));
  return Status();
}
