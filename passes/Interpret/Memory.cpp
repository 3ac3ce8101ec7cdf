//===- Memory.cpp - The arena of a simulated rank -------------------------===//
#include "passes/Interpret/Memory.h"
#include <algorithm>
#include <limits>

using namespace cleave;

void Memory::grow(int64_t bytes) {
  size_t size = std::max(kinds.size(), size_t(bytes + 1) / 2);
  kinds.resize(size, Nothing);
  values.resize(size, 0.0);
}

Memory::Kind Memory::getKind(ElementCode type) {
  switch (type) {
  case ElementCode::F32:
    return F32;
  case ElementCode::BF16:
    return BF16;
  case ElementCode::I32:
    return I32;
  }
  return Nothing;
}

double Memory::load(int64_t offset, ElementCode type) const {
  size_t at = size_t(offset) / 2;
  bool isWide = type != ElementCode::BF16;
  if (kinds[at] == Zero && (!isWide || kinds[at + 1] == Zero))
    return 0;
  if (kinds[at] == getKind(type) && (!isWide || kinds[at + 1] == Rest))
    return values[at];
  return std::numeric_limits<double>::quiet_NaN();
}

void Memory::cut(size_t begin, size_t end) {
  if (kinds[begin] == Rest)
    kinds[begin - 1] = Nothing;
  if (end < kinds.size() && kinds[end] == Rest)
    kinds[end] = Nothing;
}

void Memory::store(int64_t offset, ElementCode type, double value) {
  size_t at = size_t(offset) / 2;
  bool isWide = type != ElementCode::BF16;
  cut(at, at + (isWide ? 2 : 1));
  kinds[at] = getKind(type);
  values[at] = value;
  if (isWide)
    kinds[at + 1] = Rest;
}

std::vector<double> Memory::getElements(int64_t offset, int64_t bytes) const {
  std::vector<double> elements;
  for (int64_t at = offset / 2; at < (offset + bytes) / 2; ++at)
    if (Kind kind = kinds[size_t(at)]; kind != Nothing && kind != Rest)
      elements.push_back(kind == Zero ? 0.0 : values[size_t(at)]);
  return elements;
}

void Memory::fillZero(int64_t offset, int64_t bytes) {
  size_t begin = size_t(offset) / 2, end = begin + size_t(bytes) / 2;
  cut(begin, end);
  std::fill(kinds.begin() + int64_t(begin), kinds.begin() + int64_t(end), Zero);
}

void Memory::copy(int64_t from, int64_t to, int64_t bytes) {
  put(to, take(from, bytes));
}

Memory Memory::take(int64_t offset, int64_t bytes) const {
  int64_t begin = offset / 2, end = begin + bytes / 2;
  Memory range;
  range.kinds.assign(kinds.begin() + begin, kinds.begin() + end);
  range.values.assign(values.begin() + begin, values.begin() + end);
  return range;
}

void Memory::put(int64_t offset, const Memory &range) {
  size_t at = size_t(offset) / 2;
  cut(at, at + range.kinds.size());
  std::copy(range.kinds.begin(), range.kinds.end(),
            kinds.begin() + int64_t(at));
  std::copy(range.values.begin(), range.values.end(),
            values.begin() + int64_t(at));
}
