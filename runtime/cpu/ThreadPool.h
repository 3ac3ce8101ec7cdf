//===- ThreadPool.h - The compute threads of one rank ---------------------===//
//
// Workers wait in two phases: a short spin, so that a kernel that follows
// another starts within a microsecond, then a futex. The spin is left out
// while the process has more pool threads than cores, as it has when many
// ranks are threads of one process.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_THREADPOOL_H
#define CLEAVE_RUNTIME_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace cleave::cpu {

/// `threads` threads, the caller's among them: a pool of one starts none.
/// One caller at a time; no parallelFor inside a parallelFor.
class ThreadPool {
public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int getThreads() const { return threads; }

  /// Calls `fn(int64_t begin, int64_t end, int thread)` on disjoint ranges
  /// that cover [begin, end), and returns when all have. The ranges are equal
  /// to within one and depend on the arguments and the number of threads only;
  /// none is shorter than `grain` unless it is the only one.
  template <class Fn>
  void parallelFor(int64_t begin, int64_t end, int64_t grain, Fn &&fn) {
    using Callee = std::remove_reference_t<Fn>;
    run(
        begin, end, grain,
        [](void *context, int64_t b, int64_t e, int thread) {
          (*static_cast<Callee *>(context))(b, e, thread);
        },
        const_cast<void *>(static_cast<const void *>(std::addressof(fn))));
  }

private:
  using Body = void (*)(void *context, int64_t begin, int64_t end, int thread);

  void run(int64_t begin, int64_t end, int64_t grain, Body body, void *context);
  void runChunk(int thread) const;
  void work(int thread);

  int threads;
  std::vector<std::thread> workers;

  // The task, written by the caller before it raises `epoch`.
  Body body = nullptr;
  void *context = nullptr;
  int64_t begin = 0, size = 0;
  int chunks = 0;
  bool stopping = false;

  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<uint32_t> pending{0};
};

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_THREADPOOL_H
