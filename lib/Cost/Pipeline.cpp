//===- Pipeline.cpp - Seconds and memory of pipeline schedules ------------===//
#include "cleave/Cost/Pipeline.h"
#include <algorithm>

using namespace cleave;

/// Those of a step, twice, or of many two numbers of micro-batches, as far from
/// whole groups of p as m is, between which a step grows as it does from there
/// on. Interleaved stages that differ take longest to settle.
static std::pair<int64_t, int64_t> getFewAndMany(const PipelineShape &shape) {
  int64_t p = shape.stages;
  int64_t groups = shape.cyclesChunks() ? 4 : 2;
  int64_t few =
      p * std::max<int64_t>(groups, (16 + p - 1) / p) + shape.microBatches % p;
  int64_t many = few + p * std::max<int64_t>(groups / 2, (8 + p - 1) / p);
  if (shape.microBatches <= many)
    few = many = shape.microBatches;
  return {few, many};
}

const PipelineProgram &PipelineModel::getProgram(PipelineShape shape) {
  shape.microBatches = PipelineProgram::getLaidOut(shape);
  auto [at, isNew] = programs.try_emplace(
      {shape.schedule, shape.stages, shape.chunks, shape.microBatches});
  if (isNew)
    at->second = PipelineProgram::layOut(shape);
  return at->second;
}

const PipelineModel::Sample &
PipelineModel::getSample(const PipelineShape &shape) {
  if (last.shape == shape)
    return last;
  auto [few, many] = getFewAndMany(shape);
  PipelineShape sample = shape;
  sample.microBatches = few;
  const PipelineProgram *fewer = &getProgram(sample), *more = fewer;
  if (few != many) {
    sample.microBatches = many;
    more = &getProgram(sample);
  }
  last = {shape, few, many, fewer, more};
  return last;
}

template <bool takesTurns>
void PipelineModel::playPart(llvm::ArrayRef<PipelineProgram::Step> steps,
                             int64_t times, double send) {
  const OpCost *costs = opCosts.data();
  double *free = now.stages.data(), *link = now.links.data();
  double *result = &arrival[now.played];
  // What waits for nothing reads its own result, before that is there.
  std::fill_n(result, size_t(times) * steps.size(), 0.);
  for (int64_t left = times; left != 0; --left)
    for (const PipelineProgram::Step &step : steps) {
      const OpCost &cost = costs[step.op];
      double input = result[step.input];
      double end = std::max(free[cost.stage], input) + cost.seconds;
      free[cost.stage] = end;
      // Nothing waits for what is not sent.
      if (takesTurns && cost.sends) {
        end = std::max(end, link[cost.stage]);
        link[cost.stage] = end + send;
      }
      *result++ = end + send;
    }
  now.played += size_t(times) * steps.size();
}

void PipelineModel::play(const PipelineProgram &program, size_t first,
                         size_t end, int64_t times, double send) {
  for (size_t i = first; i != end; ++i) {
    const PipelineProgram::Part &part = program.parts[i];
    auto steps =
        llvm::ArrayRef(program.steps).slice(part.first, part.end - part.first);
    if (takesTurns)
      playPart<true>(steps, part.repeats ? times : 1, send);
    else
      playPart<false>(steps, part.repeats ? times : 1, send);
  }
}

void PipelineModel::setCosts(const PipelineShape &shape,
                             llvm::ArrayRef<StageTimes> times, double send) {
  size_t all = times.size();
  opCosts.resize(4 * all);
  takesTurns = false;
  for (size_t at = 0; at != all; ++at) {
    int32_t stage = int32_t(shape.getStage(int64_t(at)));
    auto isElsewhere = [&](size_t to) {
      return to < all && shape.getStage(int64_t(to)) != stage;
    };
    bool ahead = isElsewhere(at + 1), back = isElsewhere(at - 1);
    const StageTimes &time = times[at];
    opCosts[at] = {time.forward, stage, ahead};
    opCosts[all + at] = {time.getBackward(), stage, back};
    opCosts[2 * all + at] = {time.backwardInput, stage, back};
    opCosts[3 * all + at] = {time.backwardWeight, stage, false};
    // No message waits for the one before it if its op takes longer than that.
    double shortest =
        shape.splitsBackward() ? time.backwardInput : time.getBackward();
    takesTurns |= (ahead && time.forward < send) || (back && shortest < send);
  }
}

double PipelineModel::getSeconds(const PipelineShape &shape,
                                 llvm::ArrayRef<StageTimes> times, double send,
                                 std::vector<double> &starts,
                                 std::vector<double> &ends) {
  int64_t p = shape.stages, m = shape.microBatches;
  if (p == 1) {
    double sum = 0;
    for (const StageTimes &time : times)
      sum += time.getTotal();
    starts.assign(1, 0);
    ends.assign(1, sum * double(m));
    return ends[0];
  }
  auto [_, few, many, fewer, more] = getSample(shape);
  setCosts(shape, times, send);
  now.stages.assign(size_t(p), 0);
  now.links.assign(size_t(p), 0);
  now.played = 0;
  arrival.resize(more->getNumSteps(many));
  auto getLongest = [&](const std::vector<double> &last) {
    double longest = 0;
    for (size_t i = 0; i != last.size(); ++i)
      longest =
          std::max(longest, last[i] - (shape.splitsBackward() ? starts[i] : 0));
    return longest;
  };
  // Many begin like few: if their program is the same, until the end of what
  // repeats.
  size_t alike = fewer == more ? std::min<size_t>(fewer->parts.size(), 2) : 0;
  play(*fewer, 0, alike, fewer->getTimes(few), send);
  if (few != many)
    shared = now;
  play(*fewer, alike, fewer->parts.size(), fewer->getTimes(few), send);
  starts.assign(size_t(p), 0);
  for (size_t stage = 1; stage != size_t(p); ++stage)
    starts[stage] = arrival[fewer->begins[stage]];
  ends = now.stages;
  if (few == many)
    return getLongest(ends);
  fewEnds = ends;
  now = shared;
  if (alike)
    play(*more, 1, alike, more->getTimes(many) - more->getTimes(few), send);
  play(*more, alike, more->parts.size(), more->getTimes(many), send);
  ends = now.stages;
  double seconds = getLongest(ends);
  // Once it has settled, a pipeline is no faster than its slowest stage; uneven
  // ones may take longer to settle than the samples are.
  std::vector<double> own(size_t(p), 0.);
  for (size_t v = 0; v != times.size(); ++v)
    own[size_t(shape.getStage(int64_t(v)))] += times[v].getTotal();
  double slowest = *std::max_element(own.begin(), own.end());
  auto extrapolate = [&](double from, double to) {
    double each = (to - from) / double(many - few);
    return to + double(m - many) * std::max(each, slowest);
  };
  for (size_t i = 0; i != ends.size(); ++i)
    ends[i] = extrapolate(fewEnds[i], ends[i]);
  return extrapolate(getLongest(fewEnds), seconds);
}

void PipelineModel::getPeaks(const PipelineShape &shape,
                             llvm::ArrayRef<double> activations,
                             llvm::MutableArrayRef<double> peaks) {
  size_t width = size_t(shape.chunks);
  for (size_t i = 0; i != peaks.size(); ++i) {
    int64_t stage = int64_t(i);
    auto getKept = [&](size_t chunk) {
      return activations[size_t(shape.getVirtualStage(stage, int64_t(chunk)))];
    };
    peaks[i] = 0;
    if (int64_t count = shape.getAlikeInFlight(stage)) {
      for (size_t chunk = 0; chunk != width; ++chunk)
        peaks[i] += double(count) * getKept(chunk);
      continue;
    }
    const std::vector<int32_t> &counts = getSample(shape).fewer->peaks[i];
    for (size_t at = 0; at != counts.size(); at += width) {
      double sum = 0;
      for (size_t chunk = 0; chunk != width; ++chunk)
        sum += double(counts[at + chunk]) * getKept(chunk);
      peaks[i] = std::max(peaks[i], sum);
    }
  }
}
