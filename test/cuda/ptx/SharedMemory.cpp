//===- SharedMemory.cpp - A block's shared memory and who touched it ------===//
#include "SharedMemory.h"

using namespace cleave;
using namespace cleave::ptx;

void SharedMemory::reset(size_t size, bool isChecked) {
  bytes.assign(size, std::byte(0));
  size_t stamps = isChecked ? size : 0;
  writers.assign(stamps, 0);
  readers.assign(stamps, 0);
  otherReaders.assign(stamps, 0);
}

void SharedMemory::addReader(const Clock &clock, size_t offset, Stamp stamp) {
  Stamp &first = readers[offset];
  if (first == 0 || clock.isOrdered(first, getLane(stamp)))
    first = stamp;
  else
    otherReaders[offset] = stamp;
}

bool SharedMemory::read(Clock &clock, uint32_t lane, size_t offset,
                        size_t count, bool isStrong, Problem &problem) {
  if (writers.empty())
    return true;
  Stamp stamp = clock.getStamp(lane, isStrong);
  uint32_t unknown = 0, unseen = 0;
  for (size_t i = offset; i < offset + count; ++i) {
    unknown |= (writers[i] & ~laneBits) ^ clock.known;
    unseen |= (readers[i] ^ stamp) & ~laneBits;
  }
  for (size_t i = offset; unknown && i < offset + count; ++i) {
    Stamp writer = writers[i];
    Fault fault = Fault::None;
    if (writer == 0)
      fault = Fault::Unwritten;
    else if (writer & pendingBit)
      fault = Fault::Pending;
    else if (clock.isOrdered(writer))
      clock.known = writer & ~laneBits;
    else if (!clock.isOrdered(writer, lane) &&
             (!isStrong || !(writer & strongBit)))
      fault = Fault::ReadAfterWrite;
    if (fault != Fault::None) {
      problem = {fault, i, writer};
      return false;
    }
  }
  for (size_t i = offset; unseen && i < offset + count; ++i)
    addReader(clock, i, stamp);
  return true;
}

bool SharedMemory::mayWrite(const Clock &clock, uint32_t lane, size_t offset,
                            size_t count, bool isStrong,
                            Problem &problem) const {
  if (writers.empty())
    return true;
  auto mayStay = [&](Stamp other) {
    return other == 0 || clock.isOrdered(other, lane) ||
           (isStrong && (other & strongBit));
  };
  for (size_t i = offset; i < offset + count; ++i) {
    Stamp writer = writers[i];
    if (writer & pendingBit) {
      problem = {Fault::Pending, i, writer};
      return false;
    }
    if (!mayStay(writer)) {
      problem = {Fault::WriteAfterWrite, i, writer};
      return false;
    }
    for (Stamp reader : {readers[i], otherReaders[i]})
      if (!mayStay(reader)) {
        problem = {Fault::WriteAfterRead, i, reader};
        return false;
      }
  }
  return true;
}

void SharedMemory::write(const Clock &clock, uint32_t lane, size_t offset,
                         size_t count, bool isStrong) {
  if (writers.empty())
    return;
  Stamp stamp = clock.getStamp(lane, isStrong);
  for (size_t i = offset; i < offset + count; ++i) {
    writers[i] = stamp;
    readers[i] = 0;
    otherReaders[i] = 0;
  }
}

bool SharedMemory::begin(const Clock &clock, uint32_t lane, size_t offset,
                         size_t count, Problem &problem) {
  if (!mayWrite(clock, lane, offset, count, false, problem))
    return false;
  write(clock, lane, offset, count, false);
  for (size_t i = offset; i < offset + count && !writers.empty(); ++i)
    writers[i] |= pendingBit;
  return true;
}

void SharedMemory::finish(const Clock &clock, uint32_t lane, size_t offset,
                          size_t count) {
  for (size_t i = offset; i < offset + count && !writers.empty(); ++i)
    writers[i] = clock.getStamp(lane, false);
}
