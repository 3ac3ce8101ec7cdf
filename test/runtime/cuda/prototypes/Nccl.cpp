//===- Nccl.cpp - NcclApi.h, held to nccl.h -------------------------------===//
#include "runtime/cuda/NcclApi.h"
#include "test/runtime/cuda/prototypes/Prototypes.h"
#include <nccl.h>

namespace cleave::prototypes {
template <>
struct Passed<ncclUniqueId> {
  using Type = runtime::cuda::NcclId;
};
template <>
struct Passed<runtime::cuda::NcclId> {
  using Type = runtime::cuda::NcclId;
};
} // namespace cleave::prototypes

#define CLEAVE_EXPECT(name, symbol, ...)                                       \
  CLEAVE_EXPECT_PROTOTYPE(NcclApi, name, symbol);
CLEAVE_NCCL_CALLS(CLEAVE_EXPECT)
#undef CLEAVE_EXPECT
CLEAVE_EXPECT_PROTOTYPE(NcclApi, getErrorString, ncclGetErrorString);
CLEAVE_EXPECT_PROTOTYPE(NcclApi, getLastError, ncclGetLastError);

CLEAVE_EXPECT_SIZE(NcclId, ncclUniqueId);
CLEAVE_EXPECT_NUMBER(ncclSuccess, ncclSuccess);
CLEAVE_EXPECT_NUMBER(ncclUnhandledCudaError, ncclUnhandledCudaError);
CLEAVE_EXPECT_NUMBER(ncclSystemError, ncclSystemError);
CLEAVE_EXPECT_NUMBER(ncclRemoteError, ncclRemoteError);
CLEAVE_EXPECT_NUMBER(ncclInProgress, ncclInProgress);
CLEAVE_EXPECT_NUMBER(ncclInt8, ncclInt8);
CLEAVE_EXPECT_NUMBER(ncclInt32, ncclInt32);
CLEAVE_EXPECT_NUMBER(ncclFloat32, ncclFloat32);
CLEAVE_EXPECT_NUMBER(ncclBfloat16, ncclBfloat16);
CLEAVE_EXPECT_NUMBER(ncclSum, ncclSum);
CLEAVE_EXPECT_NUMBER(ncclMax, ncclMax);
