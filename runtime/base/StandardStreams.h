//===- StandardStreams.h - Descriptors 0 to 2
//------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_STANDARDSTREAMS_H
#define CLEAVE_RUNTIME_BASE_STANDARDSTREAMS_H

namespace cleave::runtime {

/// Opens /dev/null on each of the descriptors 0 to 2 that the caller closed.
/// Otherwise the next file that is opened gets that number, and what is meant
/// for standard output is written over it. The first call of every main.
void openStandardStreams();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_STANDARDSTREAMS_H
