//===- Facts.h - What a config.json means where it says nothing -----------===//
#ifndef CLEAVE_FRONTEND_FACTS_H
#define CLEAVE_FRONTEND_FACTS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

enum class MLPLayout {
  Gated,     ///< gate_proj, up_proj, down_proj
  FusedGate, ///< rows gate | up of one tensor, down_proj           (Phi-3)
  Plain,     ///< up, down
};

/// Which layers a sliding window applies to if there is no "layer_types".
enum class WindowRule {
  None,
  All,      ///< every layer, unless "sliding_window" is null       (Mistral)
  Switched, ///< every layer with "use_sliding_window"            (Qwen3-MoE)
  Qwen,     ///< the same, from layer "max_window_layers" on
  Even,     ///< layers 0, 2, 4 ...                       (Gemma 2, GPT-OSS)
  Pattern,  ///< all but each "sliding_window_pattern"-th, or 6th  (Gemma 3)
  AllButFourth, ///< all but each 4th                              (OLMo 3)
  EachFourth,   ///< each 4th with "use_sliding_window"           (SmolLM3)
};

/// Spelling of the keys that most families share.
struct Keys {
  llvm::StringRef hidden = "hidden_size";
  llvm::StringRef layers = "num_hidden_layers";
  llvm::StringRef heads = "num_attention_heads";
  llvm::StringRef intermediate = "intermediate_size";
  llvm::StringRef positions = "max_position_embeddings";
  llvm::StringRef normEps = "rms_norm_eps"; ///< empty: always 1e-5
  llvm::StringRef activation = "hidden_act";
  llvm::StringRef initializer = "initializer_range";
};

/// What decides the sizes of one model_type's models: where a config.json says
/// it, and the defaults of the HuggingFace configuration class if it does not.
/// Each reader of configs takes them from here.
struct FamilyFacts {
  llvm::StringRef modelType;
  Keys keys = {};
  /// Also reads hidden, layers, heads and positions as others spell them.
  bool commonKeys = false;
  bool tied = false;
  MLPLayout mlp = MLPLayout::Gated;
  /// Width of the MLP over the hidden size if its key is absent or null; 0:
  /// the key must be there.
  int64_t mlpFactor = 0;
  bool groupedQuery = true;            ///< reads "num_key_value_heads"
  std::optional<int64_t> kvHeads = {}; ///< nothing: as many as heads
  bool readsHeadDim = true;            ///< reads "head_dim"
  std::optional<int64_t> headDim = {}; ///< nothing: hidden / heads
  /// Positions are learned: their key must be there.
  bool learnedPositions = false;
  int64_t positions = 2048; ///< longest sequence; 0: no limit
  WindowRule window = WindowRule::None;
  std::optional<int64_t> slidingWindow = {};
};

/// The facts of a model_type that is compiled, or nullptr.
const FamilyFacts *findFacts(llvm::StringRef modelType);

/// What a config says of its sliding window.
struct WindowKeys {
  bool use = false;          ///< "use_sliding_window"
  int64_t firstSliding = 28; ///< "max_window_layers"
  int64_t pattern = 6;       ///< "sliding_window_pattern"
};

/// Whether each of `layers` layers slides by the rule.
std::vector<bool> getSlidingLayers(WindowRule rule, const WindowKeys &keys,
                                   int64_t layers);

} // namespace cleave

#endif // CLEAVE_FRONTEND_FACTS_H
