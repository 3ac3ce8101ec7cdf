//===- Pipeline.cpp - Seconds and memory of pipeline schedules ------------===//
#include "cleave/Cost/Pipeline.h"
#include <algorithm>

using namespace cleave;

/// Those of a step, twice, or of many two numbers of micro-batches, as far from
/// whole groups of p as m is, between which a step grows as it does from there
/// on. Interleaved stages that differ, and many micro-batches in flight, take
/// longest to settle.
static std::pair<int64_t, int64_t> getFewAndMany(const PipelineShape &shape) {
  int64_t p = shape.stages;
  int64_t groups = shape.schedule == Schedule::EagerOneFOneB ? 6
                   : shape.cyclesChunks()                    ? 4
                                                             : 2;
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
  if (last.fewer && last.shape == shape)
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
void PipelineModel::playPart(const PipelineProgram &program,
                             const PipelineProgram::Part &part, int64_t times,
                             double send) {
  auto steps =
      llvm::ArrayRef(program.steps).slice(part.first, part.end - part.first);
  double *free = now.stages.data(), *link = now.links.data();
  double *result = &arrival[now.played];
  // What waits for nothing reads its own result, before that is there.
  std::fill_n(result, size_t(times) * steps.size(), 0.);
  for (int64_t left = times; left != 0; --left)
    for (auto [op, stage, input] : steps) {
      double end = std::max(free[stage], result[input]) + seconds[size_t(op)];
      free[stage] = end;
      // Nothing waits for what is not sent.
      if (takesTurns && program.sends[size_t(op)]) {
        end = std::max(end, link[stage]);
        link[stage] = end + send;
      }
      *result++ = end + send;
    }
  now.played += size_t(times) * steps.size();
}

void PipelineModel::play(const PipelineProgram &program, size_t first,
                         size_t end, int64_t times, double send) {
  for (size_t i = first; i != end; ++i) {
    const PipelineProgram::Part &part = program.parts[i];
    int64_t repetitions = part.repeats ? times : 1;
    if (takesTurns)
      playPart<true>(program, part, repetitions, send);
    else
      playPart<false>(program, part, repetitions, send);
  }
}

void PipelineModel::setSeconds(const PipelineProgram &program,
                               llvm::ArrayRef<StageTimes> times, double send) {
  size_t all = times.size();
  seconds.resize(4 * all);
  for (size_t at = 0; at != all; ++at) {
    seconds[at] = times[at].forward;
    seconds[all + at] = times[at].getBackward();
    seconds[2 * all + at] = times[at].backwardInput;
    seconds[3 * all + at] = times[at].backwardWeight;
  }
  // No message waits for the one before it if its op takes longer than that.
  takesTurns = false;
  for (size_t op = 0; op != seconds.size(); ++op)
    takesTurns |= program.sends[op] && seconds[op] < send;
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
  setSeconds(*fewer, times, send);
  now.stages.assign(size_t(p), 0);
  now.links.assign(size_t(p), 0);
  now.played = 0;
  arrival.resize(more->getNumSteps(many));
  auto getLongest = [&](const std::vector<double> &last) {
    double longest = 0;
    for (size_t i = 0; i != last.size(); ++i)
      longest =
          std::max(longest, last[i] - (shape.endsAlone() ? starts[i] : 0));
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
  double longest = getLongest(ends);
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
  return extrapolate(getLongest(fewEnds), longest);
}

llvm::ArrayRef<PipelineProgram::Moment>
PipelineModel::getMoments(const PipelineShape &shape, int64_t stage) {
  auto count = int32_t(shape.getAlikeInFlight(stage));
  if (shape.microBatches == 1 || shape.splitsBackward() || count == 0)
    return getSample(shape).fewer->moments[size_t(stage)];
  full.parts.assign(size_t(shape.chunks) + 2, {count, count, 0, true, true});
  full.inBlock = full.inLoss = true;
  return full;
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
