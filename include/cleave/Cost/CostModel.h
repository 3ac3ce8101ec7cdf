//===- CostModel.h - Time and memory of a training step -------------------===//
#ifndef CLEAVE_COST_COSTMODEL_H
#define CLEAVE_COST_COSTMODEL_H

#include "cleave/Cost/Architecture.h"
#include "cleave/Cost/Kernels.h"
#include "cleave/Cost/Pipeline.h"
#include "cleave/Cost/Profile.h"
#include "cleave/Cost/Workload.h"
#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <unordered_map>

namespace cleave {

/// Bytes of one device, by category.
struct MemoryUse {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0,
         temporaries = 0;
  /// What is in no tensor: the device's reserve and the allocator's gaps.
  double reserve = 0;
  double getTensors() const {
    return parameters + gradients + optimizer + activations + temporaries;
  }
  double getTotal() const { return getTensors() + reserve; }
};

/// Seconds that the weights of the device with the most blocks travel over
/// data-parallel ranks at least, for each micro-batch and once a step; and
/// activations from a stage to the next.
struct DataFloor {
  double each = 0, once = 0, send = 0;
};

/// What keeps a pipeline's devices busy in a step, whatever ZeRO and the order
/// of axes are.
struct BusyFloor {
  double microBatches = 0;
  double window = 1; ///< micro-batches that collectives of the step hide behind
  double longest = 0; ///< s of any device, sends left out
  double most = 0;    ///< s for a micro-batch of the one with the most blocks
  /// Ways of micro-batches through the stages: s, and sends on the way.
  struct Trip {
    double seconds = 0, sends = 0;
  };
  std::array<Trip, 2> trips;
};

/// Bytes that ZeRO leaves a device of a dense parameter and of an expert's:
/// parameters, gradients, optimizer state; and for a while of one that is
/// exchanged.
struct StateBytes {
  struct Each {
    double dense = 0, expert = 0;
  };
  Each parameters, gradients, optimizer;
  double gathered = 0;
  /// Whether the parameters are copies, made for a step's passes of what the
  /// optimizer has.
  bool copies = false;

  /// With that share of the gradients, and of copies.
  Each getTotal(double counted, double copied) const {
    double there = copies ? copied : 1;
    return {there * parameters.dense + counted * gradients.dense +
                optimizer.dense,
            there * parameters.expert + counted * gradients.expert +
                optimizer.expert};
  }
  /// Whether memory with it is no less than with another.
  bool covers(const StateBytes &other) const {
    // There may be none of either when most is needed.
    for (double counted : {0., 1.})
      for (double copied : {0., 1.}) {
        Each all = getTotal(counted, copied),
             others = other.getTotal(counted, copied);
        if (all.dense < others.dense || all.expert < others.expert)
          return false;
      }
    return gathered >= other.gathered;
  }
};

/// Parameters of a device, dense and of experts.
struct ParameterCount {
  double dense = 0, expert = 0;

  double getBytes(StateBytes::Each each) const {
    return each.dense * dense + each.expert * expert;
  }
};

/// What a stage has when it may need most: bytes that passes keep, and of what
/// lives inside of a block's or the loss; parameters whose gradients and whose
/// copies are there.
struct StageMoment {
  double kept = 0, inBlock = 0, inLoss = 0;
  ParameterCount gradients, copies;
};

/// A stage's moments, its parameters, and those of the largest exchange of a
/// block and of the ends. Whether the loss and the head's exchange share bytes:
/// in an arena, if nothing keeps the logits once they have been read.
struct StageMemory {
  llvm::SmallVector<StageMoment, 2> moments;
  ParameterCount parameters;
  double largest = 0, largestEnd = 0;
  bool shares = false;

  double getTemporaries(const StageMoment &moment, double gathered) const {
    double end = largestEnd * gathered, block = largest * gathered;
    if (!shares)
      return std::max(moment.inBlock, moment.inLoss) + std::max(block, end);
    return std::max({moment.inBlock + block, moment.inLoss, end});
  }

  /// Bytes in tensors, by category, when most is there.
  MemoryUse getMost(const StateBytes &state) const {
    MemoryUse most;
    for (const StageMoment &moment : moments) {
      MemoryUse use{.parameters = (state.copies ? moment.copies : parameters)
                                      .getBytes(state.parameters),
                    .gradients = moment.gradients.getBytes(state.gradients),
                    .optimizer = parameters.getBytes(state.optimizer),
                    .activations = moment.kept,
                    .temporaries = getTemporaries(moment, state.gathered)};
      if (use.getTensors() >= most.getTensors())
        most = use;
    }
    return most;
  }
};

/// What the first two stages of a pipeline have, whatever ZeRO does; and what
/// is in no tensor: gaps relative to tensors, and bytes.
struct MemoryFloor {
  std::array<StageMemory, 2> stages;
  double gaps = 0, reserve = 0;

  /// Bytes that a device needs at least.
  double getTotal(const StateBytes &state) const {
    double most = 0;
    for (const StageMemory &stage : stages)
      most = std::max(most, stage.getMost(state).getTensors());
    return (1 - 1e-9) * (reserve + (1 + gaps) * most);
  }
};

/// A priced layout. Seconds of one step; exposed parts add up to the step.
struct Estimate {
  double step = 0;
  double compute = 0; ///< of the slowest stage, recomputation included
  double tensor = 0;  ///< exposed communication, by axis
  double context = 0, expert = 0, pipeline = 0, data = 0;
  double bubble = 0;
  double optimizer = 0;
  double host = 0;
  MemoryUse memory; ///< of the fullest stage
};

/// Prices layouts of one model on one machine. Costs of a block are computed
/// once for each way to cut it and remembered, so that pricing a layout is
/// arithmetic; therefore not for several threads at once.
class CostModel {
public:
  /// Both must outlive the cost model.
  CostModel(const Architecture &model, const Machine &machine,
            const Workload &work, const Profile &profile);

  /// Prices a layout that divides what it must (see checkLayout).
  Estimate price(const TrainLayout &layout);
  /// The same, with sends as part of the bubble; nothing if a step takes more
  /// than `seconds`. Of two layouts which differ in what recomputes, the one
  /// that recomputes more takes no less.
  std::optional<Estimate> tryPrice(const TrainLayout &layout, double seconds);
  /// Bytes of the fullest device. What recomputes the same modules of more
  /// blocks needs no more.
  MemoryUse getMemory(const TrainLayout &layout);

  /// Prices a layout; what the simulator then plays.
  PipelineStep getPipelineStep(const TrainLayout &layout);
  /// Memory of a device of each stage.
  std::vector<MemoryUse> getMemoryOfStages(const TrainLayout &layout);

  /// Seconds that no layout which differs from this one in its pipeline's
  /// schedule and stages, ZeRO or recomputation takes less than; in the usual
  /// order, of other orders as well.
  double getTimeBound(const TrainLayout &layout);
  /// The same with one of the ZeROs of which these are the floors.
  double getTimeBound(const TrainLayout &layout,
                      llvm::ArrayRef<DataFloor> floors);
  /// The same for all that differ from this one in ZeRO and order only, with
  /// what getDataFloor says of them; nothing is built for it.
  BusyFloor getBusyFloor(const TrainLayout &layout);
  double getBusyBound(const BusyFloor &floor, const DataFloor &data) const;
  DataFloor getDataFloor(const TrainLayout &layout);
  /// The same for those which differ in ZeRO only.
  double getScheduleBound(const TrainLayout &layout);
  /// What devices have at least, whatever ZeRO does; nothing is built for it.
  MemoryFloor getMemoryFloor(const TrainLayout &layout);
  StateBytes getStateBytes(const TrainLayout &layout) const;
  /// Bytes that none which differs in schedule, stages, ZeRO or recomputation
  /// needs less than, on its fullest device.
  double getMemoryBound(const TrainLayout &layout) const;
  /// Bytes that only live inside a block, at least; not in the bound above.
  double getWorkingSet(const TrainLayout &layout);

  const Machine &getMachine() const { return machine; }

private:
  /// Seconds of one block (or of embedding and head) on one device for one
  /// micro-batch, and what it keeps for the backward pass.
  struct BlockCost {
    double forward = 0, backwardInput = 0, backwardWeight = 0;
    double recompute = 0;
    double tensorForward = 0, tensorBackward = 0;     ///< communication over tp
    double hiddenForward = 0, hiddenBackward = 0;     ///< of it, by parts
    double contextForward = 0, contextBackward = 0;   ///< over cp
    double expertForward = 0, expertBackward = 0;     ///< over ep
    double denseParameters = 0, expertParameters = 0; ///< of this device
    /// How many exchanges over data-parallel ranks they take: those of
    /// matrices, or of a block, and those of biases and norms with so many
    /// parameters of them all. Parameters of the largest exchange.
    double pieces = 1, vectors = 0, vectorParameters = 0, largest = 0;
    double largestEnd = 0;
    double vectorsAgain = 0; ///< that the backward pass reads
    double launches = 1;     ///< kernels, relative to the usual block
    double activations = 0;  ///< bytes kept for backward
    double read = 0;         ///< of them, those that no weight's gradient reads
    /// Bytes that only live inside the block, with both gradients in one pass
    /// and where they are apart; and those of the loss.
    double workingSet = 0, workingSetApart = 0, loss = 0;
    /// Where input and weight gradients are apart: bytes that the latter read
    /// and the former make, gradients of what products write and inputs of
    /// products that the forward pass has not kept.
    double between = 0;
  };
  /// What a block's cost depends on in a layout.
  struct Cut {
    const Block *block;
    int32_t tp, cp, ep, expertTp, microBatch;
    Group contextGroup, expertGroup;
    bool sequenceParallel;
    ContextKind contextKind;
    Recompute recompute;
    unsigned recomputedModules;
    bool operator==(const Cut &) const = default;
  };

  struct CutHash {
    size_t operator()(const Cut &cut) const;
  };
  /// Collectives over tp between a block's products, in as many parts as take
  /// the least time: seconds that they communicate, that of these nothing
  /// hides, and that products in parts are longer than whole ones.
  struct Exchange {
    double communication = 0, exposed = 0, longer = 0;
  };
  struct TensorParts {
    Exchange forward, backward;
  };
  /// The same of what a device has of the model, communication that nothing
  /// hides and waiting for the host included.
  struct StageCost {
    double forward = 0, backward = 0, weight = 0; ///< weight: part of backward
    double tensor = 0, context = 0, expert = 0;   ///< exposed, both ways
    double held = 0; ///< by sends that nothing runs beside
    double host = 0;
    double denseParameters = 0, expertParameters = 0;
    double activations = 0, read = 0, between = 0;
    double workingSet = 0, workingSetApart = 0, loss = 0;
    double pieces = 0, vectors = 0, vectorParameters = 0; ///< see BlockCost
    double vectorsAgain = 0;                              ///< likewise
    double largest = 0;    ///< likewise, of blocks
    double largestEnd = 0; ///< and of embedding and head

    double getTime() const { return forward + backward; }
    /// Whether its gradients and parameters take the same to move.
    bool isLike(const StageCost &other) const {
      return forward == other.forward && backward == other.backward &&
             denseParameters == other.denseParameters &&
             expertParameters == other.expertParameters &&
             pieces == other.pieces && vectors == other.vectors;
    }
    void add(const StageCost &other, double times);
  };

  /// Seconds that a device computes and communicates in a step, if its own
  /// time for a micro-batch is `own` or more.
  /// What is once a step hides behind no more than `window` micro-batches.
  double addData(double own, double microBatches, DataFloor data,
                 double window) const;
  Cut getCut(const Block &block, const TrainLayout &layout,
             Recompute recompute) const;
  const TensorParts *getTensorParts(Cut cut);
  const StageCost &getBlockCost(const Block &block, const TrainLayout &layout,
                                Recompute recompute);
  /// Of each kind of block.
  using KindCosts = std::vector<const StageCost *>;
  const KindCosts &getKindCosts(const TrainLayout &layout, Recompute recompute);
  /// Some device has as many blocks as the mean does of those that take no
  /// less than one kind; of the kind with which that is longest, without
  /// recomputation.
  struct MostBlocks {
    int64_t count = 0;
    double least = 0; ///< s of a block
    StageCost stage;  ///< weights of them at least
    double getTime() const { return double(count) * least; }
  };
  MostBlocks getMostBlocks(const KindCosts &costs, int64_t stages) const;
  struct BlockRange {
    int64_t first = 0, end = 0;
  };
  /// Blocks of a stage of a pipeline, and of all virtual stages before its
  /// first one.
  struct DeviceBlocks {
    int64_t stage = 0, before = 0;
    bool hasEmbedding = false, hasHead = false;
    std::vector<BlockRange> chunks = {};
  };
  struct PipelineBlocks {
    std::vector<BlockRange> ranges; ///< of virtual stages
    /// Whether a virtual stage costs what the one before it does.
    std::vector<char> repeats;
    std::vector<DeviceBlocks> front;   ///< the first two stages
    std::vector<DeviceBlocks> devices; ///< all that differ
  };
  const PipelineBlocks &getPipelineBlocks(const TrainLayout &layout);
  /// How many of each virtual stage's blocks recompute at most.
  int64_t getBlocksAgain(const TrainLayout &layout) const;
  int64_t getCount(BlockRange blocks, size_t kind) const {
    size_t width = kinds.size();
    return kindsBefore[size_t(blocks.end) * width + kind] -
           kindsBefore[size_t(blocks.first) * width + kind];
  }
  template <typename Get>
  double sum(BlockRange blocks, const KindCosts &costs, Get get) const;
  /// Fills `stages`, `chunks` and `counts`.
  void buildStages(const TrainLayout &layout);
  /// Calls `visit` with the memory of each stage of what was built.
  template <typename Visit>
  void visitMemory(const TrainLayout &layout, Visit visit) const;
  /// Bytes of gaps relative to those of tensors.
  double getGaps(const TrainLayout &layout) const;
  /// Seconds of a message to the next stage.
  double getSend(const TrainLayout &layout) const;
  /// Seconds of collectives of a stage's weights over the data-parallel ranks.
  struct DataTimes {
    double gradients = 0, parameters = 0; ///< parameters: without ZeRO, none
    double again = 0; ///< parameters, those that the backward pass needs
  };
  DataTimes getDataTimes(const TrainLayout &layout,
                         const StageCost &stage) const;
  /// Seconds of a sum of gradients over the groups of ZeRO, whose copies they
  /// are.
  double getCopyTime(const TrainLayout &layout, const StageCost &stage) const;
  /// Seconds in which the stages of the embedding and of a head that shares its
  /// weights tell each other their parts of the gradient; 0 on one stage.
  double getTiedTime(const TrainLayout &layout) const;
  /// Seconds that collectives over the data-parallel ranks add to a stage: once
  /// a step, and to each forward and backward pass; `each` is what of the
  /// latter two is communication and not copies.
  struct DataExposure {
    double once = 0, forward = 0, backward = 0, each = 0;
    double weight = 0; ///< of backward, where weight gradients are apart
  };
  DataExposure getDataExposure(const TrainLayout &layout,
                               const StageCost &stage, int64_t blocks) const;
  /// Bytes of a parameter while ZeRO exchanges it: gathered, or a whole
  /// gradient after that; where exchanges run ahead both, and gathered the
  /// next.
  double getGatheredBytes(int zero) const;
  /// Exchanges of a block's matrices, or of all of it; and parameters of the
  /// largest, of a block that has so many dense and routed ones on a device.
  double getPieces(const Block &block) const {
    return profile.blockBuffers ? 1 : double(block.getMatrices());
  }
  double getLargestPiece(const Block &block, int64_t tp, double dense,
                         double routed) const {
    return profile.blockBuffers
               ? dense + routed
               : std::max(block.getLargestTensor(model.hidden) / double(tp),
                          routed / (block.gated ? 3 : 2));
  }
  double getOptimizerTime(const TrainLayout &layout) const;
  /// Fills `times` from `chunks` and `exposed`.
  void setTimes(const PipelineShape &shape);
  /// Moments of the first stages, which have so much of the model, by stage and
  /// by virtual stage.
  void setMemory(const PipelineShape &shape, llvm::ArrayRef<StageCost> ofStages,
                 llvm::ArrayRef<StageCost> ofChunks,
                 llvm::MutableArrayRef<StageMemory> memory);
  StageMoment getMoment(const PipelineShape &shape, int64_t stage,
                        const PipelineProgram::Moment &moment,
                        const StageCost &ofStage,
                        llvm::ArrayRef<StageCost> ofChunks) const;
  /// Whether an arena may have less of some parts when it has most of others:
  /// of micro-batches so few that a pipeline is never full.
  bool isNeverFull(const TrainLayout &layout) const {
    return profile.hasArena() &&
           getMicroBatches(layout) <= 3 * (layout.pp - 1) + 1;
  }
  int64_t getMicroBatches(const TrainLayout &layout) const;
  /// The same, if a batch that does not divide ends in part of one.
  double getPartialMicroBatches(const TrainLayout &layout) const;
  PipelineShape getShape(const TrainLayout &layout) const;
  class BlockPricer;
  BlockCost computeBlock(const Cut &cut, const TensorParts *parts) const;
  TensorParts computeTensorParts(const Cut &cut) const;
  BlockCost computeEmbedding(const Cut &cut) const;
  BlockCost computeHead(const Cut &cut) const;
  /// Seconds of a collective that ranks out of step begin, and of an exchange
  /// of tokens.
  double getJointTime(CollectiveKind kind, Group group, double bytes) const;
  double getExchangeTime(Group group, double bytes, double copies) const;
  /// Bytes of a logit where the loss needs most, in f32 those of two arrays;
  /// and of them what stays until the weights' gradients, unless the loss is
  /// made in chunks.
  double getLogitBytes() const {
    return work.dtype == DType::F32 ? 2 * getBytes(DType::F32)
                                    : profile.logitBytes;
  }
  double getKeptLogitBytes() const {
    return std::min(getBytes(work.getActivationType()), getLogitBytes());
  }
  /// Rows of the embedding that one of `tp` ranks has.
  double getVocabShard(int64_t tp) const;

  const Architecture &model;
  const Machine &machine;
  const Workload work;
  const Profile profile;
  std::unordered_map<Cut, StageCost, CutHash> cache;
  /// Of cuts without recomputation.
  std::unordered_map<Cut, TensorParts, CutHash> tensorParts;
  Block embedding, head;            ///< stand for the ends in a Cut
  std::vector<const Block *> kinds; ///< different blocks of the model
  std::vector<uint16_t> kindOf;     ///< each block's
  std::vector<int64_t> kindCounts;
  std::vector<int64_t> kindsBefore; ///< by block and kind; last: all blocks
  PipelineModel pipeline;

  // Of one way to cut blocks.
  TrainLayout cutLayout{.tp = 0};
  std::deque<std::pair<unsigned, KindCosts>> cutCosts;
  const StageCost *headCost = nullptr, *embeddingCost = nullptr;
  /// All blocks, embedding and head, as if one device had them, without
  /// recomputation.
  StageCost whole;
  MostBlocks most;
  /// By stages, virtual stages, whether these turn, and blocks of the ends.
  std::map<std::tuple<int64_t, int64_t, bool, int64_t, int64_t>, PipelineBlocks>
      pipelineBlocks;

  // Of the layout that was priced last.
  TrainLayout built{.tp = 0};
  Group builtContext, builtExperts;
  double builtHold = 0;
  std::vector<StageCost> stages, chunks; ///< devices', virtual stages'
  std::vector<int64_t> counts;           ///< blocks of a device
  std::vector<StageTimes> times;
  double send = 0;
  std::vector<DataExposure> exposed; ///< by stage
  std::vector<double> kept, peaks, starts, ends;
  std::vector<StageCost> frontChunks; ///< see getMemoryFloor
  std::vector<StageMemory> memory;    ///< by stage
  bool played = false;                ///< `ends` are of what was built
};

} // namespace cleave

#endif // CLEAVE_COST_COSTMODEL_H
