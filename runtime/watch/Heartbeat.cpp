//===- Heartbeat.cpp ------------------------------------------------------===//
#include "runtime/watch/Heartbeat.h"
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

Heartbeat::Heartbeat() {
  const char *path = std::getenv(heartbeatVariable);
  if (!path)
    return;
  // Nothing but a pipe is written to, whatever the environment says.
  fd = ::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd >= 0 && (::fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode))) {
    ::close(fd);
    fd = -1;
  }
}

Heartbeat::~Heartbeat() {
  if (fd >= 0)
    ::close(fd);
}

void Heartbeat::beat(int64_t step, double limitSeconds) const {
  if (fd < 0)
    return;
  char line[64];
  int size = std::snprintf(line, sizeof(line), "%lld %.3f\n", (long long)step,
                           limitSeconds);
  // Less than PIPE_BUF: as a whole or not at all. SIGPIPE is blocked on the
  // watchdog's thread; a lost line is no matter.
  [[maybe_unused]] ssize_t written = ::write(fd, line, size_t(size));
}
