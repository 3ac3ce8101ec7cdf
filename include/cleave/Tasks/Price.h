//===- Price.h - What a task takes on a cluster ---------------------------===//
#ifndef CLEAVE_TASKS_PRICE_H
#define CLEAVE_TASKS_PRICE_H

#include "cleave/Cost/Profile.h"
#include "cleave/Reshard/Price.h"
#include "cleave/Tasks/Tasks.h"

namespace cleave {

/// What the software that runs a program makes of a device's rates and of the
/// network's; as they are measured alone, if nothing is said.
struct TaskRates {
  std::string attention;      ///< its kernel, of the device's; empty: the first
  double matrixRate = 1;      ///< as in Profile
  double rankSkew = 0;        ///< likewise
  double overlapSlowdown = 0; ///< likewise

  TaskRates() = default;
  explicit TaskRates(const Profile &profile)
      : attention(profile.attention), matrixRate(profile.matrixRate),
        rankSkew(profile.rankSkew), overlapSlowdown(profile.overlapSlowdown) {}
};

/// Seconds of tasks, by the planner's own figures (lib/Cost): products and
/// attention on the device, and what else streams through its memory;
/// collectives and messages on the network, rank i of the mesh being device i.
class TaskPricer {
public:
  /// `device`: what a rank has; none where nothing is said of it. `stageAxis`:
  /// along which messages go; none without pipeline stages.
  TaskPricer(Mesh mesh, std::optional<Axis> stageAxis, Network network,
             std::optional<Device> device, TaskRates rates = {})
      : mesh(std::move(mesh)), stageAxis(stageAxis),
        network(std::move(network)), device(std::move(device)),
        rates(std::move(rates)) {}

  double getSeconds(const TaskShape &shape) const;
  /// The same where it stands in a step: with `getSkew` of what is in the
  /// rank's own stream.
  double getSeconds(const Task &task) const;
  /// By how much later than its rank the last one comes to a collective, since
  /// they do not keep step; 0 of the update, before which all have the norm
  /// of the gradient.
  double getSkew(const Task &task) const;
  /// Of a task of another stream that takes so many seconds, what its rank's
  /// own loses that computes meanwhile: all that another kernel takes, and of
  /// communication the share that it has of the device.
  double getSlowdown(const Task &task, double seconds) const;
  /// That share: some of a GPU's multiprocessors, or a core of a CPU.
  double getCommunicationShare() const;

  /// Along which the ranks differ that the task is between; none of what does
  /// not communicate.
  AxisList getCrossedAxes(const TaskShape &shape) const;
  /// Whether ranks have GPUs, as far as is said.
  bool hasGpus() const { return device && device->computeCapability > 0; }
  /// Whether other stages count on its place: what they meet in.
  bool tiesStages(const TaskShape &shape) const;
  /// Whether ranks of more than one node are in it.
  bool leavesNode(const TaskShape &shape) const;
  /// The outermost level of the network between its ranks: what moves over one
  /// level at the same time shares it. None of what does not communicate, and
  /// of what waits for others to send.
  std::optional<int64_t> getLevel(const TaskShape &shape) const;

private:
  double getComputeSeconds(double flops, double bytes) const;

  Mesh mesh;
  std::optional<Axis> stageAxis;
  Network network;
  std::optional<Device> device;
  TaskRates rates;
};

/// A number for each task, by stage and place in its list.
template <typename T>
using PerTask = std::vector<std::vector<T>>;

/// What a simulation is told of tasks.
struct TaskTimes {
  PerTask<double> seconds;
  /// Of tasks of other streams than the rank's own, how long they begin after
  /// that comes to them, unless their stream is busy for as long; none: at
  /// once.
  PerTask<double> skews;
  /// Of tasks of other streams than the rank's own, seconds that what computes
  /// beside them takes longer.
  PerTask<double> slowdowns;
  /// What a second of compute takes longer at most.
  double mostSlowdown = 0;
  /// What a task shares with others, whatever their streams: tasks of a rank
  /// with the same number that run at the same time have equal shares. -1:
  /// nothing.
  PerTask<int64_t> links;
  /// Seconds in which ranks tell each other, behind a step, whether to go on; 0
  /// of GPUs, which update meanwhile.
  double agreement = 0;
};

/// What the cluster makes of them. Links are levels of the network.
TaskTimes priceTasks(const TaskProgram &program, const TaskPricer &pricer);

} // namespace cleave

#endif // CLEAVE_TASKS_PRICE_H
