//===- Trace.cpp - A simulated step for trace viewers ---------------------===//
//
// "Trace Event Format" of Chrome. Perfetto's importer asks for more than that
// text does: ids of threads are unique over all processes and none is 0, and
// slices of a thread may not overlap by as much as a nanosecond.
//
//===----------------------------------------------------------------------===//
#include "cleave/Simulate/Simulate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>
#include <map>

using namespace cleave;

namespace {
enum Stream { compute, messages, reductions };

class TracePrinter {
public:
  TracePrinter(llvm::raw_ostream &os, const PipelineStep &step,
               const Simulation &simulation)
      : os(os), step(step), simulation(simulation) {
    for (const SimulatedEvent &event : simulation.events)
      if (event.kind == SimulatedEvent::Compute)
        computed[getKey(event)] = &event;
  }

  void print() {
    os << R"({"displayTimeUnit":"ms","traceEvents":[)";
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
    os << "\n]}\n";
  }

private:
  using Key = std::tuple<int64_t, PipelineOpKind, int64_t>;

  /// An op by its virtual stage, kind and micro-batch.
  Key getKey(const SimulatedEvent &event) const {
    return {step.shape.getVirtualStage(event.stage, event.op.chunk),
            event.op.kind, event.op.microBatch};
  }
  static int64_t getProcess(int64_t stage) { return 10 * (stage + 1); }
  static int64_t getNanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
  }

  /// One event: phase, stream, and what `rest` writes.
  void event(llvm::StringRef phase, int64_t stage, Stream stream,
             llvm::function_ref<void(llvm::json::OStream &)> rest) {
    os << (isFirst ? "\n" : ",\n");
    isFirst = false;
    llvm::json::OStream json(os);
    json.object([&] {
      json.attribute("ph", phase);
      json.attribute("pid", getProcess(stage));
      json.attribute("tid", getProcess(stage) + stream);
      rest(json);
    });
  }

  void name(llvm::StringRef what, int64_t stage, Stream stream,
            const std::string &text) {
    event("M", stage, stream, [&](llvm::json::OStream &json) {
      json.attribute("name", what.str() + "_name");
      json.attributeObject("args", [&] { json.attribute("name", text); });
    });
    event("M", stage, stream, [&](llvm::json::OStream &json) {
      json.attribute("name", what.str() + "_sort_index");
      json.attributeObject("args", [&] {
        json.attribute("sort_index",
                       what == "process" ? stage : int64_t(stream));
      });
    });
  }

  /// Microseconds of whole nanoseconds.
  static void printTime(llvm::json::OStream &json, llvm::StringRef key,
                        int64_t nanoseconds) {
    json.attributeBegin(key);
    json.rawValue(
        llvm::formatv("{0}.{1,0+3}", nanoseconds / 1000, nanoseconds % 1000)
            .str());
    json.attributeEnd();
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
      int64_t start = getNanoseconds(slice.start);
      json.attribute("name", getLabel(slice));
      printTime(json, "ts", start);
      printTime(json, "dur", getNanoseconds(slice.end) - start);
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
        printTime(json, "ts", getNanoseconds(at.start));
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
        changes[getNanoseconds(event.start)] += bytes;
      else if (event.op.kind != PipelineOpKind::BackwardInput)
        changes[getNanoseconds(event.end)] -= bytes;
    }
    double kept = 0;
    for (auto [nanoseconds, change] : changes) {
      kept += change;
      event("C", stage, compute, [&](llvm::json::OStream &json) {
        json.attribute("name", "activations, bytes");
        printTime(json, "ts", nanoseconds);
        json.attributeObject(
            "args", [&] { json.attribute("bytes", std::llround(kept)); });
      });
    }
  }

  llvm::raw_ostream &os;
  const PipelineStep &step;
  const Simulation &simulation;
  std::map<Key, const SimulatedEvent *> computed;
  int64_t arrows = 0;
  bool isFirst = true;
};
} // namespace

void cleave::printTrace(llvm::raw_ostream &os, const PipelineStep &step,
                        const Simulation &simulation) {
  TracePrinter(os, step, simulation).print();
}
