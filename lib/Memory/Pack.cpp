//===- Pack.cpp - Offsets of all buffers in one arena ---------------------===//
//
// Minimum height packing of rectangles whose horizontal place, the lifetime, is
// given (dynamic storage allocation; NP-hard). A packing is an order and a fit:
// buffers are placed in that order, each where it fits among those before it.
// Some order gives an optimal packing by first fit, namely the one by optimal
// offsets, so searching orders loses nothing.
//
//   1. Orders by size, lifetime, area and time, and by contention, the most
//      bytes live at once in a buffer's lifetime (Maas et al., "TelaMalloc",
//      ASPLOS 2023): what is live when memory is tight is placed first.
//   2. A local search over orders: a buffer at the top of the arena, or one
//   that
//      is below it and overlaps in time, moves to an earlier place in the
//      order.
//
//===----------------------------------------------------------------------===//
#include "cleave/Memory/Pack.h"
#include "GapFinder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace cleave;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

namespace {

using Order = std::vector<uint32_t>;

/// A buffer with its times numbered by what happens, without gaps.
struct Item {
  int64_t size, alignment;
  int32_t first, last;
  int64_t contention;

  int64_t getLifetime() const { return int64_t(last) - first + 1; }
  double getArea() const { return double(size) * double(getLifetime()); }
};

class Packer {
public:
  Packer(ArrayRef<BufferLifetime> buffers, const PackOptions &options)
      : options(options), random(options.seed) {
    readItems(buffers);
    computeBounds();
  }

  Packing run();

private:
  void readItems(ArrayRef<BufferLifetime> buffers);
  /// Live bytes over time, hence contention and both bounds.
  void computeBounds();
  /// Places the buffers in this order. The peak, or nothing if it would be
  /// above `limit`; `offsets` are then incomplete.
  std::optional<int64_t> place(const Order &order, Fit fit, int64_t limit);
  void tryOrder(StringRef name, llvm::function_ref<bool(uint32_t, uint32_t)>);
  void tryOrders();
  /// The order with one buffer moved or exchanged so that the top may go down.
  Order getNeighbour(const Order &order, const std::vector<int64_t> &placed,
                     int64_t peak);
  void improve();
  size_t pick(size_t count) { return random() % count; }
  void keep(const Order &order, Fit fit, int64_t peak, const Twine &name);
  bool isDone() const { return best.peak <= reachable; }

  const PackOptions &options;
  std::mt19937_64 random;
  std::vector<Item> items;
  GapFinder finder;
  std::vector<int64_t> offsets; ///< of the last `place`

  Packing best;
  Order bestOrder;
  Fit bestFit = Fit::First;
  int64_t lowerBound = 0;
  /// A bound that knows of alignment.
  int64_t reachable = 0;
};

} // namespace

void Packer::readItems(ArrayRef<BufferLifetime> buffers) {
  // Only the order of first and last uses matters.
  std::vector<int64_t> times;
  for (const BufferLifetime &buffer : buffers) {
    times.push_back(buffer.firstUse);
    times.push_back(buffer.lastUse);
  }
  llvm::sort(times);
  times.erase(llvm::unique(times), times.end());
  auto number = [&](int64_t time) {
    return static_cast<int32_t>(llvm::lower_bound(times, time) - times.begin());
  };
  for (const BufferLifetime &buffer : buffers)
    items.push_back({buffer.size, buffer.alignment, number(buffer.firstUse),
                     number(buffer.lastUse), 0});
}

void Packer::computeBounds() {
  int32_t end = 0;
  int64_t alignment = items.empty() ? 1 : items[0].alignment;
  std::vector<uint32_t> byFirst(items.size()), byLast(items.size());
  for (auto [index, item] : llvm::enumerate(items)) {
    end = std::max(end, item.last + 1);
    alignment = std::min(alignment, item.alignment);
    byFirst[index] = byLast[index] = index;
  }
  llvm::sort(byFirst, [&](uint32_t a, uint32_t b) {
    return items[a].first < items[b].first;
  });
  llvm::sort(byLast, [&](uint32_t a, uint32_t b) {
    return items[a].last < items[b].last;
  });

  // Every offset is a multiple of the least alignment, so all live buffers but
  // the topmost take up a multiple of it: the bound that may be reached.
  std::vector<int64_t> live(end);
  std::multiset<int64_t> paddings;
  int64_t bytes = 0, padded = 0;
  size_t begun = 0, ended = 0;
  for (int32_t time = 0; time < end; ++time) {
    for (; begun < items.size() && items[byFirst[begun]].first == time;
         ++begun) {
      int64_t size = items[byFirst[begun]].size;
      int64_t whole = llvm::alignTo(size, alignment);
      bytes += size;
      padded += whole;
      paddings.insert(whole - size);
    }
    live[time] = bytes;
    lowerBound = std::max(lowerBound, bytes);
    if (!paddings.empty())
      reachable = std::max(reachable, padded - *paddings.rbegin());
    for (; ended < items.size() && items[byLast[ended]].last == time; ++ended) {
      int64_t size = items[byLast[ended]].size;
      int64_t whole = llvm::alignTo(size, alignment);
      bytes -= size;
      padded -= whole;
      paddings.erase(paddings.find(whole - size));
    }
  }

  // Contention: maximum of `live` over [first, last], by a sparse table.
  std::vector<std::vector<int64_t>> table = {live};
  for (size_t width = 1; 2 * width <= live.size(); width *= 2) {
    const std::vector<int64_t> &half = table.back();
    std::vector<int64_t> level(live.size() - 2 * width + 1);
    for (size_t i = 0; i < level.size(); ++i)
      level[i] = std::max(half[i], half[i + width]);
    table.push_back(std::move(level));
  }
  for (Item &item : items) {
    unsigned level = llvm::Log2_64(item.getLifetime());
    item.contention =
        std::max(table[level][item.first],
                 table[level][item.last + 1 - (int64_t(1) << level)]);
  }
}

std::optional<int64_t> Packer::place(const Order &order, Fit fit,
                                     int64_t limit) {
  finder.clear();
  int64_t peak = 0;
  for (uint32_t index : order) {
    const Item &item = items[index];
    offsets[index] = 0;
    if (item.size == 0)
      continue;
    int64_t offset =
        finder.find(item.first, item.last, item.size, item.alignment, fit);
    offsets[index] = offset;
    peak = std::max(peak, offset + item.size);
    if (peak > limit)
      return std::nullopt;
    finder.insert(item.first, item.last, offset, item.size);
  }
  return peak;
}

void Packer::keep(const Order &order, Fit fit, int64_t peak,
                  const Twine &name) {
  best.peak = peak;
  best.offsets = offsets;
  best.order = name.str();
  bestOrder = order;
  bestFit = fit;
}

void Packer::tryOrder(StringRef name,
                      llvm::function_ref<bool(uint32_t, uint32_t)> isBefore) {
  if (isDone())
    return;
  Order order(items.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](uint32_t a, uint32_t b) {
    return isBefore(a, b) || (a < b && !isBefore(b, a));
  });
  for (Fit fit : {Fit::First, Fit::Best})
    if (std::optional<int64_t> peak = place(order, fit, best.peak - 1))
      keep(order, fit, *peak,
           name + (fit == Fit::First ? ", first fit" : ", best fit"));
}

void Packer::tryOrders() {
  auto by = [&](auto getKey) {
    return [this, getKey](uint32_t a, uint32_t b) {
      return getKey(items[a]) > getKey(items[b]);
    };
  };
  tryOrder("contention, then lifetime", by([](const Item &item) {
             return std::tuple(item.contention, item.getLifetime(), item.size);
           }));
  tryOrder("contention, then size", by([](const Item &item) {
             return std::tuple(item.contention, item.size, item.getLifetime());
           }));
  tryOrder("size", by([](const Item &item) {
             return std::tuple(item.size, item.getLifetime());
           }));
  tryOrder("lifetime", by([](const Item &item) {
             return std::tuple(item.getLifetime(), item.size);
           }));
  tryOrder("area",
           by([](const Item &item) { return std::tuple(item.getArea()); }));
  tryOrder("first use", by([](const Item &item) {
             return std::tuple(-item.first, item.last, item.size);
           }));
  tryOrder("last use", by([](const Item &item) {
             return std::tuple(item.last, -item.first, item.size);
           }));
}

Order Packer::getNeighbour(const Order &order,
                           const std::vector<int64_t> &placed, int64_t peak) {
  // A buffer at the top, one that overlaps it in time, or any.
  llvm::SmallVector<uint32_t> choices;
  for (uint32_t index : order)
    if (placed[index] + items[index].size == peak)
      choices.push_back(index);
  uint32_t chosen = choices[pick(choices.size())];
  switch (pick(4)) {
  case 0:
    chosen = order[pick(order.size())];
    break;
  case 1:
  case 2:
    choices.clear();
    for (uint32_t index : order)
      if (items[index].first <= items[chosen].last &&
          items[index].last >= items[chosen].first)
        choices.push_back(index);
    chosen = choices[pick(choices.size())];
    break;
  default:
    break;
  }
  Order moved = order;
  auto from = llvm::find(moved, chosen);
  auto to = moved.begin() + pick(from - moved.begin() + 1);
  if (pick(2))
    std::rotate(to, from, from + 1);
  else
    std::iter_swap(to, from);
  return moved;
}

void Packer::improve() {
  Order order = bestOrder;
  std::vector<int64_t> placed = best.offsets;
  int64_t peak = best.peak;
  Fit fit = bestFit;
  int64_t spent = 0;
  // Trials without a gain before the search goes back to the best order.
  const size_t patience = 100 + items.size();
  size_t trials = 0;
  auto getEffort = [&] {
    double worth =
        double(best.peak - reachable) * double(options.effortPerByte);
    return std::min(double(options.effort), worth);
  };
  while (!isDone() && double(spent) < getEffort()) {
    if (++trials > patience) {
      trials = 0;
      order = bestOrder;
      placed = best.offsets;
      peak = best.peak;
      fit = fit == Fit::First ? Fit::Best : Fit::First;
    }
    Order moved = getNeighbour(order, placed, peak);
    // As good is good enough, now and then a little worse too: it leads away
    // from where the search is stuck.
    int64_t gap = best.peak - reachable;
    int64_t slack = std::array<int64_t, 5>{0, 0, 0, gap / 4, gap}[pick(5)];
    int64_t before = finder.getWork();
    std::optional<int64_t> reached =
        place(moved, fit, std::max(peak, best.peak + slack));
    spent += finder.getWork() - before + 4 * items.size();
    if (!reached)
      continue;
    order = std::move(moved);
    placed = offsets;
    peak = *reached;
    if (peak < best.peak) {
      keep(order, fit, peak, "local search");
      trials = 0;
    }
  }
}

Packing Packer::run() {
  best.lowerBound = lowerBound;
  best.peak = std::numeric_limits<int64_t>::max();
  offsets.assign(items.size(), 0);
  tryOrders();
  improve();
  return std::move(best);
}

static llvm::Error verify(ArrayRef<BufferLifetime> buffers) {
  int64_t sum = 0;
  for (auto [index, buffer] : llvm::enumerate(buffers)) {
    Twine name = Twine("buffer ") + Twine(index);
    if (buffer.size < 0)
      return llvm::createStringError("expects " + name +
                                     " to have a size of at least 0, got " +
                                     Twine(buffer.size));
    if (buffer.lastUse < buffer.firstUse)
      return llvm::createStringError(
          "expects " + name + " to be used last at or after its first use (" +
          Twine(buffer.firstUse) + "), got " + Twine(buffer.lastUse));
    if (buffer.alignment < 1 || !llvm::isPowerOf2_64(buffer.alignment))
      return llvm::createStringError("expects the alignment of " + name +
                                     " to be a power of two, got " +
                                     Twine(buffer.alignment));
    // Room for the gap below, too.
    if (llvm::AddOverflow(sum, buffer.size, sum) ||
        llvm::AddOverflow(sum, buffer.alignment, sum))
      return llvm::createStringError(
          "expects the sizes of all buffers to add up to less than 2^63 bytes");
  }
  return llvm::Error::success();
}

llvm::Expected<Packing> cleave::packArena(ArrayRef<BufferLifetime> buffers,
                                          const PackOptions &options) {
  if (llvm::Error error = verify(buffers))
    return error;
  return Packer(buffers, options).run();
}
