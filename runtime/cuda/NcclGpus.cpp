//===- NcclGpus.cpp -------------------------------------------------------===//
#include "runtime/cuda/NcclGpus.h"
#include "runtime/comm/PhaseScope.h"
#include "runtime/cuda/Library.h"
#include "runtime/cuda/kernels/CollectiveLaunches.h"
#include "runtime/device/Device.h"
#include "runtime/program/Print.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <array>
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::cuda;
namespace fb = cleave::program;

#define CLEAVE_NCCL(nccl, call)                                                \
  CLEAVE_RETURN_IF_ERROR(                                                      \
      (nccl).check((nccl).api.call, #call, __FILE__, __LINE__))

//===----------------------------------------------------------------------===//
// Library
//===----------------------------------------------------------------------===//

/// What a person can do about a result.
static const char *getAdvice(int result) {
  switch (result) {
  case ncclUnhandledCudaError:
    return "; `nvidia-smi` shows the state of the GPUs, and NCCL_DEBUG=WARN "
           "which call of CUDA it was";
  case ncclSystemError:
    return "; a connection could not be made or was lost, or the system lacks "
           "memory: NCCL_DEBUG=WARN says which, NCCL_SOCKET_IFNAME names the "
           "network that machines meet in";
  case ncclRemoteError:
    return "; another rank, or its machine, has ended: what it said is the "
           "cause";
  default:
    return "; NCCL_DEBUG=WARN says more";
  }
}

static constexpr EntryName entryNames[] = {
#define CLEAVE_NAME(name, symbol, ...) {#name, #symbol},
    CLEAVE_NCCL_CALLS(CLEAVE_NAME)
#undef CLEAVE_NAME
};

Status Nccl::check(int result, const char *call, const char *file,
                   int line) const {
  if (result == ncclSuccess || result == ncclInProgress)
    return Status();
  const char *last = api.getLastError(nullptr);
  std::string message =
      describeFailure(call, entryNames, file, line) +
      api.getErrorString(result) + " (" + std::to_string(result) + ")" +
      (last && *last ? ": " + std::string(last) : "") + getAdvice(result);
  return result == ncclRemoteError ? Status::consequence(message)
                                   : Status::error(message);
}

std::string Nccl::getVersionText(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100);
}

Status Nccl::load() {
  void *library = dlopen(fileName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error("cannot open " + std::string(fileName) +
                         ", by which GPUs meet: install "
                         "NCCL, or add its folder to LD_LIBRARY_PATH (" +
                         dlerror() + ")");
  EntryFinder find(library);
  find(api.getErrorString, "ncclGetErrorString");
  find(api.getLastError, "ncclGetLastError");
#define CLEAVE_FIND(name, symbol, ...) find(api.name, #symbol);
  CLEAVE_NCCL_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
  if (find.getMissing())
    return Status::error(std::string(fileName) + " is too old: it has no " +
                         find.getMissing() + "; install NCCL " +
                         getVersionText(oldest) + " or later");
  CLEAVE_NCCL(*this, getVersion(&version));
  if (version < oldest)
    return Status::error("NCCL " + getVersionText(version) +
                         " is too old, expects " + getVersionText(oldest) +
                         " or later: install a newer one, or set "
                         "LD_LIBRARY_PATH to where one is");
  return Status();
}

Status Nccl::open(const Nccl *&library) {
  static std::once_flag once;
  static Nccl opened;
  static Status status;
  std::call_once(once, [] { status = opened.load(); });
  library = &opened;
  return status;
}

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

Status NcclConnections::add(int ranks, const NcclId &id, int rank,
                            std::string what, void *&comm) {
  CLEAVE_NCCL(nccl, commInitRank(&comm, ranks, id, rank));
  made.push_back({comm, std::move(what)});
  return Status();
}

NcclConnections::~NcclConnections() {
  if (!isMade)
    abort();
  for (const Connection &each : made)
    nccl.api.commDestroy(each.comm);
}

Status NcclConnections::check() const {
  for (const Connection &each : made) {
    int error = ncclSuccess;
    CLEAVE_NCCL(nccl, commGetAsyncError(each.comm, &error));
    Status status =
        nccl.check(error, "an operation of NCCL in flight", __FILE__, __LINE__);
    if (!status.ok())
      return status.at(each.what);
  }
  return Status();
}

void NcclConnections::abort() {
  nccl.api.groupStart();
  for (const Connection &each : std::exchange(made, {}))
    nccl.api.commAbort(each.comm);
  nccl.api.groupEnd();
}

/// A gather or scatter of so many pieces moves each by itself, all begun by one
/// start: as many as there are blocks of a sequence. More of them are packed.
static constexpr uint64_t mostPieces = 8;

static bool isPacked(const CollectiveWork &work) {
  switch (work.call) {
  case CollectiveCall::AllGather:
  case CollectiveCall::ReduceScatter:
    return work.outer > mostPieces;
  case CollectiveCall::AllToAll:
    return true;
  default:
    return false;
  }
}

/// What NCCL moves must be contiguous: of this rank alone, for what comes
/// before it and, of an exchange, behind it. It is there from the start, since
/// to free memory waits for all that was enqueued, and that for other ranks.
using ScratchBytes = std::array<uint64_t, 2>;
static ScratchBytes getScratchBytes(const CollectiveWork &work,
                                    const Group &group) {
  uint64_t ranks = uint64_t(group.getSize());
  if (!isPacked(work))
    return {};
  auto getBytes = [&](Parts parts) {
    return parts.blocks > 1 && ranks > 1 ? parts.getBytes() * ranks : 0;
  };
  if (work.call != CollectiveCall::AllToAll)
    return {getBytes(work.getParts()), 0};
  return {getBytes(work.exchange.getInput()),
          getBytes(work.exchange.getOutput())};
}

/// First the communicators of groups, of one stream after the other in the
/// order of the program, and then those of messages, of all streams in the
/// order of their channels: of the connections that are not made yet, the first
/// one's ranks have made all before it, so nobody waits for ever. What a rank
/// sends in one stream another may receive in any.
Status
NcclGpus::create(const Program &program, size_t count, Communicator &host,
                 const Context &context, const OwnKernels &kernels,
                 std::vector<std::unique_ptr<GpuCommunicator>> &communicators) {
  PhaseScope phase(host, Phase::Joining);
  const Nccl *nccl = nullptr;
  CLEAVE_RETURN_IF_ERROR(Nccl::open(nccl));
  auto connections = std::make_shared<NcclConnections>(*nccl);
  Stage stage = program.getStageOf(host.getRank());
  struct Peer {
    NcclGpus *gpus;
    int rank;
    bool isSender;
    uint64_t bytes; ///< of the largest message
    std::string first = {};
  };
  std::map<int, Peer> peers; // by channel
  for (size_t stream = 0; stream < count; ++stream) {
    auto *gpus = new NcclGpus(*nccl, connections, host, context, kernels);
    communicators.emplace_back(gpus);
    ScratchBytes bytes{};
    for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
      const fb::Instruction &instruction = stage.getInstruction(i);
      if (count > 1 && instruction.stream() != stream)
        continue;
      if (isCollective(instruction.work_type())) {
        const Group *group = nullptr;
        CLEAVE_RETURN_IF_ERROR(
            host.getGroup(toSpan(instruction.group()), group));
        CLEAVE_RETURN_IF_ERROR(
            gpus->connectGroup(*group, describeInstruction(stage, i)));
        ScratchBytes needed =
            getScratchBytes(describeCollective(instruction), *group);
        for (size_t which : {0, 1})
          bytes[which] = std::max(bytes[which], needed[which]);
      } else if (isMessage(instruction.work_type())) {
        Message message = getMessage(instruction);
        int rank = program.getMesh().moveTo(
            host.getRank(), program->stage_axis(), int(message.stage));
        Peer &peer = peers[int(message.channel)];
        peer = {gpus, rank, instruction.work_type() == fb::Opcode::Send,
                std::max<uint64_t>(peer.bytes,
                                   instruction.operands()->Get(0)->bytes()),
                peer.first.empty() ? describeInstruction(stage, i)
                                   : peer.first};
      }
    }
    // Code that is loaded while a collective runs may have to wait for it.
    if (std::vector<Kernel> packs; bytes[0] + bytes[1] > 0)
      CLEAVE_RETURN_IF_ERROR(kernels.find(getCopyPartsLaunches({}), packs));
    for (size_t which : {0, 1})
      CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(context, bytes[which],
                                                    "what a collective packs",
                                                    gpus->scratch[which]));
  }
  for (const auto &[channel, peer] : peers)
    CLEAVE_RETURN_IF_ERROR(peer.gpus->connectChannel(
        channel, peer.rank, peer.isSender, peer.bytes, peer.first));
  connections->setMade();
  return Status();
}

/// `among ranks 0 and 2, for instruction 9 (AllReduce "grad") or a later one`
static std::string describeUse(const std::string &whose,
                               const std::string &first) {
  return whose + ", for " + first + " or a later one";
}

Status NcclGpus::connectGroup(const Group &group, const std::string &first) {
  if (group.getSize() == 1 || groups.count(&group))
    return Status();
  NcclId mine{};
  if (group.getIndex() == 0)
    CLEAVE_NCCL(nccl, getUniqueId(&mine));
  std::vector<NcclId> all(size_t(group.getSize()));
  CLEAVE_RETURN_IF_ERROR(
      host.allGather(group, &mine, all.data(), 1, sizeof(NcclId)));
  void *comm = nullptr;
  CLEAVE_RETURN_IF_ERROR(connections->add(
      group.getSize(), all.front(), group.getIndex(),
      describeUse("among " + listRanks(group.getRanks()), first), comm));
  groups[&group] = comm;
  return Status();
}

Status NcclGpus::connectChannel(int channel, int peerRank, bool isSender,
                                uint64_t bytes, const std::string &first) {
  NcclId id{};
  if (isSender) {
    CLEAVE_NCCL(nccl, getUniqueId(&id));
    CLEAVE_RETURN_IF_ERROR(host.send(peerRank, channel, &id, sizeof(id)));
  } else {
    CLEAVE_RETURN_IF_ERROR(host.receive(peerRank, channel, &id, sizeof(id)));
  }
  Channel &made = channels[channel];
  made.peer = isSender ? 1 : 0;
  std::string peer = std::string(isSender ? "to" : "from") + " rank " +
                     std::to_string(peerRank);
  CLEAVE_RETURN_IF_ERROR(connections->add(2, id, isSender ? 0 : 1,
                                          describeUse(peer, first), made.comm));
  if (!isSender)
    return Status();
  CLEAVE_RETURN_IF_ERROR(
      DeviceMemory::allocate(context, bytes, "a message", made.copy));
  CLEAVE_RETURN_IF_ERROR(context.createStream(made.stream));
  CLEAVE_RETURN_IF_ERROR(context.createEvent(false, made.ready));
  return context.createEvent(false, made.sent);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static int getDataType(ElementType type) {
  return type == ElementType::F32    ? ncclFloat32
         : type == ElementType::BF16 ? ncclBfloat16
                                     : ncclInt32;
}

/// From a buffer whose blocks hold a piece of each part to whole parts, one
/// after the other; or back.
Status NcclGpus::pack(Parts parts, uint64_t ranks, Address in, Address out,
                      bool unpacks, void *stream) {
  // Rows are pieces, of one part after the other.
  int64_t piece = int64_t(parts.blockBytes);
  RowGroups apart{int64_t(parts.blocks), piece * int64_t(ranks), piece};
  RowGroups whole{int64_t(parts.blocks * ranks), piece, 0};
  CopyPartsParams params{};
  params.rows = int64_t(parts.blocks * ranks);
  params.bytes = piece;
  params.inGroups = unpacks ? whole : apart;
  params.outGroups = unpacks ? apart : whole;
  params.in = toPointer(in);
  params.out = toPointer(out);
  return kernels.launch(getCopyPartsLaunches(params), params, stream);
}

/// What `enqueue` enqueues begins together, by one start. Groups may be in
/// groups.
template <typename Enqueue>
static Status runInGroup(const Nccl &nccl, Enqueue &&enqueue) {
  CLEAVE_NCCL(nccl, groupStart());
  Status status = enqueue();
  CLEAVE_NCCL(nccl, groupEnd());
  return status;
}

/// Moves the pieces of a rank's part, of which `move` is given the place, in
/// bytes.
template <typename Move>
static Status movePieces(const Nccl &nccl, Parts parts, Move &&move) {
  return runInGroup(nccl, [&]() -> Status {
    for (uint64_t i = 0; i < parts.blocks; ++i)
      CLEAVE_RETURN_IF_ERROR(move(i * parts.blockBytes));
    return Status();
  });
}

/// What needs no packing begins together, by one start.
Status NcclGpus::run(const Group &group,
                     std::span<const GpuCollective> collectives, void *stream) {
  auto needsPacking = [](const GpuCollective &each) {
    return isPacked(each.work);
  };
  auto runAll = [&]() -> Status {
    for (const GpuCollective &each : collectives)
      CLEAVE_RETURN_IF_ERROR(runOne(group, each, stream));
    return Status();
  };
  return std::ranges::any_of(collectives, needsPacking)
             ? runAll()
             : runInGroup(nccl, runAll);
}

Status NcclGpus::runOne(const Group &group, const GpuCollective &each,
                        void *stream) {
  const CollectiveWork &work = each.work;
  void *comm = groups.find(&group)->second;
  uint64_t ranks = uint64_t(group.getSize());
  int type = getDataType(work.type);
  int op = work.reduction == Reduction::Max ? ncclMax : ncclSum;
  Parts parts = work.getParts();
  switch (work.call) {
  case CollectiveCall::AllReduce:
    CLEAVE_NCCL(nccl, allReduce(toPointer(each.in), toPointer(each.out),
                                work.inner, type, op, comm, stream));
    return Status();
  case CollectiveCall::AllGather: {
    auto gather = [&](Address in, Address out, uint64_t bytes) -> Status {
      CLEAVE_NCCL(nccl, allGather(toPointer(in), toPointer(out), bytes,
                                  ncclInt8, comm, stream));
      return Status();
    };
    if (!isPacked(work))
      return movePieces(nccl, parts, [&](uint64_t piece) {
        return gather(each.in + piece, each.out + piece * ranks,
                      parts.blockBytes);
      });
    CLEAVE_RETURN_IF_ERROR(gather(each.in, getScratch(0), parts.getBytes()));
    return pack(parts, ranks, getScratch(0), each.out, true, stream);
  }
  case CollectiveCall::ReduceScatter: {
    auto scatter = [&](Address in, Address out, uint64_t elements) -> Status {
      CLEAVE_NCCL(nccl, reduceScatter(toPointer(in), toPointer(out), elements,
                                      type, op, comm, stream));
      return Status();
    };
    if (!isPacked(work))
      return movePieces(nccl, parts, [&](uint64_t piece) {
        return scatter(each.in + piece * ranks, each.out + piece, work.inner);
      });
    CLEAVE_RETURN_IF_ERROR(
        pack(parts, ranks, each.in, getScratch(0), false, stream));
    return scatter(getScratch(0), each.out, work.outer * work.inner);
  }
  default:
    break;
  }
  // An exchange: part p of the input goes to rank p.
  Parts in = work.exchange.getInput(), out = work.exchange.getOutput();
  Address packed = each.in, received = each.out;
  if (in.blocks > 1) {
    packed = getScratch(0);
    CLEAVE_RETURN_IF_ERROR(pack(in, ranks, each.in, packed, false, stream));
  }
  if (out.blocks > 1)
    received = getScratch(1);
  CLEAVE_RETURN_IF_ERROR(runInGroup(nccl, [&]() -> Status {
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      CLEAVE_NCCL(nccl, send(toPointer(packed + rank * in.getBytes()),
                             in.getBytes(), ncclInt8, int(rank), comm, stream));
      CLEAVE_NCCL(nccl,
                  recv(toPointer(received + rank * out.getBytes()),
                       out.getBytes(), ncclInt8, int(rank), comm, stream));
    }
    return Status();
  }));
  return out.blocks == 1 ? Status()
                         : pack(out, ranks, received, each.out, true, stream);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Status NcclGpus::send(int, int number, Address data, uint64_t bytes,
                      void *stream) {
  const Driver &driver = context.getDriver();
  Channel &channel = channels.find(number)->second;
  // The copy is free once the message before it has gone. Of an event that was
  // never recorded nobody waits.
  if (channel.isUsed)
    CLEAVE_CUDA(driver, streamWaitEvent(stream, channel.sent.get(), 0));
  CLEAVE_CUDA(driver, copyDeviceToDeviceAsync(channel.copy.getAddress(), data,
                                              bytes, stream));
  CLEAVE_CUDA(driver, eventRecord(channel.ready.get(), stream));
  void *own = channel.stream.get();
  CLEAVE_CUDA(driver, streamWaitEvent(own, channel.ready.get(), 0));
  CLEAVE_NCCL(nccl, send(toPointer(channel.copy.getAddress()), bytes, ncclInt8,
                         channel.peer, channel.comm, own));
  CLEAVE_CUDA(driver, eventRecord(channel.sent.get(), own));
  channel.isUsed = true;
  return Status();
}

Status NcclGpus::receive(int, int number, Address data, uint64_t bytes,
                         void *stream) {
  Channel &channel = channels.find(number)->second;
  CLEAVE_NCCL(nccl, recv(toPointer(data), bytes, ncclInt8, channel.peer,
                         channel.comm, stream));
  return Status();
}

Status NcclGpus::join(void *stream) {
  for (auto &[number, channel] : channels)
    if (std::exchange(channel.isUsed, false))
      CLEAVE_CUDA(context.getDriver(),
                  streamWaitEvent(stream, channel.sent.get(), 0));
  return Status();
}
