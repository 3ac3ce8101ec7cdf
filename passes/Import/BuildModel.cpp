//===- BuildModel.cpp - From a model description to its forward graph -----===//
#include "passes/Import/BuildModel.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace cleave;

namespace {
class ModelBuilder : OpBuilder::Listener {
public:
  ModelBuilder(MLIRContext *context, const Model &model,
               const BuildOptions &options)
      : model(model), options(options), b(context, this), f32(b.getF32Type()),
        compute(options.bf16 ? Type(b.getBF16Type()) : Type(f32)),
        vocab(options.paddedVocab ? options.paddedVocab : model.vocab) {}

  OwningOpRef<ModuleOp> build();

private:
  using Names = ArrayRef<StringRef>;

  /// What is built from now on is this part of the layer at hand.
  void enter(xf::Module part) {
    if (layer >= 0)
      module = part;
  }
  /// An op of a layer says so.
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (layer >= 0 && op->getNumResults() > 0)
      xf::setProvenance(
          op, xf::ProvenanceAttr::get(b.getContext(), xf::Phase::Forward, layer,
                                      module, /*recomputed=*/false));
  }

  // State. `rows`: of a matrix between hidden vectors; 0: it is none.
  Value getParameter(const Piece &piece, Names dims, xf::InitKind init,
                     double scale, bool cast, size_t rows = 0);
  Value getWeight(const Piece &piece, Names dims, size_t rows = 0) {
    return getParameter(piece, dims, xf::InitKind::Normal,
                        model.initializerRange, true, rows);
  }
  Value getConstant(StringRef name, ArrayRef<int64_t> shape, xf::InitAttr init);
  void addRopeTables();

  // Layers.
  Value buildLinear(StringRef name, const LinearSpec &spec, Value x,
                    int64_t contract, Names outs, Names ins);
  Value buildNorm(StringRef name, const NormWeights &weights, Value x,
                  Names dims);
  Value buildAttention(const LayerSpec &layer, Value x);
  Value buildMLP(const LayerSpec &layer, Value x);
  Value buildLayer(const LayerSpec &layer, Value x);
  Value buildEmbedding(Value ids);
  Value buildLogits(Value x);
  StringRef getEmbeddingDim() const {
    return model.projectIn ? "embedding" : "hidden";
  }
  Value add(StringRef name, ValueRange values);
  Value scale(Value x, double factor);

  Location at(StringRef name) {
    std::string full = scope.empty() ? name.str() : scope + "." + name.str();
    return NameLoc::get(b.getStringAttr(full));
  }
  static RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  RankedTensorType tensor(ArrayRef<int64_t> shape, Type element) {
    return RankedTensorType::get(shape, element);
  }

  const Model &model;
  const BuildOptions &options;
  OpBuilder b;
  Type f32, compute;
  int64_t vocab;
  std::string scope;
  /// What ops are built for: a layer, -1 outside of them, and a part of it.
  int64_t layer = -1;
  std::optional<xf::Module> module;
  ModuleOp root;
  OpBuilder::InsertPoint states;
  llvm::StringMap<Value> parameters; ///< as ops use them, by state name
  Value cos, sin;
};
} // namespace

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// Parts of one tensor are told apart by where they start.
static std::string getStateName(const Piece &piece) {
  std::string name = piece.tensor;
  if (piece.view != piece.sizes)
    for (auto [start, size, whole] :
         llvm::zip(piece.starts, piece.sizes, piece.view))
      if (size != whole)
        name += "@" + std::to_string(start);
  return name;
}

Value ModelBuilder::getParameter(const Piece &piece, Names dims,
                                 xf::InitKind init, double scale, bool cast,
                                 size_t rows) {
  std::string name = getStateName(piece);
  auto [known, isNew] = parameters.try_emplace(name);
  if (!isNew)
    return known->second;

  SmallVector<int64_t> logical = llvm::to_vector(piece.getShape());
  SmallVector<int64_t> shape = logical;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim == "vocab")
      shape[i] = vocab;
  RankedTensorType type = tensor(shape, f32);
  {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(states);
    auto source =
        xf::PieceAttr::get(b.getContext(), piece.tensor, piece.tensorShape,
                           piece.view, piece.starts, piece.sizes, piece.drop);
    // Weight decay applies to matrices, as the checkpoint has them.
    UnitAttr decay = piece.tensorShape.size() >= 2 ? b.getUnitAttr() : nullptr;
    xf::StateOp::create(
        b, at(name), b.getStringAttr(name),
        xf::StateRoleAttr::get(b.getContext(), xf::StateRole::Parameter),
        TypeAttr::get(type),
        xf::InitAttr::get(b.getContext(), init, b.getF64FloatAttr(scale), {}),
        shape == logical ? DenseI64ArrayAttr()
                         : b.getDenseI64ArrayAttr(logical),
        b.getStrArrayAttr(dims), source, decay,
        rows ? b.getI64IntegerAttr(int64_t(rows)) : IntegerAttr(),
        model.tied && piece.tensor == model.embedding.tensor
            ? b.getStrArrayAttr(StringRef(model.headName))
            : ArrayAttr(),
        FlatSymbolRefAttr());
    states = b.saveInsertionPoint();
  }
  Value value = xf::GetOp::create(b, at(name), type, name);
  if (cast && compute != f32)
    value = xf::CastOp::create(b, at(name), type.clone(compute), value);
  return parameters[name] = value;
}

Value ModelBuilder::getConstant(StringRef name, ArrayRef<int64_t> shape,
                                xf::InitAttr init) {
  RankedTensorType type = tensor(shape, f32);
  OpBuilder::InsertPoint body = b.saveInsertionPoint();
  b.restoreInsertionPoint(states);
  xf::StateOp::create(
      b, at(name), b.getStringAttr(name),
      xf::StateRoleAttr::get(b.getContext(), xf::StateRole::Constant),
      TypeAttr::get(type), init, DenseI64ArrayAttr(), ArrayAttr(),
      xf::PieceAttr(), UnitAttr(), IntegerAttr(), ArrayAttr(),
      FlatSymbolRefAttr());
  states = b.saveInsertionPoint();
  b.restoreInsertionPoint(body);
  return xf::GetOp::create(b, at(name), type, name);
}

void ModelBuilder::addRopeTables() {
  const RopeSpec &rope = *model.rope;
  SmallVector<int64_t> shape{options.seqLen,
                             int64_t(rope.inverseFrequencies.size())};
  auto make = [&](StringRef name, xf::InitKind kind) {
    return getConstant(
        name, shape,
        xf::InitAttr::get(
            b.getContext(), kind, b.getF64FloatAttr(rope.attentionScaling),
            DenseElementsAttr::get(tensor({shape[1]}, f32),
                                   ArrayRef<float>(rope.inverseFrequencies))));
  };
  cos = make("rope.cos", xf::InitKind::RopeCos);
  sin = make("rope.sin", xf::InitKind::RopeSin);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Value ModelBuilder::add(StringRef name, ValueRange values) {
  enter(xf::Module::Residual);
  return xf::AddOp::create(b, at(name), values[0].getType(), values);
}

Value ModelBuilder::scale(Value x, double factor) {
  if (factor == 1)
    return x;
  enter(xf::Module::Residual);
  return xf::ScaleOp::create(b, at("scale"), x.getType(), x,
                             b.getF64FloatAttr(factor));
}

Value ModelBuilder::buildLinear(StringRef name, const LinearSpec &spec, Value x,
                                int64_t contract, Names outs, Names ins) {
  SmallVector<StringRef> dims(spec.inputsFirst ? ins : outs);
  llvm::append_range(dims, spec.inputsFirst ? outs : ins);
  // A head has a row for each word, as an embedding does.
  bool isHead = llvm::is_contained(outs, "vocab");
  size_t rows = (spec.inputsFirst ? ins : outs).size();
  Value weight = getWeight(spec.weight, dims, isHead ? 0 : rows), bias;
  if (spec.bias)
    bias = getParameter(*spec.bias, outs, xf::InitKind::Zeros, 0, false);
  ArrayRef<int64_t> w = typeOf(weight).getShape();
  SmallVector<int64_t> shape(typeOf(x).getShape().drop_back(contract));
  llvm::append_range(shape, spec.inputsFirst ? w.drop_front(contract)
                                             : w.drop_back(contract));
  return xf::LinearOp::create(b, at(name), tensor(shape, compute), x, weight,
                              bias, contract, spec.inputsFirst);
}

Value ModelBuilder::buildNorm(StringRef name, const NormWeights &weights,
                              Value x, Names dims) {
  enter(xf::Module::Norms);
  const NormSpec &norm = model.norm;
  xf::InitKind ones =
      norm.weightOffset == 0 ? xf::InitKind::Ones : xf::InitKind::Zeros;
  Value weight = getParameter(weights.weight, dims, ones, 1, false);
  RankedTensorType type = typeOf(x);
  RankedTensorType rows =
      tensor(type.getShape().drop_back(typeOf(weight).getRank()), f32);
  FloatAttr eps = b.getF64FloatAttr(norm.eps);
  if (norm.kind == NormKind::RMSNorm)
    return xf::RMSNormOp::create(b, at(name), TypeRange{type, rows}, x, weight,
                                 eps, b.getF64FloatAttr(norm.weightOffset),
                                 norm.weightInF32 ? b.getUnitAttr()
                                                  : UnitAttr())
        .getResult();
  Value bias = getParameter(*weights.bias, dims, xf::InitKind::Zeros, 0, false);
  return xf::LayerNormOp::create(b, at(name), TypeRange{type, rows, rows}, x,
                                 weight, bias, eps)
      .getResult();
}

Value ModelBuilder::buildAttention(const LayerSpec &layer, Value x) {
  enter(xf::Module::QKV);
  Value q = buildLinear("q", layer.q, x, 1, {"heads", "head_dim"}, {"hidden"});
  Value k =
      buildLinear("k", layer.k, x, 1, {"kv_heads", "head_dim"}, {"hidden"});
  Value v =
      buildLinear("v", layer.v, x, 1, {"kv_heads", "head_dim"}, {"hidden"});
  bool perHead = model.qkNorm == QKNorm::PerHead;
  if (layer.qNorm)
    q = buildNorm("q_norm", *layer.qNorm, q,
                  perHead ? Names{"head_dim"} : Names{"heads", "head_dim"});
  if (layer.kNorm)
    k = buildNorm("k_norm", *layer.kNorm, k,
                  perHead ? Names{"head_dim"} : Names{"kv_heads", "head_dim"});
  if (model.rope) {
    enter(xf::Module::QKV);
    q = xf::RopeOp::create(b, at("q_rope"), q.getType(), q, cos, sin, false);
    k = xf::RopeOp::create(b, at("k_rope"), k.getType(), k, cos, sin, false);
  }
  enter(xf::Module::Attention);
  ArrayRef<int64_t> shape = typeOf(q).getShape();
  Value out =
      xf::AttentionOp::create(
          b, at("attention"),
          TypeRange{q.getType(), tensor({shape[0], shape[2], shape[1]}, f32)},
          q, k, v, b.getF64FloatAttr(layer.attentionScale),
          b.getI64IntegerAttr(layer.window), b.getF64FloatAttr(0))
          .getResult();
  enter(xf::Module::Output);
  return buildLinear("o", layer.o, out, 2, {"hidden"}, {"heads", "head_dim"});
}

static xf::ActivationKind convert(Activation activation) {
  switch (activation) {
  case Activation::GeluErf:
    return xf::ActivationKind::GeluErf;
  case Activation::GeluTanh:
    return xf::ActivationKind::GeluTanh;
  case Activation::GeluFast:
    return xf::ActivationKind::GeluFast;
  case Activation::QuickGelu:
    return xf::ActivationKind::QuickGelu;
  case Activation::Silu:
    return xf::ActivationKind::Silu;
  case Activation::Relu:
    return xf::ActivationKind::Relu;
  case Activation::Relu2:
    return xf::ActivationKind::Relu2;
  }
  llvm_unreachable("unknown activation");
}

Value ModelBuilder::buildMLP(const LayerSpec &layer, Value x) {
  xf::ActivationKind kind = convert(model.activation);
  enter(xf::Module::Up);
  Value up = buildLinear("up", layer.up, x, 1, {"intermediate"}, {"hidden"});
  if (layer.gate) {
    Value gate =
        buildLinear("gate", *layer.gate, x, 1, {"intermediate"}, {"hidden"});
    enter(xf::Module::Activation);
    up = xf::GluOp::create(b, at("glu"), up.getType(), gate, up, kind);
  } else {
    enter(xf::Module::Activation);
    up = xf::ActivationOp::create(b, at("act"), up.getType(), up, kind);
  }
  enter(xf::Module::Down);
  return buildLinear("down", layer.down, up, 1, {"hidden"}, {"intermediate"});
}

Value ModelBuilder::buildLayer(const LayerSpec &layer, Value x) {
  const StringRef hidden[] = {"hidden"};
  switch (model.form) {
  case BlockForm::PreNorm: {
    Value a = buildAttention(layer, buildNorm("norm1", layer.norm1, x, hidden));
    x = add("add1", {x, scale(a, model.residualScale)});
    Value m = buildMLP(layer, buildNorm("norm2", layer.norm2, x, hidden));
    return add("add2", {x, scale(m, model.residualScale)});
  }
  case BlockForm::PostNorm: {
    Value a = buildNorm("norm1", layer.norm1, buildAttention(layer, x), hidden);
    x = add("add1", {x, scale(a, model.residualScale)});
    Value m = buildNorm("norm2", layer.norm2, buildMLP(layer, x), hidden);
    return add("add2", {x, scale(m, model.residualScale)});
  }
  case BlockForm::Parallel: {
    Value a = buildAttention(layer, buildNorm("norm1", layer.norm1, x, hidden));
    Value m = buildMLP(layer, buildNorm("norm2", layer.norm2, x, hidden));
    return add("add", {x, scale(a, model.residualScale),
                       scale(m, model.residualScale)});
  }
  case BlockForm::NormedSum: {
    Value a = scale(buildAttention(layer, x), model.residualScale);
    x = buildNorm("norm1", layer.norm1, add("add1", {x, a}), hidden);
    Value m = scale(buildMLP(layer, x), model.residualScale);
    return buildNorm("norm2", layer.norm2, add("add2", {x, m}), hidden);
  }
  }
  llvm_unreachable("unknown block form");
}

Value ModelBuilder::buildEmbedding(Value ids) {
  Value table = getWeight(model.embedding, {"vocab", getEmbeddingDim()});
  IntegerAttr padding;
  if (model.paddingToken)
    padding = b.getI64IntegerAttr(*model.paddingToken);
  Value x = xf::EmbeddingOp::create(
      b, at("embedding"),
      tensor({options.batch, options.seqLen, typeOf(table).getDimSize(1)},
             compute),
      ids, table, padding);
  x = scale(x, model.embeddingScale);
  if (model.projectIn)
    x = buildLinear("project_in", *model.projectIn, x, 1, {"hidden"},
                    {getEmbeddingDim()});
  if (!model.positions)
    return x;
  Value positions = getWeight(*model.positions, {"positions", "hidden"});
  Value rows = xf::SliceRowsOp::create(
      b, at("positions"), tensor({options.seqLen, model.hidden}, compute),
      positions, b.getI64IntegerAttr(model.positionOffset));
  return add("add_positions", {x, rows});
}

Value ModelBuilder::buildLogits(Value x) {
  if (model.finalNorm)
    x = buildNorm("norm", *model.finalNorm, x, {"hidden"});
  if (model.projectOut)
    x = buildLinear("project_out", *model.projectOut, x, 1, {getEmbeddingDim()},
                    {"hidden"});
  LinearSpec tied;
  tied.weight = model.embedding;
  Value logits = buildLinear("head", model.tied ? tied : *model.head, x, 1,
                             {"vocab"}, {getEmbeddingDim()});
  return scale(logits, model.logitScale);
}

OwningOpRef<ModuleOp> ModelBuilder::build() {
  OwningOpRef<ModuleOp> owner = ModuleOp::create(b, b.getUnknownLoc());
  root = *owner;
  b.setInsertionPointToStart(root.getBody());
  RankedTensorType ids =
      tensor({options.batch, options.seqLen}, b.getI32Type());
  auto function =
      func::FuncOp::create(b, b.getUnknownLoc(), "forward",
                           b.getFunctionType({ids, ids}, {tensor({}, f32)}));
  // State goes before the function, in the order of first use.
  states = OpBuilder::InsertPoint(root.getBody(), function->getIterator());
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);

  if (model.rope)
    addRopeTables();
  Value x = buildEmbedding(entry->getArgument(0));
  for (auto [i, spec] : llvm::enumerate(model.layers)) {
    scope = "layers." + std::to_string(i);
    layer = int64_t(i);
    x = buildLayer(spec, x);
  }
  scope.clear();
  layer = -1;
  module.reset();
  Value logits = buildLogits(x);
  if (options.logits) {
    Value kept = logits;
    if (compute != f32)
      kept = xf::CastOp::create(b, at("logits"), typeOf(logits).clone(f32),
                                logits);
    // The padding of a vocabulary is no part of them.
    SmallVector<int64_t> logical(typeOf(kept).getShape());
    logical.back() = model.vocab;
    xf::OutputOp::create(b, at("logits"), "logits", kept, FlatSymbolRefAttr(),
                         b.getDenseI64ArrayAttr(logical));
  }
  auto loss = xf::CrossEntropyOp::create(
      b, at("cross_entropy"),
      TypeRange{tensor({}, f32), tensor(ids.getShape(), f32)}, logits,
      entry->getArgument(1), model.vocab);
  func::ReturnOp::create(b, b.getUnknownLoc(), loss.getLoss());
  return owner;
}

llvm::Expected<OwningOpRef<ModuleOp>>
cleave::buildModel(MLIRContext *context, const Model &model,
                   const BuildOptions &options) {
  if (options.seqLen < 1 || options.batch < 1)
    return llvm::createStringError(
        "sequence length and batch must be at least 1");
  if (model.positions) {
    int64_t rows = model.positions->getShape()[0] - model.positionOffset;
    if (options.seqLen > rows)
      return llvm::createStringError(
          "sequence length %lld: the model has %lld learned positions",
          (long long)options.seqLen, (long long)rows);
  }
  context->loadDialect<xf::XfDialect, func::FuncDialect>();
  return ModelBuilder(context, model, options).build();
}
