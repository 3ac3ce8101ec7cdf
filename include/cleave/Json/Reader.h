//===- Reader.h - The first thing that is wrong with a file ---------------===//
#ifndef CLEAVE_JSON_READER_H
#define CLEAVE_JSON_READER_H

#include "llvm/Support/JSON.h"
#include <optional>
#include <string>

namespace cleave {

/// Reads the keys of a file's objects. After the first error values are made
/// up, so that what reads a file has no branch for each key; takeError() is
/// asked at the end. `path` is where an object is in the file: "" or "a.b.".
class JsonReader {
public:
  explicit JsonReader(llvm::StringRef file) : file(file) {}

  /// FILE: key "PATH": expects WHAT, got VALUE
  void fail(const llvm::Twine &path, const llvm::Twine &what,
            const llvm::json::Value *got);
  void fail(llvm::Error error);
  llvm::Error takeError() const;
  bool hasFailed() const { return !message.empty(); }
  llvm::StringRef getFile() const { return file; }

  /// Refuses keys that are not among `legal`.
  void checkKeys(const llvm::json::Object &in, const std::string &path,
                 llvm::ArrayRef<llvm::StringRef> legal);
  void checkVersion(const llvm::json::Object &in, int64_t version = 1);

  const llvm::json::Object &getObject(const llvm::json::Object &in,
                                      llvm::StringRef key,
                                      const std::string &path);
  std::string getString(const llvm::json::Object &in, llvm::StringRef key,
                        const std::string &path);
  bool getFlag(const llvm::json::Object &in, llvm::StringRef key,
               const std::string &path, bool absent);
  /// A whole number in [least, most]; `absent` where there is no such key.
  int64_t getCount(const llvm::json::Object &in, llvm::StringRef key,
                   const std::string &path, int64_t least, int64_t most,
                   std::optional<int64_t> absent = std::nullopt);
  double getNumber(const llvm::json::Object &in, llvm::StringRef key,
                   const std::string &path, double least, double most,
                   std::optional<double> absent = std::nullopt);

  /// {"value": V, "unit": U, "source": S}: V in [least, most], U as given, S
  /// any text.
  double getConstant(const llvm::json::Object &in, llvm::StringRef key,
                     llvm::StringRef unit, const std::string &path,
                     double least = 0, double most = 1e30,
                     std::optional<double> absent = std::nullopt);
  /// The same, with ascending pairs [ranks, positive number] as the value.
  std::vector<std::pair<int64_t, double>> getTable(const llvm::json::Object &in,
                                                   llvm::StringRef key,
                                                   llvm::StringRef unit,
                                                   const std::string &path);

private:
  /// The object of a constant, if its unit and source are right.
  const llvm::json::Object *getMeasured(const llvm::json::Object &in,
                                        llvm::StringRef key,
                                        llvm::StringRef unit,
                                        const std::string &path);

  std::string file, message;
};

} // namespace cleave

#endif // CLEAVE_JSON_READER_H
