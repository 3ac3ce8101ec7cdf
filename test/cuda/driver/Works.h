//===- Works.h - The driver's own operations ------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_WORKS_H
#define CLEAVE_TEST_CUDA_DRIVER_WORKS_H

#include "test/cuda/driver/Engine.h"
#include "test/cuda/driver/Memory.h"
#include <functional>

namespace cleave::simulated {

/// Nothing but a place in a stream. Calls `reach`, if any, there.
class Marker : public Work {
public:
  explicit Marker(std::string name, std::function<void()> reach = {})
      : name(std::move(name)), reach(std::move(reach)) {}
  std::string getName() const override { return name; }
  bool isMarker() const override { return true; }
  Progress execute(Execution &) const override {
    if (reach)
      reach();
    return Progress::Done;
  }

private:
  std::string name;
  std::function<void()> reach;
};

/// One side of a copy.
struct Side {
  enum class Kind : uint8_t {
    Device,
    Pinned,
    Pageable, ///< the caller waits, so the memory is as it was at the call
    Staged    ///< bytes that were copied at the call
  };
  Kind kind;
  uint64_t address = 0; ///< on the device, or of the host
  std::vector<std::byte> staged;
};

class Copy : public Work {
public:
  Copy(const char *call, Side to, Side from, uint64_t bytes,
       PinnedMemory &pinned)
      : call(call), to(std::move(to)), from(std::move(from)), bytes(bytes),
        pinned(pinned) {}
  std::string getName() const override;
  Progress execute(Execution &execution) const override;

private:
  std::byte *find(const Side &side, const char *name,
                  Execution &execution) const;

  const char *call;
  Side to, from;
  uint64_t bytes;
  PinnedMemory &pinned;
};

class Fill : public Work {
public:
  Fill(Address address, unsigned char value, uint64_t bytes)
      : address(address), value(value), bytes(bytes) {}
  std::string getName() const override;
  Progress execute(Execution &execution) const override;

private:
  Address address;
  unsigned char value;
  uint64_t bytes;
};

class Launch : public Work {
public:
  Launch(std::string name, std::shared_ptr<const Function> function,
         const LaunchShape &shape,
         std::vector<std::vector<std::byte>> parameters)
      : name(std::move(name)), function(std::move(function)), shape(shape),
        parameters(std::move(parameters)) {}
  std::string getName() const override { return "launch of " + name; }
  Progress execute(Execution &execution) const override {
    function->launch(shape, parameters, execution);
    return Progress::Done;
  }

private:
  std::string name;
  std::shared_ptr<const Function> function;
  LaunchShape shape;
  std::vector<std::vector<std::byte>> parameters;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_WORKS_H
