#include "Emulator.h"

#include "runtime/cuda/kernels/Numbers.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <ucontext.h>

using namespace cleave::cuda;

//===----------------------------------------------------------------------===//
// Fibers
//===----------------------------------------------------------------------===//

namespace {

[[noreturn]] void fail(const char *what) {
  fprintf(stderr, "CUDA emulator: %s\n", what);
  abort();
}

enum class State { Runs, Exchanges, Waits, Done };

/// What a lane shows to the other lanes of its warp.
struct Shown {
  int operation = 0;
  uint32_t words[6] = {};
};

struct Copy {
  uint32_t to;
  const void *from;
  size_t bytes;
  bool real;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::Runs;
  std::vector<Copy> copies;
  /// In turns of two, since a lane may show the next before its neighbours have
  /// read the last.
  Shown shown[2];
  unsigned turn = 0;
};

/// One block at a time. A warp runs until all of its lanes wait for the block
/// or are done; then the next does, first to last and last to first in turns,
/// so that a missing barrier shows.
struct Block {
  static constexpr uint32_t base = 4096; ///< address of the shared memory
  static constexpr size_t stackBytes = 128 * 1024;

  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  const std::function<void()> *body = nullptr;
  unsigned current = 0;
  unsigned index[3] = {}, grid[3] = {};
  std::unique_ptr<char[]> shared;
  uint32_t sharedBytes = 0;

  void run();
  State runWarp(unsigned first);
  /// Goes on with the next lane of the warp, and after the last with runWarp().
  void yield(State state) {
    Fiber &me = fibers[current];
    me.state = state;
    bool last = current % warpSize == warpSize - 1;
    swapcontext(&me.context, last ? &scheduler : &fibers[++current].context);
  }
  char *getShared(uint32_t address, uint32_t bytes) {
    if (address % bytes != 0)
      fail("a shared address is not aligned");
    if (address < base || address + bytes > base + sharedBytes)
      fail("an address outside the shared memory");
    return shared.get() + (address - base);
  }
};

Block block;

void enterFiber() {
  (*block.body)();
  if (!block.fibers[block.current].copies.empty())
    fail("a copy that nothing waits for");
  block.yield(State::Done);
}

} // namespace

State Block::runWarp(unsigned first) {
  while (true) {
    current = first;
    swapcontext(&scheduler, &fibers[first].context);
    State state = fibers[first].state;
    for (unsigned i = first; i < first + warpSize; ++i)
      if (fibers[i].state != state)
        fail("lanes of a warp wait in different places");
    if (state != State::Exchanges)
      return state;
  }
}

void Block::run() {
  shared = std::make_unique<char[]>(sharedBytes);
  memset(shared.get(), 0xff, sharedBytes);
  for (Fiber &fiber : fibers) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enterFiber, 0);
  }
  unsigned warps = unsigned(fibers.size()) / warpSize;
  for (bool forward = true;; forward = !forward) {
    State state = State::Done;
    for (unsigned i = 0; i < warps; ++i) {
      State own = runWarp((forward ? i : warps - 1 - i) * warpSize);
      if (i > 0 && own != state)
        fail("warps of a block wait in different places");
      state = own;
    }
    if (state == State::Done)
      return;
  }
}

void cleave::cuda::emulate(const KernelLaunch &launch,
                           const std::function<void()> &thread) {
  if (launch.block[0] % warpSize != 0 || launch.block[1] != 1 ||
      launch.block[2] != 1 || launch.sharedBytes > 227 * 1024 ||
      launch.grid[1] > 65535 || launch.grid[2] > 65535 || launch.grid[0] == 0 ||
      launch.grid[1] == 0 || launch.grid[2] == 0)
    fail("a launch that a GPU would refuse");
  block.body = &thread;
  block.sharedBytes = launch.sharedBytes;
  block.fibers.resize(launch.block[0]);
  for (Fiber &fiber : block.fibers)
    if (!fiber.stack)
      fiber.stack.reset(new char[Block::stackBytes]);
  memcpy(block.grid, launch.grid, sizeof block.grid);
  unsigned *i = block.index;
  for (i[2] = 0; i[2] < launch.grid[2]; ++i[2])
    for (i[1] = 0; i[1] < launch.grid[1]; ++i[1])
      for (i[0] = 0; i[0] < launch.grid[0]; ++i[0])
        block.run();
}

void *cleave::cuda::findKernel(const std::string &symbol) {
  void *kernel = dlsym(RTLD_DEFAULT, symbol.c_str());
  if (!kernel)
    fail(("no kernel " + symbol).c_str());
  return kernel;
}

//===----------------------------------------------------------------------===//
// Exchanges between the lanes of a warp
//===----------------------------------------------------------------------===//

namespace {

enum Operation { SyncWarp, ShuffleXor, ShuffleUp, Match, Load, Multiply };

/// What all lanes of the warp show, once each has shown it.
class Exchange {
public:
  Exchange(Operation operation, std::initializer_list<uint32_t> words) {
    Fiber &me = block.fibers[block.current];
    turn = me.turn++ % 2;
    Shown &mine = me.shown[turn];
    mine.operation = operation;
    std::copy(words.begin(), words.end(), mine.words);
    block.yield(State::Exchanges);
    first = block.current / warpSize * warpSize;
    for (unsigned i = 0; i < warpSize; ++i)
      if (block.fibers[first + i].shown[turn].operation != operation)
        fail("lanes of a warp exchange different things");
  }
  uint32_t get(unsigned lane, unsigned word = 0) const {
    return block.fibers[first + lane].shown[turn].words[word];
  }

private:
  unsigned turn, first;
};

unsigned getLane() { return block.current % warpSize; }

float getHalf(uint32_t pair, unsigned i) {
  return fromBf16(uint16_t(pair >> (16 * i)));
}

/// The row addresses of four matrices; each matrix's rows are in all banks.
Exchange exchangeRows(uint32_t address) {
  Exchange rows(Load, {address});
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned banks = 0;
    for (unsigned row = 0; row < 8; ++row)
      banks |= 1u << (rows.get(8 * matrix + row) / 16 % 8);
    if (banks != 0xff)
      fail("a bank conflict");
  }
  return rows;
}

void start(uint32_t to, const void *from, size_t bytes, bool real) {
  if (uintptr_t(from) % bytes != 0)
    fail("a copy from an address that is not aligned");
  block.getShared(to, uint32_t(bytes));
  block.fibers[block.current].copies.push_back({to, from, bytes, real});
}

} // namespace

//===----------------------------------------------------------------------===//
// Device.h
//===----------------------------------------------------------------------===//

int cleave::cuda::getThread() { return int(block.current); }
int cleave::cuda::getBlockX() { return int(block.index[0]); }
int cleave::cuda::getBlockY() { return int(block.index[1]); }
int cleave::cuda::getBlockZ() { return int(block.index[2]); }
int cleave::cuda::getBlocksX() { return int(block.grid[0]); }
int cleave::cuda::getBlocksY() { return int(block.grid[1]); }
char *cleave::cuda::getShared() { return block.shared.get(); }
uint32_t cleave::cuda::getSharedAddress() { return Block::base; }
void cleave::cuda::syncThreads() { block.yield(State::Waits); }
void cleave::cuda::syncWarp() { Exchange exchange(SyncWarp, {}); }

float cleave::cuda::shuffleXor(float value, int mask) {
  Exchange exchange(ShuffleXor, {asBits(value)});
  return asFloat(exchange.get(getLane() ^ unsigned(mask)));
}
uint32_t cleave::cuda::shuffleUp(uint32_t value, int distance) {
  Exchange exchange(ShuffleUp, {value});
  unsigned lane = getLane(), step = unsigned(distance);
  return exchange.get(lane >= step ? lane - step : lane);
}
uint32_t cleave::cuda::matchAny(uint32_t value) {
  Exchange exchange(Match, {value});
  uint32_t same = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    same |= uint32_t(exchange.get(lane) == value) << lane;
  return same;
}
void cleave::cuda::addShared(uint32_t *counter, uint32_t value) {
  *counter += value;
}

void cleave::cuda::copyAsync16(uint32_t to, const void *from, bool real) {
  start(to, from, 16, real);
}
void cleave::cuda::copyAsync4(uint32_t to, const void *from, bool real) {
  start(to, from, 4, real);
}
void cleave::cuda::waitCopies() {
  std::vector<Copy> &copies = block.fibers[block.current].copies;
  for (const Copy &copy : copies) {
    char *to = block.getShared(copy.to, uint32_t(copy.bytes));
    if (copy.real)
      memcpy(to, copy.from, copy.bytes);
    else
      memset(to, 0, copy.bytes);
  }
  copies.clear();
}

void cleave::cuda::loadMatrices(uint32_t (&piece)[4], uint32_t address) {
  Exchange rows = exchangeRows(address);
  unsigned lane = getLane();
  for (unsigned i = 0; i < 4; ++i)
    memcpy(&piece[i],
           block.getShared(rows.get(8 * i + lane / 4), 16) + lane % 4 * 4, 4);
}
void cleave::cuda::loadMatricesTransposed(uint32_t (&piece)[4],
                                          uint32_t address) {
  Exchange rows = exchangeRows(address);
  unsigned lane = getLane();
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t halves[2];
    for (unsigned k = 0; k < 2; ++k) {
      uint32_t row = rows.get(8 * i + lane % 4 * 2 + k);
      memcpy(&halves[k], block.getShared(row, 16) + lane / 4 * 2, 2);
    }
    piece[i] = halves[0] | uint32_t(halves[1]) << 16;
  }
}

void cleave::cuda::multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                            uint32_t b1) {
  Exchange exchange(Multiply, {a[0], a[1], a[2], a[3], b0, b1});
  unsigned lane = getLane();
  for (unsigned e = 0; e < 4; ++e) {
    unsigned row = lane / 4, column = lane % 4 * 2 + e % 2;
    double sum = c[e];
    for (unsigned k = 0; k < 16; ++k) {
      unsigned right = k / 8, pair = k % 8 / 2;
      uint32_t x = exchange.get(row * 4 + pair, e / 2 + 2 * right);
      uint32_t y = exchange.get(column * 4 + pair, 4 + right);
      sum += double(getHalf(x, k % 2)) * double(getHalf(y, k % 2));
    }
    c[e] = float(sum);
  }
}

uint32_t cleave::cuda::packBf16(float low, float high) {
  return toBf16(low) | uint32_t(toBf16(high)) << 16;
}
float cleave::cuda::exp2Fast(float x) { return std::exp2(x); }
float cleave::cuda::log2Fast(float x) { return std::log2(x); }
float cleave::cuda::invertFast(float x) { return 1.0f / x; }
