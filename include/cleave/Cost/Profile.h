//===- Profile.h - What the software that trains does ---------------------===//
#ifndef CLEAVE_COST_PROFILE_H
#define CLEAVE_COST_PROFILE_H

#include <string>

namespace cleave {

/// The layouts that a software stack can run, of all those there are; each set
/// has a bit for each value of its field.
struct Abilities {
  unsigned schedules = ~0u; ///< of pipelines; none: it has no pipelines
  unsigned contexts = ~0u;  ///< kinds of cp; none: it has no cp
  unsigned zeros = ~0u;     ///< ZeRO stages
  unsigned zerosWithPipeline = ~0u;
  bool tensor = true;           ///< whether it has tp
  bool sequenceParallel = true; ///< whether it has Megatron's

  static bool has(unsigned set, int value) { return set >> value & 1; }
  bool operator==(const Abilities &) const = default;
};

/// What the software that trains does, in physical terms, and what it can.
struct Profile {
  std::string name = "cleave";
  /// Generation of attention kernel, as the device lists them.
  std::string attention = "flash2";
  /// Rate of matrix products that training sustains, relative to products
  /// measured alone: clocks under continuous load, operands' layouts, f32
  /// accumulation of weight gradients.
  double matrixRate = 0.92;
  /// Bytes that pointwise and norm kernels move, relative to one kernel for
  /// each fused chain, about 50 passes over a block's residual stream forward
  /// and backward: 1 with compiled fusion, 4 for one kernel per operation.
  double pointwiseTraffic = 1.3;
  /// Whether one product makes queries, keys and values, and one both halves of
  /// a gated MLP's way up.
  bool fusedProjections = true;
  /// Whether the sequence is the first dimension of activations (Megatron's
  /// [s, b, h]), so that what gathers or scatters it needs no copy in another
  /// order. In DTensor's [b, s, h] a copy before or after each takes 0.18 ms
  /// of an MLP of 3 ms (pytorch/torchtitan, pull request 437).
  bool sequenceFirst = true;
  /// Whether sequence parallelism gathers the inputs of products again for
  /// their weights' gradients, with nothing beside that unless products are in
  /// parts (`cutsProducts`). Megatron-Core has it behind the product for the
  /// input's gradient (Korthikanti et al. 2022, arXiv:2205.05198,
  /// section 4.2.2).
  bool gathersAgain = false;
  /// Whether full recomputation leaves out what no gradient needs: a block's
  /// last product, and the exchange of its result. A function that PyTorch
  /// checkpoints is repeated as a whole.
  bool prunesRepeats = false;
  /// Whether ZeRO-2 and 3 exchange a block at a time, in buffers that gathered
  /// parameters are copied out of and gradients are cast into, between shards
  /// of f32 (FSDP); else each tensor, in place, and so do ZeRO-0 and 1.
  bool blockBuffers = false;
  /// Share of the gradient's and parameters' communication over data-parallel
  /// ranks, and of messages between stages, that may run beside compute.
  double dataOverlap = 1;
  /// The same of tensor-parallel communication.
  double tensorOverlap = 0;
  /// Whether products and the tensor-parallel collectives between them are done
  /// in parts of their rows, where that pays, and weights' gradients computed
  /// while what a block's gradients need moves: what that hides is counted for
  /// each of them, in place of `tensorOverlap`. See ProductParts.h.
  bool cutsProducts = false;
  /// The same of the exchange of tokens between experts' ranks.
  double expertOverlap = 0;
  /// Share by which compute slows down while a collective runs beside it: the
  /// multiprocessors and the memory bandwidth that the collective takes.
  double overlapSlowdown = 0.12;
  /// Seconds by which a collective inside a block begins later than in a
  /// benchmark's loop: it waits for the last of its ranks, whose kernels and
  /// hosts do not keep step. From vTrain's runs on one node, tp 2 to 8 against
  /// 1; other sources agree.
  double rankSkew = 1e-4;
  /// Host seconds for one block, forward, which the device waits for when its
  /// kernels are shorter.
  double hostPerBlock = 0;
  /// Whether ranks of tp send a part each of what a stage passes on, which the
  /// next one gathers (Narayanan et al. 2021, arXiv:2104.04473, section 4.1);
  /// else each of them all of it, where it is not split anyway.
  bool sendsParts = true;
  /// Whether zero-bubble schedules update without waiting for other stages, and
  /// undo that where it was wrong (Qi et al. 2024, arXiv:2401.10241, section
  /// 4).
  bool postValidates = true;
  /// Bytes of a gradient element on the network.
  double gradientBytes = 4;
  /// Rows of the embedding that a tensor-parallel rank has are padded to a
  /// multiple of this (Megatron's 128); 0: not padded.
  double vocabMultiple = 128;
  /// Bytes of a logit where the loss needs most: 14 if each operation leaves
  /// its result (bf16 logits; logarithms, their gradient and that of their f32
  /// copy), 12 if the bf16 ones are gone, 6 if compiled, 4 in one kernel, 0 in
  /// chunks.
  double logitBytes = 12;
  /// Seconds of a step outside of the model: data, logging, barriers.
  double hostPerStep = 0;
  /// Bytes that the allocator leaves unused, relative to those of tensors:
  /// where memory is freed in the reverse order of its allocation, and what
  /// more there is where parts of blocks are repeated while other virtual
  /// stages hold theirs, so that it is not. None in an arena that the compiler
  /// lays out.
  double allocatorGaps = 0;
  double scatteredGaps = 0;
  Abilities abilities;

  /// Whether memory is one arena that was laid out ahead: it has no gaps, and
  /// what a pipeline keeps of micro-batches in flight has places of its own for
  /// the whole step, which an allocator gives to something else meanwhile.
  bool hasArena() const { return allocatorGaps == 0; }
};

} // namespace cleave

#endif // CLEAVE_COST_PROFILE_H
