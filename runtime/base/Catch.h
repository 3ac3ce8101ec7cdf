//===- Catch.h - Where an exception ends ----------------------------------===//
//
// The runtime's own code throws none; the standard library does, most of all
// where memory is short. An exception that leaves a thread ends the process
// without a word, so what a thread does that a run can outlive is in here.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_CATCH_H
#define CLEAVE_RUNTIME_BASE_CATCH_H

#include "runtime/base/Status.h"
#include <exception>
#include <new>

namespace cleave::runtime {

/// What `body` returns; an error that names the exception where it throws one.
template <typename Body>
Status catchExceptions(Body &&body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return Status::error("out of memory");
  } catch (const std::exception &exception) {
    return Status::error(std::string("unexpected exception: ") +
                         exception.what());
  }
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CATCH_H
