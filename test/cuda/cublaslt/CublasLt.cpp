//===- CublasLt.cpp - The entry points of the simulated cuBLASLt ----------===//
#include "runtime/cuda/CublasLtApi.h"
#include "test/cuda/cublaslt/Product.h"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <tuple>

using namespace cleave::simulated;
using cleave::runtime::cuda::MatmulAlgo;
using cleave::runtime::cuda::MatmulHeuristic;
namespace api = cleave::runtime::cuda;

#define CLEAVE_ENTRY extern "C" __attribute__((visibility("default")))

// As the product calls them: a definition with other parameters is an error,
// and so is the library's link without one.
extern "C" {
#define CLEAVE_DECLARE(name, symbol, ...) int symbol(__VA_ARGS__);
CLEAVE_CUBLASLT_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
}
namespace cleave::simulated {
extern const void *const cublasLtEntryPoints[];
#define CLEAVE_TAKE(name, symbol, ...) reinterpret_cast<const void *>(&symbol),
const void *const cublasLtEntryPoints[] = {CLEAVE_CUBLASLT_CALLS(CLEAVE_TAKE)};
#undef CLEAVE_TAKE
} // namespace cleave::simulated

namespace {

/// Every object that callers hold begins with its kind, so that one is not
/// taken for another.
enum class Kind : uint64_t {
  Handle = 0xC1EA7E01,
  Descriptor,
  Layout,
  Preference,
  Dead
};
struct Handle {
  Kind kind = Kind::Handle;
};
struct Descriptor {
  Kind kind = Kind::Descriptor;
  int transA = api::operationN, transB = api::operationN;
  int epilogue = api::epilogueDefault;
  int biasType = -1;
  Address bias = 0;
};
struct LayoutObject {
  Kind kind = Kind::Layout;
  Layout layout;
};
struct Preference {
  Kind kind = Kind::Preference;
  uint64_t maxWorkspace = 0;
  /// To how many bytes A, B, C and D are aligned, as algorithms may expect.
  uint32_t alignment[4] = {256, 256, 256, 256};
};

int report(int status, const char *call, const std::string &message) {
  std::fprintf(stderr, "simulated CUDA: %s: status %d: %s\n", call, status,
               message.c_str());
  return status;
}

/// Null where it is no object of that kind.
template <typename T>
T *get(const void *object) {
  auto *typed = static_cast<T *>(const_cast<void *>(object));
  return typed && typed->kind == T().kind ? typed : nullptr;
}

template <typename T>
int create(void **object) {
  *object = new T;
  return statusSuccess;
}

template <typename T>
int destroy(void *object, const char *call) {
  T *typed = get<T>(object);
  if (!typed)
    return report(statusInvalidValue, call, "no such object");
  typed->kind = Kind::Dead;
  delete typed;
  return statusSuccess;
}

/// The product that descriptor and layouts ask for. A status.
int describe(const char *call, const void *descriptor, const void *a,
             const void *b, const void *c, const void *d, Product &product) {
  const auto *found = get<Descriptor>(descriptor);
  if (!found)
    return report(statusInvalidValue, call, "no such descriptor");
  const void *objects[] = {a, b, c, d};
  Layout *layouts[] = {&product.a, &product.b, &product.c, &product.d};
  for (int i = 0; i < 4; ++i) {
    const auto *layout = get<LayoutObject>(objects[i]);
    if (!layout)
      return report(statusInvalidValue, call,
                    std::string("no layout of ") + "ABCD"[i]);
    *layouts[i] = layout->layout;
  }
  product.transA = found->transA == api::operationT;
  product.transB = found->transB == api::operationT;
  product.hasBias = found->epilogue == api::epilogueBias;
  product.biasType = found->biasType;
  std::string why;
  int status = product.check(why);
  return status == statusSuccess ? status : report(status, call, why);
}

/// Algorithms differ in the workspace that they need, and are good for the
/// product that they were given for.
constexpr uint64_t workspaces[] = {0, 1 << 20, 4 << 20, 32 << 20};
constexpr uint64_t algoMagic = 0xC1EA7EA160;

// cublasLtMatmulPreferenceAttributes_t that the product does not set:
// CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES to ..._D_BYTES
constexpr int preferenceAlignmentA = 5, preferenceAlignmentD = 8;
/// The most bytes that an algorithm moves at once.
constexpr uint32_t widest = 16;

} // namespace

CLEAVE_ENTRY size_t cublasLtGetVersion() { return 130100; }

CLEAVE_ENTRY int cublasLtCreate(void **handle) {
  return create<Handle>(handle);
}
CLEAVE_ENTRY int cublasLtDestroy(void *handle) {
  return destroy<Handle>(handle, "cublasLtDestroy");
}

CLEAVE_ENTRY int cublasLtMatmulDescCreate(void **descriptor, int compute,
                                          int scale) {
  if (compute != api::computeF32 || scale != api::dataF32)
    return report(statusNotSupported, "cublasLtMatmulDescCreate",
                  "compute type " + std::to_string(compute) + ", scale type " +
                      std::to_string(scale));
  return create<Descriptor>(descriptor);
}
CLEAVE_ENTRY int cublasLtMatmulDescDestroy(void *descriptor) {
  return destroy<Descriptor>(descriptor, "cublasLtMatmulDescDestroy");
}

CLEAVE_ENTRY int cublasLtMatmulDescSetAttribute(void *descriptor, int attribute,
                                                const void *value,
                                                size_t bytes) {
  const char *call = "cublasLtMatmulDescSetAttribute";
  auto *found = get<Descriptor>(descriptor);
  if (!found || !value)
    return report(statusInvalidValue, call, "no descriptor, or no value");
  int *field = nullptr;
  switch (attribute) {
  case api::descTransA:
    field = &found->transA;
    break;
  case api::descTransB:
    field = &found->transB;
    break;
  case api::descEpilogue:
    field = &found->epilogue;
    break;
  case api::descBiasType:
    field = &found->biasType;
    break;
  case api::descBiasPointer:
    if (bytes != sizeof found->bias)
      return report(statusInvalidValue, call, "the size of the bias's address");
    std::memcpy(&found->bias, value, bytes);
    return statusSuccess;
  default:
    return report(statusInvalidValue, call,
                  "attribute " + std::to_string(attribute));
  }
  if (bytes != sizeof *field)
    return report(statusInvalidValue, call,
                  "attribute " + std::to_string(attribute) + " of " +
                      std::to_string(bytes) + " bytes");
  int read;
  std::memcpy(&read, value, sizeof read);
  bool isTranspose = field == &found->transA || field == &found->transB;
  if ((isTranspose && read != api::operationN && read != api::operationT) ||
      (field == &found->epilogue && read != api::epilogueDefault &&
       read != api::epilogueBias))
    return report(statusInvalidValue, call,
                  "attribute " + std::to_string(attribute) + " = " +
                      std::to_string(read));
  *field = read;
  return statusSuccess;
}

CLEAVE_ENTRY int cublasLtMatrixLayoutCreate(void **layout, int type,
                                            uint64_t rows, uint64_t columns,
                                            int64_t ld) {
  auto *created = new LayoutObject;
  created->layout = {type, rows, columns, ld};
  *layout = created;
  return statusSuccess;
}
CLEAVE_ENTRY int cublasLtMatrixLayoutDestroy(void *layout) {
  return destroy<LayoutObject>(layout, "cublasLtMatrixLayoutDestroy");
}

CLEAVE_ENTRY int cublasLtMatmulPreferenceCreate(void **preference) {
  return create<Preference>(preference);
}
CLEAVE_ENTRY int cublasLtMatmulPreferenceDestroy(void *preference) {
  return destroy<Preference>(preference, "cublasLtMatmulPreferenceDestroy");
}
CLEAVE_ENTRY int cublasLtMatmulPreferenceSetAttribute(void *preference,
                                                      int attribute,
                                                      const void *value,
                                                      size_t bytes) {
  auto *found = get<Preference>(preference);
  if (found && value && attribute == api::preferenceMaxWorkspace &&
      bytes == sizeof found->maxWorkspace) {
    std::memcpy(&found->maxWorkspace, value, bytes);
    return statusSuccess;
  }
  if (found && value && attribute >= preferenceAlignmentA &&
      attribute <= preferenceAlignmentD && bytes == sizeof(uint32_t)) {
    uint32_t alignment;
    std::memcpy(&alignment, value, bytes);
    if (std::has_single_bit(alignment)) {
      found->alignment[attribute - preferenceAlignmentA] = alignment;
      return statusSuccess;
    }
  }
  return report(statusInvalidValue, "cublasLtMatmulPreferenceSetAttribute",
                "attribute " + std::to_string(attribute) + " of " +
                    std::to_string(bytes) + " bytes");
}

CLEAVE_ENTRY int cublasLtMatmulAlgoGetHeuristic(
    void *handle, void *descriptor, void *a, void *b, void *c, void *d,
    void *preference, int requested, MatmulHeuristic *results, int *count) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  auto *wish = get<Preference>(preference);
  if (!get<Handle>(handle) || !wish || requested < 1 || !results || !count)
    return report(statusInvalidValue, call,
                  "no handle, no preference, or no room for results");
  *count = 0;
  Product product;
  if (int status = describe(call, descriptor, a, b, c, d, product))
    return status;
  for (uint64_t workspace : workspaces) {
    if (*count == requested || workspace > wish->maxWorkspace)
      break;
    MatmulHeuristic &result = results[*count];
    result = {};
    result.algo.data[0] = algoMagic;
    result.algo.data[1] = product.getHash();
    result.algo.data[2] = workspace;
    for (int i = 0; i < 4; ++i)
      result.algo.data[3 + i] = std::min(wish->alignment[i], widest);
    result.workspaceBytes = workspace;
    result.wavesCount = 1;
    ++*count;
  }
  return statusSuccess;
}

/// A status.
static int checkAlgo(const char *call, const MatmulAlgo &algo,
                     const Product &product) {
  if (algo.data[0] == algoMagic && algo.data[1] == product.getHash())
    return statusSuccess;
  return report(statusInvalidValue, call,
                "the algorithm was given for another product");
}

CLEAVE_ENTRY int cublasLtMatmulAlgoCheck(void *handle, void *descriptor,
                                         void *a, void *b, void *c, void *d,
                                         const MatmulAlgo *algo,
                                         MatmulHeuristic *result) {
  const char *call = "cublasLtMatmulAlgoCheck";
  if (!get<Handle>(handle) || !algo || !result)
    return report(statusInvalidValue, call,
                  "no handle, no algorithm, or no room for the result");
  Product product;
  if (int status = describe(call, descriptor, a, b, c, d, product))
    return status;
  if (int status = checkAlgo(call, *algo, product))
    return status;
  // The result's algorithm stays as it is.
  result->workspaceBytes = algo->data[2];
  result->state = statusSuccess;
  result->wavesCount = 1;
  return statusSuccess;
}

CLEAVE_ENTRY int cublasLtMatmul(void *handle, void *descriptor,
                                const void *alpha, const void *a, void *layoutA,
                                const void *b, void *layoutB, const void *beta,
                                const void *c, void *layoutC, void *d,
                                void *layoutD, const MatmulAlgo *algo,
                                void *workspace, size_t workspaceBytes,
                                void *stream) {
  const char *call = "cublasLtMatmul";
  if (!get<Handle>(handle) || !alpha || !beta)
    return report(statusInvalidValue, call, "no handle, alpha or beta");
  Product product;
  if (int status = describe(call, descriptor, layoutA, layoutB, layoutC,
                            layoutD, product))
    return status;
  float scales[2];
  std::memcpy(&scales[0], alpha, sizeof(float));
  std::memcpy(&scales[1], beta, sizeof(float));
  if (scales[0] != 1 || (scales[1] != 0 && scales[1] != 1) || c != d)
    return report(statusNotSupported, call,
                  "alpha " + std::to_string(scales[0]) + ", beta " +
                      std::to_string(scales[1]) +
                      (c == d ? "" : ", C is not D"));
  auto toAddress = [](const void *p) { return Address(uintptr_t(p)); };
  ProductAddresses at;
  at.a = toAddress(a);
  at.b = toAddress(b);
  at.d = toAddress(d);
  at.bias = product.hasBias ? get<Descriptor>(descriptor)->bias : 0;
  at.workspace = toAddress(workspace);
  at.accumulate = scales[1] == 1;
  uint64_t alignment[4] = {widest, widest, widest, widest};
  if (algo) {
    if (int status = checkAlgo(call, *algo, product))
      return status;
    at.workspaceBytes = algo->data[2];
    std::copy_n(algo->data + 3, 4, alignment);
  }
  if (at.workspaceBytes > workspaceBytes)
    return report(statusInvalidValue, call,
                  std::to_string(workspaceBytes) +
                      " bytes of workspace, the algorithm needs " +
                      std::to_string(at.workspaceBytes));
  // A bias is read as D is written.
  const std::tuple<const char *, Address, uint64_t> operands[] = {
      {"A", at.a, alignment[0]},
      {"B", at.b, alignment[1]},
      {"C", at.d, alignment[2]},
      {"D", at.d, alignment[3]},
      {"the bias", at.bias, alignment[3]},
      {"the workspace", at.workspace, widest}};
  for (auto [name, address, expected] : operands)
    if (address % expected != 0)
      return report(statusInvalidValue, call,
                    std::string(name) + " is not aligned to " +
                        std::to_string(expected) +
                        " bytes, as the algorithm expects");
  return cleaveSimulatedEnqueue(stream, makeProductWork(product, at)) == 0
             ? statusSuccess
             : statusExecutionFailed;
}
