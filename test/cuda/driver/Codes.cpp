//===- Codes.cpp ----------------------------------------------------------===//
#include "test/cuda/driver/Codes.h"

const char *cleave::simulated::getCodeName(int code) {
  static constexpr struct {
    int code;
    const char *name;
  } names[] = {
      {success, "CUDA_SUCCESS"},
      {errorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {errorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {errorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {errorNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {errorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {errorInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {errorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {errorNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {errorEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE"},
      {errorInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {errorUnsupportedPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {errorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {errorNotFound, "CUDA_ERROR_NOT_FOUND"},
      {errorNotReady, "CUDA_ERROR_NOT_READY"},
      {errorIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {errorLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
      {errorMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {errorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {errorNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
      {errorCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {errorCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {errorCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
      {errorCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
      {errorCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
      {errorCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {errorCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
      {errorCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
      {errorUnknown, "CUDA_ERROR_UNKNOWN"},
  };
  for (const auto &entry : names)
    if (entry.code == code)
      return entry.name;
  return nullptr;
}
