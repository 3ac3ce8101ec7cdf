//===- Envelope.h - What lies around the program's FlatBuffer -------------===//
//
// 24 bytes, all numbers little-endian, then the FlatBuffer:
//
//   0   8  magic "CLEAVEPG"
//   8   4  version of the format
//   12  4  CRC-32C of the FlatBuffer
//   16  8  bytes of the FlatBuffer
//
// Header only: the compiler writes it, the runtime reads it.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_ENVELOPE_H
#define CLEAVE_RUNTIME_PROGRAM_ENVELOPE_H

#include "runtime/base/Crc32c.h"
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// Of the envelope and of program.fbs and its README: goes up with any change
/// that an older runtime would read wrongly.
inline constexpr uint32_t programVersion = 9;

inline constexpr std::string_view programMagic = "CLEAVEPG";
inline constexpr size_t programHeaderBytes = 24;

/// Where the compiler's object file puts the sealed program.
inline constexpr std::string_view programSection = ".cleave.program";

/// The envelope with the FlatBuffer in it. In memory it should start on a
/// multiple of 8 bytes.
inline std::vector<uint8_t> sealProgram(const void *buffer, size_t size) {
  std::vector<uint8_t> bytes(programMagic.begin(), programMagic.end());
  auto append = [&](uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      bytes.push_back(uint8_t(value >> (8 * i)));
  };
  append(programVersion, 4);
  append(computeCrc32c(buffer, size), 4);
  append(size, 8);
  const auto *data = static_cast<const uint8_t *>(buffer);
  bytes.insert(bytes.end(), data, data + size);
  return bytes;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_ENVELOPE_H
