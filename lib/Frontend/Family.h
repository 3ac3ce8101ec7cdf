//===- Family.h - What one model_type fixes and how it spells the rest ----===//
#ifndef CLEAVE_LIB_FRONTEND_FAMILY_H
#define CLEAVE_LIB_FRONTEND_FAMILY_H

#include "ConfigReader.h"
#include "cleave/Frontend/Facts.h"
#include "cleave/Frontend/Model.h"

namespace cleave::frontend {

/// How a family stores the projections of q, k and v.
enum class QKVLayout {
  Separate,         ///< q_proj, k_proj, v_proj
  Rows,             ///< rows q | k | v                            (Phi-3)
  RowsPerHead,      ///< rows head 0: q, k, v; head 1: q, k, v ... (GPT-NeoX)
  TransposedColumns ///< [in, out], columns q | k | v              (GPT-2)
};

/// A boolean of the config, or a fixed one when `key` is empty.
struct Switch {
  llvm::StringRef key;
  bool otherwise = false;
};

/// Checkpoint names, without ".weight" and ".bias"; `layer` is followed by the
/// layer's number and the names below it.
struct Names {
  llvm::StringRef embedding = "model.embed_tokens";
  llvm::StringRef positions = "";
  llvm::StringRef layer = "model.layers.";
  llvm::StringRef norm1 = "input_layernorm";
  llvm::StringRef norm2 = "post_attention_layernorm";
  llvm::StringRef q = "self_attn.q_proj";
  llvm::StringRef k = "self_attn.k_proj";
  llvm::StringRef v = "self_attn.v_proj";
  llvm::StringRef qkv = ""; ///< unless QKVLayout::Separate
  llvm::StringRef o = "self_attn.o_proj";
  llvm::StringRef qNorm = "self_attn.q_norm";
  llvm::StringRef kNorm = "self_attn.k_norm";
  llvm::StringRef gate = "mlp.gate_proj";
  llvm::StringRef up = "mlp.up_proj"; ///< gate and up if MLPLayout::FusedGate
  llvm::StringRef down = "mlp.down_proj";
  llvm::StringRef finalNorm = "model.norm";
  llvm::StringRef projectIn = "", projectOut = "";
  llvm::StringRef head = "lm_head";
};

/// How a family spells its rotary embedding, beside "rope_scaling" and
/// "rope_parameters", which all share.
struct RopeRule {
  llvm::StringRef theta = "rope_theta";
  llvm::StringRef fraction = "partial_rotary_factor";
  /// Rotated part of a head if the key is absent.
  double defaultFraction = 1;
  /// The family's attention can rotate a part of a head.
  bool partial = false;
  /// Only default and longrope exist, and "su" and "yarn" are old names of
  /// longrope (Phi-3).
  bool longropeOnly = false;
  /// "original_max_position_embeddings" if absent beside the scaling.
  std::optional<int64_t> originalPositions = {};
};

/// What the layout of a checkpoint needs beyond the dims of `Model`.
struct LayoutOptions {
  bool attentionBias = false; ///< q, k and v have biases
  bool outputBias = false;    ///< so does o
  bool mlpBias = false;
  bool finalNorm = true;
  int64_t positionRows = 0;   ///< rows of the learned positions, 0: none
  int64_t embeddingWidth = 0; ///< of the embedding, 0: the hidden size
};

/// What one model_type fixes. Values that stand for an absent key are the
/// defaults of the HuggingFace configuration class of that type.
struct Family {
  FamilyFacts facts;
  Names names = {};

  NormSpec norm = {};
  BlockForm form = BlockForm::PreNorm;
  QKNorm qkNorm = QKNorm::None;
  QKVLayout qkv = QKVLayout::Separate;

  Switch attentionBias = {}; ///< of q, k, v, and o unless outputBias says no
  bool outputBias = true;
  Switch mlpBias = {};

  RopeRule rope = {}; ///< unless positions are learned
  int64_t positionOffset = 0;
  bool paddingRow = true; ///< the embedding has a padding_idx
  std::optional<int64_t> paddingToken = {};

  llvm::StringRef activation = "silu";
  double initializerRange = 0.02;

  /// Keys that have no effect on training in this family alone.
  llvm::ArrayRef<llvm::StringRef> harmless = {};
  /// Keys that its code in transformers reads and that are not supported.
  llvm::ArrayRef<llvm::StringRef> numerics = {};
  /// Reads what only this family has, after everything else is read.
  void (*adjust)(ObjectReader &, Model &, LayoutOptions &) = nullptr;
};

/// The family of a model_type, or nullptr.
const Family *findFamily(llvm::StringRef modelType);

/// The activation that `key` names; reports names that are not supported.
Activation readActivation(ObjectReader &config, llvm::StringRef key,
                          llvm::StringRef otherwise);

/// All model types, comma separated, for messages.
std::string listFamilies();

} // namespace cleave::frontend

#endif // CLEAVE_LIB_FRONTEND_FAMILY_H
