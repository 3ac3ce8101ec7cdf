//===- Json.h - JSON of unknown origin ------------------------------------===//
#ifndef CLEAVE_JSON_JSON_H
#define CLEAVE_JSON_JSON_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace cleave {

/// `text` with the numbers that Python writes and JSON does not know, NaN,
/// Infinity and -Infinity, as strings: who reads the key then says what is
/// wrong, and who does not read it is not stopped by it.
std::string quoteNonFinite(llvm::StringRef text);

/// Parses `text`, which is said to come from `file`. Refuses what would make
/// the recursive parser overflow the stack: nesting deeper than 64.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text,
                                            llvm::StringRef file);

/// The same; refuses what is not an object.
llvm::Expected<llvm::json::Object> parseJsonObject(llvm::StringRef text,
                                                   llvm::StringRef file);

/// The text of a file; refuses what is not a regular file, and files over
/// 16 MiB.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
loadText(llvm::StringRef path);

/// Each of a file that loadText reads.
llvm::Expected<llvm::json::Value> loadJson(llvm::StringRef path);
llvm::Expected<llvm::json::Object> loadJsonObject(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_JSON_JSON_H
