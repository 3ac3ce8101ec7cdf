//===- Mesh.cpp - Ranks arranged along named axes -------------------------===//
#include "cleave/Mesh/Mesh.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"
#include <limits>

using namespace cleave;
using llvm::ArrayRef;

llvm::Error Mesh::verify() const {
  llvm::StringSet<> names;
  int64_t ranks = 1;
  for (const MeshAxis &axis : axes) {
    if (axis.name.empty())
      return llvm::createStringError("expects every mesh axis to have a name");
    if (!names.insert(axis.name).second)
      return llvm::createStringError(llvm::Twine("expects mesh axis \"") +
                                     axis.name + "\" to be named once");
    if (axis.size < 1)
      return llvm::createStringError(
          llvm::Twine("expects mesh axis \"") + axis.name + "\" (size " +
          llvm::Twine(axis.size) + ") to have a size of at least 1");
    if (axis.size > std::numeric_limits<int32_t>::max() / ranks)
      return llvm::createStringError(
          "expects the mesh to have at most 2147483647 ranks");
    ranks *= axis.size;
  }
  return llvm::Error::success();
}

int64_t Mesh::getSize(ArrayRef<Axis> list) const {
  int64_t size = 1;
  for (Axis axis : list)
    size *= axes[axis].size;
  return size;
}

int64_t Mesh::getNumRanks() const {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axes)
    ranks *= axis.size;
  return ranks;
}

std::optional<Axis> Mesh::getAxisIndex(llvm::StringRef name) const {
  for (auto [index, axis] : llvm::enumerate(axes))
    if (axis.name == name)
      return static_cast<Axis>(index);
  return std::nullopt;
}

int64_t Mesh::getStride(Axis axis) const {
  int64_t stride = 1;
  for (const MeshAxis &minor : ArrayRef<MeshAxis>(axes).drop_front(axis + 1))
    stride *= minor.size;
  return stride;
}

int64_t Mesh::getCoordinate(int64_t rank, Axis axis) const {
  return rank / getStride(axis) % axes[axis].size;
}

llvm::SmallVector<int64_t, 4> Mesh::getCoordinates(int64_t rank) const {
  llvm::SmallVector<int64_t, 4> coordinates;
  for (Axis axis = 0; axis < axes.size(); ++axis)
    coordinates.push_back(getCoordinate(rank, axis));
  return coordinates;
}

int64_t Mesh::getShardIndex(int64_t rank, ArrayRef<Axis> list) const {
  int64_t index = 0;
  for (Axis axis : list)
    index = index * axes[axis].size + getCoordinate(rank, axis);
  return index;
}

llvm::SmallVector<int64_t, 8> Mesh::getGroup(int64_t rank,
                                             ArrayRef<Axis> list) const {
  for (Axis axis : list)
    rank -= getCoordinate(rank, axis) * getStride(axis);
  llvm::SmallVector<int64_t, 8> group = {rank};
  for (Axis axis : list) {
    llvm::SmallVector<int64_t, 8> wider;
    for (int64_t base : group)
      for (int64_t c = 0; c < axes[axis].size; ++c)
        wider.push_back(base + c * getStride(axis));
    group = std::move(wider);
  }
  return group;
}

std::string Mesh::toString(ArrayRef<Axis> list) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '{';
  llvm::interleaveComma(list, os, [&](Axis axis) { os << getName(axis); });
  os << '}';
  return text;
}

llvm::Expected<Mesh> Mesh::parse(llvm::StringRef text) {
  llvm::SmallVector<MeshAxis> axes;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [name, size] = part.split('=');
    MeshAxis axis{name.trim().str(), 0};
    if (size.trim().getAsInteger(10, axis.size))
      return llvm::createStringError("mesh \"" + text +
                                     "\": expects axes like dp=2,tp=4");
    axes.push_back(axis);
  }
  Mesh mesh(axes);
  if (llvm::Error error = mesh.verify())
    return llvm::createStringError("mesh \"" + text +
                                   "\": " + llvm::toString(std::move(error)));
  return mesh;
}

std::string Mesh::getText() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      axes, os,
      [&](const MeshAxis &axis) { os << axis.name << '=' << axis.size; }, ",");
  return text;
}

std::string Mesh::toString() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(axes, os, [&](const MeshAxis &axis) {
    os << '"' << axis.name << "\"=" << axis.size;
  });
  os << ']';
  return text;
}
