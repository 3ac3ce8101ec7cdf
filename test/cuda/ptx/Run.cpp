//===- Run.cpp - Blocks, warps, control and calls -------------------------===//
#include "Lanes.h"
#include "Machine.h"
#include <algorithm>
#include <numeric>

using namespace cleave;
using namespace cleave::ptx;

/// What a block may have of shared memory, its system's 1 KiB not counted.
static constexpr uint64_t mostShared = 227 << 10;
static constexpr size_t mostFrames = 64;

static uint64_t alignUp(uint64_t x, uint64_t alignment) {
  return (x + alignment - 1) / alignment * alignment;
}

//===----------------------------------------------------------------------===//
// Memory and parameters
//===----------------------------------------------------------------------===//

void Memory::add(uint64_t address, size_t bytes, void *host, bool isWritable) {
  allocations[address] = {address, bytes, static_cast<std::byte *>(host),
                          isWritable};
}

void Memory::remove(uint64_t address) { allocations.erase(address); }

const Allocation *Memory::findBefore(uint64_t address) const {
  auto next = allocations.upper_bound(address);
  return next == allocations.begin() ? nullptr : &std::prev(next)->second;
}

const Allocation *Memory::find(uint64_t address, size_t bytes) const {
  auto isIn = [&](const Allocation *allocation) {
    uint64_t from = allocation ? address - allocation->address : 0;
    return allocation && from <= allocation->bytes &&
           bytes <= allocation->bytes - from;
  };
  const Allocation *before = findBefore(address);
  if (isIn(before))
    return before;
  Allocation found;
  if (!source || !source(address, found))
    return nullptr;
  before = &(allocations[found.address] = found);
  return isIn(before) ? before : nullptr;
}

std::vector<std::byte> ptx::packParameters(const Function &kernel,
                                           void *const *pointers) {
  std::vector<std::byte> bytes(kernel.parameterBytes);
  for (const Variable &parameter : kernel.parameters)
    std::memcpy(bytes.data() + parameter.offset, *pointers++, parameter.bytes);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Machine::Machine(const Module &module, const Launch &launch,
                 const Memory &memory, const Options &options)
    : module(module), launch(launch), memory(memory), options(options),
      kernel(module.findKernel(launch.kernel)), random(options.seed) {
  for (const Variable &variable : module.variables)
    if (variable.space != Space::Shared)
      moduleMemory.push_back({variable.offset, variable.bytes,
                              reinterpret_cast<std::byte *>(variable.offset),
                              variable.space != Space::Const});
}

Status Machine::checkLaunch() {
  auto error = [&](const std::string &message) {
    return Status::error("kernel " + launch.kernel + ": " + message);
  };
  if (!kernel)
    return error("the module has no such kernel");
  static constexpr std::array<uint32_t, 3> mostThreads = {1024, 1024, 64},
                                           mostBlocks = {0x7fffffff, 65535,
                                                         65535};
  uint64_t product = 1;
  for (size_t d = 0; d < 3; ++d) {
    if (launch.block[d] == 0 || launch.block[d] > mostThreads[d])
      return error("a block has " + std::to_string(launch.block[d]) +
                   " threads along dimension " + std::to_string(d));
    if (launch.grid[d] == 0 || launch.grid[d] > mostBlocks[d])
      return error("the grid has " + std::to_string(launch.grid[d]) +
                   " blocks along dimension " + std::to_string(d));
    if (kernel->requiredThreads[0] != 0 &&
        kernel->requiredThreads[d] != launch.block[d])
      return error("expects " + std::to_string(kernel->requiredThreads[d]) +
                   " threads along dimension " + std::to_string(d) + ", got " +
                   std::to_string(launch.block[d]));
    product *= launch.block[d];
  }
  uint64_t most = kernel->maxThreads ? kernel->maxThreads : 1024;
  if (product > most)
    return error("expects at most " + std::to_string(most) +
                 " threads in a block, got " + std::to_string(product));
  threads = uint32_t(product);
  if (launch.parameters.size() != kernel->parameterBytes)
    return error("expects " + std::to_string(kernel->parameterBytes) +
                 " bytes of parameters, got " +
                 std::to_string(launch.parameters.size()));
  placeShared();
  if (sharedEnd > mostShared)
    return error("expects at most " + std::to_string(mostShared) +
                 " bytes of shared memory, got " + std::to_string(sharedEnd));
  return Status();
}

/// Of the module's variables a kernel has those that it names, or all where it
/// calls what may name others.
void Machine::placeShared() {
  uint64_t first = module.sharedBytes, end = 0;
  for (const Instruction &i : kernel->code)
    if (i.kind == Kind::Call) {
      first = 0;
      end = module.sharedBytes;
    }
  for (const Constant &constant : kernel->constants)
    for (const Variable &variable : module.variables)
      if (constant.base == Base::SharedModule &&
          variable.base == Base::SharedModule &&
          constant.value - variable.offset < variable.bytes) {
        first = std::min(first, variable.offset);
        end = std::max(end, variable.offset + variable.bytes);
      }
  // Far enough for any alignment.
  constexpr uint64_t unit = 128;
  first = std::min(first, end) / unit * unit;
  uint64_t begin = alignUp(kernel->sharedBytes, unit);
  moduleShared = begin - first;
  dynamicShared = alignUp(end == 0 ? kernel->sharedBytes : moduleShared + end,
                          module.dynamicSharedAlignment);
  sharedEnd = dynamicShared + launch.sharedBytes;
}

Status Machine::run(Counts *counts) {
  CLEAVE_RETURN_IF_ERROR(checkLaunch());
  uint64_t blocks = uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  warps = std::vector<Warp>((threads + warpSize - 1) / warpSize);
  // Block n is the one of number first + n * step; all have their turn.
  uint64_t first = 0, step = 1;
  if (options.seed != 0) {
    first = random() % blocks;
    do
      step = 1 + random() % blocks;
    while (std::gcd(step, blocks) != 1);
  }
  uint64_t number = first;
  for (uint64_t n = 0; n < blocks; ++n) {
    if (!runBlock(number))
      break;
    number = number + step - (number + step < blocks ? 0 : blocks);
  }
  if (counts) {
    counts->warpInstructions += warpInstructions;
    counts->threadInstructions += threadInstructions;
  }
  return failure;
}

bool Machine::runBlock(uint64_t number) {
  block[0] = uint32_t(number % launch.grid[0]);
  block[1] = uint32_t(number / launch.grid[0] % launch.grid[1]);
  block[2] = uint32_t(number / launch.grid[0] / launch.grid[1]);
  shared.reset(sharedEnd, options.checksShared);
  barriers.fill(Barrier());
  for (uint32_t w = 0; w < warps.size(); ++w) {
    warps[w].number = w;
    startWarp(warps[w]);
  }
  std::vector<Warp *> ready;
  while (true) {
    ready.clear();
    bool isDone = true;
    for (Warp &warp : warps) {
      isDone &= warp.state == State::Done;
      if (warp.state == State::Ready)
        ready.push_back(&warp);
    }
    if (isDone)
      return true;
    if (ready.empty())
      return reportDeadlock();
    Warp &warp = *ready[ready.size() == 1 ? 0 : random() % ready.size()];
    if (!runWarp(warp))
      return false;
    if (warp.state == State::Done)
      releaseComplete();
  }
}

//===----------------------------------------------------------------------===//
// Warps and frames
//===----------------------------------------------------------------------===//

void Machine::startWarp(Warp &warp) {
  uint32_t first = warp.number * warpSize;
  uint32_t count = std::min(threads - first, warpSize);
  warp.live = count == warpSize ? allLanes : (1U << count) - 1;
  warp.state = State::Ready;
  warp.depth = 0;
  warp.paths.clear();
  warp.clock = Clock();
  warp.clock.warp = warp.number;
  // Nobody has been told of the time in which a warp starts.
  warp.clock.times[warp.number] = 1;
  warp.copies.clear();
  warp.groups.fill(0);
  startFrame(warp, *kernel, warp.live);
}

void Machine::startFrame(Warp &warp, const Function &function, uint32_t lanes) {
  uint64_t localBase = 0;
  if (warp.depth != 0) {
    const Frame &caller = warp.getFrame();
    localBase =
        alignUp(caller.localBase + caller.function->localBytes, localStart);
  }
  if (warp.depth == warp.frames.size())
    warp.frames.emplace_back();
  Frame &frame = warp.frames[warp.depth++];
  size_t bytes = std::max<size_t>(function.registerBytes, registerAlignment);
  if (frame.capacity < bytes) {
    frame.storage.reset(
        static_cast<std::byte *>(std::aligned_alloc(registerAlignment, bytes)));
    std::memset(frame.storage.get(), 0xff, bytes);
    frame.capacity = bytes;
    frame.registers = frame.storage.get();
    frame.function = nullptr;
  }
  bool isNew = frame.function != &function || frame.localBase != localBase;
  frame.function = &function;
  frame.localBase = localBase;
  frame.lanes = lanes;
  frame.call = nullptr;
  frame.firstPath = warp.paths.size();
  warp.paths.push_back({0, none, lanes});
  if (isNew)
    writeConstants(warp, frame);
  writeSpecials(warp, frame);
  if (!function.suspects.empty() && options.checksRegisters) {
    frame.written.assign(function.registerBytes / registerAlignment, allLanes);
    for (uint32_t offset : function.suspects)
      frame.written[offset / registerAlignment] = 0;
  }
  // A kernel's own parameters are not in here.
  bool hasSpace = function.parameterSpaceBytes >
                  (function.isKernel ? function.parameterBytes : 0);
  frame.parameters.assign(
      hasSpace ? warpSize * function.parameterSpaceBytes : 0, std::byte(0xff));
  if (function.localBytes == 0)
    return;
  size_t end = localBase + function.localBytes;
  for (uint32_t l = 0; l < warpSize; ++l) {
    warp.local[l].resize(localBase);
    warp.local[l].resize(end, std::byte(0xff));
    warp.localWritten[l].resize(localBase);
    warp.localWritten[l].resize(end, std::byte(0));
  }
}

static void writeValue(Frame &frame, uint32_t offset, unsigned width,
                       uint32_t lane, uint64_t value) {
  std::memcpy(frame.registers + offset + lane * width, &value, width);
}

void Machine::writeConstants(const Warp &, Frame &frame) {
  for (const Constant &constant : frame.function->constants) {
    uint64_t value = constant.value;
    switch (constant.base) {
    case Base::Zero:
      break;
    case Base::Frame:
      value += localStart + frame.localBase;
      break;
    case Base::SharedKernel:
      value += sharedStart;
      break;
    case Base::SharedModule:
      value += sharedStart + moduleShared;
      break;
    case Base::SharedDynamic:
      value += sharedStart + dynamicShared;
      break;
    }
    if (constant.width == 0)
      writeValue(frame, constant.offset, 4, 0, value);
    for (uint32_t l = 0; l < warpSize && constant.width != 0; ++l)
      writeValue(frame, constant.offset, constant.width, l, value);
  }
}

void Machine::writeSpecials(const Warp &warp, Frame &frame) {
  auto getValue = [&](Special special, uint32_t lane) -> uint64_t {
    uint32_t thread = warp.number * warpSize + lane;
    switch (special) {
    case Special::ThreadX:
      return thread % launch.block[0];
    case Special::ThreadY:
      return thread / launch.block[0] % launch.block[1];
    case Special::ThreadZ:
      return thread / launch.block[0] / launch.block[1];
    case Special::BlockDimX:
    case Special::BlockDimY:
    case Special::BlockDimZ:
      return launch.block[size_t(special) - size_t(Special::BlockDimX)];
    case Special::BlockX:
    case Special::BlockY:
    case Special::BlockZ:
      return block[size_t(special) - size_t(Special::BlockX)];
    case Special::GridX:
    case Special::GridY:
    case Special::GridZ:
      return launch.grid[size_t(special) - size_t(Special::GridX)];
    case Special::Lane:
      return lane;
    case Special::Warp:
      return warp.number;
    case Special::Warps:
      return warps.size();
    case Special::LaneMaskEq:
      return 1U << lane;
    case Special::LaneMaskLt:
      return (1U << lane) - 1;
    case Special::LaneMaskLe:
      return (2U << lane) - 1;
    case Special::LaneMaskGt:
      return ~((2U << lane) - 1);
    case Special::LaneMaskGe:
      return ~((1U << lane) - 1);
    case Special::DynamicShared:
      return launch.sharedBytes;
    case Special::TotalShared:
      return sharedEnd;
    case Special::One:
      return 1;
    case Special::Multiprocessor:
    case Special::Zero:
      return 0;
    }
    return 0;
  };
  for (const SpecialRegister &special : frame.function->specials)
    for (uint32_t l = 0; l < warpSize; ++l)
      writeValue(frame, special.offset, special.width, l,
                 getValue(special.special, l));
}

/// After these a warp's paths are not what they were.
static bool isControl(Kind kind) {
  switch (kind) {
  case Kind::Branch:
  case Kind::BranchIndex:
  case Kind::Call:
  case Kind::Return:
  case Kind::Exit:
  case Kind::Barrier:
  case Kind::BarrierReduce:
    return true;
  default:
    return false;
  }
}

/// Until the warp waits or is done, or its turn is up.
bool Machine::runWarp(Warp &warp) {
  uint64_t turn = options.longestTurn == 0 ? ~uint64_t(0)
                                           : 1 + random() % options.longestTurn;
  while (warp.state == State::Ready && turn != 0) {
    Frame &frame = warp.getFrame();
    if (warp.paths.size() == frame.firstPath) {
      finishCall(warp);
      continue;
    }
    Path &path = warp.paths.back();
    if (path.lanes == 0 || path.next == path.meeting) {
      warp.paths.pop_back();
      continue;
    }
    const Instruction *code = frame.function->code.data();
    std::byte *registers = frame.registers;
    const uint32_t lanes = path.lanes, meeting = path.meeting;
    uint32_t next = path.next;
    bool stays = true;
    while (stays && next != meeting && turn != 0) {
      --turn;
      const Instruction &i = code[next++];
      uint32_t mask = lanes;
      if (i.guard != none) {
        uint32_t guard = readPredicate(registers, i.guard);
        mask &= i.guardNegated ? ~guard : guard;
      }
      ++warpInstructions;
      threadInstructions += uint64_t(__builtin_popcount(mask));
      if (i.checksReads && options.checksRegisters &&
          !checkReads(warp, i, lanes, mask))
        return false;
      if (mask == 0)
        continue;
      if (i.tracksWrites && options.checksRegisters)
        trackWrites(warp, i, mask);
      if (i.kind == Kind::Compute) {
        i.compute(registers, i, mask);
        continue;
      }
      stays = !isControl(i.kind);
      if (!stays)
        path.next = next;
      if (!execute(warp, i, mask))
        return false;
    }
    if (stays)
      path.next = next;
    if (warpInstructions > options.maxInstructions)
      return fail(warp, code[next - 1], uint32_t(__builtin_ctz(lanes)),
                  "has not come to an end after " +
                      std::to_string(warpInstructions) + " instructions");
  }
  return true;
}

/// Fails where a lane reads what nothing wrote; but a move passes that on.
bool Machine::checkReads(Warp &warp, const Instruction &i, uint32_t lanes,
                         uint32_t mask) {
  Frame &frame = warp.getFrame();
  auto check = [&](uint32_t offset, uint32_t readers) {
    uint32_t bad = readers & ~frame.written[offset / registerAlignment];
    return !bad || fail(warp, i, uint32_t(__builtin_ctz(bad)),
                        "reads a register that nothing wrote");
  };
  if (i.guard != none && !check(i.guard, lanes))
    return false;
  for (unsigned n = i.written; n < i.count && !i.passesOn; ++n)
    if (!check(i.operands[n], mask))
      return false;
  return true;
}

void Machine::trackWrites(Warp &warp, const Instruction &i, uint32_t mask) {
  Frame &frame = warp.getFrame();
  uint32_t known = i.packs ? 0 : allLanes;
  for (unsigned n = i.written; n < i.count && i.passesOn; ++n) {
    uint32_t read = frame.written[i.operands[n] / registerAlignment];
    known = i.packs ? known | read : known & read;
  }
  for (unsigned n = 0; n < i.written; ++n) {
    uint32_t &written = frame.written[i.operands[n] / registerAlignment];
    written = (written & ~mask) | (known & mask);
  }
}

bool Machine::execute(Warp &warp, const Instruction &i, uint32_t mask) {
  switch (i.kind) {
  case Kind::Compute:
    i.compute(warp.getFrame().registers, i, mask);
    return true;
  case Kind::Convert:
    convertLanes(warp.getFrame().registers, i, mask);
    return true;
  case Kind::Branch:
    branch(warp, i, mask);
    return true;
  case Kind::BranchIndex:
    return branchIndex(warp, i, mask);
  case Kind::Call:
    return call(warp, i, mask);
  case Kind::Return:
  case Kind::Exit:
    leave(warp, mask, i.kind == Kind::Exit || warp.depth == 1);
    return true;
  case Kind::Trap:
    return fail(warp, i, uint32_t(__builtin_ctz(mask)), "traps");
  case Kind::Load:
    return load(warp, i, mask);
  case Kind::Store:
    return store(warp, i, mask);
  case Kind::Atomic:
    return doAtomic(warp, i, mask);
  case Kind::LoadMatrix:
    return loadMatrix(warp, i, mask);
  case Kind::StoreMatrix:
    return storeMatrix(warp, i, mask);
  case Kind::CopyAsync:
    return copyAsync(warp, i, mask);
  case Kind::CommitGroup:
    return forLanes(mask, [&](uint32_t l) { return ++warp.groups[l], true; });
  case Kind::WaitGroup:
    waitGroup(warp, i, mask);
    return true;
  case Kind::Barrier:
  case Kind::BarrierReduce:
    return arrive(warp, i, mask);
  case Kind::WarpBarrier:
    warp.clock.advance();
    return checkMembers(warp, i, mask, 0);
  case Kind::Shuffle:
    return shuffle(warp, i, mask);
  case Kind::Vote:
    return vote(warp, i, mask);
  case Kind::Match:
    return match(warp, i, mask);
  case Kind::Reduce:
    return reduce(warp, i, mask);
  case Kind::Elect:
    return elect(warp, i, mask);
  case Kind::ActiveMask:
    writeEverywhere(warp, i, mask, mask);
    return true;
  case Kind::Clock:
    writeEverywhere(warp, i, mask, warpInstructions);
    return true;
  case Kind::Multiply:
    return multiply(warp, i, mask);
  case Kind::IsSpace:
    testSpace(warp, i, mask);
    return true;
  case Kind::Nothing:
    return true;
  }
  return true;
}

void Machine::writeEverywhere(Warp &warp, const Instruction &i, uint32_t mask,
                              uint64_t value) {
  unsigned width = i.width ? i.width : 4;
  forLanes(mask, [&](uint32_t l) {
    writeValue(warp.getFrame(), i.operands[0], width, l, value);
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

/// Replaces the path that runs by its parts, whose lanes are there again where
/// they meet. Which of them goes first is drawn.
void Machine::split(Warp &warp, uint32_t meeting, std::vector<Path> parts) {
  Path &top = warp.paths.back();
  // Where all go to the place that the whole goes to, it need not wait there.
  if (meeting == none || meeting == top.meeting) {
    meeting = top.meeting;
    warp.paths.pop_back();
  } else {
    top.next = meeting;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  for (Path part : parts)
    if (part.next != meeting)
      warp.paths.push_back({part.next, meeting, part.lanes});
}

void Machine::branch(Warp &warp, const Instruction &i, uint32_t mask) {
  Path &path = warp.paths.back();
  if (mask == path.lanes)
    path.next = i.target;
  else
    split(warp, i.meeting,
          {{i.target, none, mask}, {path.next, none, path.lanes & ~mask}});
}

bool Machine::branchIndex(Warp &warp, const Instruction &i, uint32_t mask) {
  Path &path = warp.paths.back();
  const std::byte *registers = warp.getFrame().registers;
  std::map<uint32_t, uint32_t> lanesOf; // by where they go
  if (path.lanes & ~mask)
    lanesOf[path.next] = path.lanes & ~mask;
  if (!forLanes(mask, [&](uint32_t l) {
        auto index = readLane<uint32_t>(registers, i.operands[0], l);
        if (index >= i.table.size())
          return fail(warp, i, l,
                      "branches to target " + std::to_string(index) + " of " +
                          std::to_string(i.table.size()));
        lanesOf[i.table[index]] |= 1U << l;
        return true;
      }))
    return false;
  if (lanesOf.size() == 1) {
    path.next = lanesOf.begin()->first;
    return true;
  }
  std::vector<Path> parts;
  for (auto [next, lanes] : lanesOf)
    parts.push_back({next, none, lanes});
  split(warp, i.meeting, std::move(parts));
  return true;
}

/// Copies one variable in parameter space from a frame to another.
static void copyVariable(Frame &to, size_t toOffset, const Frame &from,
                         size_t fromOffset, size_t bytes, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t l) {
    std::memcpy(to.parameters.data() + l * to.function->parameterSpaceBytes +
                    toOffset,
                from.parameters.data() +
                    l * from.function->parameterSpaceBytes + fromOffset,
                bytes);
    return true;
  });
}

bool Machine::call(Warp &warp, const Instruction &i, uint32_t mask) {
  const Function &callee = module.functions[i.target];
  auto lane = uint32_t(__builtin_ctz(mask));
  if (!callee.isDefined)
    return fail(warp, i, lane,
                "calls \"" + callee.name + "\", which is not defined");
  if (warp.depth == mostFrames)
    return fail(warp, i, lane,
                "calls are nested more than " + std::to_string(mostFrames) +
                    " deep");
  // Lanes that do not call wait for the others behind the call.
  Path &path = warp.paths.back();
  if (mask != path.lanes) {
    uint32_t next = path.next;
    warp.paths.push_back({next, next, mask});
  }
  Frame &caller = warp.getFrame();
  startFrame(warp, callee, mask);
  Frame &frame = warp.getFrame();
  frame.call = &i;
  for (size_t n = 0; n < callee.parameters.size(); ++n)
    copyVariable(frame, callee.parameters[n].offset, caller, i.table[n],
                 callee.parameters[n].bytes, mask);
  return true;
}

void Machine::finishCall(Warp &warp) {
  Frame &frame = warp.getFrame();
  --warp.depth;
  Frame &caller = warp.getFrame();
  const Function &callee = *frame.function;
  for (size_t n = 0; n < callee.results.size(); ++n)
    copyVariable(caller, frame.call->table[callee.parameters.size() + n], frame,
                 callee.results[n].offset, callee.results[n].bytes,
                 frame.lanes & warp.live);
}

/// Lanes return from the function, or leave the kernel.
void Machine::leave(Warp &warp, uint32_t mask, bool exits) {
  size_t first = exits ? 0 : warp.getFrame().firstPath;
  for (size_t p = first; p < warp.paths.size(); ++p)
    warp.paths[p].lanes &= ~mask;
  if (!exits)
    return;
  warp.live &= ~mask;
  if (warp.live == 0)
    warp.state = State::Done;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static std::string describeTriple(const std::array<uint32_t, 3> &triple) {
  return "(" + std::to_string(triple[0]) + ", " + std::to_string(triple[1]) +
         ", " + std::to_string(triple[2]) + ")";
}

std::string Machine::describeIndex(uint32_t warp, uint32_t lane) const {
  uint32_t thread = warp * warpSize + lane;
  return describeTriple({thread % launch.block[0],
                         thread / launch.block[0] % launch.block[1],
                         thread / launch.block[0] / launch.block[1]});
}

std::string Machine::describeLine(const Instruction &i) const {
  return "line " + std::to_string(i.line) + ", \"" + module.getLine(i.line) +
         "\"";
}

bool Machine::fail(const Warp &warp, const Instruction &i, uint32_t lane,
                   const std::string &message) {
  if (failure.ok())
    failure = Status::error("kernel " + launch.kernel + ", block " +
                            describeTriple(block) + ", thread " +
                            describeIndex(warp.number, lane) + ": " + message +
                            "; " + describeLine(i));
  return false;
}

bool Machine::failShared(const Warp &warp, const Instruction &i, uint32_t lane,
                         const SharedMemory::Problem &problem) {
  char address[32];
  snprintf(address, sizeof address, "0x%llx",
           static_cast<unsigned long long>(sharedStart + problem.offset));
  std::string where = std::string("shared address ") + address + " (byte " +
                      std::to_string(problem.offset) + ")";
  std::string other =
      "thread " + describeIndex(getWarp(problem.other), getLane(problem.other));
  switch (problem.fault) {
  case SharedMemory::Fault::None:
    break;
  case SharedMemory::Fault::Unwritten:
    return fail(warp, i, lane, "reads " + where + ", which nothing wrote");
  case SharedMemory::Fault::Pending:
    return fail(warp, i, lane,
                "accesses " + where + ", to which " + other +
                    " copies asynchronously without having waited for it");
  case SharedMemory::Fault::ReadAfterWrite:
    return fail(warp, i, lane,
                "race: reads " + where + ", which " + other +
                    " wrote without a barrier between");
  case SharedMemory::Fault::WriteAfterWrite:
    return fail(warp, i, lane,
                "race: writes " + where + ", which " + other +
                    " wrote without a barrier between");
  case SharedMemory::Fault::WriteAfterRead:
    return fail(warp, i, lane,
                "race: writes " + where + ", which " + other +
                    " read without a barrier between");
  }
  return false;
}

Status ptx::run(const Module &module, const Launch &launch,
                const Memory &memory, const Options &options, Counts *counts) {
  return Machine(module, launch, memory, options).run(counts);
}
