//===- Image.h - A module's cubin or PTX ----------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_IMAGE_H
#define CLEAVE_TEST_CUDA_DRIVER_IMAGE_H

#include <cstddef>
#include <set>
#include <string>

namespace cleave::simulated {

/// What the machine reads of an image. Parsed no further than to know what the
/// driver would refuse, and which functions there are.
struct Image {
  std::string bytes;
  bool isPtx = false;
  int arch = 0;         ///< 90 of sm_90
  bool isExact = false; ///< sm_90a: for this architecture and no other
  std::set<std::string> functions;

  /// Of `data`, whose size an ELF header tells, or a zero ends. A CUresult;
  /// `why` says what is wrong.
  static int parse(const void *data, Image &image, std::string &why);
  /// Whether a device of capability `device` (90 of 9.0) takes it: a CUresult.
  int checkArch(int device, std::string &why) const;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_IMAGE_H
