//===- TaskTrace.cpp - A simulated step of a program, for trace viewers ---===//
#include "TraceWriter.h"
#include "cleave/Simulate/SimulateTasks.h"

using namespace cleave;

namespace {
class TaskTracePrinter {
public:
  TaskTracePrinter(llvm::raw_ostream &os, const TaskProgram &program,
                   const TaskSimulation &simulation)
      : writer(os), program(program), simulation(simulation) {}

  void print() {
    for (size_t stage = 0; stage != program.stages.size(); ++stage) {
      writer.name("process", int64_t(stage), 0,
                  llvm::formatv("stage {0}, simulated", stage));
      writer.name("thread", int64_t(stage), 0, "compute");
      writer.name("thread", int64_t(stage), 1, "collectives");
      for (int64_t i = 1, e = program.stages[stage].countStreams(); i != e; ++i)
        writer.name("thread", int64_t(stage), i + 1,
                    llvm::formatv("stream {0}", i));
    }
    for (const TaskSpan &span : simulation.spans)
      if (span.end > span.start)
        printSpan(span);
  }

private:
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
    int64_t start = TraceWriter::getNanoseconds(span.start);
    int64_t end = TraceWriter::getNanoseconds(span.end);
    writer.event("X", span.stage, getTrack(task),
                 [&](llvm::json::OStream &json) {
                   json.attribute("name", task.name);
                   json.attribute("cat", task.phase);
                   TraceWriter::printTime(json, "ts", start);
                   TraceWriter::printTime(json, "dur", end - start);
                   json.attributeObject("args", [&] {
                     json.attribute("step", 0);
                     json.attribute("micro_batch",
                                    stage.runs[size_t(span.run)].microBatch);
                     json.attribute("instruction", span.task);
                   });
                 });
  }

  TraceWriter writer;
  const TaskProgram &program;
  const TaskSimulation &simulation;
};
} // namespace

void cleave::printTrace(llvm::raw_ostream &os, const TaskProgram &program,
                        const TaskSimulation &simulation) {
  TaskTracePrinter(os, program, simulation).print();
}
