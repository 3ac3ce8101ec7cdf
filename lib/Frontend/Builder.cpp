#include "Builder.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace cleave;
using namespace cleave::frontend;
using Shape = std::vector<int64_t>;

namespace {

int64_t product(const Shape &shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}

/// Cuts pieces out of checkpoint tensors and lists each tensor once, in the
/// order of first use.
class Layout {
public:
  Layout(Model &model, const Family &family, const LayoutOptions &options)
      : model(model), family(family), options(options) {}

  void build() {
    const Names &names = family.names;
    const int64_t h = model.hidden;
    const int64_t width = options.embeddingWidth ? options.embeddingWidth : h;
    model.embedding = whole(names.embedding + ".weight", {model.vocab, width});
    if (width != h) {
      model.projectIn = linear(names.projectIn, {h}, {width}, /*bias=*/false);
      model.projectOut = linear(names.projectOut, {width}, {h}, /*bias=*/false);
    }
    if (options.positionRows)
      model.positions =
          whole(names.positions + ".weight", {options.positionRows, h});
    for (auto [index, layer] : llvm::enumerate(model.layers))
      buildLayer(layer, (names.layer + llvm::Twine(index) + ".").str());
    if (options.finalNorm)
      model.finalNorm = norm(names.finalNorm, {h});
    model.headName = (names.head + ".weight").str();
    if (!model.tied) {
      // As the embedding in GPT-2 too, whose other linears are transposed.
      model.head.emplace();
      model.head->weight = whole(model.headName, {model.vocab, width});
    }
  }

private:
  Model &model;
  const Family &family;
  const LayoutOptions &options;
  std::set<std::string> listed;

  /// The box of `view` that has index `at` and length `length` in dim `dim`.
  Piece cut(const llvm::Twine &name, Shape tensorShape, Shape view, size_t dim,
            int64_t at, int64_t length) {
    Piece piece;
    piece.tensor = name.str();
    piece.tensorShape = std::move(tensorShape);
    piece.starts.assign(view.size(), 0);
    piece.sizes = view;
    piece.view = std::move(view);
    if (dim < piece.view.size()) {
      piece.starts[dim] = at;
      piece.sizes[dim] = length;
    }
    if (listed.insert(piece.tensor).second)
      model.tensors.push_back({piece.tensor, piece.tensorShape});
    return piece;
  }

  /// As cut, of length 1, without that dim.
  Piece select(const llvm::Twine &name, Shape tensorShape, Shape view,
               size_t dim, int64_t at) {
    Piece piece =
        cut(name, std::move(tensorShape), std::move(view), dim, at, 1);
    piece.drop = {int64_t(dim)};
    return piece;
  }

  /// All of a tensor, seen as `view` (by default as it is).
  Piece whole(const llvm::Twine &name, Shape tensorShape, Shape view = {}) {
    if (view.empty())
      view = tensorShape;
    size_t none = view.size();
    return cut(name, std::move(tensorShape), std::move(view), none, 0, 0);
  }

  NormWeights norm(const llvm::Twine &name, const Shape &view) {
    NormWeights weights;
    weights.weight = whole(name + ".weight", {product(view)}, view);
    if (model.norm.bias)
      weights.bias = whole(name + ".bias", {product(view)}, view);
    return weights;
  }

  /// A linear with a tensor of its own. `out` and `in` are the dims as the
  /// program sees them; the checkpoint has them flat.
  LinearSpec linear(const llvm::Twine &name, Shape out, Shape in, bool bias) {
    LinearSpec spec;
    spec.inputsFirst = family.qkv == QKVLayout::TransposedColumns;
    Shape flat = {product(out), product(in)}, view = out;
    view.insert(view.end(), in.begin(), in.end());
    if (spec.inputsFirst) {
      std::swap(flat[0], flat[1]);
      view = in;
      view.insert(view.end(), out.begin(), out.end());
    }
    spec.weight = whole(name + ".weight", flat, view);
    if (bias)
      spec.bias = whole(name + ".bias", {product(out)}, out);
    return spec;
  }

  void buildLayer(LayerSpec &layer, const std::string &prefix) {
    const Names &names = family.names;
    const int64_t h = model.hidden, f = model.intermediate;
    const int64_t a = model.heads, kv = model.kvHeads, d = model.headDim;

    layer.norm1 = norm(prefix + names.norm1, {h});
    buildQKV(layer, prefix);
    if (model.qkNorm == QKNorm::PerHead) {
      layer.qNorm = norm(prefix + names.qNorm, {d});
      layer.kNorm = norm(prefix + names.kNorm, {d});
    } else if (model.qkNorm == QKNorm::FullWidth) {
      layer.qNorm = norm(prefix + names.qNorm, {a, d});
      layer.kNorm = norm(prefix + names.kNorm, {kv, d});
    }
    layer.o = linear(prefix + names.o, {h}, {a, d}, options.outputBias);
    layer.norm2 = norm(prefix + names.norm2, {h});

    if (family.facts.mlp == MLPLayout::FusedGate) {
      layer.gate = LinearSpec();
      fused(*layer.gate, prefix + names.up, {2 * f}, 0, f, options.mlpBias);
      fused(layer.up, prefix + names.up, {2 * f}, f, f, options.mlpBias);
    } else {
      if (family.facts.mlp == MLPLayout::Gated)
        layer.gate = linear(prefix + names.gate, {f}, {h}, options.mlpBias);
      layer.up = linear(prefix + names.up, {f}, {h}, options.mlpBias);
    }
    layer.down = linear(prefix + names.down, {h}, {f}, options.mlpBias);
  }

  /// Rows [at, at + length) of a tensor whose out dims are `out`.
  void fused(LinearSpec &spec, const llvm::Twine &name, const Shape &out,
             int64_t at, int64_t length, bool bias) {
    const int64_t rows = product(out);
    Shape view = out;
    view.push_back(model.hidden);
    spec.weight =
        cut(name + ".weight", {rows, model.hidden}, view, 0, at, length);
    if (bias)
      spec.bias = cut(name + ".bias", {rows}, out, 0, at, length);
  }

  void buildQKV(LayerSpec &layer, const std::string &prefix) {
    const Names &names = family.names;
    const int64_t h = model.hidden;
    const int64_t a = model.heads, kv = model.kvHeads, d = model.headDim;
    const bool bias = options.attentionBias;
    LinearSpec *specs[] = {&layer.q, &layer.k, &layer.v};
    const int64_t counts[] = {a, kv, kv};

    const std::string name = prefix + names.qkv.str();
    int64_t firstHead = 0;
    for (int i = 0; i < 3; ++i) {
      LinearSpec &spec = *specs[i];
      switch (family.qkv) {
      case QKVLayout::Separate: {
        const llvm::StringRef separate[] = {names.q, names.k, names.v};
        spec = linear(prefix + separate[i], {counts[i], d}, {h}, bias);
        break;
      }
      case QKVLayout::Rows:
        fused(spec, name, {a + 2 * kv, d}, firstHead, counts[i], bias);
        firstHead += counts[i];
        break;
      case QKVLayout::RowsPerHead:
        spec.weight =
            select(name + ".weight", {a * 3 * d, h}, {a, 3, d, h}, 1, i);
        if (bias)
          spec.bias = select(name + ".bias", {a * 3 * d}, {a, 3, d}, 1, i);
        break;
      case QKVLayout::TransposedColumns:
        spec.inputsFirst = true;
        spec.weight =
            select(name + ".weight", {h, 3 * a * d}, {h, 3, a, d}, 1, i);
        if (bias)
          spec.bias = select(name + ".bias", {3 * a * d}, {3, a, d}, 0, i);
        break;
      }
    }
  }
};

} // namespace

void cleave::frontend::buildLayout(Model &model, const Family &family,
                                   const LayoutOptions &options) {
  Layout(model, family, options).build();
}
