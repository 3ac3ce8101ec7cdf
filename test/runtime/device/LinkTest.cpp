//===- LinkTest.cpp -------------------------------------------------------===//
#include "runtime/device/Link.h"
#include "gtest/gtest.h"
#include <thread>

using namespace cleave::runtime;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// However late the second comes, both together take what each takes alone.
TEST(Link, TransfersTakeAtLeastTheirSeconds) {
  LinkClock clock;
  Clock::time_point begin = Clock::now();
  LinkClock::Transfer first = clock.begin(0, 0.04),
                      second = clock.begin(0, 0.02);
  clock.wait(second);
  EXPECT_GE(since(begin), 0.02);
  clock.wait(first);
  EXPECT_GE(since(begin), 0.06);
  begin = Clock::now();
  clock.wait(clock.begin(0, 0.02)); // alone again
  EXPECT_GE(since(begin), 0.02);
}

/// What is short does not stand behind what is long.
TEST(Link, TransfersShareTheLink) {
  LinkClock clock;
  Clock::time_point begin = Clock::now();
  LinkClock::Transfer first = clock.begin(3, 0.5);
  double longer = 0;
  std::thread other([&] {
    clock.wait(first);
    longer = since(begin);
  });
  clock.wait(clock.begin(3, 0.01));
  double shorter = since(begin);
  other.join();
  EXPECT_LT(shorter, longer);
  EXPECT_GE(longer, 0.51);
}

/// Those of another axis take nothing from it.
TEST(Link, EachAxisHasItsLink) {
  LinkClock clock;
  Clock::time_point begin = Clock::now();
  LinkClock::Transfer first = clock.begin(0, 0.5), second = clock.begin(1, 0.5);
  clock.wait(first);
  clock.wait(second);
  EXPECT_GE(since(begin), 0.5);
  EXPECT_LT(since(begin), 1.0);
}

} // namespace
