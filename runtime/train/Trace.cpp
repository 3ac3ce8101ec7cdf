//===- Trace.cpp ----------------------------------------------------------===//
#include "runtime/train/Trace.h"
#include "runtime/base/Clock.h"
#include "runtime/checkpoint/Export.h"
#include <nlohmann/json.hpp>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

std::string toJson(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

/// "rank 5 (dp 1, tp 2)".
std::string getRankName(const Program &program, int rank) {
  std::string name = "rank " + std::to_string(rank), coordinates;
  for (size_t axis = 0; axis < getSize(program->axes()); ++axis)
    coordinates +=
        (axis ? ", " : "") +
        std::string(toView(
            program->axes()->Get(flatbuffers::uoffset_t(axis))->name())) +
        " " + std::to_string(program.getMesh().getCoordinate(rank, int(axis)));
  return coordinates.empty() ? name : name + " (" + coordinates + ")";
}

/// A metadata event: the name of a process or of one of its tracks, or, as
/// `key` labels, what else there is to say of a process.
std::string formatName(const char *what, int rank, int track,
                       std::string_view name, const char *key = "name") {
  return std::string("{\"ph\":\"M\",\"name\":\"") + what +
         "\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(track) + ",\"args\":{\"" + key +
         "\":" + toJson(name) + "}},\n";
}

/// Of a rank's tracks: 0 computes, 1 meets others, 2 is stream 1.
size_t getTrack(const InstructionTime &time, fb::Opcode opcode) {
  return time.stream > 0 ? time.stream + 1 : meetsOthers(opcode) ? 1 : 0;
}

} // namespace

Status Trace::start(Communicator &communicator) {
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  CLEAVE_RETURN_IF_ERROR(communicator.barrier(*world));
  originNs = getMonotonicNs();
  return {};
}

std::string Trace::format(int rank, const std::string &device) const {
  // What does not change from one execution of an instruction to the next.
  std::vector<std::string> heads;
  for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    fb::Opcode opcode = instruction.work_type();
    std::string_view name = toView(instruction.name());
    heads.push_back("{\"ph\":\"X\",\"name\":" +
                    toJson(name.empty() ? fb::EnumNameOpcode(opcode) : name) +
                    ",\"cat\":" + toJson(toView(instruction.category())) +
                    ",\"pid\":" + std::to_string(rank));
  }
  std::string text =
      formatName("process_name", rank, 0, getRankName(program, rank)) +
      formatName("process_labels", rank, 0, device, "labels") +
      formatName("thread_name", rank, 0, "compute") +
      formatName("thread_name", rank, 1, "collectives");
  for (size_t i = 1; i < stage.countStreams(); ++i)
    text += formatName("thread_name", rank, int(i) + 1,
                       "stream " + std::to_string(i));
  char numbers[160];
  for (const Event &event : events) {
    const fb::Instruction &instruction = stage.getInstruction(event.time.index);
    double begin = (double(event.time.beginNs) - double(originNs)) * 1e-3;
    double micros = double(event.time.endNs - event.time.beginNs) * 1e-3;
    std::snprintf(
        numbers, sizeof(numbers),
        ",\"tid\":%zu,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%lld,"
        "\"micro_batch\":%llu,\"instruction\":%zu",
        getTrack(event.time, instruction.work_type()), begin, micros,
        (long long)event.step, (unsigned long long)event.time.microBatch,
        event.time.index);
    text += heads[event.time.index] + numbers;
    if (instruction.flops() > 0 && micros > 0) {
      std::snprintf(numbers, sizeof(numbers), ",\"gflops\":%.2f",
                    instruction.flops() / micros * 1e-3);
      text += numbers;
    }
    text += "}},\n";
  }
  return text;
}

Status Trace::write(Communicator &communicator, const std::string &device,
                    const std::string &path) const {
  constexpr std::string_view head = "{\"traceEvents\":[\n";
  // Closes the list, whose last event ends in a comma.
  constexpr std::string_view tail =
      "{\"ph\":\"M\",\"name\":\"trace_end\",\"pid\":0,\"tid\":0,"
      "\"args\":{}}]}\n";
  int rank = communicator.getRank();
  std::string text = format(rank, device);
  std::vector<double> sizes; // exact: far below 2^53
  double size = double(text.size());
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles({&size, 1}, sizes));
  uint64_t offset = head.size(), total = head.size();
  for (int r = 0; r < communicator.getWorldSize(); ++r) {
    if (r == rank)
      offset = total;
    total += uint64_t(sizes[r]);
  }
  OutputFile file;
  CLEAVE_RETURN_IF_ERROR(
      openShared(communicator, path, total + tail.size(), file));
  Status status = file.write(offset, text.data(), text.size());
  if (status.ok() && rank == 0) {
    status = file.write(0, head.data(), head.size());
    if (status.ok())
      status = file.write(total, tail.data(), tail.size());
  }
  return commitShared(communicator, status, file);
}
