//===- TestFiles.h - Files that live as long as a test --------------------===//
#ifndef CLEAVE_TEST_RUNTIME_IO_TESTFILES_H
#define CLEAVE_TEST_RUNTIME_IO_TESTFILES_H

#include "runtime/base/Status.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <string>

/// A folder of its own, gone at the end of the scope.
class TestFolder {
public:
  TestFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cleave-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path); }

  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  /// Writes a file and returns its path.
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }
  /// Names of all that is in it, with spaces between.
  std::string list() const {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(path))
      names.insert(entry.path().filename().string());
    std::string text;
    for (const std::string &name : names)
      text += (text.empty() ? "" : " ") + name;
    return text;
  }

  std::string path;
};

inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `value`'s bytes, little-endian.
template <typename T>
std::string toBytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// A .safetensors file of this header and data.
inline std::string makeSafetensors(const std::string &header,
                                   const std::string &data) {
  return toBytes(uint64_t(header.size())) + header + data;
}

#define EXPECT_OK(expression)                                                  \
  do {                                                                         \
    ::cleave::runtime::Status status_ = (expression);                          \
    EXPECT_TRUE(status_.ok()) << status_.message();                            \
  } while (false)
#define ASSERT_OK(expression)                                                  \
  do {                                                                         \
    ::cleave::runtime::Status status_ = (expression);                          \
    ASSERT_TRUE(status_.ok()) << status_.message();                            \
  } while (false)
/// Fails with a message that has `part` in it.
#define EXPECT_ERROR(expression, part)                                         \
  do {                                                                         \
    ::cleave::runtime::Status status_ = (expression);                          \
    EXPECT_FALSE(status_.ok());                                                \
    EXPECT_NE(status_.message().find(part), std::string::npos)                 \
        << status_.message();                                                  \
  } while (false)

#endif // CLEAVE_TEST_RUNTIME_IO_TESTFILES_H
