//===- TaskTrace.cpp - A simulated step of a program, for trace viewers ---===//
#include "cleave/Simulate/SimulateTasks.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace cleave;

namespace {
class TaskTracePrinter {
public:
  TaskTracePrinter(llvm::raw_ostream &os, const TaskProgram &program,
                   const TaskSimulation &simulation)
      : os(os), program(program), simulation(simulation) {}

  void print() {
    os << R"({"displayTimeUnit":"ms","traceEvents":[)";
    for (size_t stage = 0; stage != program.stages.size(); ++stage) {
      printName("process_name", stage, 0,
                llvm::formatv("stage {0}, simulated", stage));
      printName("thread_name", stage, 0, "compute");
      printName("thread_name", stage, 1, "collectives");
      for (int64_t i = 1, e = program.stages[stage].countStreams(); i != e; ++i)
        printName("thread_name", stage, i + 1, llvm::formatv("stream {0}", i));
    }
    for (const TaskSpan &span : simulation.spans)
      if (span.end > span.start)
        printSpan(span);
    os << "\n]}\n";
  }

private:
  void event(llvm::StringRef phase, size_t stage, int64_t track,
             llvm::StringRef name,
             llvm::function_ref<void(llvm::json::OStream &)> rest) {
    os << (isFirst ? "\n" : ",\n");
    isFirst = false;
    llvm::json::OStream json(os);
    json.object([&] {
      json.attribute("ph", phase);
      json.attribute("name", name);
      json.attribute("pid", int64_t(stage));
      json.attribute("tid", track);
      rest(json);
    });
  }

  void printName(llvm::StringRef what, size_t stage, int64_t track,
                 const std::string &text) {
    event("M", stage, track, what, [&](llvm::json::OStream &json) {
      json.attributeObject("args", [&] { json.attribute("name", text); });
    });
  }

  static void printTime(llvm::json::OStream &json, llvm::StringRef key,
                        int64_t nanoseconds) {
    json.attributeBegin(key);
    json.rawValue(
        llvm::formatv("{0}.{1,0+3}", nanoseconds / 1000, nanoseconds % 1000)
            .str());
    json.attributeEnd();
  }

  /// 0 computes, 1 communicates, 2 is stream 1.
  static int64_t getTrack(const Task &task) {
    if (task.stream > 0)
      return task.stream + 1;
    return task.shape.communicates() ? 1 : 0;
  }

  void printSpan(const TaskSpan &span) {
    const StageTasks &stage = program.stages[size_t(span.stage)];
    const Task &task = stage.tasks[size_t(span.task)];
    // Of whole nanoseconds, so that slices of a track never overlap.
    int64_t start = std::llround(span.start * 1e9);
    int64_t end = std::llround(span.end * 1e9);
    event("X", size_t(span.stage), getTrack(task), task.name,
          [&](llvm::json::OStream &json) {
            json.attribute("cat", task.phase);
            printTime(json, "ts", start);
            printTime(json, "dur", end - start);
            json.attributeObject("args", [&] {
              json.attribute("step", 0);
              json.attribute("micro_batch",
                             stage.runs[size_t(span.run)].microBatch);
              json.attribute("instruction", span.task);
            });
          });
  }

  llvm::raw_ostream &os;
  const TaskProgram &program;
  const TaskSimulation &simulation;
  bool isFirst = true;
};
} // namespace

void cleave::printTrace(llvm::raw_ostream &os, const TaskProgram &program,
                        const TaskSimulation &simulation) {
  TaskTracePrinter(os, program, simulation).print();
}
