//===- CublasLt.cpp -------------------------------------------------------===//
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/Library.h"
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
namespace fb = cleave::program;

#define CLEAVE_CUBLASLT(library, call)                                         \
  CLEAVE_RETURN_IF_ERROR(                                                      \
      (library).check((library).api.call, #call, __FILE__, __LINE__))

//===----------------------------------------------------------------------===//
// Library
//===----------------------------------------------------------------------===//

/// A status by its name, with what it means and what to do.
static const char *describeStatus(int result) {
  switch (result) {
  case statusNotInitialized:
    return "CUBLAS_STATUS_NOT_INITIALIZED, the library cannot start; the "
           "driver may be older than it: `nvidia-smi` shows up to which CUDA "
           "the driver goes";
  case statusAllocFailed:
    return "CUBLAS_STATUS_ALLOC_FAILED, memory is used up; a smaller "
           "micro-batch takes less";
  case statusInvalidValue:
    return "CUBLAS_STATUS_INVALID_VALUE, it does not take such a product; "
           "another version of the library may";
  case statusArchMismatch:
    return "CUBLAS_STATUS_ARCH_MISMATCH, it has nothing for this GPU; a newer "
           "version of the library may";
  case statusExecutionFailed:
    return "CUBLAS_STATUS_EXECUTION_FAILED, a kernel could not be launched, or "
           "one before it failed; the kernel's Xid messages say more";
  case statusNotSupported:
    return "CUBLAS_STATUS_NOT_SUPPORTED, it has no kernel for such a product; "
           "another version of the library may";
  default:
    return "an error within the library; another version may not have it";
  }
}

static constexpr EntryName entryNames[] = {
#define CLEAVE_NAME(name, symbol, ...) {#name, #symbol},
    CLEAVE_CUBLASLT_CALLS(CLEAVE_NAME)
#undef CLEAVE_NAME
};

Status CublasLt::check(int result, const char *call, const char *file,
                       int line) const {
  if (result == success)
    return Status();
  return Status::error(describeFailure(call, entryNames, file, line) +
                       "status " + std::to_string(result) + " of cuBLASLt " +
                       std::to_string(version) + ": " + describeStatus(result));
}

Status CublasLt::load(int driverVersion) {
  std::array names = fileNames;
  if (driverVersion < 13000)
    std::swap(names[0], names[1]);
  void *library = nullptr;
  for (const char *name : names)
    if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)))
      break;
  if (!library)
    return Status::error("cannot open " + std::string(fileNames[0]) + " or " +
                         fileNames[1] +
                         ", which computes matrix products on GPUs: install "
                         "cuBLAS of CUDA 12 or 13, or add its folder to "
                         "LD_LIBRARY_PATH (" +
                         dlerror() + ")");
  EntryFinder find(library);
  find(api.getVersion, "cublasLtGetVersion");
#define CLEAVE_FIND(name, symbol, ...) find(api.name, #symbol);
  CLEAVE_CUBLASLT_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
  if (find.getMissing())
    return Status::error("libcublasLt.so has no " +
                         std::string(find.getMissing()));
  version = api.getVersion();
  return Status();
}

Status CublasLt::open(int driverVersion, const CublasLt *&library) {
  static std::once_flag once;
  static CublasLt opened;
  static Status status;
  std::call_once(once, [&] { status = opened.load(driverVersion); });
  library = &opened;
  return status;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static int getDataType(fb::DType type) {
  return type == fb::DType::BF16 ? dataBF16 : dataF32;
}

std::string cuda::toString(const MatmulShape &shape) {
  auto matrix = [](int64_t rows, int64_t columns, bool isTransposed) {
    return "[" + std::to_string(rows) + "," + std::to_string(columns) + "]" +
           (isTransposed ? "^T" : "");
  };
  return (shape.transA ? matrix(shape.k, shape.m, true)
                       : matrix(shape.m, shape.k, false)) +
         " x " +
         (shape.transB ? matrix(shape.n, shape.k, true)
                       : matrix(shape.k, shape.n, false)) +
         ", " + fb::EnumNameDType(shape.typeAB) + " -> " +
         fb::EnumNameDType(shape.typeC) + (shape.hasBias ? ", bias" : "");
}

std::string cuda::toString(const MatmulAlgo &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016" PRIx64, word);
    text += digits;
  }
  return text;
}

bool cuda::parse(std::string_view text, MatmulAlgo &algorithm) {
  MatmulAlgo read{};
  if (text.size() != matmulAlgoDigits)
    return false;
  for (uint64_t &word : read.data) {
    constexpr size_t digits = 2 * sizeof(word);
    const char *begin = text.data(), *end = begin + digits;
    auto [stopped, error] = std::from_chars(begin, end, word, 16);
    if (error != std::errc() || stopped != end)
      return false;
    text.remove_prefix(digits);
  }
  algorithm = read;
  return true;
}

Status Matmul::create(const CublasLt &library, void *handle,
                      const MatmulShape &shape, std::unique_ptr<Matmul> &made) {
  std::unique_ptr<Matmul> result(new Matmul(library, handle, shape));
  CLEAVE_CUBLASLT(library,
                  descCreate(&result->description, computeF32, dataF32));
  auto set = [&](int attribute, const auto &value) -> Status {
    CLEAVE_CUBLASLT(library, descSet(result->description, attribute, &value,
                                     sizeof(value)));
    return Status();
  };
  int ofB = shape.transB ? operationT : operationN;
  int ofA = shape.transA ? operationT : operationN;
  CLEAVE_RETURN_IF_ERROR(set(descTransA, ofB));
  CLEAVE_RETURN_IF_ERROR(set(descTransB, ofA));
  if (shape.hasBias) {
    CLEAVE_RETURN_IF_ERROR(set(descEpilogue, epilogueBias));
    CLEAVE_RETURN_IF_ERROR(set(descBiasType, getDataType(shape.typeC)));
  }
  // In memory: rows that are contiguous are columns.
  auto layOut = [&](void **layout, fb::DType type, int64_t rows,
                    int64_t columns, bool isTransposed) -> Status {
    if (isTransposed)
      std::swap(rows, columns);
    CLEAVE_CUBLASLT(library,
                    layoutCreate(layout, getDataType(type), uint64_t(columns),
                                 uint64_t(rows), columns));
    return Status();
  };
  CLEAVE_RETURN_IF_ERROR(
      layOut(&result->layoutA, shape.typeAB, shape.m, shape.k, shape.transA));
  CLEAVE_RETURN_IF_ERROR(
      layOut(&result->layoutB, shape.typeAB, shape.k, shape.n, shape.transB));
  CLEAVE_RETURN_IF_ERROR(
      layOut(&result->layoutC, shape.typeC, shape.m, shape.n, false));
  made = std::move(result);
  return Status();
}

Matmul::~Matmul() {
  for (void *layout : {layoutA, layoutB, layoutC})
    if (layout)
      library.api.layoutDestroy(layout);
  if (description)
    library.api.descDestroy(description);
}

Status Matmul::findAlgorithms(size_t workspaceBytes, int most,
                              std::vector<MatmulAlgo> &found) {
  void *preference = nullptr;
  CLEAVE_CUBLASLT(library, preferenceCreate(&preference));
  struct Guard {
    const CublasLt &library;
    void *preference;
    ~Guard() { library.api.preferenceDestroy(preference); }
  } guard{library, preference};
  CLEAVE_CUBLASLT(library,
                  preferenceSet(preference, preferenceMaxWorkspace,
                                &workspaceBytes, sizeof(workspaceBytes)));
  // Without it an algorithm may count on 256 bytes.
  for (int attribute : preferenceMinAlignment)
    CLEAVE_CUBLASLT(library,
                    preferenceSet(preference, attribute, &matmulAlignment,
                                  sizeof(matmulAlignment)));
  std::vector<MatmulHeuristic> results{size_t(most)};
  int count = 0;
  int status = library.api.getHeuristic(handle, description, layoutB, layoutA,
                                        layoutC, layoutC, preference, most,
                                        results.data(), &count);
  found.clear();
  for (int i = 0; status == success && i < count; ++i)
    if (results[size_t(i)].state == success)
      found.push_back(results[size_t(i)].algo);
  if (found.empty())
    return Status::error(
        "cuBLASLt " + std::to_string(library.getVersion()) +
        " has no algorithm for the product " + toString(shape) + ": " +
        (status == success ? "it finds none" : describeStatus(status)));
  return Status();
}

Status Matmul::checkAlgorithm(const MatmulAlgo &algorithm,
                              size_t workspaceBytes) const {
  MatmulHeuristic result{};
  CLEAVE_CUBLASLT(library, checkAlgo(handle, description, layoutB, layoutA,
                                     layoutC, layoutC, &algorithm, &result));
  if (result.workspaceBytes > workspaceBytes)
    return Status::error("it takes " + std::to_string(result.workspaceBytes) +
                         " bytes of workspace, expects at most " +
                         std::to_string(workspaceBytes));
  return Status();
}

Status Matmul::run(const MatmulOperands &operands, Address workspace,
                   size_t workspaceBytes, void *stream) {
  if (shape.hasBias)
    CLEAVE_CUBLASLT(library, descSet(description, descBiasPointer,
                                     &operands.bias, sizeof(operands.bias)));
  const float one = 1, beta = operands.accumulate ? 1 : 0;
  CLEAVE_CUBLASLT(library,
                  matmul(handle, description, &one, toPointer(operands.b),
                         layoutB, toPointer(operands.a), layoutA, &beta,
                         toPointer(operands.c), layoutC, toPointer(operands.c),
                         layoutC, &algorithm, toPointer(workspace),
                         workspaceBytes, stream));
  return Status();
}
