//===- SearchTest.cpp - Branch and bound against brute force --------------===//
#include "cleave/Search/Search.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <map>
#include <random>
#include <set>

using namespace cleave;

static Architecture makeModel(int64_t layers, int64_t hidden, int64_t heads,
                              int64_t kvHeads, int64_t ffn) {
  Architecture model;
  model.name = "test";
  model.hidden = hidden;
  model.vocab = 32000;
  Block block;
  block.heads = heads;
  block.kvHeads = kvHeads;
  block.headDim = block.valueDim = hidden / heads;
  block.ffn = ffn;
  model.blocks.push_back({block, layers});
  return model;
}

static Machine makeMachine(const char *preset) {
  llvm::Expected<Machine> machine = getMachine(preset);
  EXPECT_TRUE(bool(machine));
  return *machine;
}

static SearchRequest makeRequest(const Machine &machine, int64_t seqLen,
                                 int64_t batch) {
  SearchRequest request;
  request.work = {seqLen, batch, DType::BF16};
  request.profile.attention = machine.device.attention.begin()->first;
  return request;
}

static Constraint parse(const char *text, bool forbids) {
  llvm::Expected<Constraint> constraint = parseConstraint(text, forbids);
  EXPECT_TRUE(bool(constraint)) << text;
  return *constraint;
}

/// The best value of each kind of layout, of those that fit, ascending.
static std::vector<double> bruteForce(const Architecture &model,
                                      const Machine &machine,
                                      const SearchRequest &request,
                                      int64_t &space) {
  CostModel costs(model, machine, request.work, request.profile);
  std::map<LayoutKind, double> best;
  space = 0;
  double limit =
      request.memoryLimit > 0 ? request.memoryLimit : machine.device.memory;
  enumerateLayouts(model, machine, request, [&](const TrainLayout &layout) {
    ++space;
    EXPECT_EQ(checkLayout(model, machine, request.work, layout), "");
    Estimate estimate = costs.price(layout);
    EXPECT_EQ(checkAbilities(request.profile, layout), "");
    if (estimate.memory.getTotal() > limit)
      return;
    double value = request.objective == Objective::Memory
                       ? estimate.memory.getTotal()
                       : estimate.step;
    auto [at, isNew] = best.try_emplace(getKind(layout), value);
    at->second = std::min(at->second, value);
  });
  std::vector<double> values;
  for (const auto &[kind, value] : best)
    values.push_back(value);
  llvm::sort(values);
  return values;
}

TEST(Search, EqualsBruteForce) {
  std::mt19937 random(11);
  auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  int64_t solved = 0, refused = 0;
  for (int instance = 0; instance != 500; ++instance) {
    int64_t heads = pick({4, 8, 16});
    Architecture model =
        makeModel(pick({2, 3, 5}), heads * pick({64, 128}), heads,
                  pick({1, 2, 4}), pick({1024, 4096, 6000}));
    // Dense blocks before those of experts, or both in turn; much or little
    // that differs between them.
    if (random() % 2) {
      BlockRun &dense = model.blocks.front();
      BlockRun sparse = dense;
      sparse.block.ffn = 0;
      sparse.block.experts = pick({4, 6, 8});
      sparse.block.expertsPerToken = 2;
      sparse.block.expertFfn = pick({256, 1024, 4096});
      dense.count = pick({1, 2});
      sparse.count = pick({1, 2, 3});
      model.blocks.push_back(sparse);
      if (random() % 3 == 0) {
        model.blocks[0].count = model.blocks[1].count = 1;
        for (size_t i : {0, 1})
          model.blocks.push_back(BlockRun(model.blocks[i]));
      }
    }
    model.tied = random() % 2;
    Machine machine =
        makeMachine((std::string(pick({0, 1}) ? "h100-sxm:" : "a100-80:") +
                     std::to_string(pick({1, 2, 4, 6, 8})))
                        .c_str());
    SearchRequest request =
        makeRequest(machine, pick({512, 2048}), pick({4, 6, 36}));
    request.objective = random() % 4 ? Objective::Time : Objective::Memory;
    request.top = 3;
    const auto &kernels = machine.device.attention;
    request.profile.attention =
        std::next(kernels.begin(), long(random() % kernels.size()))->first;
    request.profile.dataOverlap = double(pick({0, 1, 2})) / 2;
    request.profile.overlapSlowdown = double(pick({0, 12, 50})) / 100;
    request.profile.scatteredGaps = double(pick({0, 10})) / 100;
    request.profile.fusedProjections = random() % 2;
    request.profile.sequenceFirst = random() % 2;
    request.profile.gathersAgain = random() % 2;
    request.profile.prunesRepeats = random() % 2;
    request.profile.sendsParts = random() % 2;
    request.profile.postValidates = random() % 2;
    request.profile.blockBuffers = random() % 2;
    request.profile.logitBytes = double(pick({0, 4, 12}));
    if (random() % 4 == 0)
      request.profile.abilities = {.schedules = unsigned(random()),
                                   .contexts = unsigned(random()),
                                   .zeros = 1u | unsigned(random()),
                                   .zerosWithPipeline = unsigned(random()),
                                   .tensor = random() % 4 != 0,
                                   .sequenceParallel = random() % 2 != 0};
    if (random() % 2)
      request.memoryLimit = 1e9 * double(pick({1, 2, 4, 8, 16}));
    if (random() % 3 == 0)
      request.constraints.push_back(
          parse(random() % 2 ? "recompute=full" : "pp>1", random() % 2));
    // Bounds differ from schedule to schedule.
    if (random() % 2)
      for (const char *text :
           {"pp>1",
            std::array{"pipeline-schedule=1f1b", "pipeline-schedule=gpipe",
                       "pipeline-schedule=interleaved",
                       "pipeline-schedule=1f1b-eager",
                       "pipeline-schedule<=1f1b"}[random() % 5]})
        request.constraints.push_back(parse(text, false));
    // What is in no tensor, of some layouts more than of others.
    machine.device.reserve = 5e8 * double(random() % 3);
    if (random() % 2) {
      request.profile.allocatorGaps = 0.05;
      request.profile.scatteredGaps = 0.3;
    }
    int64_t space = 0;
    std::vector<double> values = bruteForce(model, machine, request, space);
    llvm::Expected<SearchResult> result = search(model, machine, request);
    if (values.empty()) {
      ASSERT_FALSE(bool(result)) << instance;
      EXPECT_NE(llvm::toString(result.takeError()), "");
      ++refused;
      continue;
    }
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    ++solved;
    EXPECT_EQ(result->space, space) << instance;
    EXPECT_LE(result->evaluated, space);
    EXPECT_EQ(result->bound, result->best.front().value);
    ASSERT_EQ(result->best.size(), std::min<size_t>(3, values.size()));
    for (size_t i = 0; i != result->best.size(); ++i)
      EXPECT_NEAR(result->best[i].value / values[i], 1, 1e-12) << instance;
  }
  EXPECT_GE(solved, 300);
  EXPECT_GE(refused, 10);
}

/// The space itself against every combination of degrees that is legal. Ends
/// have at most as many blocks fewer as the head is worth; of orders that
/// differ in axes of one device there is the first.
static void checkSpace(const char *kernel, bool isFused) {
  Architecture model = makeModel(6, 512, 8, 2, 4096);
  model.vocab = 9000; // less than a block's weights
  Machine machine = makeMachine("h100-sxm:8");
  SearchRequest request = makeRequest(machine, 512, 8);
  request.profile.attention = kernel;
  std::set<std::string> seen;
  int64_t space = 0;
  auto getKey = [](const TrainLayout &layout) {
    std::string key;
    for (llvm::StringRef field : getLayoutFields())
      key += getFieldText(layout, field) + " ";
    return key;
  };
  enumerateLayouts(model, machine, request, [&](const TrainLayout &layout) {
    ++space;
    seen.insert(getKey(layout));
  });
  EXPECT_EQ(space, int64_t(seen.size())) << "no layout twice";
  int64_t legal = 0;
  TrainLayout at;
  auto visitWays = [&] {
    auto isEnd = [&](int64_t blocks, int64_t even) {
      return blocks <= even && blocks >= even - 1;
    };
    for (int64_t first = -1; first <= 6; ++first)
      for (int64_t last = -1; last <= 6; ++last)
        for (int recompute = 0; recompute != 3; ++recompute)
          for (unsigned modules :
               {unsigned(recomputeAttention), unsigned(recomputePointwise),
                recomputeAttention | recomputePointwise})
            for (at.recomputeBlocks = 0; at.recomputeBlocks <= 6;
                 ++at.recomputeBlocks) {
              at.recompute = Recompute(recompute);
              at.recomputedModules = modules;
              // A fused kernel keeps nothing of attention.
              if (recompute == 1 ? modules != recomputePointwise && isFused
                                 : modules != recomputeAttention)
                continue;
              at.firstBlocks = at.lastBlocks = TrainLayout::even;
              int64_t all = at.pp * at.virtualStages;
              int64_t evenFirst = at.getNumBlocks(0, 6);
              int64_t evenLast = at.getNumBlocks(all - 1, 6);
              if (first >= 0 && first == evenFirst && last == evenLast)
                continue;
              if (first >= 0 && last >= 0 &&
                  (!isEnd(last, evenLast) ||
                   (all > 2 && !isEnd(first, evenFirst))))
                continue;
              at.firstBlocks = first;
              at.lastBlocks = last;
              if (!checkLayout(model, machine, request.work, at).empty())
                continue;
              ++legal;
              EXPECT_TRUE(seen.count(getKey(at))) << toString(at);
            }
  };
  for (at.tp = 1; at.tp <= 8; ++at.tp)
    for (at.cp = 1; at.cp <= 8; ++at.cp)
      for (at.pp = 1; at.pp <= 8; ++at.pp)
        for (at.dp = 1; at.dp <= 8; ++at.dp) {
          if (at.getDevices() != 8)
            continue;
          std::set<std::string> orders;
          for (int order = 0; order != numAxisOrders; ++order) {
            at.order = AxisOrder(order);
            std::string axes = getName(at.order).str();
            auto drop = [&](const char *axis, int64_t size) {
              if (size == 1)
                axes.erase(axes.find(axis), 3);
            };
            drop("-cp", at.cp);
            drop("-dp", at.dp);
            drop("-pp", at.pp);
            if (!orders.insert(axes).second)
              continue;
            for (at.microBatch = 1; at.microBatch <= 8; ++at.microBatch)
              for (int kind = 0; kind != 3; ++kind)
                for (int schedule = 0; schedule != numSchedules; ++schedule)
                  for (at.virtualStages = 1; at.virtualStages <= 4;
                       ++at.virtualStages)
                    for (at.zero = 0; at.zero <= 3; ++at.zero)
                      for (at.zeroGroup = 0; at.zeroGroup <= 8; ++at.zeroGroup)
                        for (bool sp : {false, true}) {
                          at.sequenceParallel = sp;
                          at.schedule = Schedule(schedule);
                          at.contextKind = ContextKind(kind);
                          at.firstBlocks = at.lastBlocks = TrainLayout::even;
                          at.recompute = Recompute::None;
                          at.recomputedModules = recomputeAttention;
                          at.recomputeBlocks = 0;
                          if (checkLayout(model, machine, request.work, at)
                                  .empty())
                            visitWays();
                        }
          }
        }
  EXPECT_EQ(legal, space);
  EXPECT_GT(legal, 10000);
}

TEST(Search, SpaceIsWhatIsLegal) {
  checkSpace("flash2", true);
  checkSpace("unfused", false);
}

TEST(Search, ManyChunksAreOfEqualSize) {
  Architecture model = makeModel(36, 512, 8, 2, 1024);
  Machine machine = makeMachine("h100-sxm:2");
  SearchRequest request = makeRequest(machine, 512, 8);
  request.constraints = {parse("pp=2", false),
                         parse("pipeline-schedule=interleaved", false)};
  std::set<int64_t> chunks;
  enumerateLayouts(model, machine, request, [&](const TrainLayout &layout) {
    chunks.insert(layout.virtualStages);
  });
  EXPECT_EQ(chunks, (std::set<int64_t>{2, 3, 4, 5, 6, 7, 8, 9, 18}));
  TrainLayout uneven;
  uneven.pp = 2;
  uneven.schedule = Schedule::Interleaved;
  uneven.virtualStages = 10;
  EXPECT_EQ(checkLayout(model, machine, request.work, uneven), "");
  uneven.virtualStages = 19;
  EXPECT_NE(checkLayout(model, machine, request.work, uneven), "");
}

TEST(Search, SameAnswerTwice) {
  Architecture model = makeModel(32, 4096, 32, 8, 14336);
  Machine machine = makeMachine("h100-sxm:64");
  SearchRequest request = makeRequest(machine, 4096, 128);
  request.top = 20;
  llvm::Expected<SearchResult> a = search(model, machine, request);
  llvm::Expected<SearchResult> b = search(model, machine, request);
  ASSERT_TRUE(bool(a) && bool(b));
  ASSERT_EQ(a->best.size(), 20u);
  for (size_t i = 0; i != 20; ++i) {
    EXPECT_EQ(a->best[i].layout, b->best[i].layout);
    EXPECT_EQ(a->best[i].value, b->best[i].value);
  }
  // Each is of another kind.
  std::set<LayoutKind> kinds;
  for (const Candidate &candidate : a->best)
    kinds.insert(getKind(candidate.layout));
  EXPECT_EQ(kinds.size(), 20u);
  // A shorter list is the start of a longer one.
  request.top = 1;
  llvm::Expected<SearchResult> one = search(model, machine, request);
  ASSERT_TRUE(bool(one));
  EXPECT_EQ(one->best[0].layout, a->best[0].layout);
  EXPECT_LT(one->evaluated, one->space);
}

TEST(Search, CostMayUseFewerDevices) {
  Architecture model = makeModel(4, 512, 8, 2, 1024);
  Machine machine = makeMachine("h100-sxm:64");
  SearchRequest request = makeRequest(machine, 512, 64);
  request.objective = Objective::Cost;
  llvm::Expected<SearchResult> result = search(model, machine, request);
  ASSERT_TRUE(bool(result));
  const Candidate &best = result->best.front();
  EXPECT_LT(best.layout.getDevices(), 64);
  EXPECT_NEAR(best.value,
              best.estimate.step * double(best.layout.getDevices()) *
                  machine.device.pricePerHour / 3600,
              1e-12);
}

TEST(Search, FrontFallsAndRises) {
  Architecture model = makeModel(32, 4096, 32, 8, 14336);
  Machine machine = makeMachine("h100-sxm:64");
  SearchRequest request = makeRequest(machine, 4096, 128);
  llvm::Expected<std::vector<Candidate>> front =
      computeFront(model, machine, request, 10);
  ASSERT_TRUE(bool(front));
  ASSERT_GE(front->size(), 3u);
  for (size_t i = 1; i != front->size(); ++i) {
    EXPECT_LT((*front)[i].estimate.memory.getTotal(),
              (*front)[i - 1].estimate.memory.getTotal());
    EXPECT_GE((*front)[i].estimate.step, (*front)[i - 1].estimate.step);
  }
}

TEST(Search, FrontHasNothingThatIsWorseInAll) {
  Architecture model = makeModel(16, 2048, 16, 8, 8192);
  Machine machine = makeMachine("h100-sxm:32");
  SearchRequest request = makeRequest(machine, 4096, 64);
  llvm::Expected<std::vector<Candidate>> front =
      computeFront(model, machine, request, 4, {32, 16, 8, 1});
  ASSERT_TRUE(bool(front));
  std::set<int64_t> devices;
  for (const Candidate &a : *front) {
    devices.insert(a.layout.getDevices());
    for (const Candidate &b : *front)
      EXPECT_TRUE(&a == &b || a.estimate.step < b.estimate.step ||
                  a.estimate.memory.getTotal() < b.estimate.memory.getTotal() ||
                  a.layout.getDevices() < b.layout.getDevices());
  }
  EXPECT_EQ(devices, (std::set<int64_t>{1, 8, 16, 32}));
  EXPECT_EQ(front->front().layout.getDevices(), 32);
}

static std::string getError(const Architecture &model, const char *preset,
                            int64_t batch,
                            std::vector<Constraint> constraints = {}) {
  Machine machine = makeMachine(preset);
  SearchRequest request = makeRequest(machine, 2048, batch);
  request.constraints = std::move(constraints);
  llvm::Expected<SearchResult> result = search(model, machine, request);
  return result ? "" : llvm::toString(result.takeError());
}

TEST(Search, SaysWhatIsImpossible) {
  Architecture model = makeModel(4, 1024, 8, 8, 4096);
  // 5 x 2^k devices: 4 blocks and 2,048 tokens leave 5 for dp.
  std::string batch = getError(model, "h100-sxm:40", 8);
  EXPECT_NE(batch.find("global batch 8 is not divisible"), std::string::npos)
      << batch;
  EXPECT_NE(batch.find("a global batch of 10 works"), std::string::npos)
      << batch;
  EXPECT_NE(batch.find("or 32 devices"), std::string::npos) << batch;
  std::string pinned = getError(model, "h100-sxm:8", 8, {parse("tp=3", false)});
  EXPECT_NE(pinned.find("--pin tp=3"), std::string::npos) << pinned;
  // Of pins that contradict others the later ones are kept.
  std::string pins = getError(model, "h100-sxm:8", 8,
                              {parse("tp=2", false), parse("pp=1", false),
                               parse("sequence-parallel=true", false),
                               parse("pp=2", false), parse("tp=4", false)});
  EXPECT_NE(pins.find("satisfies --pin tp=2 and --pin pp=1; legal values of "
                      "tp are 4, values of pp are 2"),
            std::string::npos)
      << pins;
  Architecture large = makeModel(64, 16384, 128, 8, 65536);
  std::string memory = getError(large, "h100-sxm:8", 8);
  EXPECT_NE(memory.find("nothing fits"), std::string::npos) << memory;
  EXPECT_NE(memory.find("devices are enough"), std::string::npos) << memory;
  // Far from what works: 4 blocks, 8 heads and 2,048 tokens are for 32,768.
  std::string many = getError(model, "h100-sxm:65536", 1);
  EXPECT_NE(many.find("or 32768 devices"), std::string::npos) << many;
  std::string one = getError(large, "h100-sxm:1", 1024);
  EXPECT_NE(one.find("devices are enough"), std::string::npos) << one;
}

/// Modules that are pinned are what recomputes, and only they.
TEST(Search, PinnedModulesAreRepeated) {
  Architecture model = makeModel(8, 1024, 8, 8, 4096);
  Machine machine = makeMachine("h100-sxm:8");
  SearchRequest request = makeRequest(machine, 2048, 16);
  request.profile.attention = "flash2";
  for (const char *modules : {"norms", "up+activation", "attention"}) {
    request.constraints = {
        parse((std::string("recompute-modules=") + modules).c_str(), false)};
    llvm::Expected<SearchResult> result = search(model, machine, request);
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    const TrainLayout &layout = result->best.front().layout;
    EXPECT_EQ(layout.recompute, Recompute::Selective);
    EXPECT_EQ(getFieldText(layout, "recompute-modules"), modules);
  }
  request.constraints = {parse("recompute-modules=norms", false),
                         parse("recompute=full", false)};
  llvm::Expected<SearchResult> none = search(model, machine, request);
  ASSERT_FALSE(bool(none));
  EXPECT_NE(llvm::toString(none.takeError()).find("recompute-modules=norms"),
            std::string::npos);
}

/// A profile's software is all that is searched, and a pin beyond it is told
/// what there is.
TEST(Search, SearchesWhatSoftwareCanRun) {
  Architecture model = makeModel(32, 4096, 32, 8, 14336);
  Machine machine = makeMachine("h100-sxm:64");
  SearchRequest request = makeRequest(machine, 4096, 128);
  request.profile.name = "mine";
  Abilities &able = request.profile.abilities;
  able.schedules = 1u << int(Schedule::OneFOneB);
  able.contexts = 1u << int(ContextKind::Ring);
  able.zeros = 0b11;
  request.constraints = {parse("pp>1", false)};
  llvm::Expected<SearchResult> result = search(model, machine, request);
  ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
  EXPECT_EQ(result->best.front().layout.schedule, Schedule::OneFOneB);
  for (const char *pin :
       {"pipeline-schedule=zb-v", "zero=3", "cp-kind=ulysses"}) {
    request.constraints = {parse(pin, false)};
    llvm::Expected<SearchResult> beyond = search(model, machine, request);
    ASSERT_FALSE(bool(beyond)) << pin;
    std::string error = llvm::toString(beyond.takeError());
    EXPECT_NE(error.find(pin), std::string::npos) << error;
    EXPECT_NE(
        error.find("profile mine can run: it has schedules 1f1b; cp ring; "
                   "zero 0, 1"),
        std::string::npos)
        << error;
  }
}

TEST(Search, SaysWhatMemoryDiffersBy) {
  auto [a, b] = formatBytesApart(1.4999e9, 1.5001e9);
  EXPECT_EQ(a, "1.4999 GB");
  EXPECT_EQ(b, "1.5001 GB");
  EXPECT_EQ(formatBytesApart(1e9, 2e9).first, "1.0 GB");
  EXPECT_EQ(formatBytesApart(1e9, 1e9).first, "1.0 GB");
}

TEST(Search, ConstraintsAreRead) {
  EXPECT_TRUE(parse("tp=8", false).allows(8));
  EXPECT_FALSE(parse("tp=8", false).allows(4));
  EXPECT_FALSE(parse("pp>1", true).allows(2));
  EXPECT_TRUE(parse("pp>1", true).allows(1));
  EXPECT_TRUE(
      parse("pipeline-schedule!=zb-v", false).allows(int64_t(Schedule::GPipe)));
  for (auto [text, says] :
       {std::pair("tq=8", "unknown field \"tq\""),
        {"tp", "expects FIELD=VALUE"},
        {"tp=x", "value \"x\": expects a whole number from 1"},
        {"pipeline-schedule=zb", "one of gpipe, 1f1b, 1f1b-eager, interleaved"},
        {"recompute-modules=nonsense", "expects pointwise, attention"},
        {"recompute-modules<norms", "expects = or !="},
        {"zero=4", "value \"4\": expects a whole number from 0 to 3"}}) {
    llvm::Expected<Constraint> constraint = parseConstraint(text, false);
    ASSERT_FALSE(bool(constraint)) << text;
    std::string error = llvm::toString(constraint.takeError());
    EXPECT_NE(error.find(says), std::string::npos) << error;
  }
}
