//===- Trace.cpp - A simulated step for trace viewers ---------------------===//
//
// Perfetto also asks that ids of threads are unique over all processes, and
// that none is 0.
//
//===----------------------------------------------------------------------===//
#include "TraceWriter.h"
#include "cleave/Simulate/Simulate.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace cleave;

namespace {
enum Stream { compute, messages, reductions };

class TracePrinter {
public:
  TracePrinter(llvm::raw_ostream &os, const PipelineStep &step,
               const Simulation &simulation)
      : writer(os), step(step), simulation(simulation) {
    for (const SimulatedEvent &event : simulation.events)
      if (event.kind == SimulatedEvent::Compute)
        computed[getKey(event)] = &event;
  }

  void print() {
    // Viewers sort by name, so that all numbers are as long as the last one.
    size_t digits = std::to_string(step.shape.stages - 1).size();
    for (int64_t stage = 0; stage != step.shape.stages; ++stage) {
      std::string number = std::to_string(stage);
      number.insert(0, digits - number.size(), '0');
      name("process", stage, compute, "stage " + number);
      name("thread", stage, compute, "compute");
      name("thread", stage, messages, "messages");
      name("thread", stage, reductions, "reductions");
    }
    for (const SimulatedEvent &event : simulation.events) {
      if (event.start != event.end)
        printSlice(event);
      if (event.kind == SimulatedEvent::Send)
        printArrow(event);
    }
    if (!step.activations.empty())
      for (int64_t stage = 0; stage != step.shape.stages; ++stage)
        printActivations(stage);
  }

private:
  using Key = std::tuple<int64_t, PipelineOpKind, int64_t>;

  /// An op by its virtual stage, kind and micro-batch.
  Key getKey(const SimulatedEvent &event) const {
    return {step.shape.getVirtualStage(event.stage, event.op.chunk),
            event.op.kind, event.op.microBatch};
  }
  static int64_t getProcess(int64_t stage) { return 10 * (stage + 1); }

  /// One event: phase, stream, and what `rest` writes.
  void event(llvm::StringRef phase, int64_t stage, Stream stream,
             llvm::function_ref<void(llvm::json::OStream &)> rest) {
    writer.event(phase, getProcess(stage), getProcess(stage) + stream, rest);
  }

  void name(llvm::StringRef what, int64_t stage, Stream stream,
            const std::string &text) {
    writer.name(what.str(), getProcess(stage), getProcess(stage) + stream,
                text);
    event("M", stage, stream, [&](llvm::json::OStream &json) {
      json.attribute("name", what.str() + "_sort_index");
      json.attributeObject("args", [&] {
        json.attribute("sort_index",
                       what == "process" ? stage : int64_t(stream));
      });
    });
  }

  static Stream getStream(const SimulatedEvent &event) {
    if (event.kind == SimulatedEvent::Send)
      return messages;
    return event.kind == SimulatedEvent::Data ? reductions : compute;
  }

  static std::string getLabel(const SimulatedEvent &event) {
    if (event.kind == SimulatedEvent::Data)
      return "reduce gradients";
    if (event.kind == SimulatedEvent::Optimizer)
      return "optimizer";
    static constexpr llvm::StringRef names[] = {
        "forward", "backward", "backward input", "backward weight"};
    return llvm::formatv(
        "{0}{1} {2}.{3}", event.kind == SimulatedEvent::Send ? "send " : "",
        names[size_t(event.op.kind)], event.op.microBatch, event.op.chunk);
  }

  void printSlice(const SimulatedEvent &slice) {
    event("X", slice.stage, getStream(slice), [&](llvm::json::OStream &json) {
      int64_t start = TraceWriter::getNanoseconds(slice.start);
      json.attribute("name", getLabel(slice));
      TraceWriter::printTime(json, "ts", start);
      TraceWriter::printTime(json, "dur",
                             TraceWriter::getNanoseconds(slice.end) - start);
      if (slice.kind != SimulatedEvent::Compute &&
          slice.kind != SimulatedEvent::Send)
        return;
      json.attributeObject("args", [&] {
        json.attribute("micro-batch", slice.op.microBatch);
        json.attribute("chunk", slice.op.chunk);
        json.attribute("virtual stage", std::get<0>(getKey(slice)));
      });
    });
  }

  /// From the op that made a message, over its sending, to the op that reads
  /// it.
  void printArrow(const SimulatedEvent &send) {
    Key from = getKey(send), to = from;
    std::get<0>(to) += send.op.kind == PipelineOpKind::Forward ? 1 : -1;
    int64_t number = arrows++;
    auto end = [&](llvm::StringRef phase, const SimulatedEvent &at) {
      event(phase, at.stage, getStream(at), [&](llvm::json::OStream &json) {
        json.attribute("name", "message");
        json.attribute("cat", "message");
        json.attribute("id", number);
        TraceWriter::printTime(json, "ts",
                               TraceWriter::getNanoseconds(at.start));
        if (phase == "f")
          json.attribute("bp", "e");
      });
    };
    end("s", *computed.at(from));
    if (send.start != send.end)
      end("t", send);
    end("f", *computed.at(to));
  }

  /// Bytes that a stage keeps for backward: a micro-batch's from the start of
  /// its forward pass to the end of its backward pass, of weights if apart.
  void printActivations(int64_t stage) {
    std::map<int64_t, double> changes; // by nanosecond
    for (const SimulatedEvent &event : simulation.events) {
      if (event.stage != stage || event.kind != SimulatedEvent::Compute)
        continue;
      double bytes = step.activations[size_t(std::get<0>(getKey(event)))];
      if (event.op.kind == PipelineOpKind::Forward)
        changes[TraceWriter::getNanoseconds(event.start)] += bytes;
      else if (event.op.kind != PipelineOpKind::BackwardInput)
        changes[TraceWriter::getNanoseconds(event.end)] -= bytes;
    }
    double kept = 0;
    for (auto [nanoseconds, change] : changes) {
      kept += change;
      event("C", stage, compute, [&](llvm::json::OStream &json) {
        json.attribute("name", "activations, bytes");
        TraceWriter::printTime(json, "ts", nanoseconds);
        json.attributeObject(
            "args", [&] { json.attribute("bytes", std::llround(kept)); });
      });
    }
  }

  TraceWriter writer;
  const PipelineStep &step;
  const Simulation &simulation;
  std::map<Key, const SimulatedEvent *> computed;
  int64_t arrows = 0;
};
} // namespace

void cleave::printTrace(llvm::raw_ostream &os, const PipelineStep &step,
                        const Simulation &simulation) {
  TracePrinter(os, step, simulation).print();
}
