#include "runtime/cpu/ThreadPool.h"

#include <gtest/gtest.h>

#include <ctime>
#include <mutex>
#include <set>

using namespace cleave::cpu;

namespace {

struct Range {
  int64_t begin, end;
  int thread;
  bool operator<(const Range &o) const { return begin < o.begin; }
  bool operator==(const Range &o) const = default;
};

std::set<Range> collect(ThreadPool &pool, int64_t begin, int64_t end,
                        int64_t grain) {
  std::mutex mutex;
  std::set<Range> ranges;
  pool.parallelFor(begin, end, grain, [&](int64_t b, int64_t e, int thread) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(ranges.insert({b, e, thread}).second);
  });
  return ranges;
}

TEST(ThreadPool, CoversTheRangeOnceInEqualParts) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t size : {0, 1, 2, 3, 7, 64, 1001})
      for (int64_t grain : {1, 2, 10, 5000}) {
        std::set<Range> ranges = collect(pool, 5, 5 + size, grain);
        int64_t next = 5, shortest = size, longest = 0;
        std::set<int> seen;
        for (const Range &range : ranges) {
          EXPECT_EQ(range.begin, next);
          next = range.end;
          shortest = std::min(shortest, range.end - range.begin);
          longest = std::max(longest, range.end - range.begin);
          EXPECT_TRUE(seen.insert(range.thread).second);
          EXPECT_LT(range.thread, threads);
        }
        EXPECT_EQ(next, 5 + size);
        if (size == 0) {
          EXPECT_TRUE(ranges.empty());
          continue;
        }
        EXPECT_LE(longest - shortest, 1);
        EXPECT_TRUE(ranges.size() == 1 || shortest >= grain);
        int64_t most = std::max<int64_t>(1, size / grain);
        EXPECT_EQ(int64_t(ranges.size()), std::min<int64_t>(threads, most));
        EXPECT_EQ(collect(pool, 5, 5 + size, grain), ranges);
      }
  }
}

TEST(ThreadPool, SeesWritesOfEarlierLoops) {
  ThreadPool pool(3);
  std::vector<int64_t> values(301, 0);
  for (int round = 1; round <= 2000; ++round) {
    // Each element moves between threads as the grain changes.
    pool.parallelFor(0, 301, round % 150 + 1,
                     [&](int64_t begin, int64_t end, int) {
                       for (int64_t i = begin; i < end; ++i)
                         ++values[i];
                     });
  }
  for (int64_t value : values)
    EXPECT_EQ(value, 2000);
}

TEST(ThreadPool, ManyPoolsInOneProcess) {
  // More pool threads than any machine's cores: loops must still finish fast.
  std::vector<std::thread> ranks;
  std::atomic<int64_t> sum{0};
  for (int r = 0; r < 16; ++r)
    ranks.emplace_back([&] {
      ThreadPool pool(4);
      for (int i = 0; i < 50; ++i)
        pool.parallelFor(0, 4, 1,
                         [&](int64_t b, int64_t e, int) { sum += e - b; });
    });
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_EQ(sum, 16 * 50 * 4);
}

TEST(ThreadPool, IdleWorkersSleep) {
  ThreadPool pool(4);
  pool.parallelFor(0, 4, 1, [](int64_t, int64_t, int) {});
  std::clock_t before = std::clock(); // CPU time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  double burned = double(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(burned, 0.05);
}

} // namespace
