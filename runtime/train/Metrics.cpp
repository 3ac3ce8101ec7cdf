//===- Metrics.cpp --------------------------------------------------------===//
#include "runtime/train/Metrics.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace cleave::runtime;
namespace fb = cleave::program;

PhaseTimer::PhaseTimer(const Program &program) {
  for (size_t i = 0; i < program.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = program.getInstruction(i);
    fb::Opcode opcode = instruction.opcode();
    std::string name(toView(instruction.category()));
    if (name.empty())
      name = "other";
    auto it = std::find(names.begin(), names.end(), name);
    phaseOf.push_back(size_t(it - names.begin()));
    // The loop's own instructions are never timed.
    if (it == names.end() && opcode != fb::Opcode::LoopBegin &&
        opcode != fb::Opcode::LoopEnd)
      names.push_back(name);
    isCollective.push_back(
        opcode == fb::Opcode::AllReduce || opcode == fb::Opcode::AllGather ||
        opcode == fb::Opcode::ReduceScatter || opcode == fb::Opcode::AllToAll);
  }
  seconds.resize(names.size() + 1);
}

void PhaseTimer::onInstruction(const InstructionTime &time) {
  double elapsed = double(time.endNs - time.beginNs) * 1e-9;
  seconds[phaseOf[time.index]] += elapsed;
  if (isCollective[time.index])
    seconds.back() += elapsed;
}

std::vector<double> PhaseTimer::takeSeconds() {
  return std::exchange(seconds, std::vector<double>(names.size() + 1));
}

std::string cleave::runtime::formatBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit ? "%.1f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

std::string cleave::runtime::formatProgress(const StepReport &report,
                                            int64_t steps) {
  char text[256];
  std::snprintf(text, sizeof(text),
                "step %lld/%lld  loss %.4f  grad norm %.3f  lr %.3e  %.0f "
                "tokens/s  ",
                (long long)report.step + 1, (long long)steps, report.loss,
                report.gradNorm, report.learningRate, report.tokensPerSecond);
  std::string line = text;
  if (report.mfu > 0) {
    std::snprintf(text, sizeof(text), "MFU %.1f %%  ", 100 * report.mfu);
    line += text;
  }
  line += formatBytes(report.highWaterBytes) + " a rank";
  return report.skipped.empty() ? line : line + "  skipped: " + report.skipped;
}

std::string cleave::runtime::formatJson(const StepReport &report) {
  nlohmann::ordered_json object;
  object["step"] = report.step;
  object["loss"] = report.loss;
  object["rank_losses"] = report.rankLosses;
  object["grad_norm"] = report.gradNorm;
  object["lr"] = report.learningRate;
  object["tokens_per_s"] = report.tokensPerSecond;
  object["mfu"] = report.mfu;
  object["seconds"] = report.seconds;
  for (const auto &[name, seconds] : report.phases)
    object["phases"][name] = seconds;
  object["collective_seconds"] = report.collectiveSeconds;
  object["arena_bytes"] = report.arenaBytes;
  object["high_water_bytes"] = report.highWaterBytes;
  if (!report.skipped.empty())
    object["skipped"] = report.skipped;
  return object.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

Status LineWriter::create(const std::string &path, LineWriter &writer) {
  LineWriter result;
  result.path = path;
  result.file.reset(std::fopen(path.c_str(), "we"));
  if (!result.file)
    return Status::error(path + ": cannot create: " + std::strerror(errno));
  writer = std::move(result);
  return {};
}

Status LineWriter::write(const std::string &line) {
  if (std::fputs((line + "\n").c_str(), file.get()) < 0 ||
      std::fflush(file.get()) != 0)
    return Status::error(path + ": cannot write: " + std::strerror(errno));
  return {};
}
