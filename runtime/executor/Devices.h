//===- Devices.h - Which device a rank runs on ----------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_DEVICES_H
#define CLEAVE_RUNTIME_EXECUTOR_DEVICES_H

#include "runtime/executor/Executor.h"

namespace cleave::runtime {

/// Whether a rank runs on a GPU. Fails where one is asked for by name and
/// cannot be had, with what is missing; `Auto` takes CPUs where the machine has
/// no GPU or the executable no code for one, and where it has both never falls
/// back from what fails then.
Status chooseDevice(DeviceKind kind, KernelTable kernels, bool &isGpu);

/// Makes a rank's device. Collective.
Status createDevice(bool isGpu, const Program &program,
                    Communicator &communicator,
                    std::span<const BoundInstruction> instructions,
                    KernelTable kernels, const DeviceOptions &options,
                    cpu::ThreadPool &pool, std::unique_ptr<Device> &device);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_DEVICES_H
