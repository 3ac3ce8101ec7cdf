//===- Codes.h - Results of the CUDA driver -------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_CODES_H
#define CLEAVE_TEST_CUDA_DRIVER_CODES_H

#include "runtime/cuda/DriverApi.h"

namespace cleave::simulated {

using namespace runtime::cuda;

// Those of CUresult that DriverApi.h does not name.
constexpr int errorNotInitialized = 3, errorInvalidDevice = 101,
              errorInvalidContext = 201, errorInvalidHandle = 400,
              errorMisalignedAddress = 716, errorNotSupported = 801,
              errorCaptureUnsupported = 900, errorCaptureInvalidated = 901,
              errorCaptureUnmatched = 903, errorCaptureUnjoined = 904,
              errorCaptureIsolation = 905, errorCaptureImplicit = 906,
              errorCapturedEvent = 907, errorCaptureWrongThread = 908;

/// CUDA_ERROR_...; null where this machine has no such result.
const char *getCodeName(int code);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_CODES_H
