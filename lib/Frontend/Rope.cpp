#include "Rope.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <numbers>

using namespace cleave;
using namespace cleave::frontend;
using llvm::StringRef;
using nlohmann::json;

// Each formula is the one of HuggingFace's modeling_rope_utils.py, in the
// precision that torch computes it in: tensors are f32, python scalars f64.

namespace {

constexpr NumberRange thetaRange = {1, 1e12};
constexpr NumberRange factorRange = {1, 1e6, /*closed=*/true};
constexpr NumberRange rotationsRange = {0, 1e6};
constexpr IntRange positionsRange = {1, int64_t(1) << 31};

/// theta ** (2i / dims) for i < dims / 2. torch.pow is accurate to one ulp;
/// rounding the f64 power gives the nearest f32.
std::vector<float> computePowers(double theta, int64_t dims) {
  std::vector<float> powers(dims / 2);
  for (auto [i, power] : llvm::enumerate(powers)) {
    float exponent = float(2 * i) / float(dims);
    power = float(std::pow(double(float(theta)), double(exponent)));
  }
  return powers;
}

std::vector<float> computeDefault(double theta, int64_t dims) {
  std::vector<float> frequencies = computePowers(theta, dims);
  for (float &frequency : frequencies)
    frequency = 1.0f / frequency;
  return frequencies;
}

/// Meta's NTK-by-parts for Llama 3.1: long waves are slowed by `factor`, short
/// ones kept, those between interpolated.
void scaleLlama3(RopeSpec &rope, ObjectReader &scaling) {
  const float factor = scaling.getNumber("factor", factorRange, 1);
  const double low = scaling.getNumber("low_freq_factor", rotationsRange, 1);
  const double high = scaling.getNumber("high_freq_factor", rotationsRange, 1);
  const double context =
      scaling.getInteger("original_max_position_embeddings", positionsRange);
  if (scaling.failed())
    return;
  if (!(low < high))
    return scaling.fail("low_freq_factor",
                        "is not less than \"high_freq_factor\"");
  for (float &frequency : rope.inverseFrequencies) {
    const float wave = 1.0f / frequency * float(2 * std::numbers::pi);
    if (wave < float(context / high))
      continue;
    if (wave > float(context / low)) {
      frequency = frequency / factor;
      continue;
    }
    const float smooth =
        (1.0f / wave * float(context) - float(low)) / float(high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
}

} // namespace

RopeSpec cleave::frontend::readRope(ObjectReader &config, const Model &model,
                                    int64_t seqLen) {
  RopeSpec rope;
  rope.dims = model.headDim;
  const double theta = config.getNumber("rope_theta", thetaRange, 10000);
  if (rope.dims % 2) {
    config.getDiagnostic().report("head dim " + llvm::Twine(rope.dims) +
                                  " is odd; rotary dims come in pairs");
    return rope;
  }
  rope.inverseFrequencies = computeDefault(theta, rope.dims);
  if (const json *object = config.find("rope_scaling");
      object && !object->is_null()) {
    if (!object->is_object()) {
      config.fail("rope_scaling", "is not an object");
      return rope;
    }
    ObjectReader scaling(*object, "rope_scaling.", config.getDiagnostic());
    std::string type = scaling.getString(
        scaling.has("rope_type") ? "rope_type" : "type", "default");
    if (type == "llama3")
      scaleLlama3(rope, scaling);
    else if (type != "default")
      scaling.fail(scaling.has("rope_type") ? "rope_type" : "type",
                   "is not supported; supported are default, llama3");
    scaling.refuseUnread({});
  }
  return rope;
}
