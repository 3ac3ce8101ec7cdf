//===- Placement.cpp - Where the parts of a tensor live -------------------===//
#include "cleave/Placement/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

Placement::Placement(ArrayRef<AxisList> dims, ArrayRef<Axis> partial,
                     Reduction reduction)
    : dims(dims), partial(partial), reduction(reduction) {
  llvm::sort(this->partial);
}

Placement Placement::getReplicated(unsigned rank) {
  Placement placement;
  placement.dims.resize(rank);
  return placement;
}

bool Placement::isReplicated() const {
  return partial.empty() &&
         llvm::all_of(dims, [](const AxisList &dim) { return dim.empty(); });
}

bool Placement::isSplitBy(Axis axis) const {
  return llvm::any_of(
      dims, [&](const AxisList &dim) { return llvm::is_contained(dim, axis); });
}

bool Placement::isPartialOver(Axis axis) const {
  return llvm::is_contained(partial, axis);
}

bool Placement::operator==(const Placement &other) const {
  return dims == other.dims && partial == other.partial &&
         (partial.empty() || reduction == other.reduction);
}

llvm::hash_code cleave::hash_value(const Placement &placement) {
  llvm::hash_code hash = llvm::hash_value(placement.dims.size());
  for (const AxisList &dim : placement.dims)
    hash = llvm::hash_combine(hash,
                              llvm::hash_combine_range(dim.begin(), dim.end()));
  if (placement.partial.empty())
    return hash;
  return llvm::hash_combine(hash,
                            llvm::hash_combine_range(placement.partial.begin(),
                                                     placement.partial.end()),
                            static_cast<int>(placement.reduction));
}

llvm::Error Placement::verify(const Mesh &mesh, ArrayRef<int64_t> shape) const {
  if (dims.size() != shape.size())
    return llvm::createStringError(
        Twine("expects a placement for a tensor of rank ") +
        Twine(shape.size()) + ", got one with " + Twine(dims.size()) + " dims");
  llvm::SmallVector<bool, 8> used(mesh.getNumAxes());
  auto use = [&](Axis axis) -> llvm::Error {
    if (axis >= mesh.getNumAxes())
      return llvm::createStringError(Twine("expects axes of a mesh with ") +
                                     Twine(mesh.getNumAxes()) +
                                     " axes, got axis number " + Twine(axis));
    if (used[axis])
      return llvm::createStringError(Twine("expects axis \"") +
                                     mesh.getName(axis) +
                                     "\" to be used once in a placement");
    used[axis] = true;
    return llvm::Error::success();
  };
  for (auto [index, dim, size] : llvm::enumerate(dims, shape)) {
    for (Axis axis : dim)
      if (llvm::Error error = use(axis))
        return error;
    int64_t parts = mesh.getSize(dim);
    if (size % parts == 0)
      continue;
    std::string axes =
        dim.size() == 1
            ? ("axis \"" + mesh.getName(dim.front()) + "\" (size ").str()
            : "axes " + mesh.toString(dim) + " (size ";
    return llvm::createStringError(
        Twine("expects dim ") + Twine(index) + " (size " + Twine(size) +
        ") to be divisible by " + axes + Twine(parts) + ")");
  }
  for (Axis axis : partial)
    if (llvm::Error error = use(axis))
      return error;
  if (!llvm::is_sorted(partial))
    return llvm::createStringError("expects partial axes in mesh order");
  return llvm::Error::success();
}

llvm::SmallVector<int64_t, 4>
Placement::getLocalShape(const Mesh &mesh, ArrayRef<int64_t> shape) const {
  llvm::SmallVector<int64_t, 4> local(shape);
  for (auto [size, dim] : llvm::zip_equal(local, dims))
    size /= mesh.getSize(dim);
  return local;
}

llvm::SmallVector<int64_t, 4>
Placement::getLocalOffsets(const Mesh &mesh, ArrayRef<int64_t> shape,
                           int64_t rank) const {
  llvm::SmallVector<int64_t, 4> offsets = getLocalShape(mesh, shape);
  for (auto [offset, dim] : llvm::zip_equal(offsets, dims))
    offset *= mesh.getShardIndex(rank, dim);
  return offsets;
}

std::string Placement::toString(const Mesh &mesh) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(dims, os,
                        [&](const AxisList &dim) { os << mesh.toString(dim); });
  os << ']';
  if (isPartial())
    os << " partial=" << (reduction == Reduction::Max ? "max" : "")
       << mesh.toString(partial);
  return text;
}

/// Takes `{a, b}` off the front of `text`.
static llvm::Expected<AxisList> parseAxes(const Mesh &mesh, StringRef &text) {
  size_t end = text.find('}');
  if (!text.starts_with("{") || end == StringRef::npos)
    return llvm::createStringError(
        Twine("expects axes in braces, such as \"{tp}\", at \"") + text + "\"");
  StringRef names = text.slice(1, end);
  text = text.drop_front(end + 1);
  AxisList axes;
  if (names.trim().empty())
    return axes;
  for (StringRef name : llvm::split(names, ',')) {
    std::optional<Axis> axis = mesh.getAxisIndex(name.trim());
    if (!axis)
      return llvm::createStringError(Twine("no axis \"") + name.trim() +
                                     "\" in the mesh " + mesh.toString());
    axes.push_back(*axis);
  }
  return axes;
}

llvm::Expected<Placement> Placement::parse(const Mesh &mesh, StringRef text) {
  Placement placement;
  StringRef rest = text.trim();
  if (!rest.consume_front("["))
    return llvm::createStringError(
        Twine("expects a placement, such as \"[{dp}, {}]\", got \"") + text +
        "\"");
  rest = rest.ltrim();
  while (!rest.consume_front("]")) {
    if (!placement.dims.empty()) {
      if (!rest.consume_front(","))
        return llvm::createStringError(Twine("expects \",\" or \"]\" at \"") +
                                       rest + "\"");
      rest = rest.ltrim();
    }
    llvm::Expected<AxisList> dim = parseAxes(mesh, rest);
    if (!dim)
      return dim.takeError();
    placement.dims.push_back(*dim);
    rest = rest.ltrim();
  }
  rest = rest.ltrim();
  if (rest.empty())
    return placement;
  if (!rest.consume_front("partial="))
    return llvm::createStringError(Twine("expects \"partial=\" at \"") + rest +
                                   "\"");
  if (rest.consume_front("max"))
    placement.reduction = Reduction::Max;
  llvm::Expected<AxisList> partial = parseAxes(mesh, rest);
  if (!partial)
    return partial.takeError();
  if (!rest.empty())
    return llvm::createStringError(
        Twine("expects the placement to end before \"") + rest + "\"");
  placement.partial = *partial;
  llvm::sort(placement.partial);
  return placement;
}
