//===- Metrics.cpp --------------------------------------------------------===//
#include "runtime/train/Metrics.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using namespace cleave::runtime;
namespace fb = cleave::program;

PhaseTimer::PhaseTimer(const Program &program, int rank) {
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    Stage stage = program.getStage(number);
    for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
      const fb::Instruction &instruction = stage.getInstruction(i);
      std::string name(toView(instruction.category()));
      if (name.empty())
        name = "other";
      auto it = std::find(names.begin(), names.end(), name);
      size_t phase = size_t(it - names.begin());
      if (it == names.end())
        names.push_back(name);
      if (number != program.getStageNumber(rank))
        continue;
      phaseOf.push_back(phase);
      isWithOthers.push_back(meetsOthers(instruction.work_type()));
    }
  }
  seconds.resize(names.size() + 1);
}

void PhaseTimer::onInstruction(const InstructionTime &time) {
  if (time.stream != 0)
    return;
  double elapsed = double(time.endNs - time.beginNs) * 1e-9;
  seconds[phaseOf[time.index]] += elapsed;
  if (isWithOthers[time.index])
    seconds.back() += elapsed;
}

void PhaseTimer::onWait(size_t index, uint64_t beginNs, uint64_t endNs) {
  double elapsed = double(endNs - beginNs) * 1e-9;
  seconds[phaseOf[index]] += elapsed;
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
  object["device"] = report.device;
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
  object["host_seconds"] = report.hostSeconds;
  object["arena_bytes"] = report.arenaBytes;
  object["high_water_bytes"] = report.highWaterBytes;
  if (!report.skipped.empty())
    object["skipped"] = report.skipped;
  return object.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

//===----------------------------------------------------------------------===//
// LineWriter
//===----------------------------------------------------------------------===//

namespace {

Status failWith(const std::string &path, const char *what) {
  return Status::error(path + ": cannot " + what + ": " + std::strerror(errno));
}

/// The process that holds a lock on this file, as the system lists them; 0
/// where that is not known, such as for one of another host.
long findLockHolder(const struct stat &info) {
  // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF", device in hexadecimal.
  char wanted[64];
  std::snprintf(wanted, sizeof(wanted), "%02x:%02x:%llu", major(info.st_dev),
                minor(info.st_dev), (unsigned long long)info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, how, mode, file;
    long pid;
    if (words >> number >> kind >> how >> mode >> pid >> file &&
        kind == "FLOCK" && file == wanted)
      return pid;
  }
  return 0;
}

/// The step that a line of metrics is of; negative where it is no such line.
int64_t getStep(const std::string &line) {
  // What formatJson() writes, in a file that may have millions of them.
  constexpr std::string_view start = "{\"step\":";
  int64_t step = -1;
  if (line.starts_with(start) && line.ends_with('}')) {
    const char *number = line.data() + start.size();
    auto [end, error] =
        std::from_chars(number, line.data() + line.size(), step);
    if (error == std::errc() && (*end == ',' || *end == '}'))
      return step;
  }
  auto object =
      nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") ||
      !object["step"].is_number_unsigned())
    return -1;
  return object["step"].get<int64_t>();
}

} // namespace

LineWriter::~LineWriter() {
  if (fd >= 0)
    ::close(fd);
}

Status LineWriter::open(const std::string &path, LineWriter &writer) {
  LineWriter result;
  result.path = path;
  // Nothing is cut off before the lock is held. A pipe that nobody reads is
  // not waited for.
  result.fd =
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (result.fd < 0 && errno == ENXIO)
    return Status::error(path + ": is a pipe that nobody reads, or a socket");
  if (result.fd < 0)
    return failWith(path, "create");
  struct stat info;
  if (::fstat(result.fd, &info) != 0)
    return failWith(path, "stat");
  result.isRegular = S_ISREG(info.st_mode);
  int flags = ::fcntl(result.fd, F_GETFL);
  if (flags < 0 || ::fcntl(result.fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
    return failWith(path, "open");
  // Not every file system has locks, nor need a device be one's own.
  if (result.isRegular && ::flock(result.fd, LOCK_EX | LOCK_NB) != 0 &&
      errno == EWOULDBLOCK) {
    long pid = findLockHolder(info);
    return Status::error(path + ": another process writes it" +
                         (pid > 0 ? ", with id " + std::to_string(pid) : ""));
  }
  writer = std::move(result);
  return {};
}

Status LineWriter::create(const std::string &path, LineWriter &writer) {
  LineWriter result;
  CLEAVE_RETURN_IF_ERROR(open(path, result));
  CLEAVE_RETURN_IF_ERROR(result.truncate(0));
  writer = std::move(result);
  return {};
}

Status LineWriter::resume(const std::string &path, int64_t firstStep,
                          LineWriter &writer) {
  LineWriter result;
  CLEAVE_RETURN_IF_ERROR(open(path, result));
  if (result.isRegular)
    CLEAVE_RETURN_IF_ERROR(result.keepBefore(firstStep));
  writer = std::move(result);
  return {};
}

Status LineWriter::truncate(uint64_t newSize) {
  if (isRegular && ::ftruncate(fd, off_t(newSize)) != 0)
    return failWith(path, "truncate");
  size = newSize;
  return {};
}

/// A run that goes on repeats the steps that it had done since it saved: the
/// lines of those, and a last one that was cut off, are at the end.
Status LineWriter::keepBefore(int64_t firstStep) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return failWith(path, "open");
  uint64_t end = 0;  // of the lines that stay where they are
  std::string moved; // lines that stay, behind one that does not
  bool inPlace = true;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    int64_t step = getStep(line);
    bool stays = step >= 0 && step < firstStep;
    if (stays && inPlace)
      end += line.size() + 1;
    else if (stays)
      moved += line + '\n';
    else
      inPlace = false;
  }
  if (in.bad())
    return failWith(path, "read");
  CLEAVE_RETURN_IF_ERROR(truncate(end));
  if (moved.empty())
    return {};
  moved.pop_back(); // write() ends a line
  return write(moved);
}

Status LineWriter::write(const std::string &line) {
  std::string text = line + "\n";
  for (size_t done = 0; done < text.size();) {
    ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      Status status = failWith(path, "write");
      // Half a line would be joined with the next.
      Status whole = truncate(size);
      return whole.ok() ? status : whole;
    }
    done += size_t(written);
  }
  size += text.size();
  return {};
}
