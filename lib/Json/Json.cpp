//===- Json.cpp - JSON of unknown origin ----------------------------------===//
#include "cleave/Json/Json.h"
#include "llvm/Support/FileSystem.h"

using namespace cleave;

static constexpr uint64_t maxBytes = uint64_t(16) << 20;
static constexpr size_t maxDepth = 64;

static llvm::Error makeError(llvm::StringRef file, const llvm::Twine &message) {
  return llvm::createStringError(file + ": " + message);
}

/// Whether more than `maxDepth` brackets are open at some place. In text that
/// is not JSON the answer may be wrong; the parser then refuses it or stops.
static bool isTooDeep(llvm::StringRef text) {
  size_t depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
      continue;
    }
    inString = c == '"';
    if (c == '[' || c == '{') {
      if (++depth > maxDepth)
        return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::string cleave::quoteNonFinite(llvm::StringRef text) {
  std::string out;
  bool inString = false;
  while (!text.empty()) {
    size_t length = 1;
    if (inString) {
      length = text[0] == '\\' ? std::min<size_t>(2, text.size()) : 1;
      inString = text[0] != '"';
    } else if (text[0] == '"') {
      inString = true;
    } else {
      for (llvm::StringRef word : {"NaN", "Infinity", "-Infinity"})
        if (text.starts_with(word)) {
          out += "\"" + word.str() + "\"";
          text = text.drop_front(word.size());
          length = 0;
          break;
        }
    }
    out += text.take_front(length);
    text = text.drop_front(length);
  }
  return out;
}

llvm::Expected<llvm::json::Value> cleave::parseJson(llvm::StringRef text,
                                                    llvm::StringRef file) {
  if (isTooDeep(text))
    return makeError(file,
                     "nested deeper than " + llvm::Twine(maxDepth) + " levels");
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  if (!root)
    return makeError(file,
                     "not valid JSON: " + llvm::toString(root.takeError()));
  return root;
}

static llvm::Expected<llvm::json::Object>
getObject(llvm::Expected<llvm::json::Value> root, llvm::StringRef file) {
  if (!root)
    return root.takeError();
  if (llvm::json::Object *object = root->getAsObject())
    return std::move(*object);
  return makeError(file, "expects an object");
}

llvm::Expected<llvm::json::Object>
cleave::parseJsonObject(llvm::StringRef text, llvm::StringRef file) {
  return getObject(parseJson(text, file), file);
}

llvm::Expected<llvm::json::Object>
cleave::loadJsonObject(llvm::StringRef path) {
  return getObject(loadJson(path), path);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cleave::loadText(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return makeError(path, error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return makeError(path, "not a regular file");
  if (status.getSize() > maxBytes)
    return makeError(path, llvm::Twine(status.getSize()) +
                               " bytes; legal: at most 16 MiB");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError(path, buffer.getError().message());
  return std::move(*buffer);
}

llvm::Expected<llvm::json::Value> cleave::loadJson(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = loadText(path);
  if (!text)
    return text.takeError();
  return parseJson((*text)->getBuffer(), path);
}
