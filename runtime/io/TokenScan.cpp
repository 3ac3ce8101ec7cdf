//===- TokenScan.cpp ------------------------------------------------------===//
#include "runtime/io/TokenScan.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Crc32c.h"
#include "runtime/io/OutputFile.h"
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

using namespace cleave::runtime;
using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// What was found
//===----------------------------------------------------------------------===//

Status TokenRange::check(const std::string &path, uint64_t vocab) const {
  if (tokens > 0 && lowest < 0)
    return makeTokenError(path, lowestAt, lowest, vocab);
  if (tokens > 0 && highest >= 0 && uint64_t(highest) >= vocab)
    return makeTokenError(path, highestAt, highest, vocab);
  return {};
}

std::string cleave::runtime::getScanPath(const IndexedDataset &dataset) {
  return std::filesystem::path(dataset.getPath())
      .replace_extension(".scan.json")
      .string();
}

/// What a result says of the files that it is about.
static Status describeFiles(const IndexedDataset &dataset, Json &object) {
  uint32_t sample = 0;
  CLEAVE_RETURN_IF_ERROR(dataset.getFile().computeSampleChecksum(sample));
  object = Json{{"version", 1},
                {"bytes", dataset.getFile().getSize()},
                {"modified_ns", dataset.getFile().getModifiedNs()},
                {"index_crc32c", dataset.getIndexChecksum()},
                {"sample_crc32c", sample},
                {"tokens", dataset.getTokenCount()}};
  return {};
}

/// Its last key, the checksum of what is before it.
static void addChecksum(Json &object) {
  std::string text = object.dump();
  object["crc32c"] = computeCrc32c(text.data(), text.size());
}

static void addRange(Json &object, const TokenRange &range) {
  object["lowest"] = Json{{"id", range.lowest}, {"at", range.lowestAt}};
  object["highest"] = Json{{"id", range.highest}, {"at", range.highestAt}};
}

bool cleave::runtime::readScan(const IndexedDataset &dataset,
                               TokenRange &range) {
  InputFile file;
  std::string text;
  constexpr uint64_t mostBytes = 4096;
  if (!InputFile::open(getScanPath(dataset), file).ok() ||
      file.getSize() > mostBytes || !file.readAll(text).ok())
    return false;
  Json read = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  TokenRange result;
  auto take = [&](const char *which, int64_t &id, uint64_t &at) {
    if (!read.is_object() || !read.contains(which) ||
        !read[which].is_object() || !read[which].contains("id") ||
        !read[which]["id"].is_number_integer() || !read[which].contains("at") ||
        !read[which]["at"].is_number_unsigned())
      return false;
    id = read[which]["id"].get<int64_t>();
    at = read[which]["at"].get<uint64_t>();
    return true;
  };
  if (!take("lowest", result.lowest, result.lowestAt) ||
      !take("highest", result.highest, result.highestAt))
    return false;
  // One that says so of these files would be equal to this one.
  result.tokens = dataset.getTokenCount();
  Json expected;
  if (!describeFiles(dataset, expected).ok())
    return false;
  addRange(expected, result);
  addChecksum(expected);
  if (read != expected)
    return false;
  range = result;
  return true;
}

Status cleave::runtime::writeScan(const IndexedDataset &dataset,
                                  const TokenRange &range) {
  Json object;
  CLEAVE_RETURN_IF_ERROR(describeFiles(dataset, object));
  addRange(object, range);
  addChecksum(object);
  return writeWholeFile(getScanPath(dataset), object.dump() + "\n");
}

//===----------------------------------------------------------------------===//
// TokenScan
//===----------------------------------------------------------------------===//

namespace {

/// Whether no token of the file can be outside of [0, vocab).
bool isAlwaysLegal(const IndexedDataset &dataset, uint64_t vocab) {
  const DatasetIndex &index = dataset.getIndex();
  return dataset.getTokenCount() == 0 ||
         (!index.isSigned && vocab >> (8 * index.tokenBytes) > 0);
}
bool isAlwaysLegal(const Text &, uint64_t vocab) {
  return vocab > 0xf4; // the highest byte of UTF-8
}

bool readKept(const IndexedDataset &dataset, TokenRange &range) {
  return readScan(dataset, range);
}
bool readKept(const Text &, TokenRange &) { return false; }

Status keep(const IndexedDataset &dataset, const TokenRange &range) {
  return writeScan(dataset, range);
}
/// Found again in the time that checking its UTF-8 takes.
Status keep(const Text &, const TokenRange &) { return {}; }

/// Gives way to every other thread: for cores, and for the disk. Each is only a
/// courtesy, and may be refused.
void lowerPriority() {
  constexpr int whoProcess = 1, idleClass = 3 << 13; // linux/ioprio.h
  sched_param parameters = {};
  ::sched_setscheduler(0, SCHED_IDLE, &parameters);
  ::syscall(SYS_ioprio_set, whoProcess, 0, idleClass);
}

} // namespace

TokenScan::TokenScan(const TokenStream &stream, uint64_t vocab)
    : stream(stream), vocab(vocab) {}

Status TokenScan::start(const TokenStream &stream, uint64_t vocab,
                        std::unique_ptr<TokenScan> &scan) {
  std::unique_ptr<TokenScan> result(new TokenScan(stream, vocab));
  try {
    result->thread = std::thread([scan = result.get()] {
      lowerPriority();
      scan->report(catchExceptions([&] { return scan->run(); }));
    });
  } catch (const std::system_error &error) {
    return Status::error("cannot start the thread that checks the data: " +
                         std::string(error.what()));
  }
  scan = std::move(result);
  return {};
}

TokenScan::~TokenScan() {
  stopping.store(true);
  if (thread.joinable())
    thread.join();
}

Status TokenScan::poll() const {
  if (!failed.load(std::memory_order_acquire))
    return {};
  std::lock_guard<std::mutex> lock(mutex);
  return failure;
}

std::vector<std::string> TokenScan::takeNotes() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(notes, {});
}

void TokenScan::report(const Status &status) {
  if (status.ok() || failed.load())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  failure = status;
  failed.store(true, std::memory_order_release);
}

template <typename T, typename File, typename Read>
Status TokenScan::scanAs(const File &file, TokenRange &range, Read &&read) {
  std::vector<T> ids(1 << 16);
  while (range.tokens < file.getTokenCount() && !stopping.load()) {
    uint64_t count =
        std::min<uint64_t>(ids.size(), file.getTokenCount() - range.tokens);
    CLEAVE_RETURN_IF_ERROR(read(range.tokens, count, ids.data()));
    range.add(ids.data(), count);
    report(range.check(file.getPath(), vocab));
  }
  return {};
}

Status TokenScan::scan(const IndexedDataset &dataset, TokenRange &range) {
  // As narrow as they are: several times as fast as widened.
  auto read = [&](uint64_t first, uint64_t count, void *out) {
    return dataset.readRaw(first, count, out);
  };
  bool isSigned = dataset.getIndex().isSigned;
  switch (dataset.getIndex().tokenBytes) {
  case 1:
    return isSigned ? scanAs<int8_t>(dataset, range, read)
                    : scanAs<uint8_t>(dataset, range, read);
  case 2:
    return isSigned ? scanAs<int16_t>(dataset, range, read)
                    : scanAs<uint16_t>(dataset, range, read);
  case 4:
    return scanAs<int32_t>(dataset, range, read);
  default:
    return scanAs<int64_t>(dataset, range, read);
  }
}

Status TokenScan::scan(const Text &text, TokenRange &range) {
  return scanAs<uint8_t>(text, range,
                         [&](uint64_t first, uint64_t count, void *out) {
                           return text.getFile().read(first, count, out);
                         });
}

Status TokenScan::run() {
  // 1. What is known already: a bad file among many is then told at once.
  std::vector<const TokenStream::File *> rest;
  for (const auto &file : stream.getFiles())
    std::visit(
        [&](const auto &f) {
          TokenRange range;
          if (isAlwaysLegal(f, vocab))
            return;
          if (readKept(f, range))
            report(range.check(f.getPath(), vocab));
          else
            rest.push_back(file.get());
        },
        *file);
  // 2. The others, token by token, to the end even after a bad one: what is
  // kept serves other vocabularies.
  for (const TokenStream::File *file : rest)
    std::visit(
        [&](const auto &f) {
          TokenRange range;
          Status status = scan(f, range);
          report(status);
          if (!status.ok() || stopping.load())
            return;
          if (Status kept = keep(f, range); !kept.ok()) {
            std::lock_guard<std::mutex> lock(mutex);
            notes.push_back("all tokens were checked, but the result is not "
                            "kept for later runs: " +
                            kept.message());
          }
        },
        *file);
  done.store(!stopping.load());
  return {};
}
