//===- Threads.h - Threads beside those of the ranks ----------------------===//
#ifndef CLEAVE_RUNTIME_BASE_THREADS_H
#define CLEAVE_RUNTIME_BASE_THREADS_H

#include "runtime/base/Status.h"
#include <functional>
#include <string>
#include <thread>

namespace cleave::runtime {

/// Starts a thread that gets none of the process's signals: these are for the
/// ranks' threads. Fails where the system gives no thread; the message begins
/// with `who`, as in "watchdog:".
Status startWithoutSignals(const std::string &who, std::function<void()> body,
                           std::thread &thread);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_THREADS_H
