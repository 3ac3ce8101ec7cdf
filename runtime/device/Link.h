//===- Link.h - Links that are slower than they are -----------------------===//
//
// On one machine communication takes next to no time, and what it does take, it
// takes from the cores. So that overlap can be measured without a cluster, a
// run may ask that what is moved along an axis takes at least as long as over a
// given link, without using a core.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_LINK_H
#define CLEAVE_RUNTIME_DEVICE_LINK_H

#include "runtime/base/Status.h"
#include "runtime/program/Program.h"
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// A link to emulate between the ranks that differ on an axis.
struct EmulatedLink {
  std::string axis;
  double bytesPerSecond = 0;
  double latency = 0; ///< seconds

  bool operator==(const EmulatedLink &) const = default;
};

/// Reads "AXIS=BYTES_PER_S,LATENCY", such as "dp=1e9,2e-5".
Status parseLink(std::string_view text, EmulatedLink &link);
/// What parseLink reads.
std::string toString(const EmulatedLink &link);

/// What a rank moves over its emulated links. What moves along an axis at the
/// same time, of whichever streams it is, has equal shares of the link, as
/// flows of a network have.
class LinkClock {
public:
  struct Transfer {
    size_t axis;
    double end; ///< what Link::served is then
  };

  /// Something comes to the link of `axis` that takes so many seconds by
  /// itself.
  Transfer begin(size_t axis, double seconds);
  /// Returns when it has been moved.
  void wait(const Transfer &transfer);

private:
  using Clock = std::chrono::steady_clock;

  struct Link {
    /// Seconds that a transfer would have had, were it there from the
    /// beginning.
    double served = 0;
    Clock::time_point now; ///< up to which that is so
    std::multiset<double> ends;

    /// When the first of those that are under way ends, if no other comes.
    Clock::time_point getFirstEnd() const;
    void advance(Clock::time_point time);
  };

  std::mutex mutex;
  std::condition_variable changed; ///< some link's transfers
  std::map<size_t, Link> links;    ///< by axis
};

/// Success where the program has the axes that the links name, each once.
Status verifyLinks(const Program &program,
                   const std::vector<EmulatedLink> &links);

/// The seconds that a message, a collective or a bucket of collectives that
/// begin together takes at least: of the links of its axes the slowest, for
///   latency + bytes / bytesPerSecond
/// where bytes are those that each rank sends by a ring: of a group of n,
/// (n-1)/n of what a gather or a scatter has as a whole, and twice that for an
/// all-reduce; of a message those of the sender; of a bucket those of all. 0
/// for all else.
///
/// `axis`: that link's; as it was where it takes no time.
double getLinkSeconds(const Program &program,
                      std::span<const program::Instruction *const> bucket,
                      const std::vector<EmulatedLink> &links, size_t &axis);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_LINK_H
