//===- Operation.cpp ------------------------------------------------------===//
#include "test/cuda/nccl/Operation.h"
#include "runtime/comm/Reduce.h"
#include "runtime/cuda/DriverApi.h"
#include <algorithm>
#include <cstring>

using namespace cleave::simulated;
using cleave::runtime::ElementType;
using cleave::runtime::Reduction;

namespace {

constexpr std::byte untouched{0xff};

ElementType getElementType(int type) {
  return type == ncclFloat32    ? ElementType::F32
         : type == ncclBfloat16 ? ElementType::BF16
                                : ElementType::I32;
}

std::string describeRank(int rank) { return "rank " + std::to_string(rank); }

} // namespace

bool Part::isInPlace(int rank) const {
  switch (wish.call) {
  case NcclCall::AllReduce:
    return in == out;
  case NcclCall::AllGather:
    return in == out + uint64_t(rank) * wish.getBytes();
  case NcclCall::ReduceScatter:
    return out == in + uint64_t(rank) * wish.getBytes();
  default:
    return false;
  }
}

bool Part::hasOverlap(int ranks) const {
  return in < out + wish.getOutputBytes(ranks) &&
         out < in + wish.getInputBytes(ranks);
}

//===----------------------------------------------------------------------===//
// Step
//===----------------------------------------------------------------------===//

/// One try to go on.
class Operation::Step {
public:
  Step(const Operation &work, Execution &execution)
      : work(work), comm(*work.comm), board(*comm.board), execution(execution),
        rank(comm.getRank()), ranks(comm.getSize()) {}

  Progress run();

private:
  void fail(const std::string &message) {
    board.postError(ncclInvalidUsage, comm.describe() + ": " + message);
    execution.fail(errorLaunchFailed, message);
  }
  bool hasFailed() const { return execution.hasFailed(); }
  void noteProgress() {
    ++getProgress();
    comm.active->lastSeconds = getSeconds();
  }

  void begin();
  void keepInput(const Part &part, Begun &begun);
  void fillOutput(const Part &part);
  void checkDevice();

  void goOnWithCollectives();
  bool canPost() const;
  void post();
  void meet();
  bool checkPeer(int other, std::span<const Wish> mine);
  bool compute(size_t index, uint64_t offset);
  bool isOnSameGpu(int other);

  void goOnWithMessages();
  void send(const Part &part, Begun &begun);
  void receive(const Part &part, Begun &begun);

  void finish(const Part &part, const Begun &begun,
              std::span<const std::byte> output);

  const Operation &work;
  Comm &comm;
  Board &board;
  Execution &execution;
  int rank, ranks;
};

Progress Operation::Step::run() {
  if (comm.isDestroyed.load()) {
    execution.fail(errorLaunchFailed, "the communicator was destroyed before");
    return Progress::Done;
  }
  if (comm.isAborted.load()) {
    comm.active.reset();
    return Progress::Done;
  }
  if (comm.active && comm.active->operation != execution.getOperation()) {
    fail("begins before the communicator's operation in another stream has "
         "ended, which is not simulated");
    return Progress::Done;
  }
  if (!comm.active)
    begin();
  if (hasFailed())
    return Progress::Done;
  Active &active = *comm.active;
  if (active.refusals > 0) {
    --active.refusals;
    active.askedAt = getProgress().load() - 1;
    return Progress::Blocked;
  }
  if (!active.isStuck) {
    goOnWithCollectives();
    if (!hasFailed())
      goOnWithMessages();
    if (hasFailed())
      return Progress::Done;
  }
  if (active.isDone && std::ranges::all_of(active.parts, &Begun::isDone)) {
    comm.active.reset();
    return Progress::Done;
  }
  // A thread that polls an event does not tell the machine that it waits.
  if (getSeconds() - active.lastSeconds > comm.settings.patience) {
    std::string message = "deadlock: it waits in vain";
    board.postError(ncclInternalError, work.getName() + ": " + message);
    execution.fail(errorLaunchFailed, message);
    return Progress::Done;
  }
  active.askedAt = getProgress().load();
  return Progress::Blocked;
}

//===----------------------------------------------------------------------===//
// Begin and end
//===----------------------------------------------------------------------===//

void Operation::Step::checkDevice() {
  int device = execution.getDevice();
  if (comm.device >= 0 && comm.device != device)
    fail("is on device " + std::to_string(device) +
         ", the communicator was used on device " +
         std::to_string(comm.device));
  comm.device = device;
  board.getMine().device.store(device + 1);
}

void Operation::Step::keepInput(const Part &part, Begun &begun) {
  uint64_t bytes = part.wish.getInputBytes(ranks);
  const std::byte *place = execution.translate(part.in, bytes, "the input");
  if (place)
    begun.input.assign(place, place + bytes);
}

/// But for what is input too.
void Operation::Step::fillOutput(const Part &part) {
  uint64_t bytes = part.wish.getOutputBytes(ranks);
  std::byte *place = execution.translate(part.out, bytes, "the output");
  if (!place)
    return;
  if (!part.isInPlace(rank)) {
    std::fill(place, place + bytes, untouched);
  } else if (part.wish.call == NcclCall::AllGather) {
    std::byte *mine = place + (part.in - part.out);
    std::fill(place, mine, untouched);
    std::fill(mine + part.wish.getBytes(), place + bytes, untouched);
  }
}

void Operation::Step::begin() {
  checkDevice();
  if (hasFailed())
    return;
  Active &active = comm.active.emplace();
  active.operation = execution.getOperation();
  active.lastSeconds = getSeconds();
  active.parts.resize(work.parts.size());
  active.isDone = true;
  for (size_t i = 0; i < work.parts.size(); ++i) {
    const Part &part = work.parts[i];
    Begun &begun = active.parts[i];
    keepInput(part, begun);
    if (hasFailed())
      return;
    if (part.wish.call == NcclCall::Send)
      begun.number = ++comm.sent[part.peer];
    else if (part.wish.call == NcclCall::Recv)
      begun.number = ++comm.received[part.peer];
    else
      active.isDone = false;
  }
  if (!active.isDone)
    active.collective = ++comm.collectives;
  for (const Part &part : work.parts) {
    fillOutput(part);
    if (hasFailed())
      return;
  }
  if (++comm.begun == comm.settings.failing) {
    active.isStuck = true;
    comm.setError(ncclRemoteError, comm.describe() + ": operation " +
                                       std::to_string(comm.begun) + " (" +
                                       work.parts.front().wish.describe() +
                                       ") fails in flight as it was wished");
  }
  // The order in which processes proceed is the machine's; this adds to it.
  if (!comm.isOfOneProcess && comm.random() % 4 == 0)
    active.refusals = int(1 + comm.random() % 3);
}

void Operation::Step::finish(const Part &part, const Begun &begun,
                             std::span<const std::byte> output) {
  if (!begun.input.empty()) {
    const std::byte *place =
        execution.translate(part.in, begun.input.size(), "the input");
    if (!place)
      return;
    if (!std::equal(begun.input.begin(), begun.input.end(), place))
      return fail("its input was written while it ran: something in another "
                  "stream does not wait for it (" +
                  part.wish.describe() + ")");
  }
  if (output.empty())
    return;
  std::byte *place = execution.translate(part.out, output.size(), "the output");
  if (!place)
    return;
  // What is input as well was looked at above.
  uint64_t begin = output.size(), end = output.size();
  if (part.isInPlace(rank)) {
    begin = part.wish.call == NcclCall::AllGather ? part.in - part.out : 0;
    end = begin + part.wish.getBytes();
  }
  for (uint64_t i = 0; i < output.size(); ++i)
    if (i == begin)
      i = end - 1;
    else if (place[i] != untouched)
      return fail("its output was written while it ran: something in another "
                  "stream does not wait for it (" +
                  part.wish.describe() + ")");
  std::copy(output.begin(), output.end(), place);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

void Operation::Step::goOnWithCollectives() {
  Active &active = *comm.active;
  if (active.isDone)
    return;
  if (!active.isPosted && canPost())
    post();
  if (!active.isPosted || hasFailed())
    return;
  for (int other = 0; other < ranks; ++other)
    if (board.getSlot(other).posted.load() < active.collective)
      return;
  meet();
}

/// What this rank posted before was read by all.
bool Operation::Step::canPost() const {
  for (int other = 0; other < ranks; ++other)
    if (board.getSlot(other).read.load() + 1 < comm.active->collective)
      return false;
  return true;
}

/// How many, what each of them is, and their inputs.
void Operation::Step::post() {
  Active &active = *comm.active;
  std::vector<std::byte> data(sizeof(uint64_t));
  uint64_t count = 0;
  for (const Part &part : work.parts) {
    if (part.wish.isMessage())
      continue;
    ++count;
    auto wish = std::as_bytes(std::span(&part.wish, 1));
    data.insert(data.end(), wish.begin(), wish.end());
  }
  std::memcpy(data.data(), &count, sizeof count);
  for (size_t i = 0; i < work.parts.size(); ++i)
    if (!work.parts[i].wish.isMessage())
      data.insert(data.end(), active.parts[i].input.begin(),
                  active.parts[i].input.end());
  Slot &mine = board.getMine();
  if (!board.write(mine.data, data))
    return fail("there is no room in TMPDIR for " +
                std::to_string(data.size()) + " bytes");
  mine.posted.store(active.collective);
  active.isPosted = true;
  noteProgress();
}

bool Operation::Step::isOnSameGpu(int other) {
  const Slot &mine = board.getMine(), &theirs = board.getSlot(other);
  return other != rank && mine.host == theirs.host &&
         mine.device.load() == theirs.device.load();
}

/// Whether the other rank's collectives are the same.
bool Operation::Step::checkPeer(int other, std::span<const Wish> mine) {
  if (isOnSameGpu(other)) {
    fail("duplicate GPU: " + describeRank(rank) + " and " +
         describeRank(other) + " are both on device " +
         std::to_string(comm.device));
    return false;
  }
  const Extent &extent = board.getSlot(other).data;
  uint64_t count = 0;
  std::vector<Wish> wishes;
  bool isRead =
      board.read(extent, 0, std::as_writable_bytes(std::span(&count, 1)));
  if (isRead) {
    wishes.resize(count);
    isRead = board.read(extent, sizeof count,
                        std::as_writable_bytes(std::span(wishes)));
  }
  if (!isRead) {
    fail("cannot read what " + describeRank(other) + " posted");
    return false;
  }
  std::string what = "collective " + std::to_string(comm.active->collective) +
                     " of the communicator";
  if (wishes.size() != mine.size()) {
    fail(what + ": " + describeRank(rank) + " has " +
         std::to_string(mine.size()) + " in a group, " + describeRank(other) +
         " has " + std::to_string(wishes.size()));
    return false;
  }
  for (size_t i = 0; i < mine.size(); ++i)
    if (!(mine[i] == wishes[i])) {
      fail(what + ": " + describeRank(rank) + " calls " + mine[i].describe() +
           ", " + describeRank(other) + " calls " + wishes[i].describe());
      return false;
    }
  return true;
}

/// All have posted.
void Operation::Step::meet() {
  Active &active = *comm.active;
  std::vector<Wish> mine;
  for (const Part &part : work.parts)
    if (!part.wish.isMessage())
      mine.push_back(part.wish);
  for (int other = 0; other < ranks; ++other)
    if (other != rank && !checkPeer(other, mine))
      return;
  uint64_t offset = sizeof(uint64_t) + mine.size() * sizeof(Wish);
  for (size_t i = 0; i < work.parts.size(); ++i) {
    const Part &part = work.parts[i];
    if (part.wish.isMessage())
      continue;
    if (!compute(i, offset))
      return;
    offset += part.wish.getInputBytes(ranks);
    active.parts[i].isDone = true;
  }
  board.getMine().read.store(active.collective);
  active.isDone = true;
  noteProgress();
}

/// `offset`: where the inputs lie in what each rank posted.
bool Operation::Step::compute(size_t index, uint64_t offset) {
  const Part &part = work.parts[index];
  const Wish &wish = part.wish;
  // Of each rank what this one needs of its input.
  uint64_t bytes = wish.getBytes();
  if (wish.call == NcclCall::ReduceScatter)
    offset += uint64_t(rank) * bytes;
  std::vector<std::byte> all(bytes * uint64_t(ranks));
  std::vector<const void *> inputs;
  for (int other = 0; other < ranks; ++other) {
    std::span<std::byte> place(all.data() + uint64_t(other) * bytes, bytes);
    inputs.push_back(place.data());
    if (!board.read(board.getSlot(other).data, offset, place)) {
      fail("cannot read what " + describeRank(other) + " posted");
      return false;
    }
  }
  std::vector<std::byte> output;
  if (wish.reduces()) {
    output.resize(bytes);
    void *result = output.data();
    runtime::reduceInOrder(
        inputs, {&result, 1}, wish.count, getElementType(wish.type),
        wish.reduction == ncclMax ? Reduction::Max : Reduction::Sum);
  }
  finish(part, comm.active->parts[index], wish.reduces() ? output : all);
  return !hasFailed();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Those between the same two ranks one after the other.
void Operation::Step::goOnWithMessages() {
  std::set<std::pair<NcclCall, int>> waiting;
  for (size_t i = 0; i < work.parts.size(); ++i) {
    const Part &part = work.parts[i];
    Begun &begun = comm.active->parts[i];
    std::pair<NcclCall, int> way(part.wish.call, part.peer);
    if (begun.isDone || !part.wish.isMessage() || waiting.contains(way))
      continue;
    if (part.wish.call == NcclCall::Send)
      send(part, begun);
    else
      receive(part, begun);
    if (hasFailed())
      return;
    if (!begun.isDone)
      waiting.insert(way);
  }
}

/// Done as the receiver has come, and not before.
void Operation::Step::send(const Part &part, Begun &begun) {
  Mailbox &box = board.getMailbox(rank, part.peer);
  if (!begun.isPosted) {
    if (box.taken.load() + 1 < begun.number)
      return;
    if (!board.write(box.data, begun.input))
      return fail("there is no room in TMPDIR for a message of " +
                  std::to_string(begun.input.size()) + " bytes");
    box.wish = part.wish;
    box.posted.store(begun.number);
    begun.isPosted = true;
    noteProgress();
  }
  if (box.ready.load() < begun.number)
    return;
  finish(part, begun, {});
  begun.isDone = true;
  noteProgress();
}

void Operation::Step::receive(const Part &part, Begun &begun) {
  Mailbox &box = board.getMailbox(part.peer, rank);
  if (!begun.isPosted) {
    box.ready.store(begun.number);
    begun.isPosted = true;
    noteProgress();
  }
  if (box.posted.load() < begun.number)
    return;
  if (isOnSameGpu(part.peer))
    return fail("duplicate GPU: " + describeRank(rank) + " and " +
                describeRank(part.peer) + " are both on device " +
                std::to_string(comm.device));
  if (box.wish.type != part.wish.type || box.wish.count != part.wish.count)
    return fail("message " + std::to_string(begun.number) +
                " between them: " + describeRank(part.peer) + " calls " +
                box.wish.describe() + " to " + describeRank(rank) +
                ", which calls " + part.wish.describe());
  std::vector<std::byte> output(part.wish.getBytes());
  if (!board.read(box.data, 0, output))
    return fail("cannot read what " + describeRank(part.peer) + " sent");
  finish(part, begun, output);
  if (hasFailed())
    return;
  box.taken.store(begun.number);
  begun.isDone = true;
  noteProgress();
}

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

/// For whom it waits, and where they are; nothing where it does not wait.
std::string Operation::describeWait() const {
  if (!comm->active)
    return {};
  std::string text;
  const Active &active = *comm->active;
  const Board &board = *comm->board;
  if (active.isStuck)
    return ", which failed in flight";
  auto describePeer = [&](int other) {
    Presence presence = board.getSlot(other).presence.load();
    if (presence == Presence::Left)
      text += " and has destroyed the communicator";
    else if (presence == Presence::Aborted)
      text += " and has aborted";
    else if (!board.isAlive(other))
      text += " and has ended";
  };
  for (int other = 0; other < comm->getSize() && !active.isDone; ++other) {
    uint64_t posted = board.getSlot(other).posted.load();
    if (posted >= active.collective)
      continue;
    text += "; it is the communicator's collective " +
            std::to_string(active.collective) + ", " + describeRank(other) +
            " has begun " + std::to_string(posted) + " so far";
    describePeer(other);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part &part = parts[i];
    if (!part.wish.isMessage() || active.parts[i].isDone)
      continue;
    bool isSend = part.wish.call == NcclCall::Send;
    const Mailbox &box = isSend ? board.getMailbox(comm->getRank(), part.peer)
                                : board.getMailbox(part.peer, comm->getRank());
    text += "; it is message " + std::to_string(active.parts[i].number) +
            " between them, " + describeRank(part.peer) + " has begun to " +
            (isSend ? "receive " : "send ") +
            std::to_string(isSend ? box.ready.load() : box.posted.load()) +
            " so far";
    describePeer(part.peer);
  }
  return text;
}

Operation::Operation(std::shared_ptr<Comm> taken, std::vector<Part> parts)
    : comm(std::move(taken)), parts(std::move(parts)) {
  std::lock_guard<std::mutex> lock(comm->mutex);
  comm->operations.insert(this);
}

Operation::~Operation() {
  std::lock_guard<std::mutex> lock(comm->mutex);
  comm->operations.erase(this);
}

std::string Operation::getName() const {
  const Part &first = parts.front();
  std::string text = first.wish.describe();
  if (first.wish.isMessage())
    text += (first.wish.call == NcclCall::Send ? " to " : " from ") +
            describeRank(first.peer);
  if (parts.size() > 1)
    text += " and " + std::to_string(parts.size() - 1) + " more in a group";
  text += " by " + comm->describe();
  std::lock_guard<std::mutex> lock(comm->mutex);
  return comm->executing == this ? text + describeWait() : text;
}

Progress Operation::execute(Execution &execution) const {
  // A failure drops all operations, this one too.
  std::shared_ptr<Comm> kept = comm;
  {
    std::lock_guard<std::mutex> lock(kept->mutex);
    kept->executing = this;
  }
  Progress progress = Step(*this, execution).run();
  if (progress == Progress::Blocked)
    return progress;
  std::lock_guard<std::mutex> lock(kept->mutex);
  kept->executing = nullptr;
  if (!execution.hasFailed())
    ++executed;
  return progress;
}

/// So that it is asked again: another process may have come, or what it waits
/// for in this one came after it was asked.
bool Operation::meetsOtherProcesses() const {
  return comm->active && (!comm->isOfOneProcess || comm->isAborted.load() ||
                          comm->active->askedAt != getProgress().load());
}
