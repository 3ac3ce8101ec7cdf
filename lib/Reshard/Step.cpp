//===- Step.cpp - What a collective does to a placement, and its price ----===//
#include "Seconds.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace cleave;
using llvm::ArrayRef;
using llvm::Twine;

llvm::StringRef cleave::getName(Step::Kind kind) {
  switch (kind) {
  case Step::Kind::AllReduce:
    return "all_reduce";
  case Step::Kind::ReduceScatter:
    return "reduce_scatter";
  case Step::Kind::AllGather:
    return "all_gather";
  case Step::Kind::AllToAll:
    return "all_to_all";
  case Step::Kind::Slice:
    return "slice";
  }
  llvm_unreachable("unknown step");
}

std::string Step::toString(const Mesh &mesh) const {
  std::string text = getName(kind).str() + " over " + mesh.toString(axes);
  if (kind != Kind::AllReduce)
    text += ", dim " + std::to_string(dim);
  if (kind == Kind::AllToAll)
    text += " to dim " + std::to_string(splitDim);
  return text;
}

/// Takes `axes` off the partial axes of `placement`.
static llvm::Error reduce(const Mesh &mesh, Placement &placement,
                          ArrayRef<Axis> axes) {
  for (Axis axis : axes) {
    auto *it = llvm::find(placement.partial, axis);
    if (it == placement.partial.end())
      return llvm::createStringError(
          Twine("expects a value partial over axis \"") + mesh.getName(axis) +
          "\", got " + placement.toString(mesh));
    placement.partial.erase(it);
  }
  return llvm::Error::success();
}

/// Takes `axes` off the minor end of a dim.
static llvm::Error gather(const Mesh &mesh, Placement &placement, unsigned dim,
                          ArrayRef<Axis> axes) {
  AxisList &list = placement.dims[dim];
  if (ArrayRef(list).take_back(axes.size()) != axes)
    return llvm::createStringError(
        Twine("expects dim ") + Twine(dim) + " to be split last by " +
        mesh.toString(axes) + ", got " + mesh.toString(list));
  list.pop_back_n(axes.size());
  return llvm::Error::success();
}

llvm::Expected<Placement> cleave::applyStep(const Mesh &mesh,
                                            ArrayRef<int64_t> globalShape,
                                            const Placement &before,
                                            const Step &step) {
  Placement after = before;
  if (step.axes.empty())
    return llvm::createStringError("expects a step over at least one axis");
  for (Axis axis : step.axes)
    if (axis >= mesh.getNumAxes())
      return llvm::createStringError(Twine("expects axes of a mesh with ") +
                                     Twine(mesh.getNumAxes()) +
                                     " axes, got axis number " + Twine(axis));
  bool isToAll = step.kind == Step::Kind::AllToAll;
  for (unsigned dim : {step.dim, isToAll ? step.splitDim : step.dim})
    if (step.kind != Step::Kind::AllReduce && dim >= before.dims.size())
      return llvm::createStringError(
          Twine("expects a dim of a tensor of rank ") +
          Twine(before.dims.size()) + ", got dim " + Twine(dim));

  switch (step.kind) {
  case Step::Kind::AllReduce:
    if (llvm::Error error = reduce(mesh, after, step.axes))
      return error;
    return after;
  case Step::Kind::AllGather:
    if (llvm::Error error = gather(mesh, after, step.dim, step.axes))
      return error;
    return after;
  case Step::Kind::ReduceScatter:
    if (llvm::Error error = reduce(mesh, after, step.axes))
      return error;
    break;
  case Step::Kind::AllToAll:
    if (step.dim == step.splitDim)
      return llvm::createStringError(
          Twine("expects an all_to_all between two dims, got dim ") +
          Twine(step.dim) + " twice");
    if (llvm::Error error = gather(mesh, after, step.dim, step.axes))
      return error;
    break;
  case Step::Kind::Slice:
    break;
  }
  // Repeated and taken axes and sizes that do not divide show here.
  llvm::append_range(after.dims[isToAll ? step.splitDim : step.dim], step.axes);
  if (llvm::Error error = after.verify(mesh, globalShape))
    return error;
  return after;
}

double cleave::getStepSeconds(const Mesh &mesh, ArrayRef<int64_t> globalShape,
                              const Placement &before, const Step &step,
                              int64_t elementBytes, CollectivePricer price) {
  double bytes = elementBytes;
  for (int64_t size : before.getLocalShape(mesh, globalShape))
    bytes *= size;
  return detail::getSeconds(mesh, step.kind, step.axes, bytes, price);
}

double cleave::detail::getSeconds(const Mesh &mesh, Step::Kind kind,
                                  ArrayRef<Axis> axes, double bytes,
                                  CollectivePricer price) {
  if (kind == Step::Kind::Slice || mesh.getSize(axes) == 1)
    return 0;
  // All-reduce is rounded as the two passes it may be, so that it ties with
  // them.
  int passes = kind == Step::Kind::AllReduce ? 2 : 1;
  double once = price(kind, axes, bytes) / passes;
  return passes * std::ldexp(std::nearbyint(std::ldexp(once, 40)), -40);
}
