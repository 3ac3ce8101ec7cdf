//===- Workspace.h - What the CPU's code asks for beside its operands -----===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_WORKSPACE_H
#define CLEAVE_TEST_CUDA_DRIVER_WORKSPACE_H

#include "runtime/abi/Workspace.h"
#include <vector>

namespace cleave::simulated {

/// Bytes that start on a cache line.
class Workspace {
public:
  explicit Workspace(size_t bytes) : storage(bytes / sizeof(Line) + 1) {}
  void *get() { return storage.data(); }

private:
  struct alignas(cpu::workspaceAlign) Line {
    std::byte bytes[cpu::workspaceAlign];
  };
  std::vector<Line> storage;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_WORKSPACE_H
