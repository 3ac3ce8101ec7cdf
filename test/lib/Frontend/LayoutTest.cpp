// Names and shapes of checkpoint tensors, and which part of a tensor each
// parameter is.

#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <map>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;
using Shape = std::vector<int64_t>;

namespace {

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, TensorsAreThoseThatTransformersSaves) {
  Model model = parse(readJson("golden/" + GetParam() + ".json"));
  json summary = json::parse(getModelSummary(model));
  json tensors = json::object();
  for (const json &tensor : summary["tensors"])
    tensors[tensor["name"]] = tensor["shape"];
  EXPECT_EQ(tensors.size(), summary["tensors"].size());
  EXPECT_EQ(tensors, readJson("golden/tensors.json")[GetParam()]);
}

TEST_P(Golden, PiecesCoverTheCheckpointOnce) {
  Model model = parse(readJson("golden/" + GetParam() + ".json"));
  EXPECT_EQ(checkCover(model), "");
}

TEST_P(Golden, ParametersHaveHeadsAsDims) {
  Model m = parse(readJson("golden/" + GetParam() + ".json"));
  auto orient = [](const LinearSpec &linear, Shape out, Shape in) {
    const Shape &first = linear.inputsFirst ? in : out;
    const Shape &second = linear.inputsFirst ? out : in;
    Shape shape = first;
    shape.insert(shape.end(), second.begin(), second.end());
    return shape;
  };
  auto expectLinear = [&](const LinearSpec &linear, Shape out, Shape in) {
    EXPECT_EQ(linear.weight.getShape(), orient(linear, out, in));
    if (linear.bias) {
      EXPECT_EQ(linear.bias->getShape(), out);
    }
  };
  const int64_t width = m.embedding.tensorShape.back();
  EXPECT_EQ(m.embedding.getShape(), (Shape{m.vocab, width}));
  EXPECT_EQ(m.projectIn.has_value(), width != m.hidden);
  if (m.projectIn) {
    expectLinear(*m.projectIn, {m.hidden}, {width});
    expectLinear(*m.projectOut, {width}, {m.hidden});
  }
  for (const LayerSpec &layer : m.layers) {
    expectLinear(layer.q, {m.heads, m.headDim}, {m.hidden});
    expectLinear(layer.k, {m.kvHeads, m.headDim}, {m.hidden});
    expectLinear(layer.v, {m.kvHeads, m.headDim}, {m.hidden});
    expectLinear(layer.o, {m.hidden}, {m.heads, m.headDim});
    expectLinear(layer.up, {m.intermediate}, {m.hidden});
    expectLinear(layer.down, {m.hidden}, {m.intermediate});
    if (layer.gate)
      expectLinear(*layer.gate, {m.intermediate}, {m.hidden});
    EXPECT_EQ(layer.norm1.weight.getShape(), (Shape{m.hidden}));
    EXPECT_EQ(layer.norm1.bias.has_value(), m.norm.bias);
    if (m.qkNorm == QKNorm::PerHead) {
      EXPECT_EQ(layer.qNorm->weight.getShape(), (Shape{m.headDim}));
    }
    if (m.qkNorm == QKNorm::FullWidth) {
      EXPECT_EQ(layer.kNorm->weight.getShape(), (Shape{m.kvHeads, m.headDim}));
    }
    EXPECT_EQ(layer.qNorm.has_value(), m.qkNorm != QKNorm::None);
  }
  EXPECT_EQ(m.head.has_value(), !m.tied);
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(getGoldenCases()),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             if (!isalnum(c))
                               c = '_';
                           return name;
                         });

/// Row-major position in the checkpoint tensor of the parameter's element.
int64_t locate(const Piece &piece, Shape index) {
  for (int64_t dim : piece.drop)
    index.insert(index.begin() + dim, 0);
  int64_t position = 0;
  for (size_t dim = 0; dim < piece.view.size(); ++dim)
    position = position * piece.view[dim] + piece.starts[dim] + index[dim];
  return position;
}

// Conv1D: c_attn(x) splits its last dim into q | k | v of `hidden` each, and
// each of those into heads.
TEST(Layout, GPT2HasColumnsOfQThenKThenV) {
  Model m = parse(getSmallConfig("gpt2"));
  const LayerSpec &layer = m.layers[1];
  const LinearSpec *parts[] = {&layer.q, &layer.k, &layer.v};
  const int64_t h = m.hidden, d = m.headDim;
  for (int64_t part = 0; part < 3; ++part) {
    EXPECT_EQ(parts[part]->weight.tensor, "transformer.h.1.attn.c_attn.weight");
    for (int64_t row : {int64_t(0), h - 1})
      for (int64_t head = 0; head < m.heads; ++head)
        for (int64_t channel = 0; channel < d; ++channel) {
          const int64_t column = part * h + head * d + channel;
          EXPECT_EQ(locate(parts[part]->weight, {row, head, channel}),
                    row * 3 * h + column);
          EXPECT_EQ(locate(*parts[part]->bias, {head, channel}), column);
        }
  }
}

// query_key_value(x).view(..., heads, 3 * head_dim).chunk(3, dim=-1).
TEST(Layout, GPTNeoXInterleavesQKVPerHead) {
  Model m = parse(getSmallConfig("gpt_neox"));
  const LayerSpec &layer = m.layers[0];
  const LinearSpec *parts[] = {&layer.q, &layer.k, &layer.v};
  const int64_t h = m.hidden, d = m.headDim;
  for (int64_t part = 0; part < 3; ++part)
    for (int64_t head = 0; head < m.heads; ++head)
      for (int64_t channel = 0; channel < d; ++channel) {
        const int64_t row = head * 3 * d + part * d + channel;
        EXPECT_EQ(locate(parts[part]->weight, {head, channel, 5}), row * h + 5);
        EXPECT_EQ(locate(*parts[part]->bias, {head, channel}), row);
      }
}

// qkv[..., :A*D], then K*D of k, then K*D of v; gate_up.chunk(2).
TEST(Layout, Phi3HasRowsOfQThenKThenVAndGateThenUp) {
  Model m = parse(getSmallConfig("phi3"));
  const LayerSpec &layer = m.layers[0];
  const LinearSpec *parts[] = {&layer.q, &layer.k, &layer.v};
  const int64_t h = m.hidden, d = m.headDim;
  const int64_t heads[] = {m.heads, m.kvHeads, m.kvHeads};
  int64_t first = 0;
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t head = 0; head < heads[part]; ++head)
      for (int64_t channel = 0; channel < d; ++channel)
        EXPECT_EQ(locate(parts[part]->weight, {head, channel, 7}),
                  (first + head * d + channel) * h + 7);
    first += heads[part] * d;
  }
  EXPECT_EQ(locate(layer.gate->weight, {3, 1}), 3 * h + 1);
  EXPECT_EQ(locate(layer.up.weight, {3, 1}), (m.intermediate + 3) * h + 1);
}

// out_proj reads the heads' outputs side by side.
TEST(Layout, OutputProjectionReadsHeadsInOrder) {
  Model m = parse(getSmallConfig("llama"));
  const int64_t width = m.heads * m.headDim;
  EXPECT_EQ(locate(m.layers[0].o.weight, {2, 3, 4}),
            2 * width + 3 * m.headDim + 4);
  m = parse(getSmallConfig("gpt2"));
  EXPECT_EQ(locate(m.layers[0].o.weight, {3, 4, 2}),
            (3 * m.headDim + 4) * m.hidden + 2);
}

TEST(Layout, BiasesAreWhereTheFamilyHasThem) {
  auto getBiases = [](const json &config) {
    const Model model = parse(config);
    const LayerSpec &layer = model.layers[0];
    std::string biases;
    auto add = [&](const char *name, const LinearSpec &linear) {
      if (linear.bias)
        biases += name;
    };
    add("q", layer.q);
    add("k", layer.k);
    add("v", layer.v);
    add("o", layer.o);
    if (layer.gate)
      add("g", *layer.gate);
    add("u", layer.up);
    add("d", layer.down);
    return biases;
  };
  EXPECT_EQ(getBiases(getSmallConfig("gpt2")), "qkvoud");
  EXPECT_EQ(getBiases(getSmallConfig("gpt_neox")), "qkvoud");
  EXPECT_EQ(getBiases(change("gpt_neox", {{"attention_bias", false}})), "ud");
  EXPECT_EQ(getBiases(getSmallConfig("llama")), "");
  EXPECT_EQ(getBiases(change("llama", {{"attention_bias", true}})), "qkvo");
  EXPECT_EQ(getBiases(change("llama", {{"mlp_bias", true}})), "gud");
  EXPECT_EQ(getBiases(getSmallConfig("mistral")), "");
  EXPECT_EQ(getBiases(getSmallConfig("qwen2")), "qkv");
  EXPECT_EQ(getBiases(change("qwen3", {{"attention_bias", true}})), "qkvo");
  EXPECT_EQ(getBiases(change("olmo2", {{"attention_bias", true}})), "qkvo");
  EXPECT_EQ(getBiases(change("gemma", {{"attention_bias", true}})), "qkvo");
  EXPECT_EQ(getBiases(getSmallConfig("phi3")), "");
  EXPECT_EQ(getBiases(change("granite", {{"mlp_bias", true}})), "gud");
  EXPECT_EQ(getBiases(getSmallConfig("starcoder2")), "qkvoud");
  EXPECT_EQ(getBiases(change("starcoder2", {{"use_bias", false}})), "");
  EXPECT_EQ(getBiases(getSmallConfig("opt")), "qkvoud");
  EXPECT_EQ(getBiases(change("opt", {{"enable_bias", false}})), "");
}

TEST(Layout, SummaryHasTypeCountAndDtype) {
  auto getDtype = [](const json &config) {
    return json::parse(getModelSummary(parse(config)))["tensors"][0]["dtype"];
  };
  json summary = json::parse(getModelSummary(parse(getSmallConfig("gpt2"))));
  EXPECT_EQ(summary["model_type"], "gpt2");
  EXPECT_EQ(summary["parameters"], 129472);
  EXPECT_EQ(summary["tensors"][0], (json{{"name", "transformer.wte.weight"},
                                         {"shape", {331, 64}},
                                         {"dtype", "F32"}}));
  EXPECT_EQ(getDtype(getSmallConfig("mistral")), "BF16");
  EXPECT_EQ(getDtype(getSmallConfig("opt")), "F16");
  EXPECT_EQ(getDtype(change(
                "llama", {{"dtype", "bfloat16"}, {"torch_dtype", "absent"}})),
            "BF16");
}

} // namespace
