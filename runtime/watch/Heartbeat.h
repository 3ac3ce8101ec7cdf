//===- Heartbeat.h - A sign of life for who supervises the run ------------===//
#ifndef CLEAVE_RUNTIME_WATCH_HEARTBEAT_H
#define CLEAVE_RUNTIME_WATCH_HEARTBEAT_H

#include <cstdint>

namespace cleave::runtime {

/// The environment variable that names the pipe: a path, since launchers close
/// descriptors that they do not know.
inline constexpr const char *heartbeatVariable = "CLEAVE_HEARTBEAT";

/// Writes a line now and then to the named pipe that the environment names:
/// the step, and after how many seconds of silence the run is stopped as a
/// whole; 0: that is not to be judged. Never blocks; a supervisor that does not
/// read, or has ended, loses lines.
class Heartbeat {
public:
  Heartbeat();
  ~Heartbeat();
  Heartbeat(const Heartbeat &) = delete;
  Heartbeat &operator=(const Heartbeat &) = delete;

  void beat(int64_t step, double limitSeconds) const;

private:
  int fd = -1; ///< where the environment names a pipe
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_HEARTBEAT_H
