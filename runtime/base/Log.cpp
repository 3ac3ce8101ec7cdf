//===- Log.cpp ------------------------------------------------------------===//
#include "runtime/base/Log.h"
#include <cerrno>
#include <string>
#include <unistd.h>

using namespace cleave::runtime;

static void writeLine(std::string_view prefix, std::string_view message) {
  std::string line(prefix);
  line += message;
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return; // nowhere left to say so
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void cleave::runtime::logError(std::string_view message) {
  writeLine("error: ", message);
}

void cleave::runtime::logWarning(std::string_view message) {
  writeLine("warning: ", message);
}

void cleave::runtime::logInfo(std::string_view message) {
  writeLine("", message);
}
