//===- Train.cpp ----------------------------------------------------------===//
#include "runtime/train/Train.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Log.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Saver.h"
#include "runtime/comm/PhaseScope.h"
#include "runtime/executor/Gather.h"
#include "runtime/io/Sampler.h"
#include "runtime/io/TokenScan.h"
#include "runtime/train/Batches.h"
#include "runtime/train/Dump.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/OptionItems.h"
#include "runtime/train/Peak.h"
#include "runtime/train/Resume.h"
#include "runtime/train/StepGuard.h"
#include "runtime/train/StopSignal.h"
#include "runtime/train/Trace.h"
#include "runtime/train/Weights.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

using Clock = std::chrono::steady_clock;

double getSeconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string countSteps(int64_t number) {
  return std::to_string(number) + (number == 1 ? " step" : " steps");
}

/// One rank's run, from opening files to saving.
class Run {
public:
  Run(const Program &program, const TrainOptions &options,
      Communicator &communicator, std::atomic<int> &exitCode)
      : program(program), options(options), communicator(communicator),
        exitCode(exitCode), isFirst(communicator.getRank() == 0),
        guard(options.skipBudget, options.spikeSigmas),
        phases(program, communicator.getRank()),
        trace(program, communicator.getRank()) {}

  Status prepare(KernelTable kernels);
  Status train();
  Status finish();
  void giveUp(const Status &status);

private:
  Status checkTrains() const;
  Status openData();
  Status pollScan();
  Status openOutputs();
  Status openMetrics();
  Status fillStates();
  Status beginOrResume(const std::string &data);
  void printHeader() const;
  Status readLocal(const fb::Output &output, double &value);
  Status readScalar(const fb::Output &output, double &value);
  Status readRankLoss(double &value);
  Status runStep(int64_t step);
  Status report(StepReport &report);
  Status endBehindStep(const Status &mine);
  struct Judged;
  Status vote(Judged *judged = nullptr);
  Status endSave();
  Status beginSave();
  Status waitForSave();
  Status saveLast();
  void printSummary(double seconds, double stepsPerSecond,
                    uint64_t highWater) const;

  const Program &program;
  const TrainOptions &options;
  Communicator &communicator;
  std::atomic<int> &exitCode;
  bool isFirst;
  int64_t steps = 0;
  ResumedRun resumed;
  RunProgress progress; ///< after the last step
  StepGuard guard;
  std::unique_ptr<Saver> saver; ///< where the run saves
  int64_t lastSaved = -1;       ///< step of the newest whole checkpoint
  int failedSaves = 0;          ///< one after the other
  bool stopRequested = false;   ///< by a signal, on some rank
  /// Why the run ends before its last step, on all ranks; a save under way is
  /// not lost.
  Status failure;
  Status found;         ///< by the look at the data, on this rank
  bool isSpent = false; ///< it is the skip budget
  std::vector<std::string> notes;
  std::unique_ptr<BatchSource> source;
  std::unique_ptr<TokenScan> scan; ///< on rank 0
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Batches> batches;
  LineWriter metrics; ///< on rank 0
  OutputDump dump;
  ObserverList observers;
  PhaseTimer phases;
  Trace trace;
  const fb::Output *loss = nullptr, *gradNorm = nullptr, *factor = nullptr;
  std::vector<double> losses, gradNorms;
  Clock::time_point begin, afterFirst, lastStepEnd;
  double totalPeakFlops = options.totalPeakFlops; ///< of all ranks; 0: unknown
};

void say(const std::string &line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Status Run::openData() {
  BatchShape shape{program->global_batch(), program->seq_len(),
                   program->vocab()};
  if (!options.tokens.empty())
    return GivenBatches::create(options.tokens, shape, source);
  TokenStream stream;
  CLEAVE_RETURN_IF_ERROR(TokenStream::open(options.data, stream));
  if (isFirst)
    CLEAVE_RETURN_IF_ERROR(TokenScan::start(stream, shape.vocab, scan));
  return Sampler::create(std::move(stream), shape, options.seed, source);
}

/// What the look at the data has found so far.
Status Run::pollScan() {
  if (!scan)
    return {};
  for (const std::string &note : scan->takeNotes())
    say("note: " + note);
  return scan->poll();
}

/// What can be found out about the files to be written before the first step.
Status Run::openOutputs() {
  if (!isFirst)
    return {};
  if (!options.exported.folder.empty())
    CLEAVE_RETURN_IF_ERROR(prepareExport(program, options.exported));
  if (!options.trace.empty()) {
    OutputFile probe; // removed without having had its name
    CLEAVE_RETURN_IF_ERROR(OutputFile::create(options.trace, 0, probe));
  }
  return {};
}

/// Lines of steps that are done again are taken out.
Status Run::openMetrics() {
  if (!isFirst || options.metrics.empty())
    return {};
  return resumed.path.empty()
             ? LineWriter::create(options.metrics, metrics)
             : LineWriter::resume(options.metrics, progress.step, metrics);
}

Status Run::fillStates() {
  HuggingFaceWeights weights;
  if (!options.init.empty())
    CLEAVE_RETURN_IF_ERROR(HuggingFaceWeights::open(options.init, weights));
  return initializeStates(*executor, options.init.empty() ? nullptr : &weights,
                          options.seed, notes);
}

/// State and progress, as the run begins or as a checkpoint has them. `data`:
/// what it trains on.
Status Run::beginOrResume(const std::string &data) {
  CLEAVE_RETURN_IF_ERROR(resumeRun(*executor, options, resumed));
  if (resumed.path.empty()) {
    CLEAVE_RETURN_IF_ERROR(communicator.agree(fillStates()));
    progress.seed = options.seed;
    progress.data = data;
  } else {
    CLEAVE_RETURN_IF_ERROR(
        communicator.agree(initializeUnsavedStates(*executor)));
    CLEAVE_RETURN_IF_ERROR(communicator.agree(
        checkProgress(resumed, options.seed, data, steps, notes)));
    progress = resumed.progress;
    CLEAVE_RETURN_IF_ERROR(communicator.agree(
        source->startAt(uint64_t(progress.step), progress.samples)));
    guard.resume(progress.skippedSteps, progress.losses, progress.gradNorms);
    if (options.resumeFrom == options.save)
      lastSaved = progress.step;
  }
  progress.totalSteps = steps;
  if (!options.save.empty())
    CLEAVE_RETURN_IF_ERROR(
        Saver::create(*executor, options.save, options.keep, saver));
  return {};
}

void Run::printHeader() const {
  std::string mesh;
  for (size_t i = 0; i < getSize(program->axes()); ++i) {
    const fb::Axis *axis = program->axes()->Get(flatbuffers::uoffset_t(i));
    mesh += (i ? " x " : "") + std::string(toView(axis->name())) + "=" +
            std::to_string(axis->size());
  }
  int ranks = communicator.getWorldSize();
  say(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
      (mesh.empty() ? "" : " (" + mesh + ")") + ", " +
      getName(options.backend) + ", " + executor->getDevice().getName() +
      "; batch " + std::to_string(program->global_batch()) + " x " +
      std::to_string(program->seq_len()) + " tokens; arena " +
      formatBytes(program.getArenaBytes()) + " a rank");
  if (!resumed.path.empty())
    say("goes on from " + resumed.path + ", after " +
        std::to_string(progress.step) + " of " + countSteps(steps));
  constexpr size_t most = 3;
  for (size_t i = 0; i < std::min(notes.size(), most); ++i)
    say("note: " + notes[i]);
  if (notes.size() > most)
    say("note: and " + std::to_string(notes.size() - most) + " more like it");
}

/// Every rank sees what a step is judged by, and whether it is good.
Status Run::checkTrains() const {
  bool hasTokens = false, hasTargets = false;
  std::string missing;
  for (size_t i = 0; i < program.getStageCount(); ++i) {
    Stage stage = program.getStage(i);
    hasTokens |= stage->tokens() != nullptr;
    hasTargets |= stage->targets() != nullptr;
    // A norm is optional, but of all stages alike.
    for (const char *name : {"loss", "grad_norm", "update_factor"})
      if (!stage.findOutput(name) &&
          (name != std::string_view("grad_norm") || program.findOutput(name)))
        missing = "output " + quote(name) +
                  (stage.getLabel().empty() ? "" : " in " + stage.getLabel());
  }
  if (missing.empty() && !(hasTokens && hasTargets))
    missing = "tokens or targets";
  if (missing.empty())
    return {};
  return Status::error("the program is not one that trains: it has no " +
                       missing);
}

Status Run::prepare(KernelTable kernels) {
  PhaseScope phase(communicator, Phase::Loading);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(checkTrains()));
  Stage stage = program.getStageOf(communicator.getRank());
  loss = stage.findOutput("loss");
  gradNorm = stage.findOutput("grad_norm");
  factor = stage.findOutput("update_factor");
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openData()));
  std::vector<DataIdentity> files;
  CLEAVE_RETURN_IF_ERROR(
      agreeOnRun(communicator, program, options, *source, files));
  steps = options.steps;
  uint64_t most = source->getMaxSteps();
  if (steps == 0)
    steps = int64_t(most);
  if (uint64_t(steps) > most || steps == 0)
    return communicator.agree(Status::error(
        options.tokens + ": has batches for " + countSteps(int64_t(most)) +
        ", but --steps asks for " + std::to_string(steps)));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openOutputs()));

  ExecutorOptions settings;
  settings.device = options.device;
  settings.threads = options.threads;
  settings.schedule = options.schedule;
  settings.schedule.totalSteps = steps;
  settings.serial = options.serial;
  settings.delaySeed = options.streamDelays;
  settings.links = options.links;
  CLEAVE_RETURN_IF_ERROR(
      Executor::create(program, communicator, kernels, settings, executor));
  if (std::optional<double> peak =
          executor->getDevice().getPeakFlops(getMatrixType(program)))
    totalPeakFlops =
        (options.peakGflops > 0 ? options.peakGflops * 1e9 : *peak) *
        communicator.getWorldSize();
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(Batches::create(*executor, *source, batches)));
  CLEAVE_RETURN_IF_ERROR(
      beginOrResume(describeData(files, program->seq_len())));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openMetrics()));
  if (isFirst)
    printHeader();
  CLEAVE_RETURN_IF_ERROR(OutputDump::create(
      *executor, options.dumpOutputs,
      uint64_t(std::max<int64_t>(steps - progress.step, 0)), dump));
  if (!options.metrics.empty() && executor->getDevice().observesFreely())
    observers.add(&phases);
  if (!options.trace.empty()) {
    observers.add(&trace);
    CLEAVE_RETURN_IF_ERROR(trace.start(communicator));
  }
  if (!observers.isEmpty())
    executor->setObserver(&observers);
  return {};
}

/// The value that this rank holds; its part where it is partial.
Status Run::readLocal(const fb::Output &output, double &value) {
  return executor->read(
      *output.operand(), [&](std::span<const std::byte> bytes) {
        value = toFloats({output.dtype(), {}, {bytes.begin(), bytes.end()}})[0];
        return Status();
      });
}

Status Run::readScalar(const fb::Output &output, double &value) {
  CLEAVE_RETURN_IF_ERROR(readLocal(output, value));
  if (toSpan(output.partial()).empty())
    return {};
  GlobalTensor tensor;
  CLEAVE_RETURN_IF_ERROR(gatherOutput(*executor, output, tensor));
  value = toFloats(tensor)[0];
  return {};
}

/// The mean over the targets that this rank saw, where the program keeps it.
Status Run::readRankLoss(double &value) {
  const Stage &stage = executor->getStage();
  const fb::Output *sum = stage.findOutput("local_loss_sum");
  const fb::Output *tokens = stage.findOutput("local_tokens");
  if (!sum || !tokens)
    return readLocal(*loss, value);
  double count;
  CLEAVE_RETURN_IF_ERROR(readLocal(*sum, value));
  CLEAVE_RETURN_IF_ERROR(readLocal(*tokens, count));
  value /= count;
  return {};
}

/// Completes the report with what the other ranks say, where anyone reads it.
Status Run::report(StepReport &report) {
  bool isLast = report.step + 1 == steps;
  bool isSaid =
      options.logEvery > 0 && (report.step % options.logEvery == 0 || isLast);
  if (!isSaid && options.metrics.empty())
    return {};
  std::vector<double> mine = phases.takeSeconds(), all;
  size_t seconds = mine.size();
  mine.push_back(report.rankLosses.front());
  mine.push_back(double(executor->getHighWaterBytes()));
  mine.push_back(report.hostSeconds);
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles(mine, all));
  auto getColumn = [&](size_t column) {
    std::vector<double> values;
    for (size_t i = column; i < all.size(); i += mine.size())
      values.push_back(all[i]);
    return values;
  };
  auto getMean = [&](size_t column) {
    double sum = 0;
    for (double value : getColumn(column))
      sum += value;
    return sum / double(communicator.getWorldSize());
  };
  for (size_t i = 0; i + 1 < seconds; ++i)
    report.phases.emplace_back(phases.getNames()[i], getMean(i));
  report.collectiveSeconds = getMean(seconds - 1);
  report.rankLosses = getColumn(seconds);
  report.highWaterBytes = uint64_t(std::ranges::max(getColumn(seconds + 1)));
  report.hostSeconds = std::ranges::max(getColumn(seconds + 2));
  Status status;
  if (isFirst) {
    if (!options.metrics.empty())
      status = metrics.write(formatJson(report));
    if (isSaid)
      say(formatProgress(report, steps));
  }
  return options.metrics.empty() ? Status() : endBehindStep(status);
}

/// Where a rank has failed, though not what it computes: all ranks end behind
/// this step, once they have saved. Collective. Until then they do not agree to
/// fail: who fails before that has to say so.
Status Run::endBehindStep(const Status &mine) {
  return failure.ok() ? communicator.share(mine, failure) : Status();
}

struct Run::Judged {
  bool isSkipped = false; ///< the step changed nothing
  double loss = 0, gradNorm = 0;
};

/// The one collective of a step that is not the program's: ranks tell each
/// other what may have come up on any of them. `judged`: what this rank's step
/// says; then the first rank's, from which all have their next limits.
Status Run::vote(Judged *judged) {
  std::vector<double> mine{double(getStopSignal() != 0), double(!found.ok())};
  Judged own = judged ? *judged : Judged();
  mine.insert(mine.end(), {double(own.isSkipped), own.loss, own.gradNorm});
  std::vector<double> all;
  if (saver)
    saver->getVote().put(mine);
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles(mine, all));
  std::vector<SaveVote> saves;
  bool anyFound = false, differ = false;
  for (size_t begin = 0; begin < all.size(); begin += mine.size()) {
    std::span<const double> rank(all.data() + begin, mine.size());
    stopRequested |= rank[0] != 0;
    anyFound |= rank[1] != 0;
    differ |= rank[2] != all[2];
    if (saver)
      saves.push_back(SaveVote::take(rank.subspan(5), int(saves.size())));
  }
  if (judged)
    *judged = {all[2] != 0, all[3], all[4]};
  if (differ)
    return communicator.agree(Status::error(
        "step " + std::to_string(progress.step) +
        ": some ranks changed their state and some did not, though all have "
        "the same loss and gradient norm"));
  if (anyFound)
    CLEAVE_RETURN_IF_ERROR(endBehindStep(found));
  if (saver && saver->hear(saves))
    return endSave();
  return {};
}

/// A save that fails is said; the run goes on, since its older checkpoints are
/// as good as before, but not for ever.
Status Run::endSave() {
  if (saver->hasCommitted()) {
    lastSaved = saver->getStep();
    failedSaves = 0;
    if (isFirst)
      say("saved " + saver->getPath());
    return {};
  }
  Status failure;
  CLEAVE_RETURN_IF_ERROR(communicator.share(saver->getResult(), failure));
  constexpr int mostFailures = 3;
  ++failedSaves;
  std::string message = "step " + std::to_string(saver->getStep()) +
                        " could not be saved: " + failure.message();
  if (failedSaves == mostFailures)
    return communicator.agree(Status::error(message + "; so could not the " +
                                            std::to_string(mostFailures - 1) +
                                            " saves before"));
  if (isFirst)
    logWarning(message);
  return {};
}

Status Run::waitForSave() {
  PhaseScope phase(communicator, Phase::Saving);
  while (saver->isBusy()) {
    CLEAVE_RETURN_IF_ERROR(vote());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Status Run::beginSave() {
  CLEAVE_RETURN_IF_ERROR(waitForSave());
  progress.skippedSteps = guard.getSkipped();
  progress.losses = guard.getLosses();
  progress.gradNorms = guard.getGradNorms();
  return saver->begin(progress);
}

/// Where this rank alone has failed, the others learn it now: what ends with
/// the run may wait for them.
void Run::giveUp(const Status &status) {
  if (!communicator.hasAgreedToFail())
    communicator.abort(status);
  if (executor)
    executor->giveUp();
}

Status Run::runStep(int64_t step) {
  found = pollScan();
  CLEAVE_RETURN_IF_ERROR(batches->load(uint64_t(step)));
  trace.setStep(step);
  CLEAVE_RETURN_IF_ERROR(executor->runStep(
      {step, step - guard.getSkipped(), guard.getLimits()}, [&] {
        if (step + 1 < steps)
          batches->prefetch(uint64_t(step) + 1);
      }));
  StepReport result;
  CLEAVE_RETURN_IF_ERROR(readScalar(*loss, result.loss));
  result.rankLosses = {0};
  CLEAVE_RETURN_IF_ERROR(readRankLoss(result.rankLosses.front()));
  if (gradNorm)
    CLEAVE_RETURN_IF_ERROR(readScalar(*gradNorm, result.gradNorm));

  double counts = 0;
  CLEAVE_RETURN_IF_ERROR(readScalar(*factor, counts));
  bool skips = !(counts > 0);
  if (skips)
    result.skipped = guard.judge(float(result.loss), float(result.gradNorm));
  if (skips && result.skipped.empty())
    result.skipped = "clipping leaves nothing of the gradient";
  Judged judged{skips, result.loss, result.gradNorm};
  CLEAVE_RETURN_IF_ERROR(vote(&judged));
  if (!skips)
    guard.accept(judged.loss, judged.gradNorm);
  result.seconds = getSeconds(lastStepEnd);
  lastStepEnd = Clock::now();
  result.hostSeconds = executor->takeHostSeconds();
  result.device = executor->getDevice().getName();

  if (losses.empty())
    CLEAVE_RETURN_IF_ERROR(dump.writeOutputs(*executor));
  losses.push_back(result.loss);
  gradNorms.push_back(result.gradNorm);
  if (int64_t(losses.size()) == options.traceSteps) {
    observers.remove(&trace);
    if (observers.isEmpty())
      executor->setObserver(nullptr);
  }
  result.step = step;
  result.learningRate = executor->getLearningRate(step);
  result.tokensPerSecond =
      double(program->global_batch() * program->seq_len()) / result.seconds;
  if (totalPeakFlops > 0)
    result.mfu = program->flops_per_step() / result.seconds / totalPeakFlops;
  result.arenaBytes = program.getArenaBytes();
  CLEAVE_RETURN_IF_ERROR(report(result));
  progress.step = step + 1;
  progress.samples += program->global_batch();
  if (skips) {
    Status spent = guard.skip(step, result.skipped);
    isSpent = !spent.ok();
    if (isSpent)
      return endBehindStep(spent);
  }
  return {};
}

/// The state that the run ends with, unless a checkpoint has it.
Status Run::saveLast() {
  CLEAVE_RETURN_IF_ERROR(waitForSave());
  if (lastSaved == progress.step)
    return {};
  CLEAVE_RETURN_IF_ERROR(beginSave());
  CLEAVE_RETURN_IF_ERROR(waitForSave());
  if (lastSaved == progress.step)
    return {};
  return communicator.agree(
      Status::error("the run could not be saved under " + options.save));
}

Status Run::train() {
  begin = afterFirst = lastStepEnd = Clock::now();
  while (progress.step < steps && !stopRequested && failure.ok()) {
    CLEAVE_RETURN_IF_ERROR(runStep(progress.step));
    if (losses.size() == 1)
      afterFirst = Clock::now();
    bool isDue =
        options.saveEvery > 0 && progress.step % options.saveEvery == 0;
    if (!isDue || progress.step >= steps)
      continue;
    // The update's time is a step's, and the save's is none's.
    CLEAVE_RETURN_IF_ERROR(executor->finish());
    Clock::time_point saveBegin = Clock::now();
    CLEAVE_RETURN_IF_ERROR(beginSave());
    lastStepEnd += Clock::now() - saveBegin;
  }
  CLEAVE_RETURN_IF_ERROR(executor->finish());
  if (isSpent)
    exitCode = ExitBadSteps;
  // What led to bad steps is not worth being the newest checkpoint.
  if (saver)
    CLEAVE_RETURN_IF_ERROR(isSpent ? waitForSave() : saveLast());
  if (!failure.ok())
    return communicator.agree(failure);
  if (progress.step < steps) {
    exitCode = ExitStopped;
    if (isFirst)
      say("stopped by a signal after " + std::to_string(progress.step) +
          " of " + countSteps(steps) +
          (saver ? "; --resume goes on"
                 : "; nothing was saved without --save"));
  }
  return {};
}

Status Run::finish() {
  PhaseScope phase(communicator, Phase::Finishing);
  double seconds = getSeconds(begin);
  int64_t done = int64_t(losses.size());
  // The first step touches the memory; the others say how fast it goes.
  double timed = done > 1 ? getSeconds(afterFirst) : seconds;
  double stepsPerSecond = double(done > 1 ? done - 1 : 1) / timed;
  if (!options.trace.empty())
    CLEAVE_RETURN_IF_ERROR(trace.write(
        communicator, executor->getDevice().getName(), options.trace));
  bool isWhole = progress.step >= steps;
  if (isWhole)
    CLEAVE_RETURN_IF_ERROR(dump.finish(*executor, losses, gradNorms));
  if (isWhole && !options.exported.folder.empty()) {
    PhaseScope saving(communicator, Phase::Saving);
    CLEAVE_RETURN_IF_ERROR(exportModel(*executor, options.exported));
  }
  std::vector<double> highWater;
  double mine = double(executor->getHighWaterBytes());
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles({&mine, 1}, highWater));
  if (!isFirst)
    return {};
  if (losses.empty()) {
    say(steps == 1 ? std::string("the only step was done before")
                   : "all " + countSteps(steps) + " were done before");
  } else {
    printSummary(seconds, stepsPerSecond,
                 uint64_t(std::ranges::max(highWater)));
  }
  if (isWhole && !options.exported.folder.empty())
    say("exported " + options.exported.folder);
  return {};
}

/// `highWater`: of the rank with the most.
void Run::printSummary(double seconds, double stepsPerSecond,
                       uint64_t highWater) const {
  char text[256];
  std::snprintf(text, sizeof(text),
                "%s in %.2f s: loss %.4f -> %.4f, %.0f tokens/s",
                countSteps(int64_t(losses.size())).c_str(), seconds,
                losses.front(), losses.back(),
                stepsPerSecond * double(program->global_batch()) *
                    double(program->seq_len()));
  std::string summary = text;
  if (totalPeakFlops > 0 && program->flops_per_step() > 0) {
    std::snprintf(text, sizeof(text), ", MFU %.1f %%",
                  100 * program->flops_per_step() * stepsPerSecond /
                      totalPeakFlops);
    summary += text;
  }
  say(summary);
  say("memory a rank: arena " + std::to_string(program.getArenaBytes()) +
      " bytes, high-water mark " + std::to_string(highWater) + " bytes");
}

} // namespace

Status cleave::runtime::trainRank(const Program &program, KernelTable kernels,
                                  const TrainOptions &options,
                                  Communicator &communicator,
                                  std::atomic<int> &exitCode) {
  WatchedRank watched;
  CLEAVE_RETURN_IF_ERROR(watched.enter(options.watchdog, communicator));
  Run run(program, options, communicator, exitCode);
  Status status = catchExceptions([&]() -> Status {
    CLEAVE_RETURN_IF_ERROR(run.prepare(kernels));
    CLEAVE_RETURN_IF_ERROR(run.train());
    return run.finish();
  });
  if (!status.ok())
    run.giveUp(status);
  return status;
}
