//===- Layout.cpp - Names of choices --------------------------------------===//
#include "cleave/Cost/Layout.h"

using namespace cleave;

llvm::StringRef cleave::getName(Schedule schedule) {
  static constexpr llvm::StringRef names[] = {"gpipe", "1f1b",  "interleaved",
                                              "zb-h1", "zb-h2", "zb-v"};
  return names[size_t(schedule)];
}

llvm::StringRef cleave::getName(ContextKind kind) {
  static constexpr llvm::StringRef names[] = {"all-gather", "ring", "ulysses"};
  return names[size_t(kind)];
}

llvm::StringRef cleave::getName(Recompute recompute) {
  static constexpr llvm::StringRef names[] = {"none", "selective", "full"};
  return names[size_t(recompute)];
}
