//===- StopSignal.cpp -----------------------------------------------------===//
#include "runtime/train/StopSignal.h"
#include <atomic>
#include <csignal>

using namespace cleave::runtime;

static std::atomic<int> stopSignal{0};
static constexpr int stopSignals[] = {SIGTERM, SIGINT, SIGUSR1};

static void onStopSignal(int signal) {
  stopSignal.store(signal);
  for (int other : stopSignals)
    std::signal(other, SIG_DFL);
}

void cleave::runtime::installStopSignals() {
  static_assert(std::atomic<int>::is_always_lock_free,
                "a signal handler may store it");
  for (int signal : stopSignals) {
    struct sigaction action = {};
    action.sa_handler = onStopSignal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

int cleave::runtime::getStopSignal() { return stopSignal.load(); }
