//===- Rules.cpp - The sharding rule of each op ---------------------------===//
//
// In the rules below a capital letter stands for several dims: L are the
// leading dims, I and O the input and output dims of a weight, H normalized
// dims.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/xf/Xf.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
/// Spells a rule out for the shapes at hand and parses it.
class RuleSpelling {
public:
  /// Names one dim.
  std::string dim(StringRef name, int64_t size) {
    sizes.emplace_back(name.str(), size);
    return name.str();
  }
  /// Names dims `prefix`0, `prefix`1, ...
  std::string dims(char prefix, ArrayRef<int64_t> shape) {
    std::string text;
    for (auto [i, size] : llvm::enumerate(shape))
      text += dim(std::string(1, prefix) + std::to_string(i), size) + " ";
    return text;
  }

  ShardingRule parse(const Twine &text) {
    SmallVector<std::pair<StringRef, int64_t>> refs;
    for (auto &[name, size] : sizes)
      refs.emplace_back(name, size);
    llvm::Expected<ShardingRule> rule = ShardingRule::parse(text.str(), refs);
    if (!rule)
      llvm::report_fatal_error(Twine("malformed sharding rule \"") + text +
                               "\": " + llvm::toString(rule.takeError()));
    return *rule;
  }

private:
  SmallVector<std::pair<std::string, int64_t>> sizes;
};
} // namespace

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// `| reduce names`, nothing if there are none.
static std::string clause(StringRef what, StringRef names) {
  return names.trim().empty() ? "" : (" | " + what + " " + names).str();
}

/// A tensor without dims.
static constexpr StringLiteral scalar = ".";

/// One rule for ops whose tensors all have the same dims, or none.
static ShardingRule getPointwiseRule(Operation *op, StringRef more = "") {
  RuleSpelling rule;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  std::string all = rule.dims('l', shape);
  auto list = [&](ValueRange values) {
    std::string text;
    for (auto [i, value] : llvm::enumerate(values))
      text += (i ? ", " : "") + (shapeOf(value).empty() ? scalar.str() : all);
    return text;
  };
  return rule.parse(list(op->getOperands()) + " -> " + list(op->getResults()) +
                    more);
}

ShardingRule EmbeddingOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getIds()));
  std::string v = rule.dim("v", shapeOf(getTable())[0]);
  std::string h = rule.dim("h", shapeOf(getTable())[1]);
  return rule.parse(l + ", " + v + " " + h + " -> " + l + h + " | reduce v");
}

ShardingRule LinearOp::getShardingRule() {
  RuleSpelling rule;
  int64_t leading = getNumLeading();
  ArrayRef<int64_t> x = shapeOf(getX());
  std::string l = rule.dims('l', x.take_front(leading));
  std::string i = rule.dims('i', x.drop_front(leading));
  std::string o = rule.dims('o', shapeOf(getResult()).drop_front(leading));
  std::string w = getInputsFirst() ? i + o : o + i;
  if (getBias())
    return rule.parse(l + i + ", " + w + ", " + o + " -> " + l + o +
                      clause("reduce", i) + " | pass 0 2 | add 2");
  return rule.parse(l + i + ", " + w + " -> " + l + o + clause("reduce", i) +
                    " | pass 0 | pass 1");
}

static constexpr StringLiteral normReason = ": a norm reads whole rows";

ShardingRule RMSNormOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> w = shapeOf(getWeight());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(w.size()));
  std::string h = rule.dims('h', w);
  return rule.parse(l + h + ", " + h + " -> " + l + h + ", " + l + " | block " +
                    h + normReason);
}

ShardingRule LayerNormOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> w = shapeOf(getWeight());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(w.size()));
  std::string h = rule.dims('h', w);
  return rule.parse(l + h + ", " + h + ", " + h + " -> " + l + h + ", " + l +
                    ", " + l + " | block " + h + normReason);
}

ShardingRule RopeOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> x = shapeOf(getX());
  rule.dims('x', x);
  rule.dim("n", shapeOf(getCos())[1]);
  return rule.parse("x0 x1 x2 x3, x1 n, x1 n -> x0 x1 x2 x3 | pass 0 | block "
                    "x3 n: channels rotate in pairs");
}

/// Names the dims of q and k: batch b, queries s, keys t, kv heads k, query
/// heads of each g, channels d.
static RuleSpelling spellAttention(Value q, Value k) {
  RuleSpelling rule;
  rule.dim("b", shapeOf(q)[0]);
  rule.dim("s", shapeOf(q)[1]);
  rule.dim("t", shapeOf(k)[1]);
  rule.dim("k", shapeOf(k)[2]);
  rule.dim("g", shapeOf(q)[2] / shapeOf(k)[2]);
  rule.dim("d", shapeOf(q)[3]);
  return rule;
}

ShardingRule AttentionOp::getShardingRule() {
  return spellAttention(getQ(), getK())
      .parse("b s (k g) d, b t k d, b t k d -> b s (k g) d, b (k g) s "
             "| block s t d: every query of a head reads its keys");
}

ShardingRule AttentionGradOp::getShardingRule() {
  return spellAttention(getQ(), getK())
      .parse("b s (k g) d, b t k d, b t k d, b s (k g) d, b (k g) s, "
             "b s (k g) d -> b s (k g) d, b t k d, b t k d | reduce g "
             "| block s t d: every query of a head reads its keys");
}

ShardingRule ActivationOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule ActivationGradOp::getShardingRule() {
  return getPointwiseRule(*this);
}
ShardingRule GluOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule GluGradOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule CastOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule ScaleOp::getShardingRule() {
  return getPointwiseRule(*this, " | pass 0");
}
ShardingRule MulOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule NesterovOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule NormalizeOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule ReciprocalOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule ClipFactorOp::getShardingRule() { return getPointwiseRule(*this); }
ShardingRule TokenLossOp::getShardingRule() { return getPointwiseRule(*this); }

ShardingRule AddOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> shape = shapeOf(getResult());
  rule.dims('l', shape);
  auto spell = [&](size_t rank) {
    std::string text;
    for (size_t i = shape.size() - rank; i < shape.size(); ++i)
      text += "l" + std::to_string(i) + " ";
    return text.empty() ? scalar.str() : text;
  };
  std::string text, pass;
  for (auto [i, value] : llvm::enumerate(getInputs())) {
    text += (i ? ", " : "") + spell(shapeOf(value).size());
    pass += " " + std::to_string(i);
  }
  return rule.parse(text + " -> " + spell(shape.size()) + " | pass" + pass);
}

ShardingRule SliceRowsOp::getShardingRule() {
  RuleSpelling rule;
  rule.dim("r", shapeOf(getX())[0]);
  rule.dim("s", shapeOf(getResult())[0]);
  std::string h = rule.dims('h', shapeOf(getX()).drop_front());
  return rule.parse("r " + h + " -> s " + h +
                    " | pass 0 | block r s: rows move");
}

ShardingRule PadRowsOp::getShardingRule() {
  RuleSpelling rule;
  rule.dim("s", shapeOf(getX())[0]);
  rule.dim("r", shapeOf(getResult())[0]);
  std::string h = rule.dims('h', shapeOf(getX()).drop_front());
  return rule.parse("s " + h + " -> r " + h +
                    " | pass 0 | block r s: rows move");
}

ShardingRule CrossEntropyOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getTargets()));
  std::string v = rule.dim("v", shapeOf(getLogits()).back());
  return rule.parse(l + v + ", " + l + " -> ., " + l + clause("reduce", l) +
                    " | block v: the softmax is over the whole vocabulary");
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getTargets()));
  std::string v = rule.dim("v", shapeOf(getLogits()).back());
  return rule.parse(l + v + ", " + l + ", " + l + ", . -> " + l + v);
}

ShardingRule RowMaxOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getResult()));
  std::string v = rule.dim("v", shapeOf(getX()).back());
  return rule.parse(l + v + " -> " + l + " | max v");
}

ShardingRule SumExpOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getResult()));
  std::string v = rule.dim("v", shapeOf(getX()).back());
  return rule.parse(l + v + ", " + l + " -> " + l + " | reduce v");
}

ShardingRule PickOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getResult()));
  std::string v = rule.dim("v", shapeOf(getX()).back());
  return rule.parse(l + v + ", " + l + " -> " + l + " | reduce v");
}

/// `L -> ` with every dim summed.
static ShardingRule getFullReductionRule(Value x, StringRef more = "") {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(x));
  return rule.parse((l.empty() ? scalar.str() : l) + " -> ." +
                    clause("reduce", l) + more);
}

ShardingRule SumOp::getShardingRule() {
  return getFullReductionRule(getX(), " | pass 0");
}
ShardingRule SquareSumOp::getShardingRule() {
  return getFullReductionRule(getX());
}
ShardingRule CountTokensOp::getShardingRule() {
  return getFullReductionRule(getTargets());
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getIds()));
  std::string v = rule.dim("v", shapeOf(getResult())[0]);
  std::string h = rule.dim("h", shapeOf(getResult())[1]);
  return rule.parse(l + ", " + l + h + " -> " + v + " " + h +
                    clause("reduce", l) + " | pass 1");
}

ShardingRule MaskRowsOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getIds()));
  std::string h =
      rule.dims('h', shapeOf(getX()).drop_front(shapeOf(getIds()).size()));
  return rule.parse(l + h + ", " + l + " -> " + l + h + " | pass 0");
}

ShardingRule LinearWeightGradOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getX()).take_front(getLeading()));
  std::string i = rule.dims('i', shapeOf(getX()).drop_front(getLeading()));
  std::string o = rule.dims('o', shapeOf(getDy()).drop_front(getLeading()));
  std::string w = getInputsFirst() ? i + o : o + i;
  return rule.parse(l + i + ", " + l + o + " -> " + w + clause("reduce", l) +
                    " | pass 0 | pass 1");
}

ShardingRule ReduceLeadingOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> t = shapeOf(getResult());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(t.size()));
  std::string trailing = rule.dims('t', t);
  return rule.parse(l + trailing + " -> " + trailing + clause("reduce", l) +
                    " | pass 0");
}

ShardingRule RMSNormGradOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> w = shapeOf(getWeight());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(w.size()));
  std::string h = rule.dims('h', w);
  return rule.parse(l + h + ", " + h + ", " + l + ", " + l + h + " -> " + l +
                    h + " | block " + h + normReason);
}

ShardingRule LayerNormGradOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> w = shapeOf(getWeight());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(w.size()));
  std::string h = rule.dims('h', w);
  return rule.parse(l + h + ", " + h + ", " + l + ", " + l + ", " + l + h +
                    " -> " + l + h + " | block " + h + normReason);
}

ShardingRule NormWeightGradOp::getShardingRule() {
  RuleSpelling rule;
  ArrayRef<int64_t> w = shapeOf(getResult());
  std::string l = rule.dims('l', shapeOf(getX()).drop_back(w.size()));
  std::string h = rule.dims('h', w);
  return rule.parse(l + h + ", " + l + ", " + l + h +
                    (getMean() ? ", " + l : std::string()) + " -> " + h +
                    clause("reduce", l));
}

/// Every rank computes it for itself.
ShardingRule ScheduleOp::getShardingRule() {
  RuleSpelling rule;
  rule.dim("q", ScheduleOp::size);
  return rule.parse("-> q | block q: scalars of the step");
}

ShardingRule GuardOp::getShardingRule() {
  RuleSpelling rule;
  rule.dim("q", ScheduleOp::size);
  return rule.parse("., ., ., q -> . | block q: scalars of the step");
}

ShardingRule OrthogonalizeOp::getShardingRule() {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(getX()));
  return rule.parse(l + "-> " + l + "| block " + l +
                    ": singular values are of the whole matrix");
}

/// One rule for all updates: values, gradient and what else one reads are split
/// alike.
static ShardingRule getUpdateRule(Operation *op) {
  RuleSpelling rule;
  std::string l = rule.dims('l', shapeOf(op->getResult(0)));
  rule.dim("q", ScheduleOp::size);
  std::string olds, news, more;
  size_t values = op->getNumResults();
  for (size_t i = 0; i < values; ++i) {
    olds += l + ", ";
    news += (i ? ", " : "") + l;
  }
  for (size_t i = values + 3; i < op->getNumOperands(); ++i)
    more += ", " + l;
  return rule.parse(olds + l + ", ., q" + more + " -> " + news +
                    " | block q: scalars of the step");
}

ShardingRule AdamWOp::getShardingRule() { return getUpdateRule(*this); }
ShardingRule SGDOp::getShardingRule() { return getUpdateRule(*this); }
ShardingRule LionOp::getShardingRule() { return getUpdateRule(*this); }
ShardingRule MuonOp::getShardingRule() { return getUpdateRule(*this); }

//===----------------------------------------------------------------------===//
// Ops that number the whole vocabulary
//===----------------------------------------------------------------------===//

/// The last dim of a tensor.
static std::pair<Value, unsigned> getLastDim(Value value) {
  return {value, unsigned(shapeOf(value).size() - 1)};
}

std::pair<Value, unsigned> EmbeddingOp::getShardedDim() {
  return {getTable(), 0};
}
std::pair<Value, unsigned> EmbeddingGradOp::getShardedDim() {
  return {getResult(), 0};
}
std::pair<Value, unsigned> RowMaxOp::getShardedDim() {
  return getLastDim(getX());
}
std::pair<Value, unsigned> SumExpOp::getShardedDim() {
  return getLastDim(getX());
}
std::pair<Value, unsigned> PickOp::getShardedDim() {
  return getLastDim(getX());
}
std::pair<Value, unsigned> CrossEntropyGradOp::getShardedDim() {
  return getLastDim(getLogits());
}

//===----------------------------------------------------------------------===//
// Type checking
//===----------------------------------------------------------------------===//

LogicalResult xf::verifyShardingRule(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  // No rule has a factor of size 0, nor does any device have a share of it.
  for (Type type : types)
    if (llvm::any_of(cast<ShapedType>(type).getShape(),
                     [](int64_t size) { return size < 1; }))
      return op->emitOpError("expects dims of at least 1, got ") << type;
  size_t placed = llvm::count_if(
      types, [](Type type) { return bool(dist::getPlacementAttr(type)); });
  if (!placed)
    return success();
  if (placed != types.size())
    return op->emitOpError("expects a placement on every tensor or on none");

  dist::OnAttr first = dist::getPlacementAttr(types[0]);
  Mesh mesh = dist::getNominalMesh(types);
  SmallVector<Placement> placements;
  for (Type type : types) {
    dist::OnAttr attr = dist::getPlacementAttr(type);
    if (attr.getMesh() != first.getMesh())
      return op->emitOpError("expects one mesh, got ")
             << first.getMesh() << " and " << attr.getMesh();
    if (int64_t(attr.getDims().size()) != cast<ShapedType>(type).getRank())
      return op->emitOpError("expects one list of axes for each dim, got ")
             << type;
    placements.push_back(dist::getPlacement(attr, mesh));
  }
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  ArrayRef<Placement> all(placements);
  if (llvm::Error error =
          checkRule(mesh, rule, all.take_front(op->getNumOperands()),
                    all.drop_front(op->getNumOperands())))
    return op->emitOpError(llvm::toString(std::move(error)));
  return success();
}
