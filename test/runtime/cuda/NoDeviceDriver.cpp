//===- NoDeviceDriver.cpp - A CUDA driver that has no device --------------===//
//
// What cuDNN looks up of libcuda.so.1 when it plans for a GPU that is
// elsewhere. Code that it has compiled counts as loaded; all else is refused.
//
//===----------------------------------------------------------------------===//

#define CLEAVE_ANSWER(name, result)                                            \
  extern "C" int name() { return result; }
// Each makes something, of which the address is the first parameter.
#define CLEAVE_MAKE(name)                                                      \
  extern "C" int name(void **made) {                                           \
    static int something;                                                      \
    *made = &something;                                                        \
    return 0;                                                                  \
  }
#define CLEAVE_REFUSE(name) CLEAVE_ANSWER(name, 100) // CUDA_ERROR_NO_DEVICE

CLEAVE_MAKE(cuKernelGetFunction)
CLEAVE_MAKE(cuLibraryLoadData)
CLEAVE_MAKE(cuLibraryGetKernel)
CLEAVE_MAKE(cuModuleLoadData)
CLEAVE_MAKE(cuModuleLoadDataEx)
CLEAVE_MAKE(cuModuleGetFunction)
CLEAVE_ANSWER(cuLibraryUnload, 0)
CLEAVE_ANSWER(cuModuleUnload, 0)
CLEAVE_ANSWER(cuKernelSetAttribute, 0)
CLEAVE_ANSWER(cuFuncSetAttribute, 0)
extern "C" int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

CLEAVE_REFUSE(cuCtxGetCurrent)
CLEAVE_REFUSE(cuCtxGetDevice)
CLEAVE_REFUSE(cuCtxGetLimit)
CLEAVE_REFUSE(cuCtxPopCurrent)
CLEAVE_REFUSE(cuCtxPushCurrent)
CLEAVE_REFUSE(cuDeviceGet)
CLEAVE_REFUSE(cuDeviceGetAttribute)
CLEAVE_REFUSE(cuDeviceGetCount)
CLEAVE_REFUSE(cuDevicePrimaryCtxRelease)
CLEAVE_REFUSE(cuDevicePrimaryCtxReset)
CLEAVE_REFUSE(cuDevicePrimaryCtxRetain)
CLEAVE_REFUSE(cuFuncGetAttribute)
CLEAVE_REFUSE(cuGetErrorName)
CLEAVE_REFUSE(cuGetErrorString)
CLEAVE_REFUSE(cuGetProcAddress_v2)
CLEAVE_REFUSE(cuInit)
CLEAVE_REFUSE(cuKernelGetAttribute)
CLEAVE_REFUSE(cuLaunchCooperativeKernel)
CLEAVE_REFUSE(cuLaunchKernel)
CLEAVE_REFUSE(cuLaunchKernelEx)
CLEAVE_REFUSE(cuLibraryLoadFromFile)
CLEAVE_REFUSE(cuLinkAddData)
CLEAVE_REFUSE(cuLinkAddData_v2)
CLEAVE_REFUSE(cuLinkAddFile_v2)
CLEAVE_REFUSE(cuLinkComplete)
CLEAVE_REFUSE(cuLinkCreate)
CLEAVE_REFUSE(cuLinkCreate_v2)
CLEAVE_REFUSE(cuLinkDestroy)
CLEAVE_REFUSE(cuMemcpyDtoH_v2)
CLEAVE_REFUSE(cuModuleGetGlobal_v2)
CLEAVE_REFUSE(cuModuleLoadFatBinary)
CLEAVE_REFUSE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
CLEAVE_REFUSE(cuOccupancyMaxPotentialClusterSize)
CLEAVE_REFUSE(cuStreamGetCtx)
CLEAVE_REFUSE(cuStreamSynchronize)
CLEAVE_REFUSE(cuTensorMapEncodeIm2col)
CLEAVE_REFUSE(cuTensorMapEncodeTiled)
