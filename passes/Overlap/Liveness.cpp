//===- Liveness.cpp - When each buffer of a program is in use -------------===//
//
// Instructions are numbered as they are listed; a buffer is in use from one
// number to another.
//
//  1. A buffer that one segment alone uses is in use between the first and the
//     last of its instructions that name it: in each run it is written anew.
//  2. A buffer that several segments use holds its value from the first run of
//     one of them to the last run of one of them. It is in use in all of each
//     segment that runs meanwhile; but in one that runs only once, and is the
//     first or the last of them, from or up to the instruction that names it.
//  3. What an instruction of another stream than 0 uses, it uses wherever
//     stream 0 is until that one knows it done: in its own run, and in those
//     behind it.
//  4. Instructions that begin together use what any of them does from the first
//     of them on.
//  5. Pinned buffers, those of state, data and outputs, are always in use.
//
// Example: segments a = 0..9, run once, m = 10..19, run for each micro-batch,
// and b = 20..29, run once. A buffer that 3 writes and 12 reads is in use from
// 3 to 19, since the next micro-batch reads it again; one that 12 adds to and
// 25 reads, from 10 to 25.
//
//===----------------------------------------------------------------------===//
#include "passes/Overlap/Liveness.h"
#include "passes/Overlap/OverlapModel.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/MapVector.h"
#include <numeric>

using namespace mlir;
using namespace cleave;

namespace {
struct Span {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;

  void include(Span other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

struct Segment {
  Span numbers;
  Span runs;
  bool isRunOnce() const { return runs.first == runs.last; }
};
} // namespace

/// When a buffer is in use that several segments, by index, use.
static Span getSpan(ArrayRef<Segment> segments,
                    const llvm::MapVector<size_t, Span> &uses) {
  Span runs;
  for (auto &[segment, use] : uses)
    runs.include(segments[segment].runs);
  Span span;
  for (auto [i, segment] : llvm::enumerate(segments)) {
    if (segment.runs.last < runs.first || runs.last < segment.runs.first)
      continue;
    Span part = segment.numbers;
    if (auto use = uses.find(i); use != uses.end() && segment.isRunOnce()) {
      if (segment.runs.first == runs.first)
        part.first = use->second.first;
      if (segment.runs.last == runs.last)
        part.last = use->second.last;
    }
    span.include(part);
  }
  return span;
}

/// `streams`: the program's instructions, and for what they wait.
static SmallVector<LiveBuffer> computeLiveness(exec::ProgramOp program,
                                               const StreamProgram &streams) {
  SmallVector<Segment> segments;
  llvm::StringMap<size_t> byName;
  llvm::DenseMap<Operation *, llvm::MapVector<size_t, Span>> uses;
  /// Where they are in use beyond the segments that name them.
  llvm::DenseMap<Operation *, Span> beyond;
  std::vector<OpRange> inFlight = getInFlight(streams);
  int64_t number = 0;
  for (auto op : program.getBody().front().getOps<exec::SegmentOp>()) {
    Instructions instructions = getInstructions(op);
    Segment segment;
    int64_t begin = number, last = begin + int64_t(instructions.size()) - 1;
    segment.numbers = {begin, std::max(begin, last)};
    int64_t bucket = number; ///< the first that begins with the one at hand
    for (exec::InstructionOpInterface instruction : instructions) {
      Span flight{inFlight[size_t(number)].first,
                  inFlight[size_t(number)].last};
      Span own{std::max(begin, std::min(bucket, flight.first)),
               std::min(flight.last, last)};
      for (Value operand : instruction->getOperands()) {
        exec::BufferOp buffer = exec::getBuffer(operand);
        uses[buffer][segments.size()].include(own);
        if (flight.first < begin || flight.last > last)
          beyond[buffer].include(flight);
      }
      ++number;
      if (!exec::getOrder(instruction).getWithNext())
        bucket = number;
    }
    byName[op.getSymName()] = segments.size();
    segments.push_back(segment);
  }
  int64_t run = 0;
  for (auto op : program.getBody().front().getOps<exec::RunOp>()) {
    segments[byName.lookup(op.getSegment())].runs.include({run, run});
    ++run;
  }

  SmallVector<LiveBuffer> live;
  program.walk([&](exec::BufferOp op) {
    auto it = uses.find(op);
    Span span{0, 0};
    if (op.getPinned())
      span = {0, std::max<int64_t>(number - 1, 0)};
    else if (it != uses.end())
      span = it->second.size() == 1 ? it->second.front().second
                                    : getSpan(segments, it->second);
    if (auto flight = beyond.find(op); flight != beyond.end())
      span.include(flight->second);
    live.push_back({op, span.first, span.last});
  });
  return live;
}

SmallVector<LiveBuffer> cleave::computeLiveness(exec::ProgramOp program) {
  return ::computeLiveness(program, getStreamModel(program).program);
}

namespace {
/// The instructions of a program, all numbered, by segment.
struct Numbers {
  explicit Numbers(exec::ProgramOp program) {
    for (auto segment : program.getBody().front().getOps<exec::SegmentOp>()) {
      begins.push_back(int64_t(instructions.size()));
      llvm::append_range(instructions, getInstructions(segment));
    }
    begins.push_back(int64_t(instructions.size()));
  }
  size_t getNumSegments() const { return begins.size() - 1; }
  size_t getSegment(int64_t number) const {
    return size_t(llvm::upper_bound(begins, number) - begins.begin()) - 1;
  }

  Instructions instructions;
  std::vector<int64_t> begins; ///< of the segments, and the end
};
} // namespace

/// By instruction, bytes in use.
static std::vector<double> addUp(ArrayRef<LiveBuffer> live, size_t count) {
  std::vector<double> bytes(count + 1);
  for (LiveBuffer each : live) {
    bytes[size_t(each.first)] += double(each.op.getBytes());
    bytes[std::min(size_t(each.last) + 1, count)] -= double(each.op.getBytes());
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

std::vector<OverlapMemory> cleave::getMemory(exec::ProgramOp program) {
  Numbers numbers(program);
  /// By buffer, the instructions that use it, of all segments.
  llvm::DenseMap<Operation *, SmallVector<int64_t, 4>> users;
  for (auto [number, op] : llvm::enumerate(numbers.instructions))
    for (Value operand : op->getOperands()) {
      auto &each = users[exec::getBuffer(operand)];
      if (each.empty() || each.back() != int64_t(number))
        each.push_back(int64_t(number));
    }
  SmallVector<LiveBuffer> live = computeLiveness(program);
  std::vector<double> bytes = addUp(live, numbers.instructions.size());
  std::vector<OverlapMemory> parts(numbers.getNumSegments());
  for (auto [i, part] : llvm::enumerate(parts))
    part.live.assign(bytes.begin() + numbers.begins[i],
                     bytes.begin() + numbers.begins[i + 1]);
  for (LiveBuffer each : live) {
    const SmallVector<int64_t, 4> &uses = users[each.op];
    if (uses.empty() || each.op.getPinned())
      continue;
    size_t part = numbers.getSegment(uses.front());
    if (part != numbers.getSegment(uses.back()))
      continue;
    OverlapMemory::Buffer &buffer = parts[part].buffers.emplace_back();
    buffer.bytes = double(each.op.getBytes());
    for (int64_t use : uses)
      buffer.users.push_back(use - numbers.begins[part]);
  }
  return parts;
}

std::vector<double> cleave::getMostInUse(exec::ProgramOp program) {
  Numbers numbers(program);
  StreamProgram streams = getStreamModel(program).program;
  addWaits(streams);
  std::vector<double> bytes =
      addUp(::computeLiveness(program, streams), numbers.instructions.size());
  std::vector<double> most(numbers.getNumSegments());
  for (auto [number, each] : llvm::enumerate(bytes)) {
    double &highest = most[numbers.getSegment(int64_t(number))];
    highest = std::max(highest, each);
  }
  return most;
}
