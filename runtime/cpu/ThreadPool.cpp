#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <sched.h>

using namespace cleave::cpu;

/// Pool threads of this process that may want a core, callers included.
static std::atomic<int> liveThreads{0};

static int getCores() {
  static const int cores = [] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
      return CPU_COUNT(&set);
    return std::max(1, int(std::thread::hardware_concurrency()));
  }();
  return cores;
}

static void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Returns once `word` differs from `old`.
static void waitWhile(const std::atomic<uint32_t> &word, uint32_t old) {
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::microseconds(50);
  if (liveThreads.load(std::memory_order_relaxed) <= getCores()) {
    auto start = Clock::now();
    do {
      for (int i = 0; i < 64; ++i) {
        if (word.load(std::memory_order_acquire) != old)
          return;
        relax();
      }
    } while (Clock::now() - start < patience);
  }
  while (word.load(std::memory_order_acquire) == old)
    word.wait(old, std::memory_order_acquire);
}

ThreadPool::ThreadPool(int threads) : threads(std::max(1, threads)) {
  liveThreads += this->threads;
  workers.reserve(this->threads - 1);
  for (int t = 1; t < this->threads; ++t)
    workers.emplace_back([this, t] { work(t); });
}

ThreadPool::~ThreadPool() {
  stopping = true;
  epoch.fetch_add(1, std::memory_order_release);
  epoch.notify_all();
  for (std::thread &worker : workers)
    worker.join();
  liveThreads -= threads;
}

void ThreadPool::runChunk(int thread) const {
  int64_t from = begin + size * thread / chunks;
  int64_t to = begin + size * (thread + 1) / chunks;
  body(context, from, to, thread);
}

void ThreadPool::run(int64_t begin, int64_t end, int64_t grain, Body body,
                     void *context) {
  if (begin >= end)
    return;
  int64_t most = (end - begin) / std::max<int64_t>(1, grain);
  int chunks = int(std::clamp<int64_t>(most, 1, threads));
  if (chunks == 1)
    return body(context, begin, end, 0);
  this->body = body;
  this->context = context;
  this->begin = begin;
  this->size = end - begin;
  this->chunks = chunks;
  // Every worker answers each epoch, also those without a chunk: none can
  // still be reading the task when the next one is written.
  pending.store(uint32_t(threads - 1), std::memory_order_relaxed);
  epoch.fetch_add(1, std::memory_order_release);
  epoch.notify_all();
  runChunk(0);
  for (uint32_t left; (left = pending.load(std::memory_order_acquire)) != 0;)
    waitWhile(pending, left);
}

void ThreadPool::work(int thread) {
  for (uint32_t seen = 0;;) {
    waitWhile(epoch, seen);
    seen = epoch.load(std::memory_order_acquire);
    if (stopping)
      return;
    if (thread < chunks)
      runChunk(thread);
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1)
      pending.notify_one();
  }
}
