//===- Words.h - What the free text of a published run says ---------------===//
#ifndef CLEAVE_LIB_LEDGER_WORDS_H
#define CLEAVE_LIB_LEDGER_WORDS_H

#include "cleave/Cost/Layout.h"
#include "cleave/Hardware/Hardware.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace cleave {

/// Whether `text` has `word` in it, whatever its case.
bool says(llvm::StringRef text, llvm::StringRef word);

/// Whether `text` has the name in it, whatever its case, and not as the start
/// of a longer word: Nemotron is no NeMo, but FSDP2 is FSDP.
bool hasName(llvm::StringRef text, llvm::StringRef name);

/// The first number in `text` after `word`, or 0.
int64_t getNumberAfter(llvm::StringRef text, llvm::StringRef word);

/// The preset of a GPU as sources print it; empty if there is none.
llvm::StringRef getPreset(llvm::StringRef gpu);

/// Gb/s of a node's network as sources print it: "8x400Gb/s", "eight 200Gbps
/// HCAs per node", "1600 Gb/s per node", "800 (Gb/s)", "3.2 Tbps", "HDR
/// 200Gb/s" of each card, "4x HDR", "4 Omni-Path links"; 0 if not stated. GB/s
/// are those of the links inside a node.
double getNodeGigabits(llvm::StringRef text, int64_t devicesPerNode);

/// The type of matrix products, the first that is named of FP8 and FP4; none of
/// "fp32", which may be TF32 or not.
std::optional<DType> getProductType(llvm::StringRef precision);

/// ZeRO's stage; nothing if the text says none that is known, or an offload,
/// which is not priced.
std::optional<int> getZeroStage(llvm::StringRef text);

/// ZeRO's stage of a run that does not say it: what its stack does unless it is
/// told otherwise.
int getUsualZeroStage(llvm::StringRef software);

/// Whether a stack's recipes interleave all blocks of a stage where a run does
/// not say how many virtual stages it has: NeMo's ("set to maximum").
bool interleavesUsually(llvm::StringRef software);

/// What is repeated before the backward pass, of all that a framework may call
/// it: "full", "selective ...", "activation checkpointing"; nothing if the text
/// says none of them. None without a text.
std::optional<Recompute> getRecompute(llvm::StringRef text);

/// What a policy of MaxText ("selective[maxtext save_qkv_proj]") repeats;
/// nothing if none is known by that name.
std::optional<unsigned> getMaxTextModules(llvm::StringRef text);

/// Nothing if the text says a schedule that is not known.
std::optional<Schedule> getSchedule(llvm::StringRef text, bool virtualStages);

/// The generation of attention kernel that a text names; empty if none.
llvm::StringRef getAttentionKernel(llvm::StringRef text);

/// Whether a whole array of logits is in memory at the loss: not if the text
/// says that it is computed in chunks (Liger, cut cross-entropy).
bool keepsLogits(llvm::StringRef text);

/// The month, "2024-05", of a date as sources print it: itself, a release,
/// "24.05", or a year, which is taken as its end.
std::string getMonth(llvm::StringRef date);

/// Whether frameworks used this attention kernel at a date as sources print it.
bool wasAttentionKernel(llvm::StringRef kernel, llvm::StringRef date);

} // namespace cleave

#endif // CLEAVE_LIB_LEDGER_WORDS_H
