//===- Library.h - What all opened libraries have in common ---------------===//
#ifndef CLEAVE_RUNTIME_CUDA_LIBRARY_H
#define CLEAVE_RUNTIME_CUDA_LIBRARY_H

#include <dlfcn.h>
#include <span>
#include <string>
#include <string_view>
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

/// An entry point, as the tables of the *Api.h name it and as the library does.
struct EntryName {
  std::string_view ours, symbol;
};

/// How a message about a call that failed begins: "cuMemAlloc failed at
/// Driver.cpp:12: " for our "memAlloc(&address, bytes)". The driver's symbols
/// end in a version that its documentation leaves out.
inline std::string describeFailure(std::string_view call,
                                   std::span<const EntryName> names,
                                   const std::string &file, int line) {
  call = call.substr(0, call.find('('));
  for (const EntryName &name : names)
    if (name.ours == call)
      call = name.symbol;
  if (call.ends_with("_v2"))
    call.remove_suffix(3);
  return std::string(call) + " failed at " + file.substr(file.rfind('/') + 1) +
         ":" + std::to_string(line) + ": ";
}

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_LIBRARY_H
