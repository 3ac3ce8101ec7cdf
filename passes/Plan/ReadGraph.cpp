//===- ReadGraph.cpp - What a step trains, read from its ops --------------===//
//
// Without `using namespace mlir`, since the planner calls a layer a Block.
//
//===----------------------------------------------------------------------===//
#include "passes/Plan/ReadGraph.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>

using namespace cleave;
using mlir::cast;
using mlir::dyn_cast;
using mlir::isa;

namespace {
/// A parameter that an op of the forward pass reads.
struct Parameter {
  std::string name;
  llvm::SmallVector<std::string> names; ///< of its dims
  llvm::SmallVector<int64_t> sizes;
  bool isBias = false; ///< that a product adds

  int64_t getElements() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                           std::multiplies<>());
  }
  std::optional<int64_t> find(llvm::StringRef dim) const {
    for (auto [name, size] : llvm::zip_equal(names, sizes))
      if (name == dim)
        return size;
    return std::nullopt;
  }
  /// Leads from or to the hidden vectors; biases and norms do not.
  bool isMatrix() const {
    return sizes.size() > 1 && (find("hidden") || find("vocab"));
  }
};

/// What is read in a layer; of no layer: in -1.
struct Layer {
  std::map<std::string, Parameter> parameters;
  int64_t window = 0;
  bool normsAfter = false; ///< a norm reads what a branch's last product gives
};

class Reader {
public:
  explicit Reader(mlir::func::FuncOp step) : step(step) {}

  llvm::Expected<StepGraph> read();

private:
  void findLayers(mlir::Block &body);
  void findParameter(mlir::Value value, bool isBias, Layer &layer);
  llvm::Expected<Block> readBlock(int64_t number, const Layer &layer) const;
  void readEnds();

  mlir::func::FuncOp step;
  std::map<int64_t, Layer> layers;
  StepGraph graph;
};
} // namespace

/// The state that a value is, or is a cast of.
static xf::StateOp getState(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  while (llvm::isa_and_nonnull<mlir::CastOpInterface>(op))
    op = op->getOperand(0).getDefiningOp();
  auto get = mlir::dyn_cast_or_null<xf::GetOp>(op);
  return get ? mlir::SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
                   get, get.getStateAttr())
             : xf::StateOp();
}

void Reader::findParameter(mlir::Value value, bool isBias, Layer &layer) {
  xf::StateOp state = getState(value);
  if (!state || state.getRole() != xf::StateRole::Parameter)
    return;
  Parameter parameter;
  parameter.name = state.getSymName().str();
  parameter.isBias = isBias;
  llvm::ArrayRef<int64_t> shape = state.getTensorType().getShape();
  parameter.sizes.assign(shape.begin(), shape.end());
  parameter.names.resize(shape.size());
  if (std::optional<mlir::ArrayAttr> dims = state.getDims())
    for (auto [name, dim] : llvm::zip_equal(
             parameter.names, dims->getAsValueRange<mlir::StringAttr>()))
      name = dim.str();
  for (auto [name, size] : llvm::zip_equal(parameter.names, parameter.sizes))
    if (!name.empty())
      graph.dims[name] = std::gcd(graph.dims.lookup(name), size);
  layer.parameters.try_emplace(parameter.name, std::move(parameter));
}

static bool isOf(mlir::Operation *op, xf::Module module) {
  xf::ProvenanceAttr provenance = op ? xf::getProvenance(op) : nullptr;
  return provenance && provenance.getPhase() == xf::Phase::Forward &&
         provenance.getModule() == module;
}

/// Whether a value is what a branch of a layer gives, or a sum with it that
/// nothing but norms reads in the forward pass.
static bool isBranch(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  return isOf(op, xf::Module::Output) || isOf(op, xf::Module::Down) ||
         (isOf(op, xf::Module::Residual) &&
          llvm::all_of(value.getUsers(), [](mlir::Operation *user) {
            return xf::getPhase(user) != xf::Phase::Forward ||
                   isOf(user, xf::Module::Norms);
          }));
}

void Reader::findLayers(mlir::Block &body) {
  for (mlir::Operation &op : body) {
    xf::ProvenanceAttr provenance = xf::getProvenance(&op);
    if (!provenance || provenance.getPhase() != xf::Phase::Forward)
      continue;
    Layer &layer = layers[provenance.getLayer()];
    auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op);
    for (auto [number, operand] : llvm::enumerate(op.getOperands()))
      findParameter(
          operand,
          ruled && llvm::is_contained(ruled.getShardingRule().addends, number),
          layer);
    if (provenance.getModule() == xf::Module::Norms)
      layer.normsAfter |= llvm::any_of(op.getOperands(), isBranch);
    if (provenance.getModule() == xf::Module::Attention)
      if (auto window = op.getAttrOfType<mlir::IntegerAttr>("window"))
        layer.window = window.getInt();
  }
}

llvm::Expected<Block> Reader::readBlock(int64_t number,
                                        const Layer &layer) const {
  Block block;
  block.window = layer.window;
  block.normsAfter = layer.normsAfter;
  int64_t wide = 0, norms = 0, hidden = graph.model.hidden;
  for (const auto &[name, parameter] : layer.parameters) {
    if (parameter.isMatrix()) {
      block.heads = parameter.find("heads").value_or(block.heads);
      block.kvHeads = parameter.find("kv_heads").value_or(block.kvHeads);
      block.headDim = parameter.find("head_dim").value_or(block.headDim);
      block.ffn = parameter.find("intermediate").value_or(block.ffn);
      wide += parameter.find("intermediate") && parameter.find("hidden");
    } else {
      block.vectors += parameter.getElements();
      ++norms;
      if (!parameter.isBias && parameter.find("head_dim"))
        block.headNorm = parameter.find("heads") || parameter.find("kv_heads")
                             ? Block::HeadNorm::Whole
                             : Block::HeadNorm::Each;
    }
  }
  if (block.heads == 0 || block.headDim == 0 || block.ffn == 0)
    return llvm::createStringError(
        "layer " + std::to_string(number) +
        ": expects parameters with dims \"heads\", \"head_dim\" and "
        "\"intermediate\"");
  if (block.kvHeads == 0)
    block.kvHeads = block.heads;
  block.valueDim = block.headDim;
  block.gated = wide > 2;
  block.vectors -= 2 * hidden;
  block.vectorTensors = std::max<int64_t>(norms - 2, 0);
  return block;
}

/// Embedding, head, and what is behind the last layer.
void Reader::readEnds() {
  Architecture &model = graph.model;
  int64_t tables = 0;
  const auto &parameters = layers[-1].parameters;
  for (const auto &[name, parameter] : parameters)
    if (std::optional<int64_t> rows = parameter.find("vocab");
        rows && parameter.isMatrix()) {
      model.vocab = *rows;
      ++tables;
      if (!parameter.find("hidden"))
        model.embeddingWidth = parameter.sizes.back();
    }
  for (const auto &[name, parameter] : parameters) {
    if (!parameter.isMatrix())
      model.vectors += parameter.getElements();
    else if (!parameter.find("vocab") &&
             !llvm::is_contained(parameter.sizes, model.embeddingWidth))
      model.positions = parameter.sizes.front();
  }
  model.tied = tables == 1;
  model.vectors -= model.hidden;
}

llvm::Expected<StepWorkload> cleave::readWorkload(mlir::func::FuncOp step) {
  auto ids = step.getNumArguments() > 0
                 ? dyn_cast<mlir::RankedTensorType>(step.getArgumentTypes()[0])
                 : mlir::RankedTensorType();
  if (!ids || ids.getRank() != 3)
    return llvm::createStringError(
        "expects a step on ids of [micro-batches, batch, sequence]");
  // Of the optimizer, only what it keeps is in bf16, whatever products are in.
  bool isBF16 = false, keepsBF16 = false;
  step.walk([&](mlir::Operation *op) {
    bool isOptimizer = xf::getPhase(op) == xf::Phase::Optimizer;
    (isOptimizer ? keepsBF16 : isBF16) |=
        llvm::any_of(op->getResultTypes(), [](mlir::Type type) {
          return mlir::getElementTypeOrSelf(type).isBF16();
        });
  });
  return StepWorkload{{ids.getDimSize(2), ids.getDimSize(0) * ids.getDimSize(1),
                       isBF16 ? DType::BF16 : DType::F32,
                       keepsBF16 ? DType::BF16 : DType::F32},
                      ids.getDimSize(0)};
}

llvm::Expected<StepGraph> Reader::read() {
  llvm::Expected<StepWorkload> given = readWorkload(step);
  if (!given)
    return given.takeError();
  static_cast<StepWorkload &>(graph) = *given;
  auto loops = step.getOps<xf::AccumulateOp>();
  if (!llvm::hasSingleElement(loops))
    return llvm::createStringError("expects a step with one xf.accumulate");
  findLayers((*loops.begin()).getBody().front());
  graph.model.name = "the step";
  graph.model.hidden = graph.dims.lookup("hidden");
  if (graph.model.hidden == 0)
    return llvm::createStringError("expects parameters with a dim \"hidden\"");
  readEnds();
  for (const auto &[number, layer] : layers) {
    if (number < 0)
      continue;
    llvm::Expected<Block> block = readBlock(number, layer);
    if (!block)
      return block.takeError();
    std::vector<BlockRun> &runs = graph.model.blocks;
    if (!runs.empty() && runs.back().block == *block)
      ++runs.back().count;
    else
      runs.push_back({*block, 1});
  }
  if (graph.model.blocks.empty())
    return llvm::createStringError("expects ops that are of layers, by their "
                                   "xf.provenance");
  return std::move(graph);
}

llvm::Expected<StepGraph> cleave::readGraph(mlir::ModuleOp module) {
  auto step = module.lookupSymbol<mlir::func::FuncOp>("step");
  if (!step || step.isExternal())
    return llvm::createStringError("expects a function named \"step\"");
  return Reader(step).read();
}
