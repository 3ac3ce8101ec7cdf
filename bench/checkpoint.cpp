//===- checkpoint.cpp - What saving costs a run ---------------------------===//
//
//   checkpoint FOLDER [MIB]
//
// Saves states of MIB (default 512) in all into FOLDER, which is on the disk to
// be measured, and prints how long a step waits for a save beside a copy of the
// same bytes in memory, and how fast a checkpoint is written beside a plain
// sequential write and fsync of as many bytes.
//
//===----------------------------------------------------------------------===//
#include "runtime/checkpoint/Saver.h"
#include "runtime/comm/World.h"
#include "runtime/io/OutputFile.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace cleave;
using namespace cleave::runtime;

namespace {

using Times = std::vector<double>;

double getSeconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double getMedian(Times times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// A plain sequential write, as large and as whole as a shard.
Status writePlainly(const std::string &folder,
                    const std::vector<std::byte> &data, Times &times) {
  double begin = getSeconds();
  OutputFile file;
  CLEAVE_RETURN_IF_ERROR(
      OutputFile::create(folder + "/plain", data.size(), file));
  for (size_t i = 0; i < data.size(); i += chunkBytes)
    CLEAVE_RETURN_IF_ERROR(file.write(
        i, data.data() + i, std::min<size_t>(chunkBytes, data.size() - i)));
  CLEAVE_RETURN_IF_ERROR(file.commit());
  times.push_back(getSeconds() - begin);
  std::filesystem::remove(folder + "/plain");
  return {};
}

Status measure(const std::string &folder, uint64_t mib) {
  constexpr uint64_t states = 16;
  uint64_t rows = (mib << 20) / states / 1024 / 4;
  test::ProgramBuilder b({});
  for (uint64_t i = 0; i < states; ++i)
    b.state("w" + std::to_string(i), {rows, 1024}, {{}, {}},
            b.allocate(rows * 1024 * 4))
        .role = "parameter";
  Program program;
  CLEAVE_RETURN_IF_ERROR(b.load(program));
  return runRanks(program.getMesh(), {}, [&](Communicator &communicator) {
    std::unique_ptr<Executor> executor;
    CLEAVE_RETURN_IF_ERROR(
        Executor::create(program, communicator, {}, {}, executor));
    for (const program::State *state : program.getStates()) {
      CLEAVE_RETURN_IF_ERROR(
          executor->write(*state->operand(), [](std::span<std::byte> bytes) {
            auto *values = reinterpret_cast<float *>(bytes.data());
            for (size_t i = 0; i < bytes.size() / 4; ++i)
              values[i] = float(i % 1000003) * 0.37f;
            return Status();
          }));
    }
    std::unique_ptr<Saver> saver;
    CLEAVE_RETURN_IF_ERROR(
        Saver::create(*executor, folder + "/checkpoints", 1, saver));
    std::vector<std::byte> target(saver->getBytes(), std::byte(1));
    Times waits, copies, writes, plain;
    constexpr int rounds = 7;
    for (int round = 0; round < rounds; ++round) {
      RunProgress progress;
      progress.step = round + 1;
      double begin = getSeconds();
      CLEAVE_RETURN_IF_ERROR(saver->begin(progress));
      waits.push_back(getSeconds() - begin);
      // The thread of the save alone has the disk and a core until it is done.
      while (saver->isBusy()) {
        SaveVote vote = saver->getVote();
        if (vote.state == SaveVote::Written && writes.size() < waits.size())
          writes.push_back(getSeconds() - begin - waits.back());
        saver->hear({&vote, 1});
      }
      CLEAVE_RETURN_IF_ERROR(saver->getResult());
      begin = getSeconds();
      std::byte *to = target.data();
      for (const program::State *state : program.getStates()) {
        CLEAVE_RETURN_IF_ERROR(executor->read(
            *state->operand(), [&](std::span<const std::byte> bytes) {
              executor->getThreadPool().parallelFor(
                  0, int64_t(bytes.size()), 1 << 20,
                  [&](int64_t first, int64_t last, int) {
                    std::memcpy(to + first, bytes.data() + first,
                                size_t(last - first));
                  });
              to += bytes.size();
              return Status();
            }));
      }
      copies.push_back(getSeconds() - begin);
      CLEAVE_RETURN_IF_ERROR(writePlainly(folder, target, plain));
    }
    double size = double(saver->getBytes());
    std::printf("%.0f MiB, %d saves, medians\n", size / (1 << 20), rounds);
    std::printf("a step waits %.1f ms, a copy in memory takes %.1f ms: ratio "
                "%.2f\n",
                getMedian(waits) * 1e3, getMedian(copies) * 1e3,
                getMedian(waits) / getMedian(copies));
    std::printf("a checkpoint is written at %.0f MB/s, a plain file at %.0f "
                "MB/s: ratio %.2f\n",
                size / getMedian(writes) / 1e6, size / getMedian(plain) / 1e6,
                getMedian(plain) / getMedian(writes));
    return Status();
  });
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: checkpoint FOLDER [MIB]\n");
    return 2;
  }
  Status status =
      measure(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512);
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
