//===- ChoiceCache.cpp ----------------------------------------------------===//
#include "runtime/cuda/ChoiceCache.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Log.h"
#include "runtime/io/InputFile.h"
#include "runtime/io/OutputFile.h"
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

//===----------------------------------------------------------------------===//
// Where it is
//===----------------------------------------------------------------------===//

/// Empty: nowhere.
static std::string getFolder() {
  if (const char *folder = std::getenv("CLEAVE_CACHE"))
    return folder;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/cleave";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/cleave";
  return "";
}

/// "cuBLASLt-130100-NVIDIA-H200-sm_90.choices"
static std::string getFileName(const std::string &owner) {
  std::string name;
  for (char c : owner)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  while (!name.empty() && name.back() == '-')
    name.pop_back();
  return name + ".choices";
}

namespace {

/// Held while a file of the folder is read, added to and replaced. Where a file
/// system has no locks, of two processes that write in the same moment one has
/// written in vain, and what it has found is found again.
class FolderLock {
public:
  explicit FolderLock(const std::string &folder)
      : fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd >= 0)
      flock(fd, LOCK_EX);
  }
  ~FolderLock() {
    if (fd >= 0)
      close(fd);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int fd;
};

} // namespace

//===----------------------------------------------------------------------===//
// Its text
//===----------------------------------------------------------------------===//

static constexpr std::string_view firstLine = "cleave choices 1";

/// The last line, for all text before it.
static std::string getLastLine(std::string_view text) {
  char line[32];
  std::snprintf(line, sizeof(line), "crc32c %08x\n",
                computeCrc32c(text.data(), text.size()));
  return line;
}

Status ChoiceCache::parse(const std::string &text, Choices &choices) const {
  std::string head = std::string(firstLine) + "\n" + owner + "\n";
  if (!text.starts_with(head))
    return Status::error(path + ": does not begin as the choices of " + owner);
  size_t checked = text.size() - std::min(text.size(), getLastLine("").size());
  if (checked < head.size() ||
      text.substr(checked) !=
          getLastLine(std::string_view(text).substr(0, checked)))
    return Status::error(path + ": does not have the checksum that it ends in");
  Choices all;
  for (size_t begin = head.size(); begin < checked;) {
    size_t tab = text.find('\t', begin), end = text.find('\n', begin);
    if (tab >= end || end >= checked)
      return Status::error(path + ": has a line that is no choice");
    all[text.substr(begin, tab - begin)] = text.substr(tab + 1, end - tab - 1);
    begin = end + 1;
  }
  choices = std::move(all);
  return Status();
}

//===----------------------------------------------------------------------===//
// Its file
//===----------------------------------------------------------------------===//

ChoiceCache::ChoiceCache(std::string owner) : owner(std::move(owner)) {
  std::string folder = getFolder();
  if (folder.empty())
    return;
  path = folder + "/" + getFileName(this->owner);
  if (Status status = read(kept); !status.ok())
    logWarning(status.message() + "; it is not used, and is written anew");
}

Status ChoiceCache::read(Choices &choices) const {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Status();
  InputFile file;
  std::string text;
  CLEAVE_RETURN_IF_ERROR(InputFile::open(path, file));
  constexpr uint64_t most = 64 << 20;
  if (file.getSize() > most)
    return Status::error(path + ": is too large for a file of choices");
  CLEAVE_RETURN_IF_ERROR(file.readAll(text));
  return parse(text, choices);
}

const std::string *ChoiceCache::find(const std::string &name) const {
  auto found = kept.find(name);
  return found == kept.end() ? nullptr : &found->second;
}

void ChoiceCache::add(const std::string &name, const std::string &choice) {
  added[name] = choice;
}

void ChoiceCache::save() {
  if (path.empty() || added.empty())
    return;
  if (Status status = write(); !status.ok())
    logWarning("what was found the fastest is not kept for later runs: " +
               status.message() +
               "; CLEAVE_CACHE names a folder for it, or is empty for none");
  added.clear();
}

Status ChoiceCache::write() const {
  std::string folder = std::filesystem::path(path).parent_path();
  CLEAVE_RETURN_IF_ERROR(createFolder(folder));
  FolderLock lock(folder);
  // Of a file that is not as it should be, nothing is left.
  Choices all;
  (void)read(all);
  for (const auto &[name, choice] : added)
    all[name] = choice;
  std::string text = std::string(firstLine) + "\n" + owner + "\n";
  for (const auto &[name, choice] : all)
    text += name + "\t" + choice + "\n";
  return writeWholeFile(path, text + getLastLine(text));
}
