//===- ExplainTest.cpp - What a plan depends on, searched again -----------===//
#include "cleave/Search/Explain.h"
#include "cleave/Search/PlanFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <array>

using namespace cleave;

namespace {
/// A dense model on a preset, and its plan.
struct Problem {
  Problem(const char *preset, int64_t layers, int64_t hidden, int64_t batch) {
    model.name = "test";
    model.hidden = hidden;
    model.vocab = 32000;
    Block block;
    block.heads = block.kvHeads = hidden / 128;
    block.headDim = block.valueDim = 128;
    block.ffn = 4 * hidden;
    model.blocks.push_back({block, layers});
    machine = llvm::cantFail(getMachine(preset));
    request.work = {4096, batch, DType::BF16};
    request.profile.attention = machine.device.attention.begin()->first;
  }

  SearchResult solve() const {
    return llvm::cantFail(search(model, machine, request));
  }
  PlanContext getContext() const { return {model, machine, request}; }
  std::string getText() const {
    return llvm::formatv(
        "{0:2}", llvm::json::Value(toJSON(getContext(), solve(), false)));
  }

  Architecture model;
  Machine machine;
  SearchRequest request;
};
} // namespace

static Constraint pin(const char *text) {
  return llvm::cantFail(parseConstraint(text, false));
}

static const Relaxation *find(const Explanation &explanation,
                              llvm::StringRef what) {
  for (const Relaxation &relaxation : explanation.relaxations)
    if (relaxation.what == what)
      return &relaxation;
  ADD_FAILURE() << what.str();
  return nullptr;
}

TEST(Explain, RelaxationsAreSearches) {
  Problem problem("h100-sxm:32", 24, 4096, 64);
  Candidate plan = problem.solve().best.front();
  Explanation explanation = explain(problem.getContext(), plan);
  for (size_t i = 0; i != explanation.relaxations.size(); ++i) {
    const Relaxation &relaxation = explanation.relaxations[i];
    EXPECT_GE(relaxation.getGain(plan), -1e-12) << relaxation.what;
    if (i > 0) {
      EXPECT_GE(relaxation.seconds, explanation.relaxations[i - 1].seconds);
    }
  }
  Problem roomy = problem;
  roomy.machine.device.memory *= 1.2;
  EXPECT_DOUBLE_EQ(find(explanation, "memory + 20 %")->seconds,
                   roomy.solve().best.front().estimate.step);
  Problem twice = problem;
  twice.request.work.globalBatch *= 2;
  EXPECT_DOUBLE_EQ(find(explanation, "batch x 2")->seconds,
                   twice.solve().best.front().estimate.step / 2);
  const Relaxation *free = find(explanation, "infinite interconnect");
  for (const Level &level : problem.machine.levels)
    EXPECT_LE(free->seconds,
              find(explanation, level.link.name + " x 2")->seconds);
}

TEST(Explain, FreeLinksLeaveNoCommunication) {
  Problem problem("h100-sxm:16", 8, 2048, 16);
  Candidate plan = problem.solve().best.front();
  Explanation explanation = explain(problem.getContext(), plan);
  const Estimate &with = plan.estimate;
  double exposed =
      with.tensor + with.context + with.expert + with.pipeline + with.data;
  ASSERT_GT(exposed, 0);
  // The plan's own layout saves what is exposed, the best no less.
  EXPECT_LE(find(explanation, "infinite interconnect")->seconds,
            (with.step - exposed) * (1 + 1e-9));
}

TEST(Explain, MemoryBindsWhereItIsShort) {
  Problem problem("h100-sxm:16", 24, 4096, 64);
  double least = 0;
  {
    Problem smallest = problem;
    smallest.request.objective = Objective::Memory;
    least = smallest.solve().best.front().estimate.memory.getTotal();
  }
  auto getGain = [&](double limit) {
    Problem limited = problem;
    limited.request.memoryLimit = limit;
    Candidate plan = limited.solve().best.front();
    return find(explain(limited.getContext(), plan), "memory + 20 %")
        ->getGain(plan);
  };
  EXPECT_GT(getGain(least * 1.01), 0.01);
  EXPECT_EQ(getGain(1e15), 0);
}

TEST(Explain, SlowerLinksOfOneNode) {
  Problem problem("h100-sxm:8", 8, 4096, 8);
  Candidate plan = problem.solve().best.front();
  Explanation explanation = explain(problem.getContext(), plan);
  // The network joins nothing here.
  ASSERT_EQ(explanation.slower.size(), 1u);
  const SlowerLink &slower = explanation.slower.front();
  EXPECT_EQ(slower.link, problem.machine.levels.front().link.name);
  EXPECT_EQ(slower.kept.layout, plan.layout);
  EXPECT_GT(slower.kept.estimate.step, plan.estimate.step);
  EXPECT_GE(slower.getLoss(), 0);
  EXPECT_EQ(slower.changes(), slower.getLoss() > 0);
}

TEST(Explain, KeepingALayoutCanLose) {
  // Some plan changes once a link is slower, and is then worth changing.
  int changes = 0;
  for (int64_t batch : {8, 16, 32, 64})
    for (int64_t hidden : {1024, 2048, 4096, 8192}) {
      Problem problem("h100-sxm:16", 8, hidden, batch);
      Candidate plan = problem.solve().best.front();
      for (const SlowerLink &slower :
           explain(problem.getContext(), plan).slower) {
        EXPECT_GE(slower.best.estimate.step, plan.estimate.step);
        if (!slower.changes())
          continue;
        ++changes;
        EXPECT_FALSE(slower.best.layout == plan.layout);
        EXPECT_GT(slower.getLoss(), 0);
      }
    }
  EXPECT_GT(changes, 0);
}

TEST(Explain, ConstraintsBind) {
  Problem problem("h100-sxm:16", 8, 2048, 64);
  double free = problem.solve().best.front().value;
  problem.request.constraints = {
      pin("tp=8"), pin("pp=1"),
      llvm::cantFail(parseConstraint("zero=3", /*forbids=*/true))};
  Candidate plan = problem.solve().best.front();
  ASSERT_GT(plan.value, free);
  Explanation explanation = explain(problem.getContext(), plan);
  for (size_t i = 0; i != 3; ++i) {
    Problem without = problem;
    without.request.constraints.erase(without.request.constraints.begin() +
                                      long(i));
    EXPECT_EQ(find(explanation, std::array{"no --pin tp=8", "no --pin pp=1",
                                           "no --forbid zero=3"}[i])
                  ->value,
              without.solve().best.front().value);
  }
}

TEST(Explain, EveryObjective) {
  // A batch that all devices can share only by tp: fewer are cheaper.
  for (Objective objective :
       {Objective::Time, Objective::Memory, Objective::Cost}) {
    Problem problem("h100-sxm:16", 8, 2048, 4);
    problem.request.objective = objective;
    problem.request.constraints = {pin("cp=1")};
    PlanFile saved =
        llvm::cantFail(parsePlanFile(problem.getText(), "plan.json"));
    EXPECT_EQ(saved.planned->objective, objective);
    PlanContext context = problem.getContext();
    Candidate plan = llvm::cantFail(price(saved, context));
    SearchResult result = problem.solve();
    EXPECT_NEAR(plan.value / result.best.front().value, 1, 1e-12);
    if (objective == Objective::Cost) {
      EXPECT_LT(plan.layout.getDevices(), 16);
    }
    Explanation explanation = explain(context, plan);
    for (const Relaxation &relaxation : explanation.relaxations) {
      if (relaxation.what == "batch x 2")
        continue;
      EXPECT_GE(relaxation.getGain(plan), -1e-12) << relaxation.what;
    }
    Problem twice = problem;
    twice.request.work.globalBatch *= 2;
    double steps = objective == Objective::Memory ? 1 : 2;
    EXPECT_DOUBLE_EQ(find(explanation, "batch x 2")->value,
                     twice.solve().best.front().value / steps);
    // Links need no memory.
    EXPECT_EQ(explanation.slower.size(),
              objective == Objective::Memory ? 0u : 2u);
    for (const SlowerLink &slower : explanation.slower) {
      EXPECT_GE(slower.kept.value, plan.value * (1 - 1e-12));
      EXPECT_GE(slower.getLoss(), -1e-12);
    }
    Alternative other = findAlternative(context, plan, {pin("tp=8")});
    ASSERT_TRUE(other.best.has_value());
    EXPECT_EQ(other.best->layout.tp, 8);
    EXPECT_GE(other.best->value, plan.value);
    llvm::json::Object json = toJSON(context, explanation, other);
    EXPECT_EQ(json.getString("objective"), getName(objective));
    double shares = 0;
    for (const auto &[key, share] : *json.getObject("shares"))
      shares += *share.getAsNumber();
    EXPECT_NEAR(shares, 1, 1e-9);
    const llvm::json::Array &answers = *json.getArray("why_not");
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(
        answers[0].getAsObject()->getObject("difference")->getNumber("value"),
        other.best->value - plan.value);
  }
}

TEST(Explain, Alternatives) {
  Problem problem("h100-sxm:16", 8, 2048, 64);
  Candidate plan = problem.solve().best.front();
  PlanContext context = problem.getContext();
  auto ask = [&](std::vector<Constraint> constraints) {
    return findAlternative(context, plan, constraints);
  };
  Alternative other = ask({pin("tp=8"), pin("pp=2")});
  EXPECT_EQ(other.problem, "");
  ASSERT_TRUE(other.best.has_value());
  EXPECT_EQ(other.best->layout.tp, 8);
  EXPECT_EQ(other.best->layout.pp, 2);
  EXPECT_GT(other.best->estimate.step, plan.estimate.step);
  // The plan is the best of its own kind.
  Alternative same =
      ask({pin(("tp=" + std::to_string(plan.layout.tp)).c_str()),
           pin(("pp=" + std::to_string(plan.layout.pp)).c_str())});
  ASSERT_TRUE(same.best.has_value());
  EXPECT_EQ(same.best->layout, plan.layout);
  Alternative illegal = ask({pin("tp=16")});
  EXPECT_FALSE(illegal.best.has_value());
  EXPECT_NE(illegal.problem.find("tp=16"), std::string::npos);
  EXPECT_NE(illegal.problem.find("tp 16"), std::string::npos)
      << illegal.problem;
  // Degrees whose product is no number.
  Alternative absurd =
      ask({pin("tp=16777216"), pin("cp=16777216"), pin("pp=16777216")});
  EXPECT_NE(absurd.problem.find("tp 16777216 does not divide the 16 devices"),
            std::string::npos)
      << absurd.problem;
}

TEST(Explain, AnAlternativeThatDoesNotFit) {
  Problem problem("h100-sxm:16", 48, 8192, 64);
  Candidate plan = problem.solve().best.front();
  Alternative large = findAlternative(
      problem.getContext(), plan, {pin("tp=1"), pin("pp=1"), pin("zero=0")});
  EXPECT_NE(large.problem.find("nothing fits"), std::string::npos)
      << large.problem;
  ASSERT_TRUE(large.best.has_value());
  EXPECT_GT(large.best->estimate.memory.getTotal(),
            problem.machine.device.memory);
}

TEST(PlanFile, ReadsWhatIsWritten) {
  Problem problem("h100-sxm:16", 8, 2048, 64);
  problem.request.memoryLimit = 60e9;
  problem.request.constraints = {pin("tp<=4"), pin("pipeline-schedule!=zb-v")};
  problem.request.constraints.push_back(
      llvm::cantFail(parseConstraint("cp>1", true)));
  Candidate best = problem.solve().best.front();
  llvm::Expected<PlanFile> file = parsePlanFile(problem.getText(), "plan.json");
  ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
  EXPECT_EQ(std::get<TrainLayout>(file->layout), best.layout);
  const std::optional<Planned> &plan = file->planned;
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->memoryLimit, 60e9);
  EXPECT_EQ(plan->work.seqLen, 4096);
  EXPECT_EQ(plan->work.globalBatch, 64);
  ASSERT_EQ(plan->constraints.size(), 3u);
  EXPECT_EQ(plan->constraints[1].text, "pipeline-schedule!=zb-v");
  EXPECT_TRUE(plan->constraints[2].forbids);
  llvm::Expected<Candidate> again = price(*file, problem.getContext());
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(again->estimate.step, best.estimate.step);
}

TEST(PlanFile, RefusesWhatDiffers) {
  Problem problem("h100-sxm:16", 8, 2048, 64);
  PlanFile plan = llvm::cantFail(parsePlanFile(problem.getText(), "plan.json"));
  auto getError = [&](const Problem &other) {
    llvm::Expected<Candidate> priced = price(plan, other.getContext());
    return priced ? "" : llvm::toString(priced.takeError());
  };
  PlanFile lean = plan;
  lean.planned->objective = Objective::Memory;
  EXPECT_NE(llvm::toString(price(lean, problem.getContext()).takeError())
                .find("the plan's step needs "),
            std::string::npos);
  Problem renamed = problem;
  renamed.model.name = "gpt";
  EXPECT_EQ(getError(renamed),
            "plan.json: the plan is for a model of type \"test\", not \"gpt\"");
  Problem older("a100-80:16", 8, 2048, 64);
  EXPECT_EQ(getError(older), "plan.json: the plan is for devices \"h100-sxm\", "
                             "not \"a100-80\"");
  Problem fewer("h100-sxm:8", 8, 2048, 64);
  EXPECT_EQ(getError(fewer), "plan.json: the plan is for 16 devices, not 8");
  Problem longer = problem;
  longer.request.work.seqLen = 2048;
  EXPECT_EQ(getError(longer),
            "plan.json: the plan is for --seq-len 4096, not 2048");
  Problem larger = problem;
  larger.request.work.globalBatch = 128;
  EXPECT_EQ(getError(larger),
            "plan.json: the plan is for --global-batch 64, not 128");
  Problem exact = problem;
  exact.request.work.dtype = DType::F32;
  EXPECT_EQ(getError(exact),
            "plan.json: the plan is for --dtype bf16, not f32");
  Problem narrower = problem;
  narrower.request.work.moments = DType::BF16;
  EXPECT_EQ(getError(narrower),
            "plan.json: the plan is for --moments f32, not bf16");
  Problem deeper("h100-sxm:16", 12, 2048, 64);
  EXPECT_NE(getError(deeper).find("of other sizes"), std::string::npos);
}

TEST(PlanFile, RefusesOtherFiles) {
  std::string text = Problem("h100-sxm:8", 4, 1024, 8).getText();
  auto getError = [](const std::string &changed) {
    llvm::Expected<PlanFile> plan = parsePlanFile(changed, "plan.json");
    return plan ? "" : llvm::toString(plan.takeError());
  };
  ASSERT_EQ(getError(text), "");
  for (auto [from, to, says] :
       {std::tuple("\"version\": 2", "\"version\": 1",
                   "plan.json: key \"version\": expects 2, got 1"),
        {"\"seq_len\": 4096", "\"seq_len\": -1", "key \"seq_len\""},
        {"\"dtype\": \"bf16\"", "\"dtype\": \"f8\"",
         "key \"dtype\": expects one of f32, bf16, fp8, fp4, got \"f8\""},
        {"\"device_type\": \"gpu\"", "\"device_type\": \"tpu\"",
         "key \"device_type\": expects one of gpu, cpu, got \"tpu\""},
        {"\"tp\": ", "\"tq\": ", "unknown key \"tq\""},
        {"\"objective\": \"time\"", "\"objective\": \"speed\"",
         "key \"search.objective\": expects one of time, memory, cost, got "
         "\"speed\""},
        {"\"value\": ", "\"value\": -", "key \"search.value\""},
        {"\"search\"", "\"found\"", "unknown key \"found\""}}) {
    std::string changed = text;
    size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, std::string(from).size(), to);
    EXPECT_NE(getError(changed).find(says), std::string::npos)
        << getError(changed);
  }
}

/// Every recipe's plan gives back its degrees, written with other names and
/// without the axes of one rank as well.
TEST(PlanFile, WhatCompilesHasAPrice) {
  const Workload work{64, 24, DType::F32};
  for (int64_t dp : {1, 2, 3})
    for (int64_t tp : {1, 2, 4})
      for (int zero = 0; zero <= 3; ++zero)
        for (bool sp : {false, true}) {
          const TrainLayout asked{.tp = tp,
                                  .dp = dp,
                                  .sequenceParallel = sp,
                                  .zero = zero,
                                  .microBatch = 2};
          Plan plan = llvm::cantFail(makePlan(asked, work));
          TrainLayout expected;
          expected.dp = dp;
          expected.tp = tp;
          expected.zero = dp > 1 ? zero : 0;
          expected.sequenceParallel = tp > 1 && sp;
          expected.microBatch = 2;
          EXPECT_EQ(llvm::cantFail(getPricedLayout(plan, "p", work, 4)),
                    expected);
          plan.mesh = Mesh({{"x", dp}, {"y", tp}});
          EXPECT_EQ(llvm::cantFail(getPricedLayout(plan, "p", work, 4)),
                    expected);
        }
  auto getError = [&](const Plan &plan) {
    llvm::Expected<TrainLayout> layout = getPricedLayout(plan, "p", work, 4);
    return layout ? "" : llvm::toString(layout.takeError());
  };
  const Plan plan = llvm::cantFail(makePlan(
      {.tp = 2, .dp = 2, .sequenceParallel = true, .zero = 1, .microBatch = 2},
      work));
  Plan other = plan;
  other.dims["hidden"] = {1};
  EXPECT_EQ(getError(other),
            "p: keys \"mesh\", \"dims\" and \"keep\": only what the "
            "layout flags of cleave compile give has a price");
  other = plan;
  other.dims.erase("vocab");
  EXPECT_NE(getError(other), "");
  other = plan;
  other.gradientAxes = {1};
  EXPECT_NE(getError(other), "");
  // tp outside of dp.
  other = plan;
  for (auto &[dim, axes] : other.dims)
    axes = {1 - axes.front()};
  other.optimizerAxes = {1};
  EXPECT_NE(getError(other), "");
  other = plan;
  other.microBatches = 5;
  EXPECT_EQ(getError(other), "p: the global batch 24 is not divisible by its 5 "
                             "micro-batches of 2 ranks");
}

TEST(PlanFile, WhatRunsBecomesAPlan) {
  Problem problem("h100-sxm:8", 4, 1024, 8);
  PlanFile saved =
      llvm::cantFail(parsePlanFile(problem.getText(), "plan.json"));
  TrainLayout layout{.tp = 2, .dp = 4, .sequenceParallel = true, .zero = 2};
  saved.layout = layout;
  const Workload work{4096, 8, DType::BF16};
  auto getError = [&](const PlanFile &file, const Workload &work,
                      const char *model = "test") {
    llvm::Expected<Plan> read = getPlan(file, model, work);
    return read ? "" : llvm::toString(read.takeError());
  };
  llvm::Expected<Plan> plan = getPlan(saved, "test", work);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(plan->toJSON(), llvm::cantFail(makePlan(layout, work)).toJSON());
  EXPECT_EQ(getError(saved, {4096, 8, DType::F32}),
            "plan.json: the plan is for --dtype bf16, not f32");
  EXPECT_EQ(
      getError(saved, work, "gpt2"),
      "plan.json: the plan is for a model of type \"test\", not \"gpt2\"");
  EXPECT_EQ(getError(saved, {2048, 8, DType::BF16}),
            "plan.json: the plan is for --seq-len 4096, not 2048");
  EXPECT_EQ(getError(saved, {4096, 16, DType::BF16}),
            "plan.json: the plan is for --global-batch 8, not 16");
  layout.recompute = Recompute::Full;
  layout.pp = 2;
  layout.schedule = Schedule::Interleaved;
  layout.virtualStages = 2;
  layout.zeroGroup = 2;
  layout.order = AxisOrder::ContextPipelineData;
  saved.layout = layout;
  plan = getPlan(saved, "test", work);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(plan->recompute, std::vector<std::string>{"full"});
  EXPECT_EQ(plan->mesh.toString(), R"(["dp_outer"=2, "dp"=2, "pp"=2, "tp"=2])");
  EXPECT_EQ(plan->getAxes("batch"), (AxisList{0, 1}));
  EXPECT_EQ(plan->gradientAxes, AxisList{1});
  EXPECT_EQ(plan->getStageLayers(6), (std::vector<int64_t>{1, 2, 2, 1}));
  // And back again.
  EXPECT_EQ(llvm::cantFail(getPricedLayout(*plan, "p", work, 6)), layout);
  layout.cp = 2;
  saved.layout = layout;
  EXPECT_NE(getError(saved, work).find("has cp=1 so far"), std::string::npos)
      << getError(saved, work);
}

/// Both notations of a layout that a person wrote mean one plan and one price.
TEST(PlanFile, ByDegreesAndDimByDim) {
  Problem problem("h100-sxm:8", 4, 1024, 8);
  const Workload &work = problem.request.work;
  PlanFile degrees = llvm::cantFail(parsePlanFile(
      R"({"version": 2, "layout": {"tp": 2, "dp": 4, "zero": 1}})",
      "plan.json"));
  EXPECT_FALSE(degrees.planned.has_value());
  Plan plan = llvm::cantFail(getPlan(degrees, "any", work));
  EXPECT_EQ(plan.microBatches, 1); // all of a rank's two samples
  PlanFile dims = llvm::cantFail(parsePlanFile(plan.toJSON(), "plan.json"));
  EXPECT_EQ(llvm::cantFail(getPlan(dims, "any", work)).toJSON(), plan.toJSON());
  Candidate one = llvm::cantFail(price(degrees, problem.getContext())),
            other = llvm::cantFail(price(dims, problem.getContext()));
  EXPECT_EQ(one.layout, other.layout);
  EXPECT_EQ(one.layout.microBatch, 2);
  EXPECT_EQ(one.estimate.step, other.estimate.step);
  auto getError = [](const char *text) {
    llvm::Expected<PlanFile> file = parsePlanFile(text, "plan.json");
    return file ? "" : llvm::toString(file.takeError());
  };
  EXPECT_EQ(getError(R"({"version": 2, "layout": {"tp": 2}, "mesh": []})"),
            "plan.json: key \"mesh\": excludes \"layout\", which says all of "
            "the layout");
  EXPECT_EQ(getError(R"({"version": 2, "layout": {"tp": 0}})"),
            "plan.json: key \"layout\": key \"tp\": value 0: expects a whole "
            "number from 1");
  EXPECT_EQ(getError(R"({"version": 2})"),
            "plan.json: key \"mesh\": expects a list of {\"name\", \"size\"}, "
            "but it is missing");
  // Who searched says so with all that a search says.
  EXPECT_EQ(getError(R"({"version": 2, "layout": {}, "seq_len": 8})"),
            "plan.json: key \"model\": expects a text, but it is missing");
  EXPECT_EQ(llvm::toString(getPlanned(degrees).takeError()),
            "plan.json: key \"search\": expects what a search found, but it is "
            "missing; cleave plan -o writes it");
}
