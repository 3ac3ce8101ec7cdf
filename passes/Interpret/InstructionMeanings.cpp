//===- InstructionMeanings.cpp - What instructions mean -------------------===//
//
// Instructions read and write the memory of each rank, whose buffers lie where
// the Memory stage put them, or one after the other before that.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "passes/Interpret/AttentionScores.h"
#include "passes/Interpret/Collectives.h"
#include "passes/Interpret/InterpretKernel.h"
#include "passes/Interpret/Meaning.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

using Values = std::vector<double>;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static ElementCode getCode(Type type) {
  return type.isBF16()        ? ElementCode::BF16
         : type.isInteger(32) ? ElementCode::I32
                              : ElementCode::F32;
}

namespace {
/// The operands of an instruction on one rank. What an instruction asks of a
/// buffer that is too short is an error, and `result` a failure.
class Operands {
public:
  Operands(Operation *op, SimulatedRanks &ranks, int64_t rank)
      : op(op), ranks(ranks), memory(ranks[rank].memory) {}
  Operands(Operation *op, RankView view)
      : Operands(op, view.ranks, view.rank) {}

  /// Whether the sizes of the instruction are some that any buffer has; says so
  /// if they are not.
  bool areLegal(ArrayRef<int64_t> sizes) {
    if (!cleave::countElements(sizes))
      result = op->emitOpError("has sizes that no buffer has");
    return succeeded(result);
  }

  /// `count` elements; none if there is an error.
  Values load(Value buffer, ElementCode type, int64_t count) {
    SimulatedRanks::Range range = find(buffer, type, count);
    Values values;
    for (int64_t i = 0; i < count && succeeded(result); ++i)
      values.push_back(memory.load(range.offset + i * getBytes(type), type));
    return values;
  }
  void store(Value buffer, ElementCode type, const Values &values) {
    SimulatedRanks::Range range = find(buffer, type, int64_t(values.size()));
    for (size_t i = 0; i < values.size() && succeeded(result); ++i)
      memory.store(range.offset + int64_t(i) * getBytes(type), type, values[i]);
  }
  /// Those of `indices` only.
  void storeAt(Value buffer, ElementCode type, const Values &values,
               const std::vector<int64_t> &indices) {
    SimulatedRanks::Range range = find(buffer, type, int64_t(values.size()));
    for (int64_t i : indices)
      if (succeeded(result))
        memory.store(range.offset + i * getBytes(type), type,
                     values[size_t(i)]);
  }
  /// The values, or their sums with what is there.
  void store(Value buffer, ElementCode type, Values values,
             Accumulate accumulate) {
    if (accumulate == Accumulate::Always ||
        (accumulate == Accumulate::AfterFirst && !ranks.isFirst)) {
      Values old = load(buffer, type, int64_t(values.size()));
      for (size_t i = 0; i < old.size(); ++i)
        values[i] += old[i];
    }
    store(buffer, type, values);
  }

  LogicalResult result = success();

private:
  SimulatedRanks::Range find(Value buffer, ElementCode type, int64_t count) {
    SimulatedRanks::Range range = ranks.getRange(buffer);
    if (succeeded(result) && (range.bytes < count * getBytes(type) ||
                              range.offset + range.bytes > memory.size()))
      result = op->emitOpError("expects ")
               << count * getBytes(type) << " bytes where a buffer has "
               << range.bytes;
    return range;
  }

  Operation *op;
  SimulatedRanks &ranks;
  Memory &memory;
};
} // namespace

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

namespace {
struct LaunchMeaning : Meaning<LaunchMeaning, LaunchOp> {
  static LogicalResult run(LaunchOp op, RankView view) {
    Operands operands(op, view);
    auto kernel =
        SymbolTable::lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
    KernelLaunch launch;
    launch.isFirst = view.ranks.isFirst;
    launch.rounds = false;
    if (std::optional<ArrayAttr> axes = op.getShardAxes())
      launch.shardIndex = view.ranks.getMesh().getShardIndex(
          view.rank, view.ranks.getAxes(*axes));
    SmallVector<Value> buffers(op.getInputs());
    llvm::append_range(buffers, op.getOutputs());
    SmallVector<Attribute> accesses(kernel.getInputs().begin(),
                                    kernel.getInputs().end());
    llvm::append_range(accesses, kernel.getOutputs());
    if (buffers.size() != accesses.size())
      return op.emitOpError("expects ")
             << accesses.size() << " operands, got " << buffers.size();
    SmallVector<ElementCode> codes;
    std::vector<KernelOperand> values;
    for (auto [buffer, attr] : llvm::zip(buffers, accesses)) {
      auto access = cast<AccessAttr>(attr);
      codes.push_back(getCode(access.getType()));
      values.push_back(
          operands.load(buffer, codes.back(), countElements(kernel, access)));
    }
    if (failed(operands.result) ||
        failed(interpretKernel(kernel, values, launch)))
      return failure();
    // Two outputs may be parts of one buffer.
    for (size_t i = op.getInputs().size(); i < buffers.size(); ++i)
      operands.storeAt(buffers[i], codes[i], values[i],
                       getIndices(kernel, cast<AccessAttr>(accesses[i])));
    return operands.result;
  }
};

constexpr ElementCode f32 = ElementCode::F32, i32 = ElementCode::I32;

struct GemmMeaning : Meaning<GemmMeaning, GemmOp> {
  static LogicalResult run(GemmOp op, RankView view) {
    Operands operands(op, view);
    int64_t m = op.getM(), n = op.getN(), k = op.getK();
    if (!operands.areLegal({m, k}) || !operands.areLegal({k, n}) ||
        !operands.areLegal({m, n}))
      return failure();
    Values a = operands.load(op.getInputs()[0], getCode(op.getTypeA()), m * k),
           b = operands.load(op.getInputs()[1], getCode(op.getTypeB()), k * n),
           bias = op.getHasBias() ? operands.load(op.getInputs()[2], f32, n)
                                  : Values();
    if (failed(operands.result))
      return failure();
    Values c = Values(size_t(m * n));
    if (op.getHasBias()) {
      for (int64_t i = 0; i < m * n; ++i)
        c[size_t(i)] = bias[size_t(i % n)];
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          c[size_t(i * n + j)] +=
              a[size_t(op.getTransA() ? l * m + i : i * k + l)] *
              b[size_t(op.getTransB() ? j * k + l : l * n + j)];
    operands.store(op.getOutputs()[0], getCode(op.getTypeC()), std::move(c),
                   op.getAccumulate());
    return operands.result;
  }
};

template <typename Op>
AttentionScores getScores(Op op) {
  int64_t shape[] = {int64_t(op.getBatch()), int64_t(op.getSeq()),
                     int64_t(op.getHeads()), int64_t(op.getHeadDim())};
  return AttentionScores(shape, op.getKvHeads(),
                         op.getScale().convertToDouble(), op.getWindow(),
                         op.getSoftcap().convertToDouble());
}

/// Elements of q, of k, of the log-sum-exps.
template <typename Op>
std::array<int64_t, 3> getCounts(Op op) {
  int64_t tokens = op.getBatch() * op.getSeq();
  return {tokens * int64_t(op.getHeads() * op.getHeadDim()),
          tokens * int64_t(op.getKvHeads() * op.getHeadDim()),
          tokens * int64_t(op.getHeads())};
}

template <typename Op>
bool areLegal(Op op, Operands &operands) {
  int64_t batch = op.getBatch(), seq = op.getSeq(), heads = op.getHeads(),
          kvHeads = op.getKvHeads(), depth = op.getHeadDim();
  return operands.areLegal({batch, seq, heads, depth}) &&
         operands.areLegal({batch, seq, kvHeads, depth}) &&
         // Each key head serves as many query heads.
         operands.areLegal({kvHeads > 0 && heads % kvHeads == 0 ? 1 : -1});
}

struct AttentionMeaning : Meaning<AttentionMeaning, AttentionOp> {
  static LogicalResult run(AttentionOp op, RankView view) {
    Operands operands(op, view);
    if (!areLegal(op, operands))
      return failure();
    auto [queries, keys, rows] = getCounts(op);
    Values q = operands.load(op.getInputs()[0], getCode(op.getType()), queries),
           k = operands.load(op.getInputs()[1], getCode(op.getType()), keys),
           v = operands.load(op.getInputs()[2], getCode(op.getType()), keys),
           out(q.size()), lse = Values(size_t(rows));
    if (failed(operands.result))
      return failure();
    getScores(op).attend(q, k, v, out, lse);
    operands.store(op.getOutputs()[0], getCode(op.getType()), out);
    operands.store(op.getOutputs()[1], f32, lse);
    return operands.result;
  }
};

struct AttentionGradMeaning : Meaning<AttentionGradMeaning, AttentionGradOp> {
  static LogicalResult run(AttentionGradOp op, RankView view) {
    Operands operands(op, view);
    if (!areLegal(op, operands))
      return failure();
    auto [queries, keys, rows] = getCounts(op);
    auto load = [&](unsigned i, ElementCode code, int64_t count) {
      return operands.load(op.getInputs()[i], code, count);
    };
    ElementCode type = getCode(op.getType());
    Values q = load(0, type, queries), k = load(1, type, keys),
           v = load(2, type, keys), out = load(3, type, queries),
           lse = load(4, f32, rows), dout = load(5, type, queries),
           dq(q.size()), dk(k.size()), dv(v.size());
    if (failed(operands.result))
      return failure();
    getScores(op).differentiate(q, k, v, out, lse, dout, dq, dk, dv);
    operands.store(op.getOutputs()[0], type, dq);
    operands.store(op.getOutputs()[1], type, dk);
    operands.store(op.getOutputs()[2], type, dv);
    return operands.result;
  }
};

/// The first row of a table's shard.
template <typename Op>
int64_t getFirstRow(Op op, RankView view) {
  std::optional<ArrayAttr> axes = op.getShardAxes();
  int64_t shard = axes ? view.ranks.getMesh().getShardIndex(
                             view.rank, view.ranks.getAxes(*axes))
                       : 0;
  return shard * int64_t(op.getTableRows());
}

struct EmbeddingMeaning : Meaning<EmbeddingMeaning, EmbeddingOp> {
  static LogicalResult run(EmbeddingOp op, RankView view) {
    Operands operands(op, view);
    int64_t rows = op.getRows(), width = op.getWidth(),
            tableRows = op.getTableRows();
    if (!operands.areLegal({rows, width}) ||
        !operands.areLegal({tableRows, width}))
      return failure();
    Values ids = operands.load(op.getInputs()[0], i32, rows),
           table = operands.load(op.getInputs()[1], getCode(op.getTypeTable()),
                                 tableRows * width),
           out = Values(size_t(rows * width));
    if (failed(operands.result))
      return failure();
    double first = double(getFirstRow(op, view));
    for (int64_t r = 0; r < rows; ++r)
      if (double row = ids[size_t(r)] - first;
          row >= 0 && row < double(tableRows))
        for (int64_t c = 0; c < width; ++c)
          out[size_t(r * width + c)] = table[size_t(int64_t(row) * width + c)];
    operands.store(op.getOutputs()[0], getCode(op.getTypeOut()), out);
    return operands.result;
  }
};

struct EmbeddingGradMeaning : Meaning<EmbeddingGradMeaning, EmbeddingGradOp> {
  static LogicalResult run(EmbeddingGradOp op, RankView view) {
    Operands operands(op, view);
    int64_t rows = op.getRows(), width = op.getWidth(),
            tableRows = op.getTableRows();
    if (!operands.areLegal({rows, width}) ||
        !operands.areLegal({tableRows, width}))
      return failure();
    Values ids = operands.load(op.getInputs()[0], i32, rows),
           dout = operands.load(op.getInputs()[1], getCode(op.getTypeDout()),
                                rows * width),
           table = Values(size_t(tableRows * width));
    if (failed(operands.result))
      return failure();
    double first = double(getFirstRow(op, view));
    for (int64_t r = 0; r < rows; ++r)
      if (double row = ids[size_t(r)] - first;
          row >= 0 && row < double(tableRows))
        for (int64_t c = 0; c < width; ++c)
          table[size_t(int64_t(row) * width + c)] +=
              dout[size_t(r * width + c)];
    operands.store(op.getOutputs()[0], getCode(op.getTypeDtable()),
                   std::move(table), op.getAccumulate());
    return operands.result;
  }
};

struct FillMeaning : Meaning<FillMeaning, FillOp> {
  static LogicalResult run(FillOp op, RankView view) {
    SimulatedRanks::Range to = view.ranks.getRange(op.getOutputs()[0]);
    view.ranks[view.rank].memory.fillZero(to.offset, to.bytes);
    return success();
  }
};

struct CopyMeaning : Meaning<CopyMeaning, CopyOp> {
  static LogicalResult run(CopyOp op, RankView view) {
    SimulatedRanks::Range from = view.ranks.getRange(op.getInputs()[0]),
                          to = view.ranks.getRange(op.getOutputs()[0]);
    if (from.bytes != to.bytes)
      return op.emitOpError("copies ")
             << from.bytes << " bytes to a buffer of " << to.bytes;
    view.ranks[view.rank].memory.copy(from.offset, to.offset, from.bytes);
    return success();
  }
};

struct ScheduleMeaning : Meaning<ScheduleMeaning, ScheduleOp> {
  static LogicalResult run(ScheduleOp op, RankView view) {
    Rates rates = Rates::of(op);
    Operands operands(op, view);
    operands.store(op.getOutputs()[0], f32, rates.get(view.ranks));
    return operands.result;
  }
};

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// `Self::getShape(op, n)` is the shape of a rank's part in a group of n, and
/// `Self::move(op, parts, index)` gives the rank numbered `index` its result.
template <typename Self, typename Op>
struct CollectiveMeaning : JointMeaning<Self, Op> {
  static LogicalResult run(Op op, SimulatedRanks &ranks) {
    int64_t n = ranks.getGroupSize(op.getAxes());
    std::vector<int64_t> shape = Self::getShape(op, n);
    std::vector<Array> inputs;
    if (!Operands(op, ranks, 0).areLegal(shape))
      return failure();
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      Operands operands(op, ranks, rank);
      Array &input = inputs.emplace_back(Array::zeros(shape));
      input.data =
          operands.load(op.getInputs()[0], getCode(op.getType()), input.size());
      if (failed(operands.result))
        return failure();
    }
    auto gathered = ranks.gather(op, op.getAxes(), std::move(inputs));
    if (failed(gathered))
      return failure();
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      auto [parts, index] = gathered->getGroup(rank);
      Operands operands(op, ranks, rank);
      operands.store(op.getOutputs()[0], getCode(op.getType()),
                     Self::move(op, parts, index).data);
      if (failed(operands.result))
        return failure();
    }
    return success();
  }
};

using Parts = ArrayRef<const Array *>;

struct AllReduceMeaning : CollectiveMeaning<AllReduceMeaning, AllReduceOp> {
  static std::vector<int64_t> getShape(AllReduceOp op, int64_t) {
    return {int64_t(op.getElements())};
  }
  static Array move(AllReduceOp op, Parts parts, int64_t) {
    return collectives::reduce(parts,
                               op.getReduction() == exec::Reduction::Max);
  }
};

struct AllGatherMeaning : CollectiveMeaning<AllGatherMeaning, AllGatherOp> {
  static std::vector<int64_t> getShape(AllGatherOp op, int64_t) {
    return {int64_t(op.getOuter()), 1, int64_t(op.getInner())};
  }
  static Array move(AllGatherOp, Parts parts, int64_t) {
    return collectives::concatenate(parts, 1);
  }
};

struct ReduceScatterMeaning
    : CollectiveMeaning<ReduceScatterMeaning, ReduceScatterOp> {
  static std::vector<int64_t> getShape(ReduceScatterOp op, int64_t n) {
    return {int64_t(op.getOuter()), n, int64_t(op.getInner())};
  }
  static Array move(ReduceScatterOp op, Parts parts, int64_t index) {
    return collectives::cut(
        collectives::reduce(parts, op.getReduction() == exec::Reduction::Max),
        1, int64_t(parts.size()), index);
  }
};

struct SliceMeaning : CollectiveMeaning<SliceMeaning, SliceOp> {
  static std::vector<int64_t> getShape(SliceOp op, int64_t n) {
    return {int64_t(op.getOuter()), n, int64_t(op.getInner())};
  }
  static Array move(SliceOp, Parts parts, int64_t index) {
    return collectives::cut(*parts[size_t(index)], 1, int64_t(parts.size()),
                            index);
  }
};

/// Dims outer, a, mid, b, inner, of which a and b are as they are before.
struct AllToAllMeaning : CollectiveMeaning<AllToAllMeaning, AllToAllOp> {
  static std::vector<int64_t> getShape(AllToAllOp op, int64_t n) {
    int64_t a = op.getA(), b = op.getB();
    (op.getConcatFirst() ? b : a) *= n;
    return {int64_t(op.getOuter()), a, int64_t(op.getMid()), b,
            int64_t(op.getInner())};
  }
  static Array move(AllToAllOp op, Parts parts, int64_t index) {
    int64_t joined = op.getConcatFirst() ? 1 : 3;
    return collectives::cut(collectives::concatenate(parts, joined), 4 - joined,
                            int64_t(parts.size()), index);
  }
};

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

struct SendMeaning : JointMeaning<SendMeaning, SendOp> {
  static LogicalResult run(SendOp op, SimulatedRanks &ranks) {
    SimulatedRanks::Range range = ranks.getRange(op.getInputs()[0]);
    Message message;
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      message.bytes.push_back(
          ranks[rank].memory.take(range.offset, range.bytes));
    return ranks.send(op, op.getStage(), op.getChannel(), std::move(message));
  }
};

struct RecvMeaning : JointMeaning<RecvMeaning, RecvOp> {
  static LogicalResult run(RecvOp op, SimulatedRanks &ranks) {
    auto message = ranks.receive(op, op.getStage(), op.getChannel());
    if (failed(message))
      return failure();
    SimulatedRanks::Range range = ranks.getRange(op.getOutputs()[0]);
    for (auto [rank, bytes] : llvm::enumerate(message->bytes)) {
      if (bytes.size() != range.bytes / 2 * 2) {
        InFlightDiagnostic error = op.emitOpError("receives ")
                                   << bytes.size() << " bytes in a buffer of "
                                   << range.bytes;
        error.attachNote(message->sender->getLoc()) << "which are sent here";
        return error;
      }
      ranks[int64_t(rank)].memory.put(range.offset, bytes);
    }
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

struct ProgramMeaning : JointMeaning<ProgramMeaning, ProgramOp> {
  static LogicalResult run(ProgramOp program, SimulatedRanks &ranks) {
    if (failed(placeBuffers(program, ranks)) ||
        failed(readInputs(program, ranks)))
      return failure();
    llvm::StringMap<SegmentOp> segments;
    for (auto segment : program.getOps<SegmentOp>())
      segments[segment.getSymName()] = segment;
    for (auto run : program.getOps<RunOp>()) {
      ranks.microBatch = run.getMicroBatch();
      ranks.isFirst = run.getFirst();
      for (Operation &op : segments[run.getSegment()].getBody().front())
        if (!isa<ViewOp>(op) && failed(ranks.run(op)))
          return failure();
    }
    ranks.microBatch = 0;
    ranks.isFirst = true;
    return writeResults(program, ranks);
  }

  /// At their offsets, or, where there are none yet, one after the other.
  static LogicalResult placeBuffers(ProgramOp program, SimulatedRanks &ranks) {
    int64_t end = 0;
    for (auto buffer : program.getOps<BufferOp>())
      if (std::optional<uint64_t> offset = buffer.getOffset())
        end = std::max(end, int64_t(*offset + buffer.getBytes()));
    for (auto buffer : program.getOps<BufferOp>()) {
      int64_t bytes = buffer.getBytes();
      if (std::optional<uint64_t> offset = buffer.getOffset()) {
        ranks.buffers[buffer] = {int64_t(*offset), bytes};
        continue;
      }
      ranks.buffers[buffer] = {end, bytes};
      end += (bytes + 63) / 64 * 64;
    }
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].memory = Memory();
      ranks[rank].memory.grow(end);
    }
    return success();
  }

  /// Of the state that the buffer is of.
  static ElementCode getStateCode(BufferOp buffer) {
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        buffer, buffer.getStateAttr());
    return state ? getCode(state.getTensorType().getElementType()) : f32;
  }

  static LogicalResult readInputs(ProgramOp program, SimulatedRanks &ranks) {
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      for (auto buffer : program.getOps<BufferOp>()) {
        Operands operands(buffer, ranks, rank);
        if (std::optional<StringRef> state = buffer.getState()) {
          auto it = ranks[rank].states.find(state->str());
          if (it == ranks[rank].states.end())
            return buffer.emitOpError("is of state \"")
                   << *state << "\", which no rank holds";
          operands.store(buffer, getStateCode(buffer), it->second.data);
        } else if (auto data = buffer->getAttrOfType<StringAttr>("data")) {
          size_t argument = data.getValue() == "ids" ? 0 : 1;
          operands.store(buffer, i32, ranks[rank].data[argument].data);
        }
        if (failed(operands.result))
          return failure();
      }
    return success();
  }

  static LogicalResult writeResults(ProgramOp program, SimulatedRanks &ranks) {
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      for (auto buffer : program.getOps<BufferOp>())
        if (std::optional<StringRef> state = buffer.getState()) {
          Array &array = ranks[rank].states[state->str()];
          array.data = Operands(buffer, ranks, rank)
                           .load(buffer, getStateCode(buffer), array.size());
        }
      for (auto output : program.getOps<OutputOp>()) {
        auto type = cast<RankedTensorType>(output.getType());
        ArrayRef<int64_t> shape = type.getShape();
        SmallVector<int64_t, 4> local(shape);
        if (dist::OnAttr attr = dist::getPlacementAttr(type))
          local = dist::getPlacement(attr, ranks.getMesh())
                      .getLocalShape(ranks.getMesh(), shape);
        Operands operands(output, ranks, rank);
        Array &array = ranks[rank].outputs[output.getName().str()];
        array = Array::zeros(local);
        array.data = operands.load(output.getBuffer(), f32, array.size());
        if (failed(operands.result))
          return failure();
      }
    }
    return success();
  }
};
} // namespace

void cleave::attachInstructionMeanings(MLIRContext *context) {
  LaunchOp::attachInterface<LaunchMeaning>(*context);
  GemmOp::attachInterface<GemmMeaning>(*context);
  AttentionOp::attachInterface<AttentionMeaning>(*context);
  AttentionGradOp::attachInterface<AttentionGradMeaning>(*context);
  EmbeddingOp::attachInterface<EmbeddingMeaning>(*context);
  EmbeddingGradOp::attachInterface<EmbeddingGradMeaning>(*context);
  FillOp::attachInterface<FillMeaning>(*context);
  CopyOp::attachInterface<CopyMeaning>(*context);
  ScheduleOp::attachInterface<ScheduleMeaning>(*context);
  AllReduceOp::attachInterface<AllReduceMeaning>(*context);
  AllGatherOp::attachInterface<AllGatherMeaning>(*context);
  ReduceScatterOp::attachInterface<ReduceScatterMeaning>(*context);
  AllToAllOp::attachInterface<AllToAllMeaning>(*context);
  SliceOp::attachInterface<SliceMeaning>(*context);
  SendOp::attachInterface<SendMeaning>(*context);
  RecvOp::attachInterface<RecvMeaning>(*context);
  ProgramOp::attachInterface<ProgramMeaning>(*context);
}
