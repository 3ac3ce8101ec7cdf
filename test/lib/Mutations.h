//===- Mutations.h - Damaged files for the readers of JSON ----------------===//
#ifndef CLEAVE_TEST_LIB_MUTATIONS_H
#define CLEAVE_TEST_LIB_MUTATIONS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Signals.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>

namespace cleave::test {

/// Changes documents, each number the same change in every run.
class Mutator {
public:
  explicit Mutator(std::vector<llvm::json::Value> documents)
      : documents(std::move(documents)) {}

  /// One to four changes to one of the documents; of every fourth also to its
  /// bytes.
  std::string mutate(uint64_t number) {
    random.seed(number * 0x9e3779b97f4a7c15);
    llvm::json::Value value = documents[pick(documents.size())];
    size_t changes = 1 + pick(4);
    for (size_t i = 0; i != changes; ++i)
      mutateValue(value);
    std::string text = llvm::formatv("{0}", value);
    if (number % 4 == 0)
      mutateBytes(text);
    return text;
  }

private:
  size_t pick(size_t count) { return random() % count; }

  llvm::json::Value makeValue() {
    static const llvm::json::Value values =
        llvm::cantFail(llvm::json::parse(R"([
      null, true, false, 0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 4096, 16384, -1,
      1000000, 16777216, 2147483647, 9223372036854775807, 1e3, 0.25, 0.5, 1.5,
      1e-300, 1e-18, 1e18, 1e300, "", "x", "1", "none", "full", "selective",
      "selective[core_attn", "selective[moe,zz]", "recompute", "ZB-V",
      "ZB-1p", "ZB-2p", "interleaved", "GPipe", "zb-v", "zb-h2", "gpipe",
      "ring", "ulysses", "even", "tp-pp-dp-cp", "ZeRO-3", "HSDP groups of 3",
      "shard 0", "first 5 layers dense", "every 2nd layer, MLA",
      "sliding-window(128), first 3", "99999999999999999999 Gb/s",
      "8x400Gb/s", "FP8", "FP4", "h100-sxm", "b200", "v100-32", "A100", "GB200",
      "ib-ndr400", "tp=3", "pp>100", "recompute-modules=norms", [], [[]],
      [1], [[2, 1e9]], [[3, 1e9], [2, 1]], {}, {"base": "h100-sxm"},
      {"base": "nvlink4"}, {"value": 1e30, "unit": "byte/s", "source": ""}
    ])"));
    const llvm::json::Array &array = *values.getAsArray();
    return array[pick(array.size())];
  }

  /// Of an object or array one below it, of others the value itself.
  llvm::json::Value *pickInside(llvm::json::Value &value) {
    if (llvm::json::Object *object = value.getAsObject()) {
      if (object->empty())
        return &value;
      auto at = object->begin();
      std::advance(at, pick(object->size()));
      return &at->second;
    }
    if (llvm::json::Array *array = value.getAsArray(); array && !array->empty())
      return &(*array)[pick(array->size())];
    return &value;
  }

  void mutateValue(llvm::json::Value &root) {
    // Somewhere below the root, mostly at the bottom.
    llvm::json::Value *parent = &root, *at = pickInside(root);
    for (size_t left = pick(6); left != 0; --left) {
      llvm::json::Value *next = pickInside(*at);
      if (next == at)
        break;
      parent = at;
      at = next;
    }
    switch (pick(6)) {
    case 0:
    case 1:
      *at = makeValue();
      return;
    case 2: // a number that is a little off, or another power
      if (std::optional<int64_t> number = at->getAsInteger())
        *at = pick(2) ? int64_t(uint64_t(*number) + pick(5) - 2)
                      : int64_t(uint64_t(*number) << pick(16));
      else if (std::optional<double> real = at->getAsNumber())
        *at = *real * std::pow(10., double(pick(40)) - 20);
      return;
    case 3: // two values of an object change places
      std::swap(*at, *pickInside(*parent));
      return;
    case 4: // a key goes, or is another's
      if (llvm::json::Object *object = parent->getAsObject();
          object && !object->empty()) {
        auto key = object->begin();
        std::advance(key, pick(object->size()));
        object->erase(key);
      }
      return;
    case 5: // a part of another document
      *at = *pickInside(documents[pick(documents.size())]);
      return;
    }
  }

  void mutateBytes(std::string &text) {
    size_t at = pick(text.size());
    switch (pick(4)) {
    case 0:
      text[at] = char(random());
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      text.erase(at, 1 + pick(8));
      break;
    case 3:
      text.insert(at, text.substr(pick(text.size()), 8));
      break;
    }
  }

  std::vector<llvm::json::Value> documents;
  std::mt19937_64 random;
};

/// Calls `accepts` with damaged documents: as many as CLEAVE_MUTANTS says, or
/// `usually`. It must return within 10 s, and some must be accepted, others
/// refused. A mutant that ends the program is printed by the signal's handler.
inline void runMutants(std::vector<llvm::json::Value> documents,
                       uint64_t usually,
                       llvm::function_ref<bool(llvm::StringRef)> accepts) {
  llvm::EnablePrettyStackTrace();
  llvm::sys::PrintStackTraceOnErrorSignal("");
  const char *said = std::getenv("CLEAVE_MUTANTS");
  uint64_t count = said ? std::strtoull(said, nullptr, 10) : usually;
  Mutator mutator(std::move(documents));
  uint64_t accepted = 0;
  double longest = 0;
  for (uint64_t i = 0; i != count && !testing::Test::HasFatalFailure(); ++i) {
    std::string text = mutator.mutate(i);
    SCOPED_TRACE("mutant " + std::to_string(i) + ": " + text);
    std::string shown =
        "mutant " + std::to_string(i) + ": " + text.substr(0, 4000) + "\n";
    llvm::PrettyStackTraceString trace(shown.c_str());
    auto begin = std::chrono::steady_clock::now();
    accepted += accepts(text);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    longest = std::max(longest, seconds);
    ASSERT_LT(seconds, 10);
  }
  // Enough of both, or the mutations miss what is behind the reader.
  EXPECT_GT(accepted, count / 20);
  EXPECT_LT(accepted, count * 19 / 20);
  std::cout << count << " damaged files: " << accepted
            << " accepted, the others refused; the longest took " << longest
            << " s\n";
}

/// One line, which a terminal can show.
inline void expectLine(llvm::StringRef error) {
  EXPECT_FALSE(error.empty());
  EXPECT_LT(error.size(), 4000u);
  for (char c : error)
    ASSERT_TRUE(c >= ' ') << error.str();
}

} // namespace cleave::test

#endif // CLEAVE_TEST_LIB_MUTATIONS_H
