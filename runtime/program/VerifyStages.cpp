//===- VerifyStages.cpp - Stages agree, and none waits for ever -----------===//
//
// All ranks of a stage do the same, and a message goes between two ranks that
// differ in their stage alone. So a step of all ranks is as one of as many
// ranks as there are stages, one of each, which is gone through here:
//
//  1. A stage goes on, run by run, until it receives what was not sent yet, or
//     comes to a meeting. A Send does not wait.
//  2. A message that is received is the oldest of its channel, and of the
//     receiver's own micro-batch.
//  3. Meetings are collectives over the stage axis. Once all stages have come
//     to one, which must be the same, they go on.
//  4. At the end nothing is left that was sent, nor where the update begins,
//     which is checked as if stages met there: who gets on with meetings does
//     without them, too.
//
// Where no stage can go on before all have ended, ranks would wait for ever.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Quote.h"
#include "runtime/program/Print.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <deque>
#include <map>
#include <optional>

using namespace cleave::runtime;
namespace fb = cleave::program;

//===----------------------------------------------------------------------===//
// What several stages have
//===----------------------------------------------------------------------===//

template <typename T>
static bool areEqual(const flatbuffers::Vector<T> *a,
                     const flatbuffers::Vector<T> *b) {
  return std::ranges::equal(toSpan(a), toSpan(b));
}

static bool
areEqual(const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *a,
         const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *b) {
  return std::ranges::equal(
      toList(a), toList(b), [](const fb::DimAxes *x, const fb::DimAxes *y) {
        return std::ranges::equal(toSpan(x->axes()), toSpan(y->axes()));
      });
}

static bool areEqual(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *a,
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *b) {
  return std::ranges::equal(toList(a), toList(b), {}, toView, toView);
}

/// Whether two instructions of one opcode have the same in all fields.
static bool isSameWork(const fb::Instruction &a, const fb::Instruction &b) {
  return std::ranges::all_of(
      getWorkFields(a.work_type()), [&](const WorkField &field) {
        return field.kind == WorkField::Kind::Real
                   ? getReal(a.work(), field) == getReal(b.work(), field)
                   : getInteger(a.work(), field) == getInteger(b.work(), field);
      });
}

/// What two states of one role and name differ in, but for where they lie; null
/// for nothing.
static const char *findDifference(const fb::State &a, const fb::State &b) {
  if (a.dtype() != b.dtype())
    return "element type";
  if (!areEqual(a.shape(), b.shape()) || !areEqual(a.logical(), b.logical()))
    return "shape";
  if (!areEqual(a.dims(), b.dims()))
    return "placement";
  if (toView(a.source()) != toView(b.source()) ||
      !areEqual(a.source_shape(), b.source_shape()) ||
      !areEqual(a.view(), b.view()) || !areEqual(a.starts(), b.starts()) ||
      !areEqual(a.drop(), b.drop()) || !areEqual(a.tied(), b.tied()))
    return "source";
  if (a.init() != b.init() || a.init_scale() != b.init_scale() ||
      !areEqual(a.init_table(), b.init_table()))
    return "initialization";
  return nullptr;
}

static const char *findDifference(const fb::Output &a, const fb::Output &b) {
  if (a.dtype() != b.dtype())
    return "element type";
  if (!areEqual(a.shape(), b.shape()) || !areEqual(a.logical(), b.logical()))
    return "shape";
  if (!areEqual(a.dims(), b.dims()) ||
      !std::ranges::equal(toSpan(a.partial()), toSpan(b.partial())))
    return "placement";
  if (toView(a.state()) != toView(b.state()))
    return "state";
  return nullptr;
}

Status cleave::runtime::verifyShared(const fb::Program &program) {
  std::map<std::string, std::pair<const fb::State *, size_t>> states;
  std::map<std::string_view, std::pair<const fb::Output *, size_t>> outputs;
  auto check = [](const std::string &what, const auto &first,
                  const auto &second) -> Status {
    if (const char *field = findDifference(*first.first, *second.first))
      return Status::error(what + " has another " + field + " in stage " +
                           std::to_string(first.second) + " than in stage " +
                           std::to_string(second.second));
    return {};
  };
  for (size_t i = 0; i < getSize(program.stages()); ++i) {
    Stage stage(program, i);
    for (const fb::State *state : toList(stage->states())) {
      std::string name = std::string(toView(state->role())) + " " +
                         quote(toView(state->name()));
      std::pair here(state, i);
      CLEAVE_RETURN_IF_ERROR(
          check(name, states.emplace(name, here).first->second, here));
    }
    for (const fb::Output *output : toList(stage->outputs())) {
      std::string_view name = toView(output->name());
      std::pair here(output, i);
      CLEAVE_RETURN_IF_ERROR(check("output " + quote(name),
                                   outputs.emplace(name, here).first->second,
                                   here));
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// A step of all stages
//===----------------------------------------------------------------------===//

namespace {

/// An instruction of a stage, or the beginning of its update.
struct Point {
  static constexpr size_t update = SIZE_MAX;
  size_t stage, instruction;
};

/// The ends are the first instructions that send and receive on it.
struct Channel {
  std::optional<Point> sender, receiver;
  std::deque<uint32_t> sent; ///< micro-batches whose messages are on their way
};

/// How far a stage is.
struct Walk {
  explicit Walk(Stage stage) : stage(stage) {}

  Stage stage;
  /// Of each segment, the instructions in which it sends, receives or meets.
  std::vector<std::vector<size_t>> stops;
  size_t run = 0;
  size_t stop = 0; ///< of the run's segment
  bool isUpdating = false;
  std::optional<Point> waitsIn;
};

class MeetingVerifier {
public:
  explicit MeetingVerifier(const fb::Program &program) : program(program) {}

  Status verify();

private:
  bool isMeeting(const fb::Instruction &instruction) const {
    auto group = toSpan(instruction.group());
    return isCollective(instruction.work_type()) &&
           std::ranges::find(group, program.stage_axis()) != group.end();
  }
  const fb::Instruction &get(const Point &point) const {
    return walks[point.stage].stage.getInstruction(point.instruction);
  }
  std::string describe(const Point &point) const {
    const Stage &stage = walks[point.stage].stage;
    if (point.instruction == Point::update)
      return stage.getLabel() + ", the beginning of the update";
    return describeInstruction(stage, point.instruction);
  }
  Status bad(const Point &point, const std::string &how) const {
    return Status::error(describe(point) + " " + how);
  }

  Status findStops();
  Status connect(const Point &end);
  Status checkChannels() const;
  /// Goes on with a stage until it waits or ends.
  Status advance(size_t stage);
  Status send(const Point &point, uint32_t microBatch);
  Status receive(const Point &point, uint32_t microBatch);
  Status meet(const Point &point);
  Status expectNothingSent(const char *when) const;
  Status describeWaiting() const;

  const fb::Program &program;
  std::vector<Walk> walks;
  std::map<int64_t, Channel> channels;
  std::deque<size_t> ready; ///< stages that may go on; each once
  std::vector<Point> met;   ///< those that have come to the next meeting
};

/// Several instructions of a stage may send on a channel, or receive, if their
/// messages are alike and keep their order.
Status MeetingVerifier::connect(const Point &end) {
  const fb::Instruction &instruction = get(end);
  int64_t number = getMessage(instruction).channel;
  Channel &channel = channels[number];
  bool sends = instruction.work_type() == fb::Opcode::Send;
  std::optional<Point> &first = sends ? channel.sender : channel.receiver;
  if (!first) {
    first = end;
    return {};
  }
  const fb::Instruction &other = get(*first);
  const char *differs =
      first->stage != end.stage                                  ? "stage"
      : other.stream() != instruction.stream()                   ? "stream"
      : getMessage(other).stage != getMessage(instruction).stage ? "peer"
      : toSpan(other.operands())[0].bytes() !=
              toSpan(instruction.operands())[0].bytes()
          ? "size"
          : nullptr;
  if (!differs)
    return {};
  return bad(end, std::string(sends ? "sends" : "receives") + " on channel " +
                      std::to_string(number) + ", as does " + describe(*first) +
                      " of another " + differs);
}

Status MeetingVerifier::findStops() {
  uint64_t total = 0;
  for (size_t i = 0; i < getSize(program.stages()); ++i) {
    walks.emplace_back(Stage(program, i));
    Walk &walk = walks.back();
    for (size_t s = 0; s < walk.stage.getSegmentCount(); ++s) {
      walk.stops.emplace_back();
      const fb::Segment &segment = walk.stage.getSegment(s);
      for (size_t k = segment.begin(); k < segment.end(); ++k) {
        const fb::Instruction &instruction = walk.stage.getInstruction(k);
        if (isMessage(instruction.work_type()))
          CLEAVE_RETURN_IF_ERROR(connect({i, k}));
        if (isMessage(instruction.work_type()) || isMeeting(instruction))
          walk.stops.back().push_back(k);
      }
    }
    for (const fb::Run &run : walk.stage.getRuns())
      total += walk.stops[run.segment()].size();
    if (total > limits::meetings)
      return Status::error("the program's stages send, receive and meet more "
                           "than " +
                           std::to_string(limits::meetings) +
                           " times in a step");
  }
  return {};
}

/// That each channel has two ends, which fit each other.
Status MeetingVerifier::checkChannels() const {
  for (const auto &[number, channel] : channels) {
    std::string on = "on channel " + std::to_string(number);
    if (!channel.receiver)
      return bad(*channel.sender, "sends " + on + ", where nothing receives");
    if (!channel.sender)
      return bad(*channel.receiver, "receives " + on + ", where nothing sends");
    const Point &from = *channel.sender, &to = *channel.receiver;
    for (auto [end, other] : {std::pair(from, to), {to, from}})
      if (int64_t peer = getMessage(get(end)).stage;
          peer != int64_t(other.stage))
        return bad(end, "has stage " + std::to_string(peer) +
                            ", but the other end of channel " +
                            std::to_string(number) + " is " + describe(other));
    uint64_t sent = toSpan(get(from).operands())[0].bytes();
    uint64_t received = toSpan(get(to).operands())[0].bytes();
    if (sent != received)
      return bad(to, "receives " + std::to_string(received) + " bytes, but " +
                         describe(from) + " sends " + std::to_string(sent));
  }
  return {};
}

Status MeetingVerifier::send(const Point &point, uint32_t microBatch) {
  Channel &channel = channels[getMessage(get(point)).channel];
  channel.sent.push_back(microBatch);
  std::optional<Point> &waiting = walks[channel.receiver->stage].waitsIn;
  if (waiting && waiting->instruction != Point::update &&
      get(*waiting).work_type() == fb::Opcode::Recv &&
      &channels[getMessage(get(*waiting)).channel] == &channel) {
    waiting.reset();
    ready.push_back(channel.receiver->stage);
  }
  return {};
}

/// The stage waits where there is no message.
Status MeetingVerifier::receive(const Point &point, uint32_t microBatch) {
  Channel &channel = channels[getMessage(get(point)).channel];
  if (channel.sent.empty()) {
    walks[point.stage].waitsIn = point;
    return {};
  }
  if (channel.sent.front() != microBatch)
    return bad(point, "receives for micro-batch " + std::to_string(microBatch) +
                          " what " + describe(*channel.sender) +
                          " has sent for micro-batch " +
                          std::to_string(channel.sent.front()));
  channel.sent.pop_front();
  return {};
}

/// The stage waits unless it is the last to come.
Status MeetingVerifier::meet(const Point &point) {
  if (!met.empty()) {
    const Point &other = met.front();
    bool isSame = (point.instruction == Point::update) ==
                  (other.instruction == Point::update);
    if (isSame && point.instruction != Point::update) {
      const fb::Instruction &a = get(point), &b = get(other);
      isSame = a.work_type() == b.work_type() && a.stream() == b.stream() &&
               isSameWork(a, b) && areEqual(a.group(), b.group());
    }
    if (!isSame)
      return bad(point, "is not what " + describe(other) +
                            " is, and the two would meet");
  }
  met.push_back(point);
  walks[point.stage].waitsIn = point;
  if (met.size() < walks.size())
    return {};
  for (const Point &one : met) {
    walks[one.stage].waitsIn.reset();
    if (one.stage != point.stage)
      ready.push_back(one.stage);
  }
  met.clear();
  if (point.instruction != Point::update)
    return {};
  return expectNothingSent("when the update begins");
}

Status MeetingVerifier::advance(size_t number) {
  Walk &walk = walks[number];
  std::span<const fb::Run> runs = walk.stage.getRuns();
  for (;;) {
    if (walk.stop == 0 && !walk.isUpdating &&
        walk.run == walk.stage->update_run()) {
      walk.isUpdating = true;
      CLEAVE_RETURN_IF_ERROR(meet({number, Point::update}));
      if (walk.waitsIn)
        return {};
    }
    if (walk.run == runs.size())
      return {};
    const fb::Run &run = runs[walk.run];
    const std::vector<size_t> &stops = walk.stops[run.segment()];
    if (walk.stop == stops.size()) {
      walk.stop = 0;
      ++walk.run;
      continue;
    }
    Point point{number, stops[walk.stop]};
    if (get(point).work_type() == fb::Opcode::Recv) {
      CLEAVE_RETURN_IF_ERROR(receive(point, run.micro_batch()));
      if (walk.waitsIn) // to be looked at again
        return {};
      ++walk.stop;
      continue;
    }
    ++walk.stop;
    if (get(point).work_type() == fb::Opcode::Send)
      CLEAVE_RETURN_IF_ERROR(send(point, run.micro_batch()));
    else
      CLEAVE_RETURN_IF_ERROR(meet(point));
    if (walk.waitsIn)
      return {};
  }
}

Status MeetingVerifier::expectNothingSent(const char *when) const {
  for (const auto &[number, channel] : channels)
    if (!channel.sent.empty())
      return bad(*channel.sender, "sends for micro-batch " +
                                      std::to_string(channel.sent.front()) +
                                      " what " + describe(*channel.receiver) +
                                      " has not received " + when);
  return {};
}

Status MeetingVerifier::describeWaiting() const {
  constexpr size_t most = 8;
  std::string text;
  size_t count = 0;
  for (const Walk &walk : walks) {
    if (!walk.waitsIn || ++count > most)
      continue;
    const Point &point = *walk.waitsIn;
    bool receives = point.instruction != Point::update &&
                    get(point).work_type() == fb::Opcode::Recv;
    text += (text.empty() ? "" : "; ") + describe(point) + " waits for " +
            (receives ? "stage " + std::to_string(getMessage(get(point)).stage)
                      : "all stages");
  }
  if (count > most)
    text += "; and " + std::to_string(count - most) + " more wait";
  return Status::error("the stages would wait for ever: " + text);
}

Status MeetingVerifier::verify() {
  CLEAVE_RETURN_IF_ERROR(findStops());
  CLEAVE_RETURN_IF_ERROR(checkChannels());
  for (size_t i = 0; i < walks.size(); ++i)
    ready.push_back(i);
  for (; !ready.empty(); ready.pop_front())
    CLEAVE_RETURN_IF_ERROR(advance(ready.front()));
  for (const Walk &walk : walks)
    if (walk.waitsIn)
      return describeWaiting();
  return expectNothingSent("at the end of a step");
}

} // namespace

Status cleave::runtime::verifyMeetings(const fb::Program &program) {
  return MeetingVerifier(program).verify();
}
