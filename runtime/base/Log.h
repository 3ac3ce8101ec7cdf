//===- Log.h - Messages on stderr -----------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_LOG_H
#define CLEAVE_RUNTIME_BASE_LOG_H

#include <string_view>

namespace cleave::runtime {

/// "error: <message>", "warning: <message>" or "<message>" as one line on
/// stderr, in one write, so that lines of several ranks do not mix.
void logError(std::string_view message);
void logWarning(std::string_view message);
void logInfo(std::string_view message);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_LOG_H
