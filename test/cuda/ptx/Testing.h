//===- Testing.h - Device memory and launches of the interpreter's tests --===//
#ifndef CLEAVE_TEST_CUDA_PTX_TESTING_H
#define CLEAVE_TEST_CUDA_PTX_TESTING_H

#include "Run.h"
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace cleave::ptx {

/// Gives host memory an address on the device, which is none of the host's.
/// Addresses are multiples of 256 and of nothing more, with gaps between.
class Device {
public:
  uint64_t add(void *host, size_t bytes, bool isWritable = true) {
    uint64_t address = next;
    memory.add(address, bytes, host, isWritable);
    next += (bytes + 255) / 512 * 512 + 1024;
    return address;
  }
  template <class T>
  uint64_t add(std::vector<T> &values) {
    return add(values.data(), values.size() * sizeof(T));
  }

  Memory memory;

private:
  uint64_t next = 0x7f00'0000'0100;
};

/// The text of a module with one kernel, `k`, whose parameters p0, p1, ... are
/// addresses. The body finds them in %p0, %p1, ... and has registers %r, %h,
/// %l, %f, %d and predicates %q; its thread number is in %thread and 4 bytes
/// per thread in %off.
inline std::string makeKernel(unsigned parameters, const std::string &body,
                              const std::string &outside = "") {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n" +
                     outside + "\n.visible .entry k(";
  for (unsigned n = 0; n < parameters; ++n)
    text += std::string(n ? ", " : "") + ".param .u64 p" + std::to_string(n);
  text += ")\n{\n.reg .pred %q<20>;\n.reg .b32 %r<60>, %off, %thread;\n"
          ".reg .b16 %h<20>;\n.reg .b64 %l<40>, %p<8>, %off64;\n"
          ".reg .f32 %f<40>;\n.reg .f64 %d<20>;\n"
          "mov.u32 %thread, %tid.x;\nshl.b32 %off, %thread, 2;\n"
          "cvt.u64.u32 %off64, %off;\n";
  for (unsigned n = 0; n < parameters; ++n) {
    std::string number = std::to_string(n);
    text += "ld.param.u64 %p" + number + ", [p" + number + "];\n";
  }
  return text + body + "\nret;\n}\n";
}

/// Runs kernel `k` of a text; `addresses` are its parameters.
inline Status runText(const std::string &text, const Device &device,
                      const std::vector<uint64_t> &addresses,
                      std::array<uint32_t, 3> block = {32, 1, 1},
                      std::array<uint32_t, 3> grid = {1, 1, 1},
                      uint32_t sharedBytes = 0, const Options &options = {}) {
  Module module;
  CLEAVE_RETURN_IF_ERROR(Module::parse(text, module));
  Launch launch;
  launch.kernel = "k";
  launch.grid = grid;
  launch.block = block;
  launch.sharedBytes = sharedBytes;
  auto *bytes = reinterpret_cast<const std::byte *>(addresses.data());
  launch.parameters.assign(bytes, bytes + addresses.size() * 8);
  return run(module, launch, device.memory, options);
}

inline void expectOk(const Status &status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

/// That it fails, and says each of these.
inline void expectError(const Status &status,
                        const std::vector<std::string> &parts) {
  EXPECT_FALSE(status.ok());
  for (const std::string &part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << status.message();
}

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_TESTING_H
