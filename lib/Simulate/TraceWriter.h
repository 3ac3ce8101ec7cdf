//===- TraceWriter.h - Events of a trace viewer's file --------------------===//
//
// "Trace Event Format" of Chrome. Perfetto's importer asks for more than that
// text does: slices of a thread may not overlap by as much as a nanosecond, so
// times are whole ones.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_LIB_SIMULATE_TRACEWRITER_H
#define CLEAVE_LIB_SIMULATE_TRACEWRITER_H

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

namespace cleave {

class TraceWriter {
public:
  using Rest = llvm::function_ref<void(llvm::json::OStream &)>;

  explicit TraceWriter(llvm::raw_ostream &os) : os(os) {
    os << R"({"displayTimeUnit":"ms","traceEvents":[)";
  }
  ~TraceWriter() { os << "\n]}\n"; }
  TraceWriter(const TraceWriter &) = delete;

  /// One event: phase, process, thread, and what `rest` writes.
  void event(llvm::StringRef phase, int64_t process, int64_t thread,
             Rest rest) {
    os << (isFirst ? "\n" : ",\n");
    isFirst = false;
    llvm::json::OStream json(os);
    json.object([&] {
      json.attribute("ph", phase);
      json.attribute("pid", process);
      json.attribute("tid", thread);
      rest(json);
    });
  }

  /// Names a process or a thread, as `what` says.
  void name(const std::string &what, int64_t process, int64_t thread,
            const std::string &text) {
    event("M", process, thread, [&](llvm::json::OStream &json) {
      json.attribute("name", what + "_name");
      json.attributeObject("args", [&] { json.attribute("name", text); });
    });
  }

  static int64_t getNanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
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

private:
  llvm::raw_ostream &os;
  bool isFirst = true;
};

} // namespace cleave

#endif // CLEAVE_LIB_SIMULATE_TRACEWRITER_H
