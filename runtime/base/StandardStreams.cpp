//===- StandardStreams.cpp ------------------------------------------------===//
#include "runtime/base/StandardStreams.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <unistd.h>

void cleave::runtime::openStandardStreams() {
  // open() takes the lowest number that is free, so they are filled in order.
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF &&
        ::open("/dev/null", O_RDWR) != descriptor)
      std::abort(); // no /dev/null: there is nowhere to say so
}
