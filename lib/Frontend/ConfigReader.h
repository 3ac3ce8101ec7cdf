//===- ConfigReader.h - Typed, fully accounted reading of JSON keys -------===//
#ifndef CLEAVE_LIB_FRONTEND_CONFIGREADER_H
#define CLEAVE_LIB_FRONTEND_CONFIGREADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cleave::frontend {

/// An inclusive range of legal integers.
struct IntRange {
  int64_t low, high;
};

/// Legal numbers: low < x <= high, or low <= x <= high when `closed`.
struct NumberRange {
  double low, high;
  bool closed = false;
};

/// The first thing that was wrong with a file; later ones are dropped, since
/// they are often consequences of it. Also the keys that nobody reads.
class Diagnostic {
public:
  /// `strict`: a key that nobody reads is wrong.
  explicit Diagnostic(llvm::StringRef file, bool strict = false)
      : file(file), strict(strict) {}

  /// Records `<file>: <message>` unless something is recorded already.
  void report(const llvm::Twine &message);
  bool failed() const { return !message.empty(); }
  /// The recorded message as an error; success if there is none.
  llvm::Error takeError();

  bool isStrict() const { return strict; }
  /// Keys with their paths that nobody reads, unless strict.
  std::vector<std::string> ignored;

private:
  std::string file, message;
  bool strict;
};

/// Parses JSON text into a document. Refused with one line: text that is not
/// JSON, nesting deeper than 64, two equal keys in one object, over 16 MiB.
llvm::Expected<nlohmann::json> parseJson(llvm::StringRef text,
                                         llvm::StringRef file);

/// A JSON value as one short printable line, for messages.
std::string printValue(const nlohmann::json &value);

/// Reads the keys of one JSON object and remembers which, so that the ones
/// nobody read can be refused. Every getter reports what is wrong with its key
/// and then returns a legal value, so a caller may read on and check once.
class ObjectReader {
public:
  /// `path` names the object in messages: "" for the root, else "key.".
  ObjectReader(const nlohmann::json &object, std::string path,
               Diagnostic &diagnostic);

  /// Present and not null. Does not count as read.
  bool has(llvm::StringRef key) const;
  /// The value, null included, or nullptr if absent. Counts as read.
  const nlohmann::json *find(llvm::StringRef key);

  /// An integer that must be there.
  int64_t getInteger(llvm::StringRef key, IntRange legal);
  /// Absent: `otherwise`. Null: nothing.
  std::optional<int64_t> getInteger(llvm::StringRef key, IntRange legal,
                                    std::optional<int64_t> otherwise);
  /// A number that must be there.
  double requireNumber(llvm::StringRef key, NumberRange legal);
  double getNumber(llvm::StringRef key, NumberRange legal, double otherwise);
  /// Absent or null: nothing.
  std::optional<double> getNumber(llvm::StringRef key, NumberRange legal);
  bool getBool(llvm::StringRef key, bool otherwise);
  /// Absent or null: `otherwise`.
  std::string getString(llvm::StringRef key, llvm::StringRef otherwise);

  /// Reports `key "<path><key>": value <its value> <message>`.
  void fail(llvm::StringRef key, const llvm::Twine &message);
  /// Reports `key "<path><key>" <message>`.
  void failKey(llvm::StringRef key, const llvm::Twine &message);
  bool failed() const { return diagnostic.failed(); }
  Diagnostic &getDiagnostic() { return diagnostic; }

  /// Accounts for the keys that were not read, but for those of value null or
  /// false and those of `harmless`. The first that is one of `numerics`, which
  /// change what a model computes, is reported; the others are ignored, or
  /// reported too if the diagnostic is strict.
  void checkUnread(llvm::ArrayRef<llvm::StringRef> harmless,
                   llvm::ArrayRef<llvm::StringRef> numerics);

private:
  const nlohmann::json &object;
  std::string path;
  Diagnostic &diagnostic;
  std::set<std::string, std::less<>> read;
};

} // namespace cleave::frontend

#endif // CLEAVE_LIB_FRONTEND_CONFIGREADER_H
