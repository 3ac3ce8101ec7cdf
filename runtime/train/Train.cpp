//===- Train.cpp ----------------------------------------------------------===//
#include "runtime/train/Train.h"
#include "runtime/executor/Gather.h"
#include "runtime/io/Sampler.h"
#include "runtime/train/Batches.h"
#include "runtime/train/Dump.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Save.h"
#include "runtime/train/Trace.h"
#include "runtime/train/Weights.h"
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

using Clock = std::chrono::steady_clock;

double getSeconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One rank's run, from opening files to saving.
class Run {
public:
  Run(const Program &program, const TrainOptions &options,
      Communicator &communicator)
      : program(program), options(options), communicator(communicator),
        isFirst(communicator.getRank() == 0), phases(program), trace(program) {}

  Status prepare(KernelTable kernels);
  Status train();
  Status finish();

private:
  Status openData();
  Status openOutputs();
  Status fillStates();
  void printHeader(const std::vector<std::string> &notes) const;
  double readLocal(const fb::Output &output);
  Status readScalar(const fb::Output &output, double &value);
  double getRankLoss();
  Status runStep(int64_t step);
  Status report(StepReport &report);

  const Program &program;
  const TrainOptions &options;
  Communicator &communicator;
  bool isFirst;
  int64_t steps = 0;
  std::unique_ptr<BatchSource> source;
  std::unique_ptr<Executor> executor;
  LineWriter metrics; ///< on rank 0
  OutputDump dump;
  ObserverList observers;
  PhaseTimer phases;
  Trace trace;
  const fb::Output *loss = nullptr, *gradNorm = nullptr;
  std::vector<double> losses, gradNorms;
  Clock::time_point begin, afterFirst;
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
  return Sampler::create(std::move(stream), shape, options.seed, source);
}

/// What can be found out about the files to be written before the first step.
Status Run::openOutputs() {
  if (!isFirst)
    return {};
  if (!options.save.empty())
    CLEAVE_RETURN_IF_ERROR(prepareSave(program, options.save));
  if (!options.trace.empty()) {
    OutputFile probe; // removed without having had its name
    CLEAVE_RETURN_IF_ERROR(OutputFile::create(options.trace, 0, probe));
  }
  if (!options.metrics.empty())
    CLEAVE_RETURN_IF_ERROR(LineWriter::create(options.metrics, metrics));
  return {};
}

Status Run::fillStates() {
  Checkpoint checkpoint;
  if (!options.init.empty())
    CLEAVE_RETURN_IF_ERROR(Checkpoint::open(options.init, checkpoint));
  std::vector<std::string> notes;
  CLEAVE_RETURN_IF_ERROR(
      initializeStates(*executor, options.init.empty() ? nullptr : &checkpoint,
                       options.seed, notes));
  if (isFirst)
    printHeader(notes);
  return {};
}

void Run::printHeader(const std::vector<std::string> &notes) const {
  std::string mesh;
  for (size_t i = 0; i < getSize(program->axes()); ++i) {
    const fb::Axis *axis = program->axes()->Get(flatbuffers::uoffset_t(i));
    mesh += (i ? " x " : "") + std::string(toView(axis->name())) + "=" +
            std::to_string(axis->size());
  }
  int ranks = communicator.getWorldSize();
  say(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
      (mesh.empty() ? "" : " (" + mesh + ")") + ", " +
      (options.backend == Backend::Mpi ? "mpi" : "local") + "; batch " +
      std::to_string(program->global_batch()) + " x " +
      std::to_string(program->seq_len()) + " tokens; arena " +
      formatBytes(executor->getArenaBytes()) + " a rank");
  constexpr size_t most = 3;
  for (size_t i = 0; i < std::min(notes.size(), most); ++i)
    say("note: " + notes[i]);
  if (notes.size() > most)
    say("note: and " + std::to_string(notes.size() - most) + " more like it");
}

Status Run::prepare(KernelTable kernels) {
  PhaseScope phase(communicator, Phase::Loading);
  loss = program.findOutput("loss");
  gradNorm = program.findOutput("grad_norm");
  if (!loss || !program->tokens() || !program->targets())
    return communicator.agree(Status::error(
        "the program is not one that trains: it has no " +
        std::string(loss ? "tokens or targets" : "output \"loss\"")));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openData()));
  steps = options.steps;
  uint64_t most = source->getMaxSteps();
  if (steps == 0)
    steps = int64_t(most);
  if (uint64_t(steps) > most || steps == 0)
    return communicator.agree(Status::error(
        options.tokens + ": has batches for " + std::to_string(most) +
        " steps, but --steps asks for " + std::to_string(steps)));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openOutputs()));

  ExecutorOptions settings;
  settings.threads = options.threads;
  settings.schedule = options.schedule;
  settings.schedule.totalSteps = steps;
  CLEAVE_RETURN_IF_ERROR(
      Executor::create(program, communicator, kernels, settings, executor));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(fillStates()));
  CLEAVE_RETURN_IF_ERROR(OutputDump::create(*executor, options.dumpOutputs,
                                            uint64_t(steps), dump));
  if (!options.metrics.empty())
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
double Run::readLocal(const fb::Output &output) {
  std::span<std::byte> bytes = executor->getBytes(output);
  return toFloats({output.dtype(), {}, {bytes.begin(), bytes.end()}})[0];
}

Status Run::readScalar(const fb::Output &output, double &value) {
  value = readLocal(output);
  if (toSpan(output.partial()).empty())
    return {};
  GlobalTensor tensor;
  CLEAVE_RETURN_IF_ERROR(gatherOutput(*executor, output, tensor));
  value = toFloats(tensor)[0];
  return {};
}

/// The mean over the targets that this rank saw, where the program keeps it.
double Run::getRankLoss() {
  const fb::Output *sum = program.findOutput("local_loss_sum");
  const fb::Output *tokens = program.findOutput("local_tokens");
  return sum && tokens ? readLocal(*sum) / readLocal(*tokens)
                       : readLocal(*loss);
}

Status Run::report(StepReport &report) {
  if (!options.metrics.empty()) {
    std::vector<double> mine = phases.takeSeconds(), all;
    size_t width = mine.size() + 1, ranks = size_t(communicator.getWorldSize());
    mine.push_back(report.rankLosses.front());
    CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles(mine, all));
    report.rankLosses.clear();
    for (size_t rank = 0; rank < ranks; ++rank)
      report.rankLosses.push_back(all[(rank + 1) * width - 1]);
    auto getMean = [&](size_t column) {
      double sum = 0;
      for (size_t rank = 0; rank < ranks; ++rank)
        sum += all[rank * width + column];
      return sum / double(ranks);
    };
    for (size_t i = 0; i < phases.getNames().size(); ++i)
      report.phases.emplace_back(phases.getNames()[i], getMean(i));
    report.collectiveSeconds = getMean(width - 2);
  }
  Status status;
  if (isFirst) {
    if (!options.metrics.empty())
      status = metrics.write(formatJson(report));
    bool isLast = report.step + 1 == steps;
    if (options.logEvery > 0 && (report.step % options.logEvery == 0 || isLast))
      say(formatProgress(report, steps));
  }
  // A file that cannot be written ends the run at once, on all ranks.
  return options.metrics.empty() ? status : communicator.agree(status);
}

Status Run::runStep(int64_t step) {
  Clock::time_point start = Clock::now();
  CLEAVE_RETURN_IF_ERROR(loadBatch(*executor, *source, uint64_t(step)));
  trace.setStep(step);
  CLEAVE_RETURN_IF_ERROR(executor->runStep(step));
  StepReport result;
  CLEAVE_RETURN_IF_ERROR(readScalar(*loss, result.loss));
  result.rankLosses = {getRankLoss()};
  if (gradNorm)
    CLEAVE_RETURN_IF_ERROR(readScalar(*gradNorm, result.gradNorm));
  result.seconds = getSeconds(start);

  if (step == 0)
    CLEAVE_RETURN_IF_ERROR(dump.writeOutputs(*executor));
  if (step + 1 == options.traceSteps) {
    observers.remove(&trace);
    if (observers.isEmpty())
      executor->setObserver(nullptr);
  }
  losses.push_back(result.loss);
  gradNorms.push_back(result.gradNorm);
  result.step = step;
  result.learningRate = executor->getLearningRate(step);
  result.tokensPerSecond =
      double(program->global_batch() * program->seq_len()) / result.seconds;
  if (options.totalPeakFlops > 0)
    result.mfu =
        program->flops_per_step() / result.seconds / options.totalPeakFlops;
  result.arenaBytes = executor->getArenaBytes();
  result.highWaterBytes = executor->getHighWaterBytes();
  CLEAVE_RETURN_IF_ERROR(report(result));
  if (!std::isfinite(result.loss))
    return communicator.agree(Status::error("step " + std::to_string(step) +
                                            ": the loss is " +
                                            std::to_string(result.loss)));
  return {};
}

Status Run::train() {
  begin = afterFirst = Clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    CLEAVE_RETURN_IF_ERROR(runStep(step));
    if (step == 0)
      afterFirst = Clock::now();
  }
  return {};
}

Status Run::finish() {
  PhaseScope phase(communicator, Phase::Finishing);
  double seconds = getSeconds(begin);
  // The first step touches the memory; the others say how fast it goes.
  double timed = steps > 1 ? getSeconds(afterFirst) : seconds;
  double stepsPerSecond = double(steps > 1 ? steps - 1 : 1) / timed;
  if (!options.trace.empty())
    CLEAVE_RETURN_IF_ERROR(trace.write(communicator, options.trace));
  CLEAVE_RETURN_IF_ERROR(dump.finish(*executor, losses, gradNorms));
  if (!options.save.empty()) {
    PhaseScope saving(communicator, Phase::Saving);
    CLEAVE_RETURN_IF_ERROR(saveCheckpoint(*executor, options.save));
  }
  if (!isFirst)
    return {};
  char text[256];
  std::snprintf(text, sizeof(text),
                "%lld steps in %.2f s: loss %.4f -> %.4f, %.0f tokens/s",
                (long long)steps, seconds, losses.front(), losses.back(),
                stepsPerSecond * double(program->global_batch()) *
                    double(program->seq_len()));
  std::string summary = text;
  if (options.totalPeakFlops > 0 && program->flops_per_step() > 0) {
    std::snprintf(text, sizeof(text), ", MFU %.1f %%",
                  100 * program->flops_per_step() * stepsPerSecond /
                      options.totalPeakFlops);
    summary += text;
  }
  say(summary);
  say("memory a rank: arena " + std::to_string(executor->getArenaBytes()) +
      " bytes, high-water mark " +
      std::to_string(executor->getHighWaterBytes()) + " bytes");
  if (!options.save.empty())
    say("saved " + options.save);
  return {};
}

} // namespace

Status cleave::runtime::trainRank(const Program &program, KernelTable kernels,
                                  const TrainOptions &options,
                                  Communicator &communicator) {
  WatchedRank watched;
  CLEAVE_RETURN_IF_ERROR(watched.enter(options.watchdog, communicator));
  Run run(program, options, communicator);
  CLEAVE_RETURN_IF_ERROR(run.prepare(kernels));
  CLEAVE_RETURN_IF_ERROR(run.train());
  return run.finish();
}
