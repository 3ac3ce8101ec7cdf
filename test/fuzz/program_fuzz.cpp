//===- program_fuzz.cpp - Arbitrary bytes as a program --------------------===//
//
// The first byte chooses what the rest is: a FlatBuffer, which gets a valid
// envelope so that the checksum does not stop the fuzzer; a whole sealed
// program; or an executable.
//
//===----------------------------------------------------------------------===//
#include "runtime/program/Elf.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Print.h"

using namespace cleave::runtime;

static void tryLoad(const uint8_t *data, size_t size) {
  Program program;
  if (Program::load(data, size, "input", program).ok() &&
      printProgram(program).empty())
    __builtin_trap();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t kind = data[0];
  ++data;
  --size;
  if (kind == 'p') {
    tryLoad(data, size);
  } else if (kind == 'e') {
    std::span<const uint8_t> contents;
    if (findElfSection({data, size}, programSection, contents).ok())
      tryLoad(contents.data(), contents.size());
  } else {
    std::vector<uint8_t> sealed = sealProgram(data, size);
    tryLoad(sealed.data(), sealed.size());
  }
  return 0;
}
