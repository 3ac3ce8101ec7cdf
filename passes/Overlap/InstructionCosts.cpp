//===- InstructionCosts.cpp -----------------------------------------------===//
#include "passes/Overlap/InstructionCosts.h"
#include "cleave/Reshard/Price.h"
#include "dialects/dist/Placements.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;

/// Of a device that nothing is said of: that of a CPU core, to the order of
/// magnitude. Only how it compares with the links matters, and only for what is
/// worth a stream.
static constexpr double nominalFlops = 5e10, nominalBandwidth = 1e10;

static double getSize(Value value) {
  if (auto view = value.getDefiningOp<exec::ViewOp>())
    return double(view.getBytes());
  return double(value.getDefiningOp<exec::BufferOp>().getBytes());
}

static double getSize(OperandRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += getSize(value);
  return bytes;
}

double InstructionCosts::getComputeSeconds(double flops, double bytes) const {
  if (!device)
    return flops / nominalFlops + bytes / nominalBandwidth;
  double seconds = getStreamTime(*device, bytes);
  const MatrixUnit &unit = device->getMatrix(DType::BF16);
  return unit.peak > 0 ? std::max(seconds, flops / unit.peak) : seconds;
}

/// Causal attention and its gradients.
template <typename Op>
static double getAttentionSeconds(Op op, const std::optional<Device> &device,
                                  Direction direction) {
  double heads = double(op.getBatch()) * double(op.getHeads());
  double rows = double(op.getSeq()), dim = double(op.getHeadDim());
  double pairs = rows * (rows + 1) / 2;
  if (!device || device->attention.empty())
    return getAttentionFlops(direction, heads * pairs, dim, dim).executed /
           nominalFlops;
  DType dtype = op.getType() == 1 ? DType::BF16 : DType::F32;
  return getAttentionTime(*device, device->attention.begin()->first, dtype,
                          direction, heads, rows, pairs, dim, dim);
}

double InstructionCosts::getSeconds(exec::InstructionOpInterface op) const {
  NetworkPricer price(mesh, network);
  double in = getSize(op.getInputs()), out = getSize(op.getOutputs());
  auto communicate = [&](Step::Kind kind) {
    return price(kind, dist::getAxes(op.getGroup(), mesh), in);
  };
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](exec::GemmOp gemm) {
        double m = double(gemm.getM()), n = double(gemm.getN()),
               k = double(gemm.getK());
        DType dtype = gemm.getTypeA() == 1 ? DType::BF16 : DType::F32;
        if (device && device->getMatrix(dtype).peak > 0)
          return getMatmulTime(*device, dtype, m, n, k);
        return getComputeSeconds(2 * m * n * k, in + out);
      })
      .Case([&](exec::AttentionOp attention) {
        return getAttentionSeconds(attention, device, Direction::Forward);
      })
      .Case([&](exec::AttentionGradOp attention) {
        return getAttentionSeconds(attention, device, Direction::Backward);
      })
      .Case(
          [&](exec::AllReduceOp) { return communicate(Step::Kind::AllReduce); })
      .Case(
          [&](exec::AllGatherOp) { return communicate(Step::Kind::AllGather); })
      .Case([&](exec::ReduceScatterOp) {
        return communicate(Step::Kind::ReduceScatter);
      })
      .Case([&](exec::AllToAllOp) { return communicate(Step::Kind::AllToAll); })
      .Case([&](exec::SendOp) {
        return getSendTime(network, getGroup(mesh, {*stageAxis}), in);
      })
      .Case([&](exec::RecvOp) { return 0.; })
      .Default([&](Operation *) { return getComputeSeconds(0, in + out); });
}

static bool isCollective(Operation *op) {
  return isa<exec::AllReduceOp, exec::AllGatherOp, exec::ReduceScatterOp,
             exec::AllToAllOp>(op);
}

/// Along which the ranks differ that the instruction is between; none of what
/// does not communicate.
AxisList
InstructionCosts::getCrossedAxes(exec::InstructionOpInterface op) const {
  if (isa<exec::SendOp, exec::RecvOp>(op))
    return stageAxis ? AxisList{*stageAxis} : AxisList();
  return isCollective(op) ? dist::getAxes(op.getGroup(), mesh) : AxisList();
}

bool InstructionCosts::mayRunAside(exec::InstructionOpInterface op) const {
  AxisList axes = getCrossedAxes(op);
  if (axes.empty() || tiesStages(op))
    return false;
  Group group = getGroup(mesh, axes);
  return !onlyBetweenNodes ||
         getRanksInside(group, network.getDevicesPerNode()) < group.getSize();
}

bool InstructionCosts::tiesStages(exec::InstructionOpInterface op) const {
  return !isa<exec::SendOp>(op) && stageAxis &&
         llvm::is_contained(getCrossedAxes(op), *stageAxis);
}
