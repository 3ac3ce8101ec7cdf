//===- Library.h - What all opened libraries have in common ---------------===//
#ifndef CLEAVE_RUNTIME_CUDA_LIBRARY_H
#define CLEAVE_RUNTIME_CUDA_LIBRARY_H

#include <dlfcn.h>
#include <string>
#include <type_traits>

namespace cleave::runtime::cuda {

/// Looks entry points of an opened library up.
class EntryFinder {
public:
  explicit EntryFinder(void *library) : library(library) {}

  template <typename T>
  void operator()(T &entry, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol && !missing)
      missing = name;
    entry = reinterpret_cast<std::decay_t<T>>(symbol);
  }
  /// The first that the library lacks; null: none.
  const char *getMissing() const { return missing; }

private:
  void *library;
  const char *missing = nullptr;
};

/// " at File.cpp:12", for messages of calls that failed.
inline std::string getPlace(const std::string &file, int line) {
  return " at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(line);
}

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_LIBRARY_H
