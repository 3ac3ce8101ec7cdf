//===- Devices.cpp --------------------------------------------------------===//
#include "runtime/executor/Devices.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/device/CpuDevice.h"

using namespace cleave::runtime;

Status cleave::runtime::chooseDevice(DeviceKind kind, KernelTable kernels,
                                     bool &isGpu) {
  isGpu = false;
  if (kind == DeviceKind::Cpu)
    return {};
  std::string absence;
  if (!kernels.cuda || kernels.cuda->kernel_count == 0)
    absence = "the executable has no code for GPUs: compile it with a "
              "--cluster of NVIDIA GPUs of sm_90 or later";
  else
    CLEAVE_RETURN_IF_ERROR(cuda::findDevices(isGpu, absence));
  if (!isGpu && kind == DeviceKind::Cuda)
    return Status::error("--device cuda: " + absence +
                         "; --device cpu runs the program without a GPU");
  return {};
}

Status cleave::runtime::createDevice(
    bool isGpu, const Program &program, Communicator &communicator,
    std::span<const BoundInstruction> instructions, KernelTable kernels,
    const DeviceOptions &options, cpu::ThreadPool &pool,
    std::unique_ptr<Device> &device) {
  if (isGpu)
    return cuda::CudaDevice::create(program, communicator, instructions,
                                    *kernels.cuda, options, device);
  return CpuDevice::create(program, communicator, instructions, kernels,
                           options, pool, device);
}
