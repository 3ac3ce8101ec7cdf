//===- Architecture.h - What the cost of a decoder depends on -------------===//
#ifndef CLEAVE_COST_ARCHITECTURE_H
#define CLEAVE_COST_ARCHITECTURE_H

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// One decoder block, by its sizes.
struct Block {
  int64_t heads = 0, kvHeads = 0;
  int64_t headDim = 0;  ///< of queries and keys
  int64_t valueDim = 0; ///< of values
  /// Multi-head latent attention (DeepSeek-V2): ranks of the compressed
  /// queries (0: not compressed) and keys with values (0: plain attention),
  /// and the channels of a key that all heads share.
  int64_t queryRank = 0, latentRank = 0, sharedKeyDim = 0;
  int64_t window = 0; ///< sliding window, 0: none
  int64_t chunk = 0;  ///< attention inside chunks of so many tokens, 0: none
  /// Norms of queries and keys: of each head, or of all channels together.
  enum class HeadNorm : uint8_t { None, Each, Whole };
  HeadNorm headNorm = HeadNorm::None;
  /// Whether norms read what the block's last product gives, and not only what
  /// branches read.
  bool normsAfter = false;
  bool gated = true; ///< gated MLP: three matrices, not two
  int64_t ffn = 0;   ///< width of the dense MLP; 0 in a block of experts
  int64_t experts = 0, expertsPerToken = 0, expertFfn = 0;
  int64_t sharedFfn = 0; ///< total width of the experts that see every token
  /// Elements of biases and norms, and how many these are; two norms of the
  /// hidden size left out.
  int64_t vectors = 0, vectorTensors = 0;

  bool isSparse() const { return experts > 0; }
  /// Query-key pairs of a head and a sequence that its mask leaves.
  double getPairs(int64_t seqLen) const;
  /// Weights of one token's path: attention; dense MLP or shared experts.
  double getAttentionParameters(int64_t hidden) const;
  double getDenseParameters(int64_t hidden) const;
  /// Weights of all routed experts, the router not included.
  double getExpertParameters(int64_t hidden) const;
  double getRouterParameters(int64_t hidden) const;
  /// Matrices, and the elements of the largest that every token meets.
  int64_t getMatrices() const;
  double getLargestTensor(int64_t hidden) const;
  /// All weights of the block, norms and biases included.
  double getParameters(int64_t hidden) const;

  bool operator==(const Block &) const = default;
};

/// Runs of equal blocks, in order.
struct BlockRun {
  Block block;
  int64_t count = 0;
};

struct Architecture {
  std::string name;
  int64_t hidden = 0, vocab = 0;
  bool tied = false; ///< the head is the embedding
  /// Width of embedding and head where products without bias lead from it to
  /// the hidden size and back (OPT-350m); 0: the hidden size.
  int64_t embeddingWidth = 0;
  int64_t positions = 0;    ///< rows of learned positions
  int64_t maxPositions = 0; ///< tokens of a sequence that it is for; 0: unknown
  /// Elements of biases and norms outside of blocks, less those of one norm.
  int64_t vectors = 0;
  bool dropout = false; ///< of both branches and the probabilities
  std::vector<BlockRun> blocks;

  int64_t getNumBlocks() const;
  int64_t getEmbeddingWidth() const {
    return embeddingWidth > 0 ? embeddingWidth : hidden;
  }
  /// Weights that lead between that and the hidden size, one way.
  double getProjectionParameters() const {
    return embeddingWidth > 0 ? double(embeddingWidth) * hidden : 0;
  }
  double getParameters() const;
  /// Model FLOPs of one token, forward and backward (see Work.h): 6 for each
  /// weight that a token meets (embedding lookups are none) and 12 for each
  /// query-key pair and channel, pairs counted as the causal mask leaves them.
  double getFlopsPerToken(int64_t seqLen) const;
};

} // namespace cleave

#endif // CLEAVE_COST_ARCHITECTURE_H
