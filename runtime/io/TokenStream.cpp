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
      result.files.emplace_back(std::move(dataset));
    } else {
      Text text;
      CLEAVE_RETURN_IF_ERROR(Text::open(path, text));
      count = text.getTokenCount();
      result.files.emplace_back(std::move(text));
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
        files[file]));
    for (uint64_t i = 0; i < here; ++i) {
      if (wide[i] < 0 || static_cast<uint64_t>(wide[i]) >= vocab)
        return Status::error(
            std::visit([](const auto &f) { return f.getPath(); }, files[file]) +
            ": token " + std::to_string(local + i) + " has id " +
            std::to_string(wide[i]) + "; the model's vocabulary is 0 to " +
            std::to_string(vocab - 1));
      out[i] = static_cast<int32_t>(wide[i]);
    }
    out += here;
    first += here;
    count -= here;
  }
  return {};
}
