//===- LocalGpus.cpp ------------------------------------------------------===//
#include "runtime/cuda/LocalGpus.h"
#include "runtime/cuda/kernels/CollectiveLaunches.h"

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::cuda;

Status LocalGpus::create(Communicator &host, const Context &context,
                         const OwnKernels &kernels,
                         std::unique_ptr<GpuCommunicator> &communicator) {
  std::unique_ptr<LocalGpus> result(new LocalGpus(host, context, kernels));
  CLEAVE_RETURN_IF_ERROR(context.createEvent(false, result->own.ready));
  CLEAVE_RETURN_IF_ERROR(context.createEvent(false, result->own.done));
  communicator = std::move(result);
  return Status();
}

std::shared_ptr<LocalGpus::Estate> LocalGpus::getEstate() {
  static std::mutex mutex;
  static std::weak_ptr<Estate> current;
  std::lock_guard lock(mutex);
  std::shared_ptr<Estate> estate = current.lock();
  if (!estate)
    current = estate = std::make_shared<Estate>();
  return estate;
}

void LocalGpus::keep(DeviceMemory memory) {
  std::lock_guard lock(estate->mutex);
  estate->memories.push_back(std::move(memory));
}

LocalGpus::~LocalGpus() {
  std::lock_guard lock(estate->mutex);
  estate->belongings.push_back(std::move(own));
}

/// 1. Each rank records that its stream has come here, and all exchange their
///    offers.
/// 2. The first rank waits for the others' events, does the work and records
///    that it is done.
/// 3. Once it has, the others' streams wait for that.
///
/// No event is recorded again before all have enqueued their waits for it: a
/// rank records its next one when it comes to its next collective, and the
/// first rank has by then waited for this one; it records `done` again once the
/// others have come to that collective, behind their waits.
Status LocalGpus::run(const Group &group,
                      std::span<const GpuCollective> collectives,
                      void *stream) {
  const Driver &driver = context.getDriver();
  size_t ranks = size_t(group.getSize()), count = collectives.size();
  CLEAVE_CUDA(driver, eventRecord(own.ready.get(), stream));
  std::vector<Offer> mine, all(ranks * count);
  for (const GpuCollective &each : collectives)
    mine.push_back({each.in, each.out, own.ready.get(), own.done.get()});
  CLEAVE_RETURN_IF_ERROR(
      host.allGather(group, mine.data(), all.data(), 1, count * sizeof(Offer)));
  if (group.getIndex() == 0) {
    for (size_t rank = 1; rank < ranks; ++rank)
      CLEAVE_CUDA(driver, streamWaitEvent(stream, all[rank * count].ready, 0));
    for (size_t i = 0; i < count; ++i) {
      std::vector<Offer> offers;
      for (size_t rank = 0; rank < ranks; ++rank)
        offers.push_back(all[rank * count + i]);
      CLEAVE_RETURN_IF_ERROR(doAll(collectives[i], offers, stream));
    }
    CLEAVE_CUDA(driver, eventRecord(own.done.get(), stream));
  }
  CLEAVE_RETURN_IF_ERROR(host.barrier(group));
  if (group.getIndex() > 0)
    CLEAVE_CUDA(driver, streamWaitEvent(stream, all[0].done, 0));
  return Status();
}

/// A collective for all of its ranks.
Status LocalGpus::doAll(const GpuCollective &work,
                        std::span<const Offer> offers, void *stream) {
  switch (work.work.call) {
  case CollectiveCall::AllReduce:
  case CollectiveCall::ReduceScatter:
    return reduce(work, offers, stream);
  default:
    return move(work, offers, stream);
  }
}

Status LocalGpus::reduce(const GpuCollective &collective,
                         std::span<const Offer> offers, void *stream) {
  const CollectiveWork &work = collective.work;
  if (offers.size() > size_t(ReduceParams::most))
    return Status::error("at most " + std::to_string(ReduceParams::most) +
                         " ranks that are threads reduce on GPUs, got " +
                         std::to_string(offers.size()));
  ReduceParams params{};
  params.inputs = int32_t(offers.size());
  auto launch = [&] {
    return kernels.launch(getReduceLaunches(params.elements, work.type,
                                            work.reduction == Reduction::Max),
                          params, stream);
  };
  if (work.call == CollectiveCall::AllReduce) {
    params.elements = int64_t(work.inner);
    params.outputs = params.inputs;
    for (size_t rank = 0; rank < offers.size(); ++rank) {
      params.in[rank] = toPointer(offers[rank].in);
      params.out[rank] = toPointer(offers[rank].out);
    }
    return launch();
  }
  // Of each block, part p is reduced for rank p.
  uint64_t bytes = work.inner * getElementBytes(work.type);
  params.elements = int64_t(work.inner);
  params.outputs = 1;
  for (uint64_t block = 0; block < work.outer; ++block)
    for (size_t part = 0; part < offers.size(); ++part) {
      for (size_t rank = 0; rank < offers.size(); ++rank)
        params.in[rank] =
            toPointer(offers[rank].in + (block * offers.size() + part) * bytes);
      params.out[0] = toPointer(offers[part].out + block * bytes);
      CLEAVE_RETURN_IF_ERROR(launch());
    }
  return Status();
}

/// What comes from rank q is part q of the output: of a gather its whole input,
/// of an exchange the part that is for the receiver.
Status LocalGpus::move(const GpuCollective &collective,
                       std::span<const Offer> offers, void *stream) {
  const CollectiveWork &work = collective.work;
  uint64_t ranks = offers.size();
  for (uint64_t to = 0; to < ranks; ++to)
    for (uint64_t from = 0; from < ranks; ++from) {
      if (work.call == CollectiveCall::AllGather) {
        Parts parts{work.outer, work.inner * getElementBytes(work.type)};
        // The input is one part; its blocks follow each other.
        CLEAVE_RETURN_IF_ERROR(copyPart({1, parts.getBytes()}, 0,
                                        offers[from].in, parts, from,
                                        offers[to].out, ranks, stream));
      } else {
        CLEAVE_RETURN_IF_ERROR(copyPart(
            work.exchange.getInput(), to, offers[from].in,
            work.exchange.getOutput(), from, offers[to].out, ranks, stream));
      }
    }
  return Status();
}

/// Copies a part of a buffer to a part of another, both of `ranks` parts. The
/// bytes of a part have one order, whatever blocks they lie in; the smaller
/// blocks cut the larger ones.
Status LocalGpus::copyPart(Parts from, uint64_t fromPart, Address in, Parts to,
                           uint64_t toPart, Address out, uint64_t ranks,
                           void *stream) {
  uint64_t bytes = std::min(from.blockBytes, to.blockBytes);
  auto group = [&](const Parts &parts) {
    return RowGroups{int64_t(parts.blockBytes / bytes), int64_t(bytes),
                     int64_t(parts.blockBytes * ranks)};
  };
  CopyPartsParams params{};
  params.rows = int64_t(from.getBytes() / bytes);
  params.bytes = int64_t(bytes);
  params.inGroups = group(from);
  params.outGroups = group(to);
  params.in = toPointer(in + fromPart * from.blockBytes);
  params.out = toPointer(out + toPart * to.blockBytes);
  return kernels.launch(getCopyPartsLaunches(params), params, stream);
}

Status LocalGpus::send(int to, int channel, Address data, uint64_t bytes,
                       void *stream) {
  const Driver &driver = context.getDriver();
  Parcel *parcel = nullptr;
  for (std::unique_ptr<Parcel> &each : own.parcels)
    if (each->isFree && each->memory.getSize() == bytes)
      parcel = each.get();
  if (!parcel) {
    auto made = std::make_unique<Parcel>();
    CLEAVE_RETURN_IF_ERROR(
        DeviceMemory::allocate(context, bytes, "a message", made->memory));
    CLEAVE_RETURN_IF_ERROR(context.createEvent(false, made->sent));
    CLEAVE_RETURN_IF_ERROR(context.createEvent(false, made->taken));
    parcel = own.parcels.emplace_back(std::move(made)).get();
  }
  parcel->isFree = false;
  // Of an event that was never recorded nobody waits.
  CLEAVE_CUDA(driver, streamWaitEvent(stream, parcel->taken.get(), 0));
  CLEAVE_CUDA(driver, copyDeviceToDeviceAsync(parcel->memory.getAddress(), data,
                                              bytes, stream));
  CLEAVE_CUDA(driver, eventRecord(parcel->sent.get(), stream));
  Ticket ticket{parcel};
  return host.send(to, channel, &ticket, sizeof(ticket));
}

Status LocalGpus::receive(int from, int channel, Address data, uint64_t bytes,
                          void *stream) {
  const Driver &driver = context.getDriver();
  Ticket ticket;
  CLEAVE_RETURN_IF_ERROR(host.receive(from, channel, &ticket, sizeof(ticket)));
  Parcel *parcel = ticket.parcel;
  if (parcel->memory.getSize() != bytes)
    return Status::error("rank " + std::to_string(from) + " sent " +
                         std::to_string(parcel->memory.getSize()) +
                         " bytes, expects " + std::to_string(bytes));
  CLEAVE_CUDA(driver, streamWaitEvent(stream, parcel->sent.get(), 0));
  CLEAVE_CUDA(driver, copyDeviceToDeviceAsync(data, parcel->memory.getAddress(),
                                              bytes, stream));
  CLEAVE_CUDA(driver, eventRecord(parcel->taken.get(), stream));
  parcel->isFree = true;
  return Status();
}
