//===- StepTest.cpp - Worked examples of a step's time and memory ---------===//
#include "cleave/Cost/CostModel.h"
#include "gtest/gtest.h"
#include <algorithm>

using namespace cleave;

namespace {

/// GPT-3 175B of Korthikanti et al. 2022 (arXiv:2205.05198).
Architecture makeGPT(int64_t hidden, int64_t heads, int64_t layers) {
  Architecture model;
  model.hidden = hidden;
  model.vocab = 51200;
  model.dropout = true;
  Block block;
  block.heads = block.kvHeads = heads;
  block.headDim = block.valueDim = hidden / heads;
  block.gated = false;
  block.ffn = 4 * hidden;
  model.blocks = {{block, layers}};
  return model;
}

struct Example {
  Architecture model = makeGPT(12288, 96, 96);
  Machine machine = llvm::cantFail(getMachine("a100-80:512"));
  Workload work{2048, 64, DType::BF16};
  Profile profile;
  TrainLayout layout;

  Example() {
    profile.attention = "unfused";
    profile.gradientBytes = 2;
    layout.tp = 8;
    layout.pp = 8;
    layout.dp = 8;
  }
  Estimate price() {
    return CostModel(model, machine, work, profile).price(layout);
  }
};

/// s b h (34 + 5 a s / h) bytes in a block, and with selective recomputation
/// s b h 34; arXiv:2205.05198, equation 1 and table 2. Two models that differ
/// by one block leave out what head and embedding keep.
TEST(StepTest, ActivationsOfABlock) {
  for (Recompute recompute :
       {Recompute::None, Recompute::Selective, Recompute::Full}) {
    double bytes[2];
    for (int64_t layers : {1, 2}) {
      Example example;
      example.model = makeGPT(12288, 96, layers);
      example.layout = TrainLayout();
      example.layout.recompute = recompute;
      example.work.globalBatch = 2;
      bytes[layers - 1] = example.price().memory.activations;
    }
    double sbh = 2048. * 12288;
    double expected = recompute == Recompute::None
                          ? sbh * (34 + 5. * 96 * 2048 / 12288)
                      : recompute == Recompute::Selective ? sbh * 34
                                                          : sbh * 2;
    EXPECT_NEAR(bytes[1] - bytes[0], expected, 1e-6 * expected);
  }
}

/// In f32 activations take twice as much, a parameter with its gradient and two
/// moments 16 bytes, and what ranks send each other doubles too.
TEST(StepTest, SinglePrecision) {
  Example example;
  example.model.dropout = false; // its masks are bytes in either
  example.layout.pp = 1;
  example.layout.dp = 1;
  example.profile.gradientBytes = 4;
  example.profile.rankSkew = 0;
  example.work.globalBatch = 2;
  Estimate half = example.price();
  example.machine.device.matrix[size_t(DType::F32)] =
      example.machine.device.getMatrix(DType::BF16);
  example.work.dtype = DType::F32;
  Estimate single = example.price();
  double parameters = half.memory.parameters / 2;
  EXPECT_DOUBLE_EQ(half.memory.optimizer, 12 * parameters);
  EXPECT_DOUBLE_EQ(single.memory.parameters, 4 * parameters);
  EXPECT_DOUBLE_EQ(single.memory.gradients, 4 * parameters);
  EXPECT_DOUBLE_EQ(single.memory.optimizer, 8 * parameters);
  // Scores of unfused attention are 5 bytes a pair in either.
  double scores = 96. / 8 * 2048 * 2048 * 5 * 96;
  double logits = 2048. * 51200 / 8;
  EXPECT_NEAR(single.memory.activations - scores - 4 * logits,
              2 * (half.memory.activations - scores - 2 * logits),
              1e-6 * single.memory.activations);
  EXPECT_GT(single.tensor, 1.8 * half.tensor);
  EXPECT_LE(single.tensor, 2 * half.tensor);
}

/// With sequence parallelism every term is cut by t: table 2.
TEST(StepTest, SequenceParallelismCutsActivations) {
  double bytes[2];
  for (int64_t layers : {1, 2}) {
    Example example;
    example.model = makeGPT(12288, 96, layers);
    example.layout.pp = example.layout.dp = 1;
    example.layout.sequenceParallel = true;
    example.layout.recompute = Recompute::Selective;
    example.work.globalBatch = 2;
    bytes[layers - 1] = example.price().memory.activations;
  }
  double expected = 2048. * 12288 * 34 / 8;
  EXPECT_NEAR(bytes[1] - bytes[0], expected, 1e-6 * expected);
}

/// 16 bytes of state for a parameter; ZeRO-1 and ZeRO-2 approach cuts by 4 and
/// 8, ZeRO-3 divides all (Rajbhandari et al. 2020, figure 1 and table 1).
TEST(StepTest, BytesOfState) {
  auto getState = [](int zero, int64_t dp) {
    Example example;
    example.model = makeGPT(4096, 32, 32);
    example.layout = TrainLayout();
    example.layout.dp = dp;
    example.layout.zero = zero;
    example.work.globalBatch = 2 * dp;
    MemoryUse use = example.price().memory;
    double parameters = example.model.getParameters() - 4096;
    return (use.parameters + use.gradients + use.optimizer) / parameters;
  };
  EXPECT_NEAR(getState(0, 64), 16, 1e-3);
  EXPECT_NEAR(getState(1, 64), 4 + 12. / 64, 1e-3);
  EXPECT_NEAR(getState(2, 64), 2 + 14. / 64, 1e-3);
  EXPECT_NEAR(getState(3, 64), 16. / 64, 1e-3);
  EXPECT_NEAR(16 / getState(1, 1024), 4, 0.05);
  EXPECT_NEAR(16 / getState(2, 1024), 8, 0.1);
}

/// The parts that a step is said to have add up to it.
TEST(StepTest, PartsAddUp) {
  Example example;
  for (int zero : {0, 1, 3})
    for (Recompute recompute : {Recompute::None, Recompute::Full}) {
      example.layout.zero = zero;
      example.layout.recompute = recompute;
      Estimate e = example.price();
      double sum = e.compute + e.tensor + e.context + e.expert + e.pipeline +
                   e.bubble + e.data + e.optimizer + e.host;
      EXPECT_NEAR(sum, e.step, 1e-9 * e.step);
      EXPECT_GT(e.compute, 0);
    }
}

/// ZeRO moves most for the stage with the embedding, and the one with the head
/// computes most: what it computes is no less for what the other one moves.
TEST(StepTest, PartsAreOfOneStage) {
  Example example;
  example.model = makeGPT(2048, 16, 16);
  example.model.vocab = 256000;
  example.model.tied = true;
  example.layout.zero = 1;
  double compute = example.price().compute;
  for (int zero : {2, 3}) {
    example.layout.zero = zero;
    Estimate e = example.price();
    EXPECT_GT(e.data, 0);
    EXPECT_GE(e.compute, compute * (1 - 1e-9)) << zero;
  }
}

/// What is repeated takes time and need not be kept, more of both with more
/// modules; half of the blocks are half of it.
TEST(StepTest, RecomputingMoreKeepsLess) {
  Example example;
  example.layout.recompute = Recompute::None;
  Estimate none = example.price();
  example.layout.recompute = Recompute::Full;
  Estimate full = example.price();
  example.layout.recomputeBlocks = 6;
  Estimate half = example.price();
  EXPECT_NEAR(half.compute, (none.compute + full.compute) / 2,
              0.02 * none.compute);
  EXPECT_NEAR(half.memory.activations,
              (none.memory.activations + full.memory.activations) / 2,
              0.02 * none.memory.activations);
  example.layout.recomputeBlocks = 0;
  example.layout.recompute = Recompute::Selective;
  example.layout.recomputedModules = 0;
  Estimate last = example.price();
  EXPECT_NEAR(last.step, none.step, 1e-9 * none.step);
  for (unsigned module :
       {recomputeAttention, recomputeNorms, recomputeUp, recomputeActivation}) {
    example.layout.recomputedModules |= module;
    Estimate more = example.price();
    EXPECT_GT(more.step, last.step);
    EXPECT_LT(more.memory.activations, last.memory.activations);
    last = more;
  }
  EXPECT_LT(last.step, full.step);
  EXPECT_GT(last.memory.activations, full.memory.activations);
}

/// Gradients hide behind the last backward pass, but for one block's; of 3
/// interleaved chunks of 4 blocks also behind 8 passes of each chunk that
/// follows, and then no more than a third waits for the last chunk's own.
TEST(StepTest, InterleavedStagesHideMore) {
  Example example;
  example.profile.overlapSlowdown = 0;
  for (double bandwidth : {200e9, 25e9, 2e9, 1e8}) {
    example.machine.levels.back().link.setBandwidth(bandwidth);
    auto get = [&](Schedule schedule, int64_t chunks, double overlap) {
      example.layout.schedule = schedule;
      example.layout.virtualStages = chunks;
      example.profile.dataOverlap = overlap;
      return CostModel(example.model, example.machine, example.work,
                       example.profile)
          .getPipelineStep(example.layout);
    };
    constexpr size_t stage = 3; // without embedding and head
    double all = get(Schedule::OneFOneB, 1, 0).data[stage];
    PipelineStep plain = get(Schedule::OneFOneB, 1, 1);
    double pass = plain.times[stage].getBackward();
    EXPECT_NEAR(plain.data[stage], std::max(0., all - pass * 11 / 12),
                1e-9 * all);
    double most = pass * (1. / 4 + 8 * 2. / 3);
    double expected = std::max({0., all - most, all / 3 - pass / 4});
    EXPECT_NEAR(get(Schedule::Interleaved, 3, 1).data[stage], expected,
                1e-9 * all)
        << bandwidth;
  }
}

/// With ZeRO-3 each of 32 blocks, the embedding and the head are gathered twice
/// and scattered once for a micro-batch: as a block, in buffers that weights
/// leave by a copy each time and gradients enter by a cast, or as a block's
/// four matrices of attention, two of the MLP, and two norms.
TEST(StepTest, ExchangesOfZero3) {
  Example example;
  example.model = makeGPT(4096, 32, 32);
  example.model.vocab = 1024;
  example.layout = TrainLayout();
  example.layout.dp = 64;
  example.layout.zero = 3;
  example.work.globalBatch = 64 * 3;
  example.profile.dataOverlap = 0;
  double weights = example.model.getParameters();
  Group ranks = example.layout.getRankGroup(64, 1);
  Estimate estimates[2];
  for (bool blocks : {false, true}) {
    example.profile.blockBuffers = blocks;
    Estimate &estimate = estimates[blocks] = example.price();
    double pieces = 2 + 32 * (blocks ? 1 : 6), norms = 2 * 32;
    double small = blocks ? 0 : norms * 4096;
    auto get = [&](CollectiveKind kind) {
      return pieces * getCollectiveTime(example.machine, kind, ranks,
                                        2 * (weights - small) / pieces) +
             (blocks ? 0
                     : norms * getCollectiveTime(example.machine, kind, ranks,
                                                 2 * small / norms));
    };
    double expected = 3 * (2 * get(CollectiveKind::AllGather) +
                           get(CollectiveKind::ReduceScatter));
    EXPECT_NEAR(estimate.data, expected, 1e-9 * expected);
  }
  const Device &device = example.machine.device;
  double copies =
      getStreamTime(device, 4 * weights) + getStreamTime(device, 8 * weights);
  EXPECT_NEAR(estimates[1].compute - estimates[0].compute, 3 * copies,
              1e-9 * estimates[0].step);
  // A block is 12 h^2 and two norms, its largest matrix 4 h^2; of bf16, or its
  // gradient of as much.
  double h = 4096;
  EXPECT_NEAR(estimates[1].memory.temporaries - estimates[0].memory.temporaries,
              (8 * h * h + 2 * h) * 2, 1);
}

/// Weights in f32 have no copy; a rank of ZeRO-1 or 2 has its shard beside the
/// gathered whole.
TEST(StepTest, ShardsInSinglePrecision) {
  for (int zero : {0, 1, 2, 3}) {
    Example example;
    example.model = makeGPT(4096, 32, 32);
    example.layout = TrainLayout();
    example.layout.dp = 64;
    example.layout.zero = zero;
    example.machine.device.matrix[size_t(DType::F32)] =
        example.machine.device.getMatrix(DType::BF16);
    example.work = {2048, 64, DType::F32};
    double expected = zero == 0 ? 8. : zero == 3 ? 8. / 64 : 12. / 64;
    EXPECT_NEAR(example.price().memory.optimizer /
                    example.model.getParameters(),
                expected, 1e-9);
  }
}

/// A logit has 2 bytes until the weights' gradients and the rest while the loss
/// is computed; one that is computed in chunks has none.
TEST(StepTest, BytesOfLogits) {
  auto get = [](double bytes) {
    Example example;
    example.model = makeGPT(128, 1, 1); // whose block needs less
    example.model.vocab = 1024000;
    example.layout = TrainLayout();
    example.work.globalBatch = 2;
    example.profile.logitBytes = bytes;
    MemoryUse use = example.price().memory;
    return use.activations + use.temporaries;
  };
  double logits = 2048. * 1024000;
  for (double bytes : {4., 12., 14.})
    EXPECT_NEAR(get(bytes) - get(6), (bytes - 6) * logits, 1);
  EXPECT_NEAR(get(2) - get(0), 2 * logits, 1);
}

/// FSDP's shards are of f32: weight, gradient and two moments, whatever type
/// the network carries.
TEST(StepTest, ShardsOfFSDP) {
  Example example;
  example.model = makeGPT(4096, 32, 32);
  example.layout = TrainLayout();
  example.layout.dp = 64;
  example.layout.zero = 3;
  example.profile.blockBuffers = true;
  example.work.globalBatch = 2 * 64;
  for (double bytes : {2., 4.}) {
    example.profile.gradientBytes = bytes;
    MemoryUse use = example.price().memory;
    double shard = example.model.getParameters() / 64;
    EXPECT_NEAR(use.parameters, 4 * shard, 1);
    EXPECT_NEAR(use.gradients, 4 * shard, 1);
    EXPECT_NEAR(use.optimizer, 8 * shard, 1);
  }
}

/// Queries, keys and values of 4096 channels each, and the two halves of a
/// gated MLP's way up: five products instead of two, and three gradients of the
/// stream more to read.
TEST(StepTest, SeparateProjections) {
  Example example;
  example.layout = TrainLayout();
  example.work = {1024, 1, DType::BF16};
  example.profile.gradientBytes = 0; // whose sum mixes with the products
  double forward[2], backward[2];
  for (bool fused : {false, true})
    for (int64_t layers : {1, 2}) {
      example.model = makeGPT(4096, 32, layers);
      example.model.blocks[0].block.gated = true;
      example.profile.fusedProjections = fused;
      StageTimes times = CostModel(example.model, example.machine, example.work,
                                   example.profile)
                             .getPipelineStep(example.layout)
                             .times[0];
      forward[fused] = times.forward - (layers == 2 ? forward[fused] : 0);
      backward[fused] =
          times.getBackward() - (layers == 2 ? backward[fused] : 0);
    }
  const Device &device = example.machine.device;
  auto get = [&](double m, double n, double k) {
    return getMatmulTime(device, DType::BF16, m, n, k) /
           example.profile.matrixRate;
  };
  double ways = 3 * get(1024, 4096, 4096) + 2 * get(1024, 16384, 4096) -
                get(1024, 12288, 4096) - get(1024, 32768, 4096);
  EXPECT_NEAR(forward[0] - forward[1], ways, 1e-9 * forward[1]);
  double back = 3 * get(1024, 4096, 4096) + 2 * get(1024, 4096, 16384) -
                get(1024, 4096, 12288) - get(1024, 4096, 32768) +
                3 * get(4096, 4096, 1024) + 2 * get(16384, 4096, 1024) -
                get(12288, 4096, 1024) - get(32768, 4096, 1024) +
                getStreamTime(device, 3. * 1024 * 4096 * 2);
  EXPECT_NEAR(backward[0] - backward[1], back, 1e-9 * backward[1]);
}

/// Of several samples, sequence second, each of a block's four collectives each
/// way comes with a copy of s b h elements of 2 bytes, read and written.
TEST(StepTest, CopiesBesideCollectivesOfSequences) {
  Example example;
  example.layout.sequenceParallel = true;
  for (int64_t samples : {1, 4}) {
    example.layout.microBatch = samples;
    double seconds[2];
    for (bool first : {false, true}) {
      example.profile.sequenceFirst = first;
      seconds[first] = example.price().tensor;
    }
    double copy = getStreamTime(example.machine.device,
                                2. * 2 * 2048 * double(samples) * 12288);
    // 12 blocks of a stage, 8 samples of a step.
    double expected = samples == 1 ? 0 : 8. / double(samples) * 12 * 8 * copy;
    EXPECT_NEAR(seconds[0] - seconds[1], expected, 1e-9 * seconds[1]);
  }
}

/// What a profile's software does for the backward pass of each of a stage's
/// blocks, 8 micro-batches in all: under sequence parallelism the inputs of two
/// products gathered again; with full recomputation the last product, and the
/// reduction of what it gives, not repeated.
TEST(StepTest, RepeatsForGradients) {
  Example example;
  example.layout.pp = 1;
  double full = 2. * 2048 * 12288;
  auto getTime = [&](CollectiveKind kind) {
    return example.profile.rankSkew +
           getCollectiveTime(example.machine, kind, {8, 1}, full);
  };
  double blocks = 8 * 96;
  example.layout.sequenceParallel = true;
  double plain = example.price().tensor;
  example.profile.gathersAgain = true;
  double expected = blocks * 2 * getTime(CollectiveKind::AllGather);
  EXPECT_NEAR(example.price().tensor - plain, expected, 1e-9 * plain);

  // What is repeated has been gathered.
  example.layout.recompute = Recompute::Full;
  Estimate all = example.price();
  example.profile.gathersAgain = false;
  EXPECT_NEAR(example.price().tensor, all.tensor, 1e-9 * all.tensor);
  example.profile.prunesRepeats = true;
  Estimate needed = example.price();
  EXPECT_NEAR(all.tensor - needed.tensor,
              blocks * getTime(CollectiveKind::ReduceScatter),
              1e-9 * all.tensor);
  double down = getMatmulTime(example.machine.device, DType::BF16, 2048, 12288,
                              4 * 12288 / 8) /
                example.profile.matrixRate;
  EXPECT_NEAR(all.compute - needed.compute, blocks * down, 1e-9 * all.step);
  // A norm behind it reads its result.
  example.model.blocks[0].block.normsAfter = true;
  double after = example.price().step;
  example.profile.prunesRepeats = false;
  EXPECT_DOUBLE_EQ(after, example.price().step);
}

/// A stage's result leaves each of 8 ranks as a part or whole, unless it is
/// split anyway.
TEST(StepTest, PartsOfMessages) {
  Example example;
  auto getSend = [&] {
    return CostModel(example.model, example.machine, example.work,
                     example.profile)
        .getPipelineStep(example.layout)
        .send;
  };
  double full = 2. * 2048 * 12288;
  Group stages{8, 64};
  EXPECT_DOUBLE_EQ(getSend(), getSendTime(example.machine, stages, full / 8));
  example.profile.sendsParts = false;
  EXPECT_DOUBLE_EQ(getSend(), getSendTime(example.machine, stages, full));
  example.layout.sequenceParallel = true;
  EXPECT_DOUBLE_EQ(getSend(), getSendTime(example.machine, stages, full / 8));
}

/// Of a zero-bubble schedule a step ends with the longest stage's own, or where
/// updates wait for each other with the last of all.
TEST(StepTest, UpdatesThatWait) {
  Example example;
  example.model.vocab = 200000; // the last stage has most to do
  example.layout.schedule = Schedule::ZeroBubbleH1;
  example.layout.tp = example.layout.dp = 1;
  example.layout.pp = 16;
  example.work.globalBatch = 16;
  PipelineStep step =
      CostModel(example.model, example.machine, example.work, example.profile)
          .getPipelineStep(example.layout);
  PipelineModel pipeline;
  std::vector<double> starts, ends;
  pipeline.getSeconds(step.shape, step.times, step.send, starts, ends);
  double alone = 0, together = 0;
  for (size_t i = 0; i != ends.size(); ++i) {
    alone = std::max(alone, ends[i] - starts[i] + step.data[i]);
    together = std::max(together, ends[i] + step.data[i]);
  }
  EXPECT_GT(together, alone);
  EXPECT_NEAR(example.price().step, alone + step.optimizer, 1e-9 * alone);
  example.profile.postValidates = false;
  EXPECT_NEAR(example.price().step, together + step.optimizer, 1e-9 * alone);
}

/// In an arena gradients of one micro-batch take the places of what it has
/// kept; of two, the second finds those of the first there.
TEST(StepTest, GradientsInPlacesOfActivations) {
  for (int64_t layers : {1, 16}) {
    Example example;
    example.model = makeGPT(4096, 32, layers);
    example.layout = TrainLayout();
    example.work.globalBatch = 2;
    MemoryUse two = example.price().memory;
    example.work.globalBatch = 1;
    MemoryUse one = example.price().memory;
    EXPECT_EQ(one.optimizer, two.optimizer);
    // All that is kept is there before the backward pass, and all gradients
    // after it.
    EXPECT_GE(one.getTensors(), one.optimizer + two.activations);
    EXPECT_GE(one.getTensors(), one.optimizer + two.gradients);
    EXPECT_LT(one.activations + one.gradients, two.activations + two.gradients);
    EXPECT_LT(one.getTensors(), two.getTensors());
    // An allocator's blocks of one size do not serve the other.
    example.profile.allocatorGaps = 0.05;
    MemoryUse gaps = example.price().memory;
    EXPECT_EQ(gaps.activations, two.activations);
    EXPECT_EQ(gaps.gradients, two.gradients);
  }
}

/// A step shorter than its launches takes as long as these.
TEST(StepTest, HostBindsSmallBlocks) {
  Example example;
  example.model = makeGPT(256, 4, 100);
  example.layout = TrainLayout();
  example.work = {128, 1, DType::BF16};
  example.profile.hostPerBlock = 1e-3;
  // 102 blocks, 1 forward and 1.2 backward.
  EXPECT_NEAR(example.price().step, 0.224, 0.01);
}

/// Tokens cross the network once per node that owns one of their experts: with
/// 8 experts on 2 nodes nearly once, not 4 times.
TEST(StepTest, ExchangeCrossesOncePerNode) {
  Example example;
  Block &block = example.model.blocks[0].block;
  block.ffn = 0;
  block.experts = 64;
  block.expertFfn = 2048;
  example.layout = TrainLayout();
  example.layout.dp = 16;
  example.layout.ep = 16;
  double times[2];
  for (int64_t copies : {1, 8}) {
    block.expertsPerToken = copies;
    times[copies == 8] = example.price().expert;
  }
  EXPECT_LT(times[1], 2.5 * times[0]);
  EXPECT_GT(times[1], times[0]);
}

} // namespace
