//===- Sampler.cpp --------------------------------------------------------===//
#include "runtime/io/Sampler.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Quote.h"
#include "runtime/io/Safetensors.h"
#include <algorithm>
#include <bit>
#include <cstring>

using namespace cleave::runtime;

uint64_t cleave::runtime::mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

//===----------------------------------------------------------------------===//
// Permutation
//===----------------------------------------------------------------------===//

Permutation::Permutation(uint64_t size, uint64_t key)
    : size(size), key(mix(key)),
      halfBits(std::max(
          1u, (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2)) {}

uint64_t Permutation::operator()(uint64_t index) const {
  const uint64_t mask = (uint64_t(1) << halfBits) - 1;
  do {
    uint64_t left = index >> halfBits, right = index & mask;
    for (uint64_t round = 0; round < 8; ++round) {
      uint64_t next =
          left ^ (mix(key + round * mask + mix(right + round)) & mask);
      left = right;
      right = next;
    }
    index = left << halfBits | right;
  } while (index >= size);
  return index;
}

//===----------------------------------------------------------------------===//
// Sampler
//===----------------------------------------------------------------------===//

Sampler::Sampler(TokenStream stream, const BatchShape &shape, uint64_t seed)
    : stream(std::move(stream)), shape(shape), seed(seed),
      samples((this->stream.getTokenCount() - 1) / shape.seqLen) {}

Status Sampler::create(TokenStream stream, const BatchShape &shape,
                       uint64_t seed, std::unique_ptr<BatchSource> &source) {
  if (stream.getTokenCount() < shape.seqLen + 1)
    return Status::error(
        "--data: has " + std::to_string(stream.getTokenCount()) +
        " tokens in all; one sample needs " + std::to_string(shape.seqLen + 1));
  source.reset(new Sampler(std::move(stream), shape, seed));
  return {};
}

uint64_t Sampler::getPosition(uint64_t n) const {
  return Permutation(samples, seed + mix(n / samples))(n % samples);
}

Status Sampler::read(uint64_t step, uint64_t sample, int32_t *inputs,
                     int32_t *targets) const {
  uint64_t first =
      getPosition(origin + step * shape.globalBatch + sample) * shape.seqLen;
  std::vector<int32_t> tokens(shape.seqLen + 1);
  CLEAVE_RETURN_IF_ERROR(
      stream.read(first, tokens.size(), shape.vocab, tokens.data()));
  std::copy(tokens.begin(), tokens.end() - 1, inputs);
  std::copy(tokens.begin() + 1, tokens.end(), targets);
  return {};
}

Status Sampler::startAt(uint64_t step, uint64_t samples) {
  // Wraps around where the global batch has grown; so does `read`.
  origin = samples - step * shape.globalBatch;
  return {};
}

//===----------------------------------------------------------------------===//
// GivenBatches
//===----------------------------------------------------------------------===//

/// Copies the tokens of `tensor`; `ignored` (unless 0) is legal beside
/// [0, vocab).
static Status readTokens(const SafetensorsFile &file, const std::string &name,
                         const BatchShape &shape, int64_t ignored,
                         std::vector<int32_t> &out) {
  const TensorInfo *tensor = file.find(name);
  auto fail = [&](const std::string &message) {
    return Status::error(file.getPath() + ": tensor " + quote(name) + ": " +
                         message);
  };
  if (!tensor)
    return fail("is missing");
  bool wide = tensor->dtype == "I64";
  if (!wide && tensor->dtype != "I32")
    return fail("dtype " + tensor->dtype + " is not one of I32, I64");
  if (tensor->shape.size() != 3 || tensor->shape[1] != shape.globalBatch ||
      tensor->shape[2] != shape.seqLen)
    return fail("shape " + formatList(tensor->shape) + " is not [steps, " +
                std::to_string(shape.globalBatch) + ", " +
                std::to_string(shape.seqLen) +
                "], the program's global batch and sequence length");
  out.resize(tensor->elements);
  const char *data = file.getData(*tensor);
  for (uint64_t i = 0; i < tensor->elements; ++i) {
    int64_t id = 0;
    if (wide) {
      std::memcpy(&id, data + i * 8, 8);
    } else {
      int32_t narrow;
      std::memcpy(&narrow, data + i * 4, 4);
      id = narrow;
    }
    bool legal = id >= 0 && static_cast<uint64_t>(id) < shape.vocab;
    if (!legal && (ignored == 0 || id != ignored))
      return fail("element " + std::to_string(i) + " has id " +
                  std::to_string(id) + "; the model's vocabulary is 0 to " +
                  std::to_string(shape.vocab - 1));
    out[i] = static_cast<int32_t>(id);
  }
  return {};
}

Status GivenBatches::create(const std::string &path, const BatchShape &shape,
                            std::unique_ptr<BatchSource> &source) {
  SafetensorsFile file;
  CLEAVE_RETURN_IF_ERROR(SafetensorsFile::open(path, file));
  std::unique_ptr<GivenBatches> result(new GivenBatches());
  result->shape = shape;
  CLEAVE_RETURN_IF_ERROR(readTokens(file, "inputs", shape, 0, result->inputs));
  CLEAVE_RETURN_IF_ERROR(
      readTokens(file, "targets", shape, -100, result->targets));
  if (result->inputs.size() != result->targets.size())
    return Status::error(path + ": \"inputs\" and \"targets\" differ in steps");
  CLEAVE_RETURN_IF_ERROR(file.check());
  result->steps = file.find("inputs")->shape[0];
  // The loss is the mean over the targets that are not ignored.
  uint64_t perStep = shape.globalBatch * shape.seqLen;
  for (uint64_t step = 0; step < result->steps; ++step) {
    auto begin = result->targets.begin() + int64_t(step * perStep);
    if (std::all_of(begin, begin + int64_t(perStep),
                    [](int32_t target) { return target < 0; }))
      return Status::error(path + ": tensor \"targets\": all targets of step " +
                           std::to_string(step) +
                           " are -100, so it has no loss; expects at least one "
                           "that is not ignored");
  }
  result->identity.path = path;
  result->identity.tokens = result->inputs.size();
  for (const std::vector<int32_t> *each : {&result->inputs, &result->targets}) {
    result->identity.bytes += each->size() * 4;
    result->identity.sampleChecksum = computeCrc32c(
        each->data(), each->size() * 4, result->identity.sampleChecksum);
  }
  source = std::move(result);
  return {};
}

Status GivenBatches::read(uint64_t step, uint64_t sample, int32_t *inputsOut,
                          int32_t *targetsOut) const {
  if (step >= steps)
    return Status::error("--tokens: has " + std::to_string(steps) +
                         " steps, none for step " + std::to_string(step));
  uint64_t first = (step * shape.globalBatch + sample) * shape.seqLen;
  std::copy_n(inputs.begin() + first, shape.seqLen, inputsOut);
  std::copy_n(targets.begin() + first, shape.seqLen, targetsOut);
  return {};
}

Status GivenBatches::startAt(uint64_t step, uint64_t samples) {
  if (samples != step * shape.globalBatch)
    return Status::error(
        "--tokens: its steps have " + std::to_string(shape.globalBatch) +
        " samples, so " + std::to_string(step) + " of them are not the " +
        std::to_string(samples) + " samples that were consumed");
  return {};
}
