//===- Parts.cpp ----------------------------------------------------------===//
#include "passes/Overlap/Parts.h"
#include "runtime/program/Limits.h"

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// Which instructions can be cut together
//===----------------------------------------------------------------------===//

Window::Window(Instructions list)
    : list(std::move(list)), dependences(this->list.size()) {}

const std::optional<Shares> &Window::getShares(size_t i, int64_t parts) const {
  auto [found, isNew] = shares.try_emplace({i, parts});
  if (isNew)
    found->second = computeShares(i, parts);
  return found->second;
}

std::optional<Shares> Window::computeShares(size_t i, int64_t parts) const {
  auto op = dyn_cast<exec::RowsOpInterface>(*list[i]);
  std::optional<Shares> found;
  if (op)
    found = op.getShares(parts);
  if (!found)
    return std::nullopt;
  for (auto [value, share] : llvm::zip(op->getOperands(), *found))
    if (share == exec::Share::Part &&
        exec::getBytes(value) % (parts * int64_t(runtime::limits::alignment)) !=
            0)
      return std::nullopt;
  return found;
}

/// From where to where a value lies in its buffer. Views of a buffer that has
/// places have the same distances, so what meets in one micro-batch's places
/// does in the first.
static std::pair<int64_t, int64_t> getRange(Value value) {
  auto view = value.getDefiningOp<exec::ViewOp>();
  int64_t begin = view ? int64_t(view.getFrom()) : 0;
  return {begin, begin + exec::getBytes(value)};
}

static bool shareBytes(Value a, Value b) {
  if (exec::getBuffer(a) != exec::getBuffer(b))
    return false;
  auto [beginA, endA] = getRange(a);
  auto [beginB, endB] = getRange(b);
  return beginA < endB && beginB < endA;
}

bool Window::dependsOn(size_t later, size_t earlier) const {
  llvm::BitVector &known = dependences[later];
  if (known.empty()) {
    known.resize(unsigned(list.size()));
    for (size_t i = 0; i < later; ++i)
      for (auto [k, x] : llvm::enumerate(list[later]->getOperands()))
        for (auto [n, y] : llvm::enumerate(list[i]->getOperands()))
          if ((isOutput(later, unsigned(k)) || isOutput(i, unsigned(n))) &&
              shareBytes(x, y))
            known.set(unsigned(i));
  }
  return known[unsigned(earlier)];
}

bool Window::areApart(ArrayRef<size_t> members, int64_t parts) const {
  for (size_t a : members)
    for (size_t b : members) {
      ArrayRef<exec::Share> sharesA = *getShares(a, parts),
                            sharesB = *getShares(b, parts);
      for (auto [i, x] : llvm::enumerate(list[a]->getOperands()))
        for (auto [k, y] : llvm::enumerate(list[b]->getOperands())) {
          bool isWritten = isOutput(a, unsigned(i)) || isOutput(b, unsigned(k));
          bool isAlike = x == y && sharesA[i] == sharesB[k] &&
                         (a == b || sharesA[i] == exec::Share::Part);
          if (isWritten && exec::getBuffer(x) == exec::getBuffer(y) && !isAlike)
            return false;
        }
    }
  return true;
}

std::optional<SmallVector<bool>>
Window::findBefore(ArrayRef<size_t> members) const {
  SmallVector<bool> isMember(list.size()), isBefore(list.size());
  for (size_t i : members)
    isMember[i] = true;
  for (size_t i = members.back(); i-- > members.front();) {
    if (isMember[i])
      continue;
    for (size_t later = i + 1; later <= members.back(); ++later)
      isBefore[i] |=
          (isMember[later] || isBefore[later]) && dependsOn(later, i);
    if (isBefore[i] && llvm::any_of(members, [&](size_t earlier) {
          return earlier < i && dependsOn(i, earlier);
        }))
      return std::nullopt;
  }
  return isBefore;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void PartBuilder::share(Value value) {
  exec::BufferOp whole = exec::getBuffer(value);
  OpBuilder b(whole);
  shared[value] = exec::BufferOp::create(b, whole.getLoc(), whole.getCategory(),
                                         exec::getBytes(value) / parts);
}

Value PartBuilder::getPart(Value value, int64_t number) {
  if (auto buffer = shared.find(value); buffer != shared.end())
    return buffer->second;
  Value &part = views[{value, number}];
  if (part)
    return part;
  auto view = value.getDefiningOp<exec::ViewOp>();
  int64_t bytes = exec::getBytes(value) / parts;
  OpBuilder b(before);
  part = exec::ViewOp::create(b, value.getLoc(), exec::getBuffer(value), bytes,
                              view ? view.getPlaces() : 0,
                              (view ? int64_t(view.getFrom()) : 0) +
                                  number * bytes,
                              view ? view.getDistance() : 0);
  return part;
}

exec::InstructionOpInterface
PartBuilder::makePart(exec::InstructionOpInterface op, int64_t number) {
  OpBuilder b(op);
  auto part = cast<exec::InstructionOpInterface>(b.clone(*op));
  auto rows = cast<exec::RowsOpInterface>(*part);
  Shares shares = *rows.getShares(parts);
  rows.keepOnePart(parts, number);
  for (auto [operand, share] : llvm::zip(part->getOpOperands(), shares))
    if (share == exec::Share::Part)
      operand.set(getPart(operand.get(), number));
  if (auto flops = part->getAttrOfType<FloatAttr>("flops"))
    part->setAttr("flops",
                  b.getF64FloatAttr(flops.getValueAsDouble() / double(parts)));
  made.push_back(part);
  return part;
}

SmallVector<Operation *> PartBuilder::getMade() const {
  SmallVector<Operation *> all = made;
  for (auto &[key, view] : views)
    all.push_back(view.getDefiningOp());
  for (auto &[value, buffer] : shared)
    all.push_back(buffer.getDefiningOp());
  return all;
}

void cleave::eraseUnusedKernels(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  module.walk(
      [&](exec::LaunchOp op) { used.insert(op.getKernelAttr().getAttr()); });
  for (auto kernel :
       llvm::make_early_inc_range(module.getOps<exec::KernelOp>()))
    if (!used.contains(kernel.getSymNameAttr()))
      kernel.erase();
}
