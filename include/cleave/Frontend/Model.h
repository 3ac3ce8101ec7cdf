//===- Model.h - What a config.json says, with nothing implied ------------===//
#ifndef CLEAVE_FRONTEND_MODEL_H
#define CLEAVE_FRONTEND_MODEL_H

#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

enum class NormKind { LayerNorm, RMSNorm };

/// A norm's numerics; shared by every norm of the model.
struct NormSpec {
  NormKind kind = NormKind::RMSNorm;
  double eps = 1e-6;
  /// Added to the weight before it multiplies (Gemma: 1).
  double weightOffset = 0;
  /// The weight multiplies in f32, before the downcast (OLMo-2, Gemma).
  bool weightInF32 = false;
  /// Has a bias (LayerNorm of GPT-2, GPT-NeoX).
  bool bias = false;
};

enum class Activation {
  GeluErf,
  GeluTanh,
  GeluFast,
  QuickGelu,
  Silu,
  Relu,
  Relu2
};

/// Rotary position embedding, half-split ("NeoX") style.
struct RopeSpec {
  int64_t dims = 0; ///< leading channels of a head that are rotated
  /// Inverse frequencies, dims / 2 of them, f32 as HuggingFace computes them;
  /// scaling (linear, llama3, yarn, longrope) is already in.
  std::vector<float> inverseFrequencies;
  double attentionScaling = 1; ///< multiplies cos and sin
};

/// How a block adds attention and MLP to the residual stream.
enum class BlockForm {
  PreNorm,   ///< x += attn(norm1 x); x += mlp(norm2 x)
  PostNorm,  ///< x += norm1(attn x); x += norm2(mlp x)       (OLMo-2)
  Parallel,  ///< x += attn(norm1 x) + mlp(norm2 x)           (GPT-NeoX)
  NormedSum, ///< x = norm1(x + attn x); x = norm2(x + mlp x) (OPT-350m)
};

enum class QKNorm {
  None,
  PerHead,   ///< over head_dim, one weight for all heads     (Qwen3)
  FullWidth, ///< over heads * head_dim                       (OLMo-2)
};

/// A part of a checkpoint tensor that is one parameter of the program: the box
/// [starts, starts + sizes) of the tensor seen under the shape `view`, without
/// the dims listed in `drop` (of size 1).
/// E.g. the keys of GPT-2's c_attn.weight [H, 3H]: view [H, 3, A, D],
/// starts [0, 1, 0, 0], sizes [H, 1, A, D], drop [1] -> [H, A, D].
struct Piece {
  std::string tensor;
  std::vector<int64_t> tensorShape;
  std::vector<int64_t> view, starts, sizes;
  std::vector<int64_t> drop;

  /// Shape of the parameter: sizes without the dropped dims.
  std::vector<int64_t> getShape() const;
};

/// One tensor of the checkpoint, as HuggingFace names it.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// y = x W^T + b over the trailing dims. Weight pieces have shape
/// [out dims..., in dims...], or [in dims..., out dims...] when
/// `inputsFirst` (GPT-2's Conv1D). Heads are dims of their own: q is
/// [heads, head_dim, hidden], o is [hidden, heads, head_dim].
struct LinearSpec {
  Piece weight;
  std::optional<Piece> bias; ///< [out dims...]
  bool inputsFirst = false;
};

/// Weights of a norm: [hidden]; for qNorm and kNorm [head_dim] (PerHead) or
/// [heads, head_dim] (FullWidth).
struct NormWeights {
  Piece weight;
  std::optional<Piece> bias;
};

struct LayerSpec {
  NormWeights norm1, norm2; ///< in the order of BlockForm
  LinearSpec q, k, v, o;
  std::optional<NormWeights> qNorm, kNorm;
  std::optional<LinearSpec> gate; ///< gated MLP: down(act(gate x) * up x)
  LinearSpec up, down;
  double attentionScale = 0; ///< multiplies q k^T
  int64_t window = 0;        ///< sliding window of this layer, 0: none
};

/// A dense decoder, ready to be built as a graph.
struct Model {
  std::string modelType;
  std::string configText; ///< the file, verbatim; goes back out with --save

  int64_t vocab = 0, hidden = 0, heads = 0, kvHeads = 0, headDim = 0,
          intermediate = 0, maxPositions = 0;

  /// [vocab, hidden], or [vocab, width] where linears without bias lead from
  /// a width of its own to the hidden size and back (OPT-350m).
  Piece embedding;
  std::optional<LinearSpec> projectIn, projectOut;
  std::optional<Piece> positions; ///< learned, [rows, hidden]
  int64_t positionOffset = 0;     ///< first row used (OPT: 2)
  /// Looking up this token sends no gradient to its row of the embedding
  /// (torch's padding_idx); a tied head still does.
  std::optional<int64_t> paddingToken;
  double embeddingScale = 1; ///< Gemma: sqrt(hidden)
  NormSpec norm;
  std::optional<RopeSpec> rope;
  QKNorm qkNorm = QKNorm::None;
  double residualScale = 1; ///< multiplies attn and mlp (Granite)
  Activation activation = Activation::Silu;
  BlockForm form = BlockForm::PreNorm;
  std::vector<LayerSpec> layers;
  std::optional<NormWeights> finalNorm;
  bool tied = false; ///< the head reads the embedding
  /// Of the head's tensor, which some checkpoints have though it is tied.
  std::string headName;
  std::optional<LinearSpec> head; ///< set unless tied
  double logitScale = 1;          ///< multiplies logits (Granite: 1/s)

  double initializerRange = 0.02;

  /// What the checkpoint stores, spelled as safetensors does: "BF16", "F32".
  std::string checkpointDtype = "F32";
  /// Things a user should know that do not stop the import, one line each,
  /// e.g. that dropout is off.
  std::vector<std::string> notes;

  /// Every tensor of the checkpoint, tied weights once, in model order.
  std::vector<CheckpointTensor> tensors;
  int64_t getParameterCount() const;

  /// Tokens of a training sequence where nobody says how many: the model's
  /// maximum, at most 1024.
  int64_t getDefaultSeqLen() const;
};

struct FrontendOptions {
  /// Length of the training sequences: longrope depends on it, and learned
  /// positions must be as many. 0: Model::getDefaultSeqLen.
  int64_t seqLen = 0;
  /// Refuse keys that nobody reads, instead of a note that names them.
  bool strict = false;
};

/// Every "model_type" that parseModel reads.
std::vector<llvm::StringRef> getModelTypes();

/// Reads a HuggingFace config.json. Errors name the file, the key, its value
/// and what is legal, e.g.
/// `config.json: key "hidden_size": value 65 is not divisible by
///  "num_attention_heads" (4)`.
llvm::Expected<Model> parseModel(llvm::StringRef text, llvm::StringRef file,
                                 const FrontendOptions &options = {});

/// The same, from a file; refuses files over 16 MiB.
llvm::Expected<Model> loadModel(llvm::StringRef path,
                                const FrontendOptions &options = {});

/// {"model_type", "parameters", "tensors": [{"name", "shape", "dtype"}]}
std::string getModelSummary(const Model &model);

} // namespace cleave

#endif // CLEAVE_FRONTEND_MODEL_H
