//===- Price.cpp - What a task takes on a cluster -------------------------===//
#include "cleave/Tasks/Price.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;

/// Of a device that nothing is said of: that of a CPU core, to the order of
/// magnitude. Only how it compares with the links matters, and only for what is
/// worth a stream.
static constexpr double nominalFlops = 5e10, nominalBandwidth = 1e10;

double TaskPricer::getComputeSeconds(double flops, double bytes) const {
  if (!device)
    return flops / nominalFlops + bytes / nominalBandwidth;
  double seconds = getStreamTime(*device, bytes);
  const MatrixUnit &unit = device->getMatrix(DType::BF16);
  return unit.peak > 0 ? std::max(seconds, flops / unit.peak) : seconds;
}

double TaskPricer::getSeconds(const TaskShape &shape) const {
  switch (shape.kind) {
  case TaskShape::Kind::Memory:
    return getComputeSeconds(0, shape.bytes);
  case TaskShape::Kind::Matmul:
    if (device && device->getMatrix(shape.dtype).peak > 0)
      return addSums(
          *device, shape.sums,
          getMatmulTime(*device, shape.dtype, shape.m, shape.n, shape.k) /
              rates.matrixRate * shape.slow);
    return getComputeSeconds(2 * shape.m * shape.n * shape.k, shape.bytes);
  case TaskShape::Kind::Attention:
    if (device && !device->attention.empty())
      return getAttentionTime(
          *device,
          rates.attention.empty() ? device->attention.begin()->first
                                  : rates.attention,
          shape.dtype, shape.direction, shape.heads, shape.rows, shape.pairs,
          shape.headDim, shape.headDim);
    return getComputeSeconds(getAttentionFlops(shape.direction,
                                               shape.heads * shape.pairs,
                                               shape.headDim, shape.headDim)
                                 .executed,
                             0);
  case TaskShape::Kind::Collective: {
    Group group = getGroup(mesh, shape.axes);
    // That of a collective is the whole buffer.
    double parts =
        shape.collective == CollectiveKind::AllGather ? group.getSize() : 1;
    return getCollectiveTime(network, shape.collective, group,
                             shape.bytes * parts);
  }
  case TaskShape::Kind::Send:
    return stageAxis
               ? getSendTime(network, getGroup(mesh, {*stageAxis}), shape.bytes)
               : 0;
  case TaskShape::Kind::Recv:
    return 0;
  }
  llvm_unreachable("unknown kind of task");
}

double TaskPricer::getSeconds(const Task &task) const {
  return getSeconds(task.shape) + (task.stream == 0 ? getSkew(task) : 0);
}

double TaskPricer::getSkew(const Task &task) const {
  bool isJoint = task.shape.kind == TaskShape::Kind::Collective &&
                 task.phase != "optimizer";
  return isJoint ? rates.rankSkew : 0;
}

double TaskPricer::getSlowdown(const Task &task, double seconds) const {
  if (task.stream == 0)
    return 0;
  return task.shape.communicates() ? getCommunicationShare() * seconds
                                   : seconds;
}

double TaskPricer::getCommunicationShare() const {
  return cleave::getCommunicationShare(device ? &*device : nullptr,
                                       rates.overlapSlowdown);
}

AxisList TaskPricer::getCrossedAxes(const TaskShape &shape) const {
  switch (shape.kind) {
  case TaskShape::Kind::Collective:
    return shape.axes;
  case TaskShape::Kind::Send:
  case TaskShape::Kind::Recv:
    return stageAxis ? AxisList{*stageAxis} : AxisList();
  default:
    return {};
  }
}

bool TaskPricer::tiesStages(const TaskShape &shape) const {
  return shape.kind != TaskShape::Kind::Send && stageAxis &&
         llvm::is_contained(getCrossedAxes(shape), *stageAxis);
}

bool TaskPricer::leavesNode(const TaskShape &shape) const {
  return cleave::leavesNode(mesh, network, getCrossedAxes(shape));
}

std::optional<int64_t> TaskPricer::getLevel(const TaskShape &shape) const {
  AxisList axes = getCrossedAxes(shape);
  if (axes.empty() || shape.kind == TaskShape::Kind::Recv)
    return std::nullopt;
  return cleave::getLevel(mesh, network, axes);
}

/// What ranks tell each other behind a step: a few numbers of each.
static constexpr double agreementBytes = 64;

TaskTimes cleave::priceTasks(const TaskProgram &program,
                             const TaskPricer &pricer) {
  TaskTimes times;
  for (const StageTasks &stage : program.stages) {
    std::vector<double> &seconds = times.seconds.emplace_back();
    std::vector<double> &skews = times.skews.emplace_back();
    std::vector<double> &slowdowns = times.slowdowns.emplace_back();
    std::vector<int64_t> &links = times.links.emplace_back();
    // What begins together is priced as one, and each has a share by its bytes.
    stage.forEachBucket([&](size_t begin, size_t end) {
      Task whole = stage.tasks[begin];
      for (size_t i = begin + 1; i != end; ++i)
        whole.shape.bytes += stage.tasks[i].shape.bytes;
      double all = pricer.getSeconds(whole);
      for (size_t i = begin; i != end; ++i) {
        const TaskShape &shape = stage.tasks[i].shape;
        seconds.push_back(
            end - begin == 1 ? all : all * shape.bytes / whole.shape.bytes);
        skews.push_back(pricer.getSkew(stage.tasks[i]));
        slowdowns.push_back(pricer.getSlowdown(stage.tasks[i], seconds.back()));
        links.push_back(pricer.getLevel(shape).value_or(-1));
      }
    });
  }
  TaskShape agreement;
  agreement.kind = TaskShape::Kind::Collective;
  agreement.bytes = agreementBytes;
  for (Axis axis = 0; axis < program.mesh.getNumAxes(); ++axis)
    agreement.axes.push_back(axis);
  times.agreement = pricer.hasGpus() ? 0 : pricer.getSeconds(agreement);
  times.mostSlowdown = pricer.getCommunicationShare();
  return times;
}
