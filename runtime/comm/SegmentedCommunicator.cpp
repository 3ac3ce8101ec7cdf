//===- SegmentedCommunicator.cpp ------------------------------------------===//
#include "runtime/comm/SegmentedCommunicator.h"
#include <algorithm>
#include <cstring>

using namespace cleave::runtime;

namespace {

/// Up to here one round of messages beats two.
constexpr uint64_t smallBytes = uint64_t(16) << 10;

/// Bytes [begin, end) of a part, between a buffer and contiguous scratch.
enum class Direction { Pack, Unpack };
template <Direction direction, typename Buffer, typename Scratch>
void movePart(Buffer *buffer, Parts shape, uint64_t part, uint64_t parts,
              uint64_t begin, uint64_t end, Scratch *scratch) {
  while (begin < end) {
    uint64_t block = begin / shape.blockBytes;
    uint64_t inside = begin - block * shape.blockBytes;
    uint64_t count = std::min(shape.blockBytes - inside, end - begin);
    uint64_t at = (block * parts + part) * shape.blockBytes + inside;
    if constexpr (direction == Direction::Pack)
      std::memcpy(scratch, buffer + at, count);
    else
      std::memcpy(buffer + at, scratch, count);
    scratch += count;
    begin += count;
  }
}

} // namespace

SegmentedCommunicator::Pieces
SegmentedCommunicator::Pieces::makeEven(int ranks, int bytes) {
  Pieces pieces;
  pieces.areEven = true;
  pieces.counts.assign(size_t(ranks), bytes);
  for (int i = 0; i < ranks; ++i)
    pieces.offsets.push_back(i * bytes);
  return pieces;
}

Status SegmentedCommunicator::allReduceSmall(const Group &group, const char *in,
                                             void *out, uint64_t elements,
                                             ElementType type,
                                             Reduction reduction) {
  uint64_t bytes = elements * getElementBytes(type);
  char *all = resize(receiveScratch, bytes * group.getSize());
  CLEAVE_RETURN_IF_ERROR(
      gather(group, in, all, Pieces::makeEven(group.getSize(), int(bytes))));
  std::vector<const void *> inputs;
  for (int i = 0; i < group.getSize(); ++i)
    inputs.push_back(all + i * bytes);
  reduceInOrder(inputs, {&out, 1}, elements, type, reduction);
  return {};
}

Status SegmentedCommunicator::allReduceSegment(const Group &group,
                                               const char *in, char *out,
                                               uint64_t elements,
                                               ElementType type,
                                               Reduction reduction) {
  int n = group.getSize();
  uint64_t element = getElementBytes(type);
  Pieces chunks;
  for (int i = 0; i < n; ++i) {
    Range chunk = getReduceChunk(elements, i, n);
    chunks.counts.push_back(int((chunk.end - chunk.begin) * element));
    chunks.offsets.push_back(int(chunk.begin * element));
  }
  int mine = chunks.counts[group.getIndex()];
  Pieces received = Pieces::makeEven(n, mine);
  char *all = resize(receiveScratch, uint64_t(n) * mine);
  CLEAVE_RETURN_IF_ERROR(exchange(group, in, chunks, all, received));
  std::vector<const void *> inputs;
  for (int offset : received.offsets)
    inputs.push_back(all + offset);
  char *sum = out + chunks.offsets[group.getIndex()];
  void *result = sum;
  reduceInOrder(inputs, {&result, 1}, mine / element, type, reduction);
  return gather(group, sum, out, chunks);
}

Status SegmentedCommunicator::doAllReduce(const Group &group, const void *in,
                                          void *out, uint64_t elements,
                                          ElementType type,
                                          Reduction reduction) {
  uint64_t element = getElementBytes(type);
  const char *from = static_cast<const char *>(in);
  if (elements * element <= smallBytes)
    return allReduceSmall(group, from, out, elements, type, reduction);
  uint64_t step = segmentBytes / element;
  for (uint64_t begin = 0; begin < elements; begin += step)
    CLEAVE_RETURN_IF_ERROR(
        allReduceSegment(group, from + begin * element,
                         static_cast<char *>(out) + begin * element,
                         std::min(step, elements - begin), type, reduction));
  return {};
}

/// Bytes of a part that one segment carries: whole cache lines.
static uint64_t getPartSegment(uint64_t segment, uint64_t parts) {
  return std::max<uint64_t>(segment / parts / 64 * 64, 64);
}

Status SegmentedCommunicator::doAllGather(const Group &group, const void *in,
                                          void *out, Parts output) {
  uint64_t n = group.getSize(), bytes = output.getBytes();
  const char *from = static_cast<const char *>(in);
  char *to = static_cast<char *>(out);
  if (output.blocks == 1 && bytes <= directBytes / n)
    return gather(group, from, to, Pieces::makeEven(int(n), int(bytes)));
  uint64_t step = getPartSegment(segmentBytes, n);
  char *all = resize(receiveScratch, n * std::min(step, bytes));
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    uint64_t count = std::min(step, bytes - begin);
    CLEAVE_RETURN_IF_ERROR(
        gather(group, from + begin, all, Pieces::makeEven(int(n), int(count))));
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Unpack>(to, output, part, n, begin, begin + count,
                                  all + part * count);
  }
  return {};
}

template <typename Work>
Status SegmentedCommunicator::exchangeParts(const Group &group, const char *in,
                                            Parts input, Work &&work) {
  uint64_t n = group.getSize(), bytes = input.getBytes();
  uint64_t step = getPartSegment(segmentBytes, n);
  char *send = resize(sendScratch, n * std::min(step, bytes));
  char *all = resize(receiveScratch, n * std::min(step, bytes));
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    uint64_t count = std::min(step, bytes - begin);
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Pack>(in, input, part, n, begin, begin + count,
                                send + part * count);
    Pieces pieces = Pieces::makeEven(int(n), int(count));
    CLEAVE_RETURN_IF_ERROR(exchange(group, send, pieces, all, pieces));
    work(begin, begin + count, all);
  }
  return {};
}

Status SegmentedCommunicator::doReduceScatter(const Group &group,
                                              const void *in, void *out,
                                              Parts input, ElementType type,
                                              Reduction reduction) {
  std::vector<const void *> inputs(size_t(group.getSize()));
  return exchangeParts(group, static_cast<const char *>(in), input,
                       [&](uint64_t begin, uint64_t end, const char *all) {
                         for (size_t part = 0; part < inputs.size(); ++part)
                           inputs[part] = all + part * (end - begin);
                         void *result = static_cast<char *>(out) + begin;
                         reduceInOrder(inputs, {&result, 1},
                                       (end - begin) / getElementBytes(type),
                                       type, reduction);
                       });
}

Status SegmentedCommunicator::doAllToAll(const Group &group, const void *in,
                                         void *out, Parts input, Parts output) {
  uint64_t n = group.getSize();
  return exchangeParts(group, static_cast<const char *>(in), input,
                       [&](uint64_t begin, uint64_t end, const char *all) {
                         for (uint64_t part = 0; part < n; ++part)
                           movePart<Direction::Unpack>(
                               static_cast<char *>(out), output, part, n, begin,
                               end, all + part * (end - begin));
                       });
}
