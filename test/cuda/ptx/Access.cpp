//===- Access.cpp - Loads, stores, atomics and copies ---------------------===//
#include "Machine.h"
#include "Numbers.h"

using namespace cleave;
using namespace cleave::ptx;

static std::string hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

//===----------------------------------------------------------------------===//
// Where the bytes are
//===----------------------------------------------------------------------===//

static const char *getName(Space space) {
  switch (space) {
  case Space::Shared:
    return "shared";
  case Space::Local:
    return "local";
  case Space::Param:
    return "parameter";
  case Space::Const:
    return "constant";
  default:
    return "global";
  }
}

/// Takes an address out of its window.
static Space classify(uint64_t &address) {
  static constexpr std::pair<uint64_t, Space> windows[] = {
      {sharedWindow, Space::Shared},
      {localWindow, Space::Local},
      {paramWindow, Space::Param}};
  for (auto [window, space] : windows)
    if (address - window < windowBytes) {
      address -= window;
      return space;
    }
  return Space::Global;
}

/// isspacep: whether a generic address lies in a space.
void Machine::testSpace(Warp &warp, const Instruction &i, uint32_t mask) {
  std::byte *registers = warp.getFrame().registers;
  forLanes(mask, [&](uint32_t l) {
    auto address = readLane<uint64_t>(registers, i.operands[1], l);
    writePredicate(registers, i.operands[0],
                   classify(address) == i.space ? allLanes : 0, 1U << l);
    return true;
  });
}

/// Finds the bytes of every lane, or fails: see Places.
bool Machine::locate(Warp &warp, const Instruction &i, uint32_t mask,
                     unsigned operand, unsigned addressWidth, int64_t offset,
                     Space space, unsigned bytes, bool writes, Places &places) {
  const std::byte *registers = warp.getFrame().registers;
  places.shared = places.local = 0;
  uint64_t all = 0;
  auto first = uint32_t(__builtin_ctz(mask));
  if (addressWidth == 8) {
    uint64_t raw[warpSize];
    std::memcpy(raw, registers + i.operands[operand], sizeof raw);
    // Lanes that take no part have the first one's address.
    for (uint32_t l = 0; l < warpSize; ++l) {
      uint64_t address = ((mask >> l) & 1 ? raw[l] : raw[first]);
      places.addresses[l] = address + uint64_t(offset);
      all |= places.addresses[l];
    }
  } else {
    for (uint32_t l = 0; l < warpSize; ++l) {
      auto address = readLane<uint32_t>(registers, i.operands[operand],
                                        (mask >> l) & 1 ? l : first);
      places.addresses[l] = address + uint32_t(offset);
      all |= places.addresses[l];
    }
  }
  if (all & (bytes - 1))
    return forLanes(mask, [&](uint32_t l) {
      return !(places.addresses[l] & (bytes - 1)) ||
             fail(warp, i, l,
                  "address " + hex(places.addresses[l]) +
                      " is no multiple of " + std::to_string(bytes));
    });
  if (space == Space::Global || space == Space::Const)
    return locateGlobal(warp, i, mask, bytes, writes, places);
  if (space != Space::Generic)
    return forLanes(mask, [&](uint32_t l) {
      return locateLane(warp, i, l, space, bytes, writes, places);
    });
  uint32_t global = 0;
  bool isFound = forLanes(mask, [&](uint32_t l) {
    Space found = classify(places.addresses[l]);
    if (found != Space::Global)
      return locateLane(warp, i, l, found, bytes, writes, places);
    global |= 1U << l;
    return true;
  });
  return isFound &&
         (!global || locateGlobal(warp, i, global, bytes, writes, places));
}

/// Shared, local and parameter space.
bool Machine::locateLane(Warp &warp, const Instruction &i, uint32_t lane,
                         Space space, unsigned bytes, bool writes,
                         Places &places) {
  uint64_t address = places.addresses[lane];
  auto isWithin = [&](uint64_t begin, uint64_t size) {
    return address >= begin && address - begin <= size &&
           size - (address - begin) >= bytes;
  };
  Frame &frame = warp.getFrame();
  uint64_t size = 0;
  switch (space) {
  case Space::Shared:
    size = shared.size();
    if (!isWithin(sharedStart, size))
      break;
    places.bytes[lane] = shared.data() + (address - sharedStart);
    places.shared |= 1U << lane;
    return true;
  case Space::Local:
    size = warp.local[lane].size();
    if (!isWithin(localStart, size))
      break;
    places.bytes[lane] = warp.local[lane].data() + (address - localStart);
    places.local |= 1U << lane;
    return true;
  default: {
    const Function &function = *frame.function;
    size = function.parameterSpaceBytes;
    if (!isWithin(0, size))
      break;
    if (function.isKernel && isWithin(0, function.parameterBytes)) {
      if (writes)
        return fail(warp, i, lane, "writes a kernel's parameter");
      places.bytes[lane] =
          const_cast<std::byte *>(launch.parameters.data()) + address;
      return true;
    }
    places.bytes[lane] =
        frame.parameters.data() + lane * function.parameterSpaceBytes + address;
    return true;
  }
  }
  return fail(warp, i, lane,
              std::to_string(bytes) + " bytes at " +
                  std::string(getName(space)) + " address " + hex(address) +
                  " are outside of its " + std::to_string(size) + " bytes");
}

bool Machine::locateGlobal(Warp &warp, const Instruction &i, uint32_t mask,
                           unsigned bytes, bool writes, Places &places) {
  auto isIn = [&](const Allocation &allocation, uint64_t address) {
    return address >= allocation.address &&
           address - allocation.address <= allocation.bytes &&
           allocation.bytes - (address - allocation.address) >= bytes;
  };
  return forLanes(mask, [&](uint32_t l) {
    uint64_t address = places.addresses[l];
    if (!recent || !isIn(*recent, address)) {
      recent = memory.find(address, bytes);
      for (const Allocation &allocation : moduleMemory)
        if (isIn(allocation, address))
          recent = &allocation;
      if (!recent) {
        std::string message = std::to_string(bytes) + " bytes at address " +
                              hex(address) + " are in no allocation";
        if (const Allocation *before = memory.findBefore(address))
          message += "; the one before has " + std::to_string(before->bytes) +
                     " bytes at " + hex(before->address) +
                     ", and this is byte " +
                     std::to_string(address - before->address);
        return fail(warp, i, l, message);
      }
    }
    if (writes && !recent->isWritable)
      return fail(warp, i, l,
                  "writes to read-only memory at address " + hex(address));
    places.bytes[l] = recent->host + (address - recent->address);
    return true;
  });
}

/// Checks and notes what is read of shared and local memory.
bool Machine::noteRead(Warp &warp, const Instruction &i, uint32_t mask,
                       unsigned bytes, const Places &places) {
  if (options.checksShared && (places.shared & mask)) {
    SharedMemory::Problem problem;
    if (!forLanes(places.shared & mask, [&](uint32_t l) {
          return shared.read(warp.clock, l, places.addresses[l] - sharedStart,
                             bytes, i.strong, problem) ||
                 failShared(warp, i, l, problem);
        }))
      return false;
  }
  if (options.checksRegisters && (places.local & mask))
    return forLanes(places.local & mask, [&](uint32_t l) {
      const std::byte *written =
          warp.localWritten[l].data() + (places.addresses[l] - localStart);
      for (unsigned b = 0; b < bytes; ++b)
        if (written[b] == std::byte(0))
          return fail(warp, i, l,
                      "reads local memory at " + hex(places.addresses[l] + b) +
                          " that nothing wrote");
      return true;
    });
  return true;
}

bool Machine::noteWrite(Warp &warp, const Instruction &i, uint32_t mask,
                        unsigned bytes, const Places &places) {
  if (options.checksShared && (places.shared & mask)) {
    SharedMemory::Problem problem;
    if (!forLanes(places.shared & mask, [&](uint32_t l) {
          return shared.mayWrite(warp.clock, l,
                                 places.addresses[l] - sharedStart, bytes,
                                 i.strong, problem) ||
                 failShared(warp, i, l, problem);
        }))
      return false;
    forLanes(places.shared & mask, [&](uint32_t l) {
      shared.write(warp.clock, l, places.addresses[l] - sharedStart, bytes,
                   i.strong);
      return true;
    });
  }
  if (options.checksRegisters && (places.local & mask))
    forLanes(places.local & mask, [&](uint32_t l) {
      std::memset(warp.localWritten[l].data() +
                      (places.addresses[l] - localStart),
                  1, bytes);
      return true;
    });
  return true;
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

/// Element `element` of each lane's vector, of type M in memory and R in the
/// register.
template <class M, class R>
static void loadElements(std::byte *to, const Places &places, uint32_t mask,
                         unsigned element) {
  auto move = [&](uint32_t l) {
    M value;
    std::memcpy(&value, places.bytes[l] + element * sizeof(M), sizeof(M));
    auto wide = R(value);
    std::memcpy(to + l * sizeof(R), &wide, sizeof(R));
    return true;
  };
  if (mask != allLanes) {
    forLanes(mask, move);
    return;
  }
  for (uint32_t l = 0; l < warpSize; ++l)
    move(l);
}

template <class M>
static void loadAs(std::byte *to, const Places &places, uint32_t mask,
                   unsigned element, unsigned registerWidth) {
  if (registerWidth == 2)
    loadElements<M, uint16_t>(to, places, mask, element);
  else if (registerWidth == 4)
    loadElements<M, uint32_t>(to, places, mask, element);
  else
    loadElements<M, uint64_t>(to, places, mask, element);
}

static void loadElement(std::byte *to, const Places &places, uint32_t mask,
                        unsigned element, const Instruction &i) {
  unsigned width = i.registerWidth;
  switch (i.type) {
  case Type::S8:
    return loadAs<int8_t>(to, places, mask, element, width);
  case Type::S16:
    return loadAs<int16_t>(to, places, mask, element, width);
  case Type::S32:
    return loadAs<int32_t>(to, places, mask, element, width);
  default:
    break;
  }
  switch (i.width) {
  case 1:
    return loadAs<uint8_t>(to, places, mask, element, width);
  case 2:
    return loadAs<uint16_t>(to, places, mask, element, width);
  case 4:
    return loadAs<uint32_t>(to, places, mask, element, width);
  default:
    return loadAs<uint64_t>(to, places, mask, element, width);
  }
}

bool Machine::load(Warp &warp, const Instruction &i, uint32_t mask) {
  unsigned bytes = i.width * i.vector;
  Places places;
  if (!locate(warp, i, mask, i.written, i.sourceWidth, i.offset, i.space, bytes,
              false, places) ||
      !noteRead(warp, i, mask, bytes, places))
    return false;
  std::byte *registers = warp.getFrame().registers;
  for (unsigned e = 0; e < i.vector; ++e)
    loadElement(registers + i.operands[e], places, mask, e, i);
  return true;
}

template <class M>
static void storeElements(const std::byte *from, unsigned stride,
                          const Places &places, uint32_t mask,
                          unsigned element) {
  forLanes(mask, [&](uint32_t l) {
    // The low bytes, where the register is wider.
    std::memcpy(places.bytes[l] + element * sizeof(M), from + l * stride,
                sizeof(M));
    return true;
  });
}

bool Machine::store(Warp &warp, const Instruction &i, uint32_t mask) {
  unsigned bytes = i.width * i.vector;
  Places places;
  if (!locate(warp, i, mask, 0, i.sourceWidth, i.offset, i.space, bytes, true,
              places) ||
      !noteWrite(warp, i, mask, bytes, places))
    return false;
  const std::byte *registers = warp.getFrame().registers;
  for (unsigned e = 0; e < i.vector; ++e) {
    const std::byte *from = registers + i.operands[e + 1];
    switch (i.width) {
    case 1:
      storeElements<uint8_t>(from, i.registerWidth, places, mask, e);
      break;
    case 2:
      storeElements<uint16_t>(from, i.registerWidth, places, mask, e);
      break;
    case 4:
      storeElements<uint32_t>(from, i.registerWidth, places, mask, e);
      break;
    default:
      storeElements<uint64_t>(from, i.registerWidth, places, mask, e);
    }
  }
  // Lanes that write different values to one place leave nobody knows which.
  if (!options.checksShared || !(places.shared & mask))
    return true;
  return forLanes(places.shared & mask, [&](uint32_t l) {
    for (unsigned e = 0; e < i.vector; ++e)
      if (std::memcmp(places.bytes[l] + e * i.width,
                      registers + i.operands[e + 1] + l * i.registerWidth,
                      i.width) != 0)
        return fail(warp, i, l,
                    "writes shared address " + hex(places.addresses[l]) +
                        ", and so does another lane with another value");
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Atomics
//===----------------------------------------------------------------------===//

template <class T>
static T combineAs(Atomic op, T old, T value) {
  switch (op) {
  case Atomic::Min:
    return std::min(old, value);
  case Atomic::Max:
    return std::max(old, value);
  case Atomic::Increment:
    return old >= value ? T(0) : T(old + 1);
  case Atomic::Decrement:
    return old == 0 || old > value ? value : T(old - 1);
  case Atomic::And:
    return T(old & value);
  case Atomic::Or:
    return T(old | value);
  case Atomic::Xor:
    return T(old ^ value);
  case Atomic::Exchange:
    return value;
  default:
    return T(old + value);
  }
}

/// Each half of 32 bits by itself.
template <class Add>
static uint64_t addPair(uint64_t old, uint64_t value, Add add) {
  return uint64_t(add(uint16_t(old), uint16_t(value))) |
         (uint64_t(add(uint16_t(old >> 16), uint16_t(value >> 16))) << 16);
}

static uint16_t addHalf(uint16_t a, uint16_t b) {
  return toHalf(fromHalf(a) + fromHalf(b));
}
static uint16_t addBf16(uint16_t a, uint16_t b) {
  return toBf16(fromBf16(a) + fromBf16(b));
}

static uint64_t combine(Atomic op, Type type, uint64_t old, uint64_t value) {
  switch (type) {
  case Type::F32:
    if (op != Atomic::Add)
      break;
    return toBits(toFloat(uint32_t(old)) + toFloat(uint32_t(value)));
  case Type::F64:
    if (op != Atomic::Add)
      break;
    return toBits(toDouble(old) + toDouble(value));
  case Type::F16:
    return addHalf(uint16_t(old), uint16_t(value));
  case Type::BF16:
    return addBf16(uint16_t(old), uint16_t(value));
  case Type::F16x2:
    return addPair(old, value, addHalf);
  case Type::BF16x2:
    return addPair(old, value, addBf16);
  case Type::S32:
    return uint32_t(combineAs(op, int32_t(old), int32_t(value)));
  case Type::S64:
    return uint64_t(combineAs(op, int64_t(old), int64_t(value)));
  default:
    break;
  }
  if (getWidth(type) == 4)
    return combineAs(op, uint32_t(old), uint32_t(value));
  return combineAs(op, old, value);
}

bool Machine::doAtomic(Warp &warp, const Instruction &i, uint32_t mask) {
  Places places;
  unsigned first = i.written;
  if (!locate(warp, i, mask, first, i.sourceWidth, i.offset, i.space, i.width,
              true, places) ||
      !noteRead(warp, i, mask, i.width, places) ||
      !noteWrite(warp, i, mask, i.width, places))
    return false;
  std::byte *registers = warp.getFrame().registers;
  auto read = [&](unsigned n, uint32_t l) {
    uint64_t bits = 0;
    std::memcpy(&bits, registers + i.operands[n] + l * i.width, i.width);
    return bits;
  };
  // Lanes come one after the other, from any of them on.
  auto begin = uint32_t(random() % warpSize);
  for (uint32_t n = 0; n < warpSize; ++n) {
    uint32_t l = (begin + n) % warpSize;
    if (!((mask >> l) & 1))
      continue;
    uint64_t old = 0;
    std::memcpy(&old, places.bytes[l], i.width);
    uint64_t value = read(first + 1, l);
    uint64_t next = Atomic(i.mode) == Atomic::CompareExchange
                        ? (old == value ? read(first + 2, l) : old)
                        : combine(Atomic(i.mode), i.type, old, value);
    std::memcpy(places.bytes[l], &next, i.width);
    if (i.written)
      std::memcpy(registers + i.operands[0] + l * i.width, &old, i.width);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

/// The bytes are there at once, but may not be looked at before the wait.
bool Machine::copyAsync(Warp &warp, const Instruction &i, uint32_t mask) {
  Places to, from;
  if (!locate(warp, i, mask, 0, i.sourceWidth, i.offset, Space::Shared, i.width,
              true, to))
    return false;
  const std::byte *registers = warp.getFrame().registers;
  std::array<uint32_t, warpSize> bytes;
  uint32_t reads = 0;
  for (uint32_t l = 0; l < warpSize; ++l) {
    bytes[l] = i.width;
    if (i.count == 3 && i.mode)
      bytes[l] =
          (readPredicate(registers, i.operands[2]) >> l) & 1 ? 0 : i.width;
    else if (i.count == 3)
      bytes[l] = readLane<uint32_t>(registers, i.operands[2], l);
    if (((mask >> l) & 1) && bytes[l] > i.width)
      return fail(warp, i, l,
                  "copies " + std::to_string(bytes[l]) + " bytes of " +
                      std::to_string(i.width));
    reads |= uint32_t(bytes[l] != 0) << l;
  }
  reads &= mask;
  // Only what is copied must exist, but the address is aligned for all of it.
  for (uint32_t l = 0; l < warpSize; ++l)
    if ((reads >> l) & 1) {
      if (!locate(warp, i, 1U << l, 1, i.registerWidth,
                  int64_t(int32_t(i.target)), Space::Global, 1, false, from))
        return false;
      uint64_t address = from.addresses[l];
      if (address % i.width != 0)
        return fail(warp, i, l,
                    "address " + hex(address) + " is no multiple of " +
                        std::to_string(i.width));
      const std::byte *first = from.bytes[l];
      if (bytes[l] > 1 && !locate(warp, i, 1U << l, 1, i.registerWidth,
                                  int64_t(int32_t(i.target)) + bytes[l] - 1,
                                  Space::Global, 1, false, from))
        return false;
      if (from.bytes[l] != first + bytes[l] - 1)
        return fail(warp, i, l, "copies from two allocations");
      std::byte whole[16] = {};
      std::memcpy(whole, first, bytes[l]);
      SharedMemory::Problem problem;
      size_t offset = to.addresses[l] - sharedStart;
      if (options.checksShared &&
          !shared.begin(warp.clock, l, offset, i.width, problem))
        return failShared(warp, i, l, problem);
      std::memcpy(to.bytes[l], whole, i.width);
      warp.copies.push_back({offset, i.width, l, warp.groups[l]});
    } else if ((mask >> l) & 1) {
      SharedMemory::Problem problem;
      size_t offset = to.addresses[l] - sharedStart;
      if (options.checksShared &&
          !shared.begin(warp.clock, l, offset, i.width, problem))
        return failShared(warp, i, l, problem);
      std::memset(to.bytes[l], 0, i.width);
      warp.copies.push_back({offset, i.width, l, warp.groups[l]});
    }
  return true;
}

/// What is waited for is written now, as if by a store.
void Machine::waitGroup(Warp &warp, const Instruction &i, uint32_t mask) {
  size_t kept = 0;
  for (const Copy &copy : warp.copies) {
    bool isDone = (mask >> copy.lane) & 1;
    if (i.offset >= 0)
      isDone &=
          int64_t(copy.group) + i.offset < int64_t(warp.groups[copy.lane]);
    if (!isDone)
      warp.copies[kept++] = copy;
    else
      shared.finish(warp.clock, copy.lane, copy.offset, copy.bytes);
  }
  warp.copies.resize(kept);
}

//===----------------------------------------------------------------------===//
// Matrices in shared memory
//===----------------------------------------------------------------------===//

/// Lanes 8 m to 8 m + 7 have the addresses of the rows of matrix m, 8 elements
/// of 16 bits each. Of a matrix lane l holds the elements 2 (l % 4) and the
/// next one of row l / 4; transposed, of column l / 4.
bool Machine::loadMatrix(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!requireWholeWarp(warp, i, mask))
    return false;
  uint32_t rows = i.vector == 4 ? allLanes : (1U << (8 * i.vector)) - 1;
  Places places;
  if (!locate(warp, i, rows, i.written, i.sourceWidth, i.offset, Space::Shared,
              16, false, places) ||
      !noteRead(warp, i, rows, 16, places))
    return false;
  std::byte *registers = warp.getFrame().registers;
  for (uint32_t m = 0; m < i.vector; ++m) {
    uint16_t matrix[8][8];
    for (uint32_t row = 0; row < 8; ++row)
      std::memcpy(matrix[row], places.bytes[8 * m + row], 16);
    for (uint32_t l = 0; l < warpSize; ++l) {
      uint32_t at = l / 4, pair = l % 4 * 2;
      uint32_t low = i.transpose ? matrix[pair][at] : matrix[at][pair];
      uint32_t high = i.transpose ? matrix[pair + 1][at] : matrix[at][pair + 1];
      writeLane<uint32_t>(registers, i.operands[m], l, low | (high << 16));
    }
  }
  return true;
}

bool Machine::storeMatrix(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!requireWholeWarp(warp, i, mask))
    return false;
  uint32_t rows = i.vector == 4 ? allLanes : (1U << (8 * i.vector)) - 1;
  Places places;
  if (!locate(warp, i, rows, 0, i.sourceWidth, i.offset, Space::Shared, 16,
              true, places) ||
      !noteWrite(warp, i, rows, 16, places))
    return false;
  const std::byte *registers = warp.getFrame().registers;
  for (uint32_t m = 0; m < i.vector; ++m) {
    uint16_t matrix[8][8];
    for (uint32_t l = 0; l < warpSize; ++l) {
      auto value = readLane<uint32_t>(registers, i.operands[m + 1], l);
      uint32_t at = l / 4, pair = l % 4 * 2;
      for (uint32_t n = 0; n < 2; ++n)
        (i.transpose ? matrix[pair + n][at] : matrix[at][pair + n]) =
            uint16_t(value >> (16 * n));
    }
    for (uint32_t row = 0; row < 8; ++row)
      std::memcpy(places.bytes[8 * m + row], matrix[row], 16);
  }
  return true;
}
