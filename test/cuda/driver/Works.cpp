//===- Works.cpp ----------------------------------------------------------===//
#include "test/cuda/driver/Works.h"
#include "test/cuda/driver/Codes.h"
#include <cstring>

using namespace cleave::simulated;

std::string Copy::getName() const {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes";
}

std::byte *Copy::find(const Side &side, const char *name,
                      Execution &execution) const {
  switch (side.kind) {
  case Side::Kind::Device:
    return execution.translate(side.address, bytes, name);
  case Side::Kind::Pinned:
    if (pinned.find(reinterpret_cast<void *>(side.address), bytes) ==
        PinnedMemory::Place::Inside)
      break;
    execution.fail(errorIllegalAddress,
                   std::string(name) + " is pinned memory that was freed");
    return nullptr;
  case Side::Kind::Pageable:
    break;
  case Side::Kind::Staged:
    return const_cast<std::byte *>(side.staged.data());
  }
  return reinterpret_cast<std::byte *>(side.address);
}

Progress Copy::execute(Execution &execution) const {
  std::byte *in = find(from, "the source", execution);
  std::byte *out = find(to, "the destination", execution);
  if (execution.hasFailed())
    return Progress::Done;
  if (from.kind == Side::Kind::Pinned)
    pinned.showAll(); // to the device
  // The order in which a GPU copies is its own.
  bool isOnDevice =
      to.kind == Side::Kind::Device && from.kind == Side::Kind::Device;
  if (isOnDevice && in < out + bytes && out < in + bytes)
    execution.fail(errorIllegalAddress,
                   "source and destination overlap, which no copy says the "
                   "meaning of");
  else if (to.kind == Side::Kind::Pinned)
    pinned.write(out, in, bytes, execution.getOperation());
  else
    std::memcpy(out, in, bytes);
  return Progress::Done;
}

std::string Fill::getName() const {
  return "cuMemsetD8Async of " + std::to_string(bytes) + " bytes";
}

Progress Fill::execute(Execution &execution) const {
  if (std::byte *out = execution.translate(address, bytes, "the destination"))
    std::memset(out, value, bytes);
  return Progress::Done;
}
