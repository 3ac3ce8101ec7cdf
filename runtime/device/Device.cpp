//===- Device.cpp ---------------------------------------------------------===//
#include "runtime/device/Device.h"
#include "runtime/program/Work.h"

using namespace cleave::runtime;
namespace fb = cleave::program;

ScheduleValues cleave::runtime::getScheduleValues(const BoundInstruction &bound,
                                                  const StepInputs &inputs) {
  const Schedule &schedule = bound.schedule;
  return {{float(getLearningRate(schedule, inputs.step)),
           float(getBiasCorrection(schedule.beta1, inputs.updates)),
           float(getBiasCorrection(schedule.beta2, inputs.updates)),
           inputs.limits.loss, inputs.limits.gradNorm}};
}

CollectiveWork
cleave::runtime::describeCollective(const fb::Instruction &instruction) {
  CollectiveWork work;
  auto setParts = [&](CollectiveCall call, const auto &table) {
    work.call = call;
    work.outer = uint64_t(table.outer());
    work.inner = uint64_t(table.inner());
    work.type = ElementType(table.type());
  };
  if (const fb::AllReduce *reduce = instruction.work_as_AllReduce()) {
    work.inner = uint64_t(reduce->elements());
    work.type = ElementType(reduce->type());
    work.reduction = Reduction(reduce->reduction());
  } else if (const fb::AllGather *gather = instruction.work_as_AllGather()) {
    setParts(CollectiveCall::AllGather, *gather);
  } else if (auto *scatter = instruction.work_as_ReduceScatter()) {
    setParts(CollectiveCall::ReduceScatter, *scatter);
    work.reduction = Reduction(scatter->reduction());
  } else if (const fb::AllToAll *all = instruction.work_as_AllToAll()) {
    work.call = CollectiveCall::AllToAll;
    work.type = ElementType(all->type());
    work.exchange = {uint64_t(all->outer()),   uint64_t(all->a()),
                     uint64_t(all->mid()),     uint64_t(all->b()),
                     uint64_t(all->inner()),   getElementBytes(work.type),
                     bool(all->concat_first())};
  }
  return work;
}

Status cleave::runtime::makeGroups(
    const Program &program,
    const std::function<Communicator &(const fb::Instruction &)>
        &getCommunicator) {
  const Group *group;
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    Stage stage = program.getStage(number);
    for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
      const fb::Instruction &instruction = stage.getInstruction(i);
      if (isCollective(instruction.work_type()))
        CLEAVE_RETURN_IF_ERROR(
            getCommunicator(instruction)
                .getGroup(toSpan(instruction.group()), group));
    }
  }
  return {};
}
