//===- Report.cpp ---------------------------------------------------------===//
#include "runtime/watch/Report.h"
#include "runtime/program/Print.h"
#include <cstdio>

using namespace cleave::runtime;
namespace fb = cleave::program;

static std::string formatSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", seconds);
  return text;
}

static const char *getName(CollectiveCall call) {
  switch (call) {
  case CollectiveCall::None:
    break;
  case CollectiveCall::AllReduce:
    return "AllReduce";
  case CollectiveCall::AllGather:
    return "AllGather";
  case CollectiveCall::ReduceScatter:
    return "ReduceScatter";
  case CollectiveCall::AllToAll:
    return "AllToAll";
  case CollectiveCall::Barrier:
    return "barrier";
  case CollectiveCall::Broadcast:
    return "broadcast";
  case CollectiveCall::MakeGroup:
    return "making of a group";
  case CollectiveCall::Recv:
    return "Recv";
  }
  return "no collective";
}

/// "over dp x tp of ranks 0, 1, 2 and 3", "from rank 2".
static std::string describeOthers(const Program &program, int rank,
                                  const PositionRecord &position) {
  if (position.isReceiving())
    return "from rank " + std::to_string(position.axes);
  std::string axes;
  for (size_t i = 0; i < getSize(program->axes()); ++i)
    if (position.axes >> i & 1)
      axes += (axes.empty() ? "" : " x ") +
              std::string(toView(
                  program->axes()->Get(flatbuffers::uoffset_t(i))->name()));
  return "over " + axes + " of " +
         listRanks(getMeetingRanks(program.getMesh(), rank, position));
}

/// What it does outside of instructions.
static std::string describePhase(const PositionRecord &position) {
  std::string step = std::to_string(position.step);
  switch (position.getPhase()) {
  case Phase::Starting:
    return "the start";
  case Phase::Loading:
    return "loading";
  case Phase::Joining:
    return "connecting GPUs by NCCL";
  case Phase::FirstStep:
  case Phase::Training:
    return position.step < 0
               ? "training, before its first step"
               : "training, step " + step +
                     ", outside of its instructions or while a GPU computes "
                     "them";
  case Phase::Saving:
    return position.step < 0 ? "saving" : "saving, after step " + step;
  case Phase::Finishing:
    return "finishing";
  case Phase::Left:
    return "no phase: its work has ended";
  }
  return "an unknown phase";
}

std::string cleave::runtime::describePosition(const Program &program, int rank,
                                              const PositionRecord &position) {
  Stage stage = program.getStageOf(rank);
  uint32_t index = position.getInstruction();
  bool isInStep = index < stage.getInstructionCount();
  std::string text;
  if (isInStep) {
    text = "step " + std::to_string(position.step);
    if (size_t index = position.getRun(); index < stage.getRuns().size())
      if (program::Run run = stage.getRuns()[index];
          stage.countRuns(run.segment()) > 1)
        text += ", micro-batch " + std::to_string(run.micro_batch());
    text += ", " + describeInstruction(stage, index);
  } else {
    text = describePhase(position);
    if (position.isWaiting())
      text += ", in " + std::string(getName(position.getCollective()));
  }
  if (position.isWaiting())
    text += " " + describeOthers(program, rank, position);
  return text;
}

/// What a person can do.
static std::string getAdvice(const Stage &stage, Fault fault,
                             const PositionRecord &position) {
  if (fault == Fault::Lost || fault == Fault::Silent)
    return "; the kernel's log (dmesg) of its host may say why, and a run with "
           "--save goes on by --resume";
  if (position.getPhase() == Phase::Joining)
    return "; NCCL_DEBUG=WARN says what NCCL waits for, NCCL_SOCKET_IFNAME "
           "names the network that machines meet in, and CLEAVE_JOIN_SECONDS "
           "is how long ranks wait";
  // Of a GPU's step no instruction is known.
  bool mayBeGpu = position.step >= 0 &&
                  position.getInstruction() >= stage.getInstructionCount();
  return std::string("; ") +
         (mayBeGpu ? "a GPU's state is shown by `nvidia-smi` and the kernel's "
                     "log (dmesg, Xid), "
                   : "") +
         "what was only slow needs a larger --watchdog, and a run with --save "
         "goes on by --resume";
}

std::string cleave::runtime::describeVerdict(const Program &program,
                                             const std::vector<RankView> &views,
                                             const Verdict &verdict) {
  int first = verdict.culprits.front();
  std::string who = listRanks(verdict.culprits);
  std::string where =
      describePosition(program, first, views[size_t(first)].position);
  std::string time = formatSeconds(verdict.seconds);
  bool isOne = verdict.culprits.size() == 1;
  // Of several, the first stands for all.
  std::string at = isOne ? "" : "rank " + std::to_string(first) + " ";
  bool isMessage = verdict.nearest >= 0 &&
                   views[size_t(verdict.nearest)].position.isReceiving();
  std::string text = "watchdog: " + who;
  switch (verdict.fault) {
  case Fault::Lost:
    text += std::string(isOne ? " has" : " have") +
            " died: the process ended without a word; " + at +
            "was last seen in " + where;
    break;
  case Fault::Silent:
    text += std::string(isOne ? " has" : " have") + " said nothing for " +
            time + ": the process is stopped, or its host is gone; " + at +
            "was last seen in " + where;
    break;
  case Fault::Stuck:
    text += std::string(isOne ? " hangs" : " hang") + " for " + time + " in " +
            (isOne ? "" : "place, " + at + "in ") + where;
    break;
  case Fault::Idle:
    text += std::string(isOne ? " hangs" : " hang") + " for " + time +
            (views[size_t(first)].position.isReceiving()
                 ? " where it waits for a message: "
                 : " inside of a collective that all have entered: ") +
            where;
    break;
  case Fault::Absent:
    text += std::string(isOne ? " has" : " have") +
            (isMessage ? " not sent a message for " : " not come for ") + time +
            (isMessage ? "; " : " to a collective; ") + at + "is in " + where;
    break;
  case Fault::Unfinished:
    text += std::string(isOne ? " is" : " are") +
            " all in a collective that "
            "does not end, for " +
            time + ": " + where;
    break;
  }
  if (!verdict.waiters.empty()) {
    int waiter = verdict.nearest;
    bool isAlone = verdict.waiters.size() == 1;
    text += "; " + listRanks(verdict.waiters) +
            (isAlone ? " waits for " : " wait for ") + (isOne ? "it" : "them") +
            (isAlone ? "" : ", rank " + std::to_string(waiter)) + " in " +
            describePosition(program, waiter, views[size_t(waiter)].position);
  }
  return text + getAdvice(program.getStageOf(first), verdict.fault,
                          views[size_t(first)].position);
}
