//===- Link.cpp -----------------------------------------------------------===//
#include "runtime/device/Link.h"
#include "runtime/base/Quote.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using namespace cleave::runtime;
namespace fb = cleave::program;

static bool readNumber(std::string_view text, double &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         std::isfinite(value);
}

Status cleave::runtime::parseLink(std::string_view text, EmulatedLink &link) {
  size_t equals = text.find('='), comma = text.find(',');
  if (equals == 0 || equals == std::string_view::npos ||
      comma == std::string_view::npos || comma < equals)
    return Status::error(quote(text) +
                         " is no AXIS=BYTES_PER_S,LATENCY, such as "
                         "dp=1e9,2e-5");
  link.axis = text.substr(0, equals);
  if (!readNumber(text.substr(equals + 1, comma - equals - 1),
                  link.bytesPerSecond) ||
      link.bytesPerSecond <= 0)
    return Status::error(quote(text) +
                         ": expects bytes per second above 0 after the =");
  if (!readNumber(text.substr(comma + 1), link.latency) || link.latency < 0 ||
      link.latency > 60)
    return Status::error(quote(text) +
                         ": expects seconds from 0 to 60 after the comma");
  return {};
}

std::string cleave::runtime::toString(const EmulatedLink &link) {
  char text[64];
  std::snprintf(text, sizeof(text), "=%.17g,%.17g", link.bytesPerSecond,
                link.latency);
  return link.axis + text;
}

static std::string_view getAxisName(const fb::Program &program, size_t axis) {
  return toView(program.axes()->Get(flatbuffers::uoffset_t(axis))->name());
}

Status cleave::runtime::verifyLinks(const Program &program,
                                    const std::vector<EmulatedLink> &links) {
  for (const EmulatedLink &link : links) {
    std::string legal;
    bool isKnown = false;
    for (size_t i = 0; i < getSize(program->axes()); ++i) {
      std::string_view name = getAxisName(program.get(), i);
      isKnown |= name == link.axis;
      legal += (i ? ", " : "") + std::string(name);
    }
    if (!isKnown)
      return Status::error("--emulate-link: the program has no axis " +
                           quote(link.axis) + "; it has " +
                           (legal.empty() ? "none" : legal));
    if (std::ranges::count(links, link.axis, &EmulatedLink::axis) > 1)
      return Status::error("--emulate-link: axis " + quote(link.axis) +
                           " is given twice");
  }
  return {};
}

/// Bytes that each rank sends.
static double getSentBytes(const fb::Instruction &instruction, double ranks) {
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  double others = (ranks - 1) / ranks;
  switch (instruction.work_type()) {
  case fb::Opcode::AllReduce:
    return 2 * double(operands[0].bytes()) * others;
  case fb::Opcode::AllGather:
    return double(operands[1].bytes()) * others;
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
    return double(operands[0].bytes()) * others;
  case fb::Opcode::Send:
    return double(operands[0].bytes());
  default:
    return 0;
  }
}

double cleave::runtime::getLinkSeconds(
    const Program &program, std::span<const fb::Instruction *const> bucket,
    const std::vector<EmulatedLink> &links, size_t &slowest) {
  const fb::Instruction &first = *bucket.front();
  auto axes = toSpan(first.group());
  std::vector<size_t> crossed(axes.begin(), axes.end());
  if (first.work_type() == fb::Opcode::Send)
    crossed = {size_t(program->stage_axis())};
  double bytes = 0;
  for (const fb::Instruction *each : bucket)
    bytes += getSentBytes(*each, double(program.getMesh().getShardCount(axes)));
  double seconds = 0;
  for (size_t axis : crossed)
    for (const EmulatedLink &link : links)
      if (link.axis == getAxisName(program.get(), axis) && bytes > 0)
        if (double taken = link.latency + bytes / link.bytesPerSecond;
            taken > seconds) {
          seconds = taken;
          slowest = axis;
        }
  return seconds;
}

LinkClock::Clock::time_point LinkClock::Link::getFirstEnd() const {
  std::chrono::duration<double> left((*ends.begin() - served) *
                                     double(ends.size()));
  return now + std::chrono::ceil<Clock::duration>(left);
}

void LinkClock::Link::advance(Clock::time_point time) {
  while (!ends.empty()) {
    Clock::time_point end = getFirstEnd();
    if (end > time) {
      std::chrono::duration<double> passed = time - now;
      served += passed.count() / double(ends.size());
      break;
    }
    now = end;
    served = *ends.begin();
    ends.erase(ends.begin());
  }
  now = time;
}

LinkClock::Transfer LinkClock::begin(size_t axis, double seconds) {
  std::lock_guard<std::mutex> lock(mutex);
  Link &link = links[axis];
  link.advance(Clock::now());
  Transfer transfer{axis, link.served + seconds};
  link.ends.insert(transfer.end);
  changed.notify_all();
  return transfer;
}

void LinkClock::wait(const Transfer &transfer) {
  std::unique_lock<std::mutex> lock(mutex);
  Link &link = links[transfer.axis];
  for (;;) {
    link.advance(Clock::now());
    if (link.served >= transfer.end)
      return;
    // Others that end first give it a larger share, and those that come a
    // smaller one.
    changed.wait_until(lock, link.getFirstEnd());
  }
}
