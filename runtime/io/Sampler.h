//===- Sampler.h - Which tokens a sample of a step is ---------------------===//
#ifndef CLEAVE_RUNTIME_IO_SAMPLER_H
#define CLEAVE_RUNTIME_IO_SAMPLER_H

#include "runtime/io/TokenStream.h"
#include <memory>

namespace cleave::runtime {

/// A pseudo-random permutation of [0, size), computed per element in O(1): a
/// Feistel network on the next power of four, walked until it lands inside
/// (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
class Permutation {
public:
  Permutation(uint64_t size, uint64_t key);
  /// `index` < size.
  uint64_t operator()(uint64_t index) const;

private:
  uint64_t size, key;
  unsigned halfBits;
};

/// Mixes 64 bits; a bijection (splitmix64's finalizer: Steele, Lea, Flood,
/// "Fast Splittable Pseudorandom Number Generators", 2014).
uint64_t mix(uint64_t value);

/// Where a run's batches come from.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  /// Inputs and targets, [seqLen] each, of sample `sample` of the global batch
  /// of step `step`. Depends on nothing else, so the global batch is the same
  /// under every layout.
  virtual Status read(uint64_t step, uint64_t sample, int32_t *inputs,
                      int32_t *targets) const = 0;
  /// Steps it has batches for.
  virtual uint64_t getMaxSteps() const = 0;
  /// Goes on where `samples` samples were consumed by the steps before `step`,
  /// whatever their global batch was.
  virtual Status startAt(uint64_t step, uint64_t samples) = 0;
  /// What tells its files from others, so that ranks can see that they read
  /// the same.
  virtual Status describe(std::vector<DataIdentity> &identities) const = 0;
};

/// Shape of what a program consumes.
struct BatchShape {
  uint64_t globalBatch, seqLen, vocab;
};

/// Samples of seqLen + 1 consecutive tokens, seqLen apart: the targets are the
/// inputs moved by one. The whole samples of the stream make an epoch; each
/// epoch has its own order.
class Sampler final : public BatchSource {
public:
  static Status create(TokenStream stream, const BatchShape &shape,
                       uint64_t seed, std::unique_ptr<BatchSource> &source);

  Status read(uint64_t step, uint64_t sample, int32_t *inputs,
              int32_t *targets) const override;
  uint64_t getMaxSteps() const override { return UINT64_MAX; }
  Status startAt(uint64_t step, uint64_t samples) override;
  Status describe(std::vector<DataIdentity> &identities) const override {
    return stream.describe(identities);
  }

  uint64_t getSamplesPerEpoch() const { return samples; }
  /// Index in the stream, in samples, of the n-th sample of the run.
  uint64_t getPosition(uint64_t n) const;

private:
  Sampler(TokenStream stream, const BatchShape &shape, uint64_t seed);

  TokenStream stream;
  BatchShape shape;
  uint64_t seed, samples;
  uint64_t origin = 0; ///< number of the run's sample that step 0 would begin
};

/// Batches given outright: a safetensors file with `inputs` and `targets`, I32
/// or I64 [steps, globalBatch, seqLen]. Inputs lie in [0, vocab), targets too
/// or are -100, but not all of a step.
class GivenBatches final : public BatchSource {
public:
  static Status create(const std::string &path, const BatchShape &shape,
                       std::unique_ptr<BatchSource> &source);

  Status read(uint64_t step, uint64_t sample, int32_t *inputs,
              int32_t *targets) const override;
  uint64_t getMaxSteps() const override { return steps; }
  Status startAt(uint64_t step, uint64_t samples) override;
  Status describe(std::vector<DataIdentity> &identities) const override {
    identities = {identity};
    return {};
  }

private:
  GivenBatches() = default;
  BatchShape shape = {};
  DataIdentity identity;
  uint64_t steps = 0;
  std::vector<int32_t> inputs, targets;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_SAMPLER_H
