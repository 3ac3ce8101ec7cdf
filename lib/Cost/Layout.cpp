//===- Layout.cpp - Which device is where in a layout ---------------------===//
#include "cleave/Cost/Layout.h"
#include <algorithm>
#include <numeric>

using namespace cleave;

llvm::StringRef cleave::getName(Schedule schedule) {
  static constexpr llvm::StringRef names[] = {
      "gpipe", "1f1b",  "1f1b-eager", "interleaved",
      "zb-h1", "zb-h2", "zb-v",       "dualpipe-v"};
  return names[size_t(schedule)];
}

std::optional<Schedule> cleave::findSchedule(llvm::StringRef name) {
  for (int i = 0; i < numSchedules; ++i)
    if (name == getName(Schedule(i)))
      return Schedule(i);
  return std::nullopt;
}

std::string cleave::listSchedules() {
  std::string list;
  for (int i = 0; i < numSchedules; ++i)
    list += (i ? ", " : "") + getName(Schedule(i)).str();
  return list;
}

llvm::StringRef cleave::getName(ContextKind kind) {
  static constexpr llvm::StringRef names[] = {"all-gather", "ring", "ulysses"};
  return names[size_t(kind)];
}

llvm::StringRef cleave::getName(Recompute recompute) {
  static constexpr llvm::StringRef names[] = {"none", "selective", "full"};
  return names[size_t(recompute)];
}

llvm::StringRef cleave::getName(AxisOrder order) {
  static constexpr llvm::StringRef names[] = {"tp-cp-dp-pp", "tp-cp-pp-dp",
                                              "tp-dp-cp-pp", "tp-dp-pp-cp",
                                              "tp-pp-cp-dp", "tp-pp-dp-cp"};
  return names[size_t(order)];
}

int64_t TrainLayout::getShards() const {
  int64_t ranks = dp * cp;
  return zeroGroup > 0 ? std::min(ranks, zeroGroup) : ranks;
}

int64_t TrainLayout::getExpertRanks() const {
  return std::max<int64_t>(dp * cp * tp / (ep * expertTp), 1);
}

int64_t TrainLayout::getPipelineStride() const {
  switch (order) {
  case AxisOrder::ContextDataPipeline:
  case AxisOrder::DataContextPipeline:
    return tp * cp * dp;
  case AxisOrder::ContextPipelineData:
    return tp * cp;
  case AxisOrder::DataPipelineContext:
    return tp * dp;
  case AxisOrder::PipelineContextData:
  case AxisOrder::PipelineDataContext:
    return tp;
  }
  return 1;
}

Group TrainLayout::getRankGroup(int64_t ranks, int64_t step) const {
  // So many ranks are neighbours; between them and the next lie other stages.
  int64_t inside = getPipelineStride();
  if (pp == 1 || ranks * step <= inside)
    return {ranks, step};
  if (step >= inside)
    return {ranks, step * pp};
  int64_t inner = std::gcd(ranks, inside / step);
  return {inner, step, ranks / inner, inside * pp};
}

Group TrainLayout::getContextGroup() const {
  bool inside = order == AxisOrder::ContextDataPipeline ||
                order == AxisOrder::ContextPipelineData ||
                order == AxisOrder::PipelineContextData;
  return getRankGroup(cp, inside ? tp : tp * dp);
}

int64_t TrainLayout::getNumBlocks(int64_t virtualStage, int64_t blocks) const {
  int64_t stages = pp * virtualStages;
  if (firstBlocks != even) {
    if (virtualStage == 0)
      return firstBlocks;
    if (virtualStage == stages - 1)
      return lastBlocks;
    blocks -= firstBlocks + lastBlocks;
    stages -= 2;
    --virtualStage;
  }
  // What is left over goes to the middle: the ends have more to do.
  int64_t over = blocks % stages, from = (stages - over) / 2;
  return blocks / stages + (virtualStage >= from && virtualStage < from + over);
}

int64_t TrainLayout::getMostBlocks(int64_t blocks) const {
  int64_t all = pp * virtualStages;
  if (firstBlocks == even)
    return (blocks + all - 1) / all;
  int64_t inner = blocks - firstBlocks - lastBlocks;
  return std::max(
      {firstBlocks, lastBlocks, all > 2 ? (inner + all - 3) / (all - 2) : 0});
}
