//===- Threads.cpp --------------------------------------------------------===//
#include "runtime/base/Threads.h"
#include <csignal>
#include <pthread.h>
#include <system_error>

using namespace cleave::runtime;

Status cleave::runtime::startWithoutSignals(const std::string &who,
                                            std::function<void()> body,
                                            std::thread &thread) {
  // A new thread has the mask of the one that starts it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error &error) {
    status = Status::error(who + " cannot start its thread: " + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}
