//===- NcclApi.h - What is called of NCCL ---------------------------------===//
//
// libnccl.so.2 is opened when a program runs. As in DriverApi.h: our name, the
// library's symbol, and its parameters as nccl.h declares them. ncclResult_t
// and all enumerations are int; communicators and streams are pointers.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_NCCLAPI_H
#define CLEAVE_RUNTIME_CUDA_NCCLAPI_H

#include <cstddef>

namespace cleave::runtime::cuda {

/// ncclUniqueId
struct NcclId {
  char bytes[128];
};

// ncclResult_t, ncclDataType_t, ncclRedOp_t
constexpr int ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2,
              ncclRemoteError = 6, ncclInProgress = 7;
constexpr int ncclInt8 = 0, ncclInt32 = 2, ncclFloat32 = 7, ncclBfloat16 = 9;
constexpr int ncclSum = 0, ncclMax = 2;

#define CLEAVE_NCCL_CALLS(X)                                                   \
  X(getVersion, ncclGetVersion, int *)                                         \
  X(getUniqueId, ncclGetUniqueId, NcclId *)                                    \
  X(commInitRank, ncclCommInitRank, void **, int, NcclId, int)                 \
  X(commDestroy, ncclCommDestroy, void *)                                      \
  X(commAbort, ncclCommAbort, void *)                                          \
  X(commGetAsyncError, ncclCommGetAsyncError, void *, int *)                   \
  X(groupStart, ncclGroupStart)                                                \
  X(groupEnd, ncclGroupEnd)                                                    \
  X(allReduce, ncclAllReduce, const void *, void *, size_t, int, int, void *,  \
    void *)                                                                    \
  X(allGather, ncclAllGather, const void *, void *, size_t, int, void *,       \
    void *)                                                                    \
  X(reduceScatter, ncclReduceScatter, const void *, void *, size_t, int, int,  \
    void *, void *)                                                            \
  X(send, ncclSend, const void *, size_t, int, int, void *, void *)            \
  X(recv, ncclRecv, void *, size_t, int, int, void *, void *)

/// The entry points of an opened library, by our names.
struct NcclApi {
  const char *(*getErrorString)(int) = nullptr;  ///< ncclGetErrorString
  const char *(*getLastError)(void *) = nullptr; ///< ncclGetLastError
#define CLEAVE_DECLARE(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  CLEAVE_NCCL_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_NCCLAPI_H
