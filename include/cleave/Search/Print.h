//===- Print.h - Priced layouts as a table or JSON ------------------------===//
#ifndef CLEAVE_SEARCH_PRINT_H
#define CLEAVE_SEARCH_PRINT_H

#include "cleave/Search/Search.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// What was priced, and for whom.
struct PlanContext {
  const Architecture &model;
  const Machine &machine;
  const SearchRequest &request;

  /// Tokens of a step by its seconds, on one device of the layout.
  double getTokensPerSecond(const Candidate &candidate) const;
  /// Model FLOPs (6 for each weight that a token meets and its causal
  /// attention, without what is recomputed) by what the devices could do in the
  /// type.
  double getMFU(const Candidate &candidate) const;
  /// What that counts and what it is a share of, in words.
  std::string getMFUConvention() const;
  bool fits(const Candidate &candidate) const;
  int64_t getMicroBatches(const Candidate &candidate) const;
};

/// What JSON calls a field of a layout: with underscores for its dashes.
std::string getLayoutKey(llvm::StringRef field);
llvm::json::Object toJSON(const TrainLayout &layout);
llvm::json::Object toJSON(const PlanContext &context,
                          const Candidate &candidate);
/// `seconds` is the only part that differs from run to run; it may be left out.
llvm::json::Object toJSON(const PlanContext &context,
                          const SearchResult &result, bool withSeconds);

/// The software that is to run it, and what it cannot.
void printProfile(llvm::raw_ostream &os, const PlanContext &context);
void printCandidate(llvm::raw_ostream &os, const PlanContext &context,
                    const Candidate &candidate);
/// One line for each, with a header.
void printCandidates(llvm::raw_ostream &os, const PlanContext &context,
                     llvm::ArrayRef<Candidate> candidates);
/// Why there is no better layout, in one sentence.
std::string getProof(const PlanContext &context, const SearchResult &result);
/// The same with the seconds that it took.
void printProof(llvm::raw_ostream &os, const PlanContext &context,
                const SearchResult &result);

/// Reads the keys of `toJSON`; absent ones keep their defaults, but dp and the
/// micro-batch, which are then 0, and the chunks of a V-shaped schedule, which
/// are two.
llvm::Expected<TrainLayout> readLayout(const llvm::json::Object &object);

/// Fills in what is 0: dp, what is left of the devices, and the micro-batch
/// (see getDefaultMicroBatch).
void completeLayout(TrainLayout &layout, const Workload &work,
                    int64_t devices = 0);

} // namespace cleave

#endif // CLEAVE_SEARCH_PRINT_H
