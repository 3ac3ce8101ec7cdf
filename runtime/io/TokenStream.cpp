//===- TokenStream.cpp ----------------------------------------------------===//
#include "runtime/io/TokenStream.h"
#include <algorithm>
#include <filesystem>

using namespace cleave::runtime;
namespace fs = std::filesystem;

/// Whether `path` means a Megatron dataset, and which.
static bool getDatasetPrefix(const std::string &path, std::string &prefix) {
  fs::path file(path);
  if (file.extension() == ".idx" || file.extension() == ".bin") {
    prefix = file.replace_extension().string();
    return true;
  }
  prefix = path;
  std::error_code error;
  return fs::exists(path + ".idx", error);
}

Status cleave::runtime::makeTokenError(const std::string &path,
                                       uint64_t position, int64_t id,
                                       uint64_t vocab) {
  return Status::error(path + ": token " + std::to_string(position) +
                       " has id " + std::to_string(id) +
                       "; the model's vocabulary is 0 to " +
                       std::to_string(vocab - 1));
}

Status TokenStream::open(const std::vector<std::string> &paths,
                         TokenStream &stream) {
  TokenStream result;
  for (const std::string &path : paths) {
    std::string prefix;
    uint64_t count;
    if (getDatasetPrefix(path, prefix)) {
      IndexedDataset dataset;
      CLEAVE_RETURN_IF_ERROR(IndexedDataset::open(prefix, dataset));
      count = dataset.getTokenCount();
      result.files.push_back(std::make_shared<const File>(std::move(dataset)));
    } else {
      Text text;
      CLEAVE_RETURN_IF_ERROR(Text::open(path, text));
      count = text.getTokenCount();
      result.files.push_back(std::make_shared<const File>(std::move(text)));
    }
    result.starts.push_back(result.starts.back() + count);
  }
  stream = std::move(result);
  return {};
}

Status TokenStream::read(uint64_t first, uint64_t count, uint64_t vocab,
                         int32_t *out) const {
  std::vector<int64_t> wide;
  size_t file = std::upper_bound(starts.begin(), starts.end(), first) -
                starts.begin() - 1;
  for (; count > 0; ++file) {
    uint64_t local = first - starts[file];
    uint64_t here = std::min(count, starts[file + 1] - first);
    wide.resize(here);
    CLEAVE_RETURN_IF_ERROR(std::visit(
        [&](const auto &f) { return f.read(local, here, wide.data()); },
        *files[file]));
    for (uint64_t i = 0; i < here; ++i) {
      if (wide[i] < 0 || static_cast<uint64_t>(wide[i]) >= vocab)
        return makeTokenError(
            std::visit([](const auto &f) { return f.getPath(); }, *files[file]),
            local + i, wide[i], vocab);
      out[i] = static_cast<int32_t>(wide[i]);
    }
    out += here;
    first += here;
    count -= here;
  }
  return {};
}

Status TokenStream::describe(std::vector<DataIdentity> &identities) const {
  std::vector<DataIdentity> result;
  for (const auto &file : files) {
    const InputFile &bytes = std::visit(
        [](const auto &f) -> const InputFile & { return f.getFile(); }, *file);
    DataIdentity identity;
    CLEAVE_RETURN_IF_ERROR(bytes.describe(identity));
    identity.tokens =
        std::visit([](const auto &f) { return f.getTokenCount(); }, *file);
    if (const auto *dataset = std::get_if<IndexedDataset>(file.get()))
      identity.indexChecksum = dataset->getIndexChecksum();
    result.push_back(std::move(identity));
  }
  identities = std::move(result);
  return {};
}
