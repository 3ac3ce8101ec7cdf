//===- Elf.h - The program inside an executable ---------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_ELF_H
#define CLEAVE_RUNTIME_PROGRAM_ELF_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// The contents of section `name` of a 64-bit little-endian ELF file. Every
/// offset of the file is checked; errors say which one is wrong.
Status findElfSection(std::span<const uint8_t> file, std::string_view name,
                      std::span<const uint8_t> &contents);

/// Reads the sealed program of an executable, or of a file that is nothing but
/// a sealed program. `version`: that of the runtime that the executable was
/// linked with; empty if the file does not say. Errors name the file.
Status readProgramBytes(const std::string &path, std::vector<uint8_t> &bytes,
                        std::string &version);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_ELF_H
