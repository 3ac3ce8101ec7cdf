// Each formula is the one of HuggingFace's modeling_rope_utils.py, in the
// precision that torch computes it in: tensors are f32, python scalars f64.

#include "Rope.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <numbers>

using namespace cleave;
using namespace cleave::frontend;
using llvm::StringRef;
using nlohmann::json;

namespace {

constexpr NumberRange thetaRange = {1, 1e12};
constexpr NumberRange factorRange = {1, 1e6, /*closed=*/true};
constexpr NumberRange positiveRange = {0, 1e6};
constexpr NumberRange nonNegativeRange = {0, 1e6, /*closed=*/true};
constexpr NumberRange fractionRange = {0, 1};
constexpr IntRange contextRange = {2, int64_t(1) << 31};

constexpr StringRef typeNames[] = {"default", "linear", "dynamic",
                                   "llama3",  "yarn",   "longrope"};

/// What only some types read. Beside another type it is a mistake, since it
/// says how far positions are to be scaled.
const StringRef scalingKeys[] = {
    "alpha",         "attention_factor", "beta_fast",      "beta_slow",
    "factor",        "high_freq_factor", "long_factor",    "low_freq_factor",
    "mrope_section", "mscale",           "mscale_all_dim", "short_factor",
    "truncate"};

/// What every kind of scaling starts from.
struct Context {
  double theta;
  int64_t dims;
  int64_t maxPositions;      ///< that the model is meant for now
  int64_t originalPositions; ///< that it was pre-trained with
  int64_t seqLen;            ///< that it is trained with here
};

/// theta ** (2i / dims) for 2i < dims. torch.pow is accurate to one ulp;
/// rounding the f64 power gives the nearest f32.
std::vector<float> computePowers(double theta, int64_t dims) {
  std::vector<float> powers((dims + 1) / 2);
  for (auto [i, power] : llvm::enumerate(powers)) {
    float exponent = float(2 * i) / float(dims);
    power = float(std::pow(double(float(theta)), double(exponent)));
  }
  return powers;
}

std::vector<float> computeDefault(const Context &context) {
  std::vector<float> frequencies = computePowers(context.theta, context.dims);
  for (float &frequency : frequencies)
    frequency = 1.0f / frequency;
  return frequencies;
}

/// Position interpolation: every wave is slowed by `factor`.
RopeSpec computeLinear(ObjectReader &scaling, const Context &context) {
  RopeSpec rope;
  rope.inverseFrequencies = computeDefault(context);
  const float factor = float(scaling.requireNumber("factor", factorRange));
  for (float &frequency : rope.inverseFrequencies)
    frequency = frequency / factor;
  return rope;
}

/// NTK: a larger base, by how far the sequence exceeds the model's maximum; a
/// shorter sequence has the default frequencies.
RopeSpec computeDynamic(ObjectReader &scaling, Context context) {
  RopeSpec rope;
  const double factor = scaling.requireNumber("factor", factorRange);
  if (context.dims == 2)
    scaling.getDiagnostic().report(
        "rope type \"dynamic\" expects more than 2 rotary dims");
  if (context.seqLen > context.maxPositions) {
    const float excess =
        float(factor * double(context.seqLen)) / float(context.maxPositions) -
        float(factor - 1);
    const double exponent = double(context.dims) / double(context.dims - 2);
    context.theta =
        float(context.theta) * float(std::pow(double(excess), exponent));
    if (!std::isfinite(context.theta))
      scaling.fail("factor", "makes the base exceed f32");
  }
  rope.inverseFrequencies = computeDefault(context);
  return rope;
}

/// Llama 3.1: long waves are slowed by `factor`, short ones kept, those
/// between interpolated.
RopeSpec computeLlama3(ObjectReader &scaling, const Context &context) {
  RopeSpec rope;
  rope.inverseFrequencies = computeDefault(context);
  const float factor = float(scaling.requireNumber("factor", factorRange));
  const double low = scaling.requireNumber("low_freq_factor", positiveRange);
  const double high = scaling.requireNumber("high_freq_factor", positiveRange);
  if (!scaling.failed() && !(low < high))
    scaling.fail("low_freq_factor", "is not less than \"high_freq_factor\"");
  if (scaling.failed())
    return rope;
  const double positions = double(context.originalPositions);
  for (float &frequency : rope.inverseFrequencies) {
    // torch divides a scalar by a tensor as reciprocal times scalar.
    const float wave = 1.0f / frequency * float(2 * std::numbers::pi);
    if (wave < float(positions / high))
      continue;
    if (wave > float(positions / low)) {
      frequency = frequency / factor;
      continue;
    }
    const float smooth =
        (1.0f / wave * float(positions) - float(low)) / float(high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
  return rope;
}

/// YaRN's growth of the attention logits with the context (Peng et al. 2023,
/// equation 22, squared roots taken).
double computeMScale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

/// YaRN: waves that turn more than beta_fast times within the original context
/// are kept, those that turn less than beta_slow times slowed by `factor`,
/// with a linear ramp over the channels between.
RopeSpec computeYarn(ObjectReader &scaling, const Context &context) {
  RopeSpec rope;
  const int64_t dims = context.dims;
  const double positions = double(context.originalPositions);
  const json *factorValue = scaling.find("factor");
  const double factor = factorValue && factorValue->is_null()
                            ? double(context.maxPositions) / positions
                            : scaling.requireNumber("factor", factorRange);
  // Absent, null and zero all mean the default, as in python's `x or y`.
  auto getOr = [&](StringRef key, double otherwise) {
    double value = scaling.getNumber(key, nonNegativeRange).value_or(0);
    return value == 0 ? otherwise : value;
  };
  const double fast = getOr("beta_fast", 32), slow = getOr("beta_slow", 1);
  const double mscale = getOr("mscale", 0);
  const double mscaleAllDim = getOr("mscale_all_dim", 0);
  const std::optional<double> given =
      scaling.getNumber("attention_factor", positiveRange);
  const bool truncate = scaling.getBool("truncate", true);

  if (given)
    rope.attentionScaling = *given;
  else if (mscale != 0 && mscaleAllDim != 0)
    rope.attentionScaling =
        computeMScale(factor, mscale) / computeMScale(factor, mscaleAllDim);
  else
    rope.attentionScaling = computeMScale(factor, 1);

  // The channel whose wave turns `turns` times within the original context.
  auto channelOf = [&](double turns) {
    return double(dims) * std::log(positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(context.theta));
  };
  double low = channelOf(fast), high = channelOf(slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(dims - 1));
  if (low == high)
    high += 0.001;

  rope.inverseFrequencies = computePowers(context.theta, dims);
  for (auto [i, frequency] : llvm::enumerate(rope.inverseFrequencies)) {
    const float ramp = (float(i) - float(low)) / float(high - low);
    const float keep = 1 - std::clamp(ramp, 0.0f, 1.0f);
    const float kept = 1.0f / frequency;
    const float slowed = 1.0f / (float(factor) * frequency);
    frequency = slowed * (1 - keep) + kept * keep;
  }
  return rope;
}

/// One positive number per pair of rotated channels.
std::vector<float> readFactors(ObjectReader &scaling, StringRef key,
                               int64_t count) {
  std::vector<float> factors(count, 1);
  const json *list = scaling.find(key);
  if (!list) {
    scaling.failKey(key, "is missing; legal: a list of " + llvm::Twine(count) +
                             " numbers");
    return factors;
  }
  const std::string wanted =
      (llvm::Twine(count) + " numbers, half the rotary dims").str();
  if (!list->is_array()) {
    scaling.fail(key, "is not a list of " + wanted);
    return factors;
  }
  if (int64_t(list->size()) != count) {
    scaling.fail(key, "has " + llvm::Twine(list->size()) +
                          " elements; legal: " + wanted);
    return factors;
  }
  for (auto [i, factor] : llvm::enumerate(factors)) {
    const json &value = (*list)[i];
    if (!value.is_number() || !(value.get<double>() > 0) ||
        value.get<double>() > 1e6) {
      scaling.fail(key, "has element " + llvm::Twine(i) + " = " +
                            printValue(value) +
                            "; legal: a number in (0, 1000000.0]");
      return factors;
    }
    factor = float(value.get<double>());
  }
  return factors;
}

/// LongRoPE: a factor for each wave, one list for sequences within the
/// original context and one for longer ones.
RopeSpec computeLongrope(ObjectReader &scaling, const Context &context) {
  RopeSpec rope;
  const int64_t pairs = (context.dims + 1) / 2;
  std::vector<float> shorts = readFactors(scaling, "short_factor", pairs);
  std::vector<float> longs = readFactors(scaling, "long_factor", pairs);
  const double positions = double(context.originalPositions);
  const double factor = scaling.getNumber("factor", factorRange)
                            .value_or(double(context.maxPositions) / positions);
  const std::optional<double> given =
      scaling.getNumber("attention_factor", positiveRange);
  if (given)
    rope.attentionScaling = *given;
  else if (factor > 1)
    rope.attentionScaling =
        std::sqrt(1 + std::log(factor) / std::log(positions));

  const std::vector<float> &factors =
      context.seqLen > context.originalPositions ? longs : shorts;
  rope.inverseFrequencies = computePowers(context.theta, context.dims);
  for (auto [frequency, extension] :
       llvm::zip_equal(rope.inverseFrequencies, factors))
    frequency = 1.0f / (extension * frequency);
  return rope;
}

/// The object that holds the scaling: "rope_parameters" (transformers 5) or
/// "rope_scaling". Nothing when both are absent or null.
const json *findScaling(ObjectReader &config, std::string &path) {
  const json *found = nullptr;
  for (StringRef key : {"rope_scaling", "rope_parameters"}) {
    const json *value = config.find(key);
    if (!value || value->is_null())
      continue;
    if (!value->is_object()) {
      config.fail(key, "is not an object");
      return nullptr;
    }
    if (found && *found != *value) {
      config.fail(key, "contradicts \"rope_scaling\"; give one of them");
      return nullptr;
    }
    found = value;
    path = (key + ".").str();
  }
  return found;
}

/// A number that may stand beside the scaling, under the family's name or the
/// common one, or inside it; all that are given must agree, unless it is the
/// default that is repeated beside it. Null is no number, or as good as absent
/// if `nullable`.
double readAnywhere(ObjectReader &config, StringRef key, ObjectReader &scaling,
                    StringRef inner, NumberRange legal, double otherwise,
                    bool nullable) {
  std::optional<double> first;
  StringRef firstKey;
  auto read = [&](ObjectReader &reader, StringRef name) {
    const json *found = reader.find(name);
    if (!found || (nullable && found->is_null()))
      return;
    const double value = reader.getNumber(name, legal, otherwise);
    if (first && *first != value)
      reader.fail(name, "contradicts \"" + firstKey + "\" (" +
                            printValue(json(*first)) + ")");
    if (!first)
      firstKey = name;
    first = first.value_or(value);
  };
  read(config, key);
  // transformers 5 may leave its default beside the number inside, and reads
  // the latter.
  if (key == inner && first == otherwise && scaling.has(inner))
    first.reset();
  read(scaling, inner);
  if (key != inner) {
    // HuggingFace ignores the common name beside a family's own, so that it
    // may repeat the number but not give it.
    if (!first)
      firstKey = key;
    first = first.value_or(otherwise);
    read(config, inner);
  }
  return first.value_or(otherwise);
}

/// The pre-training context. Beside the scaling it wins over inside it, as in
/// transformers 5; two that are given must agree.
int64_t readOriginalPositions(ObjectReader &config, const Family &family,
                              const Model &model, ObjectReader &scaling,
                              std::vector<std::string> &notes) {
  const StringRef key = "original_max_position_embeddings";
  std::optional<int64_t> outside =
      config.getInteger(key, contextRange, std::nullopt);
  std::optional<int64_t> inside =
      scaling.getInteger(key, contextRange, std::nullopt);
  if (outside && inside && *outside != *inside)
    scaling.fail(key, "contradicts the one beside it (" +
                          llvm::Twine(*outside) + ")");
  if (!outside && family.rope.originalPositions) {
    outside = family.rope.originalPositions;
    if (inside && *inside != *outside)
      notes.push_back(("key \"" + key + "\" is absent beside the scaling; " +
                       llvm::Twine(*outside) + " is used, not the " +
                       llvm::Twine(*inside) + " inside it, as HuggingFace does")
                          .str());
  }
  return outside ? *outside : inside.value_or(model.maxPositions);
}

std::string readType(ObjectReader &scaling, const RopeRule &rule) {
  const StringRef key = scaling.has("rope_type") ? "rope_type" : "type";
  std::string type = scaling.getString(key, "default");
  if (key == "rope_type" && scaling.has("type") &&
      scaling.getString("type", "") != type)
    scaling.fail("type", "contradicts \"rope_type\"");
  if (rule.longropeOnly) {
    if (type == "su" || type == "yarn")
      return "longrope";
    if (type != "default" && type != "longrope")
      scaling.fail(key, "is not supported; supported are default, longrope");
  } else if (!llvm::is_contained(typeNames, type)) {
    scaling.fail(key, "is not supported; supported are " +
                          llvm::join(llvm::ArrayRef(typeNames), ", "));
  }
  return type;
}

} // namespace

RopeSpec cleave::frontend::readRope(ObjectReader &config, const Family &family,
                                    const Model &model, int64_t seqLen,
                                    std::vector<std::string> &notes) {
  static const json empty = json::object();
  const RopeRule &rule = family.rope;
  std::string path;
  const json *object = findScaling(config, path);
  ObjectReader scaling(object ? *object : empty, path, config.getDiagnostic());

  Context context;
  context.theta = readAnywhere(config, rule.theta, scaling, "rope_theta",
                               thetaRange, 10000, /*nullable=*/false);
  const double fraction =
      readAnywhere(config, rule.fraction, scaling, "partial_rotary_factor",
                   fractionRange, rule.defaultFraction, /*nullable=*/true);
  context.dims = int64_t(double(model.headDim) * fraction);
  context.maxPositions = model.maxPositions;
  context.originalPositions =
      readOriginalPositions(config, family, model, scaling, notes);
  context.seqLen = seqLen ? seqLen : model.getDefaultSeqLen();
  const std::string type = readType(scaling, rule);

  if (fraction != 1 && !rule.partial)
    config.getDiagnostic().report(
        "key \"" + rule.fraction + "\": value " + printValue(json(fraction)) +
        " is not supported by \"" + family.facts.modelType + "\"; legal: 1");
  // An odd number is rounded up, if the head has room for it; the ramp of yarn
  // is for pairs.
  const bool oddIsLegal = context.dims < model.headDim && type != "yarn";
  if (context.dims == 0 || (context.dims % 2 && !oddIsLegal))
    config.getDiagnostic().report(
        "head dim " + llvm::Twine(model.headDim) + " (\"" +
        family.facts.keys.hidden + "\" / \"" + family.facts.keys.heads +
        "\", or \"head_dim\") times \"" + rule.fraction + "\" gives " +
        llvm::Twine(context.dims) +
        " rotary dims; legal: a positive even number");
  if (context.originalPositions < contextRange.low && type != "default" &&
      type != "linear")
    config.fail(family.facts.keys.positions, "is less than 2");
  if (config.failed())
    return {};

  RopeSpec rope;
  if (type == "linear")
    rope = computeLinear(scaling, context);
  else if (type == "dynamic")
    rope = computeDynamic(scaling, context);
  else if (type == "llama3")
    rope = computeLlama3(scaling, context);
  else if (type == "yarn")
    rope = computeYarn(scaling, context);
  else if (type == "longrope")
    rope = computeLongrope(scaling, context);
  else
    rope.inverseFrequencies = computeDefault(context);
  rope.dims = 2 * int64_t(rope.inverseFrequencies.size());
  // "finetuned" says how the checkpoint came about.
  scaling.checkUnread({"finetuned"}, scalingKeys);
  return rope;
}
