//===- TrainTest.cpp - Whole runs of the toy, against arithmetic by hand --===//
#include "runtime/checkpoint/Export.h"
#include "runtime/cpu/Peak.h"
#include "runtime/io/HuggingFaceWeights.h"
#include "runtime/train/Peak.h"
#include "test/runtime/train/RunToy.h"
#include "test/runtime/train/ToyProgram.h"
#include <nlohmann/json.hpp>
#include <random>

using namespace cleave::runtime;
using namespace cleave::test;
using toy::batch, toy::seqLen, toy::vocab, toy::width;

namespace {

constexpr uint64_t steps = 6, tokensPerStep = batch * seqLen;

/// The files of a run, and what its formulas give in f64.
struct Case {
  TestFolder folder;
  std::vector<double> weights; ///< [vocab, 3 * width], the start
  std::vector<double> trained; ///< after all steps
  std::vector<double> losses, norms;
  std::vector<double> firstGrad, firstEmbedded; ///< of step 0

  Case() {
    std::mt19937 random(4);
    SafetensorsLayout layout;
    layout.add("transformer.toy.weight", "F32", {vocab, 3 * width});
    std::string data;
    for (uint64_t i = 0; i < vocab * 3 * width; ++i) {
      weights.push_back(float(int(random() % 200) - 100) / 64);
      data += toBytes(float(weights.back()));
    }
    std::filesystem::create_directory(folder / "init");
    folder.write("init/model.safetensors", layout.getHeader() + data);

    std::vector<int32_t> inputs, targets;
    for (uint64_t i = 0; i < steps * tokensPerStep; ++i) {
      inputs.push_back(int32_t(random() % vocab));
      targets.push_back(random() % 9 == 0 ? -100 : int32_t(random() % vocab));
    }
    SafetensorsLayout tokens;
    tokens.add("inputs", "I32", {steps, batch, seqLen});
    tokens.add("targets", "I32", {steps, batch, seqLen});
    data.clear();
    for (int32_t id : inputs)
      data += toBytes(id);
    for (int32_t id : targets)
      data += toBytes(id);
    folder.write("tokens", tokens.getHeader() + data);
    train(inputs, targets);
  }

  void train(const std::vector<int32_t> &inputs,
             const std::vector<int32_t> &targets) {
    trained = weights;
    auto table = [&](int32_t x, uint64_t c) -> double & {
      return trained[uint64_t(x) * 3 * width + width + c];
    };
    for (uint64_t step = 0; step < steps; ++step) {
      double loss = 0, squares = 0;
      std::vector<double> grad(vocab * width);
      for (uint64_t i = 0; i < tokensPerStep; ++i)
        for (uint64_t c = 0; c < width; ++c) {
          int32_t x = inputs[step * tokensPerStep + i];
          int32_t t = targets[step * tokensPerStep + i];
          if (step == 0)
            firstEmbedded.push_back(table(x, c));
          if (t < 0)
            continue;
          double error = table(x, c) - double(t + int32_t(c)) / 8;
          loss += error * error / double(tokensPerStep * width);
          grad[uint64_t(x) * width + c] +=
              2 * error / double(tokensPerStep * width);
        }
      for (double g : grad)
        squares += g * g;
      losses.push_back(loss);
      norms.push_back(std::sqrt(squares));
      if (step == 0)
        firstGrad = grad;
      double lr = step == 0 ? 4 : 8; // 2 steps of warm-up
      for (uint64_t i = 0; i < grad.size(); ++i)
        table(int32_t(i / width), i % width) -= lr * grad[i];
    }
  }
};

std::vector<double> readTensor(const SafetensorsFile &file,
                               const std::string &name) {
  const TensorInfo *tensor = file.find(name);
  if (!tensor) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<double> values(tensor->elements);
  if (tensor->dtype == "F64") {
    std::memcpy(values.data(), file.getData(*tensor), values.size() * 8);
    return values;
  }
  std::vector<float> narrow(tensor->elements);
  readAsFloat(file.getData(*tensor), tensor->dtype, 0, 1, narrow.size(),
              narrow.data());
  return {narrow.begin(), narrow.end()};
}

void expectNear(const std::vector<double> &actual,
                const std::vector<double> &expected, const char *what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 2e-6 * (1 + std::abs(expected[i])))
        << what << " " << i;
}

/// Trains from the case's weights on its tokens; checks the dumped values and
/// what was saved.
void checkRun(const Case &c, uint64_t dp, uint64_t tp, uint64_t microBatches,
              const std::string &launcher = "", uint64_t stages = 1) {
  SCOPED_TRACE(getLayout(dp, tp, microBatches, stages));
  ToyResult result =
      runToy(c.folder,
             "--tokens " + (c.folder / "tokens") + " --init " +
                 (c.folder / "init") + " --export " + (c.folder / "out") +
                 " --dump-outputs " + (c.folder / "dump") + " --peak-gflops 10",
             getLayout(dp, tp, microBatches, stages), launcher);
  ASSERT_EQ(result.exitCode, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");

  SafetensorsFile dump;
  ASSERT_OK(SafetensorsFile::open(c.folder / "dump", dump));
  expectNear(readTensor(dump, "trajectory.loss"), c.losses, "losses");
  expectNear(readTensor(dump, "trajectory.grad_norm"), c.norms, "norms");
  expectNear(readTensor(dump, "loss"), {c.losses[0]}, "loss");
  expectNear(readTensor(dump, "embedded"), c.firstEmbedded, "embedded");
  EXPECT_EQ(dump.find("embedded")->shape,
            (std::vector<uint64_t>{tokensPerStep, width}));
  // The gradient lies in its third of the checkpoint tensor.
  std::vector<double> grad(vocab * 3 * width);
  for (uint64_t i = 0; i < vocab * width; ++i)
    grad[i / width * 3 * width + width + i % width] = c.firstGrad[i];
  expectNear(readTensor(dump, "grad.transformer.toy.weight"), grad, "grad");

  HuggingFaceWeights saved;
  ASSERT_OK(HuggingFaceWeights::open(c.folder / "out", saved));
  ASSERT_EQ(saved.getEntries().size(), 1u);
  const HuggingFaceWeights::Entry &entry = saved.getEntries().begin()->second;
  EXPECT_EQ(entry.tensor->name, "transformer.toy.weight");
  EXPECT_EQ(entry.tensor->shape, (std::vector<uint64_t>{vocab, 3 * width}));
  EXPECT_EQ(entry.tensor->dtype, "F32");
  expectNear(readTensor(*entry.file, entry.tensor->name), c.trained, "saved");
  EXPECT_EQ(readAll(c.folder / "out/config.json"),
            "{\"model_type\": \"toy\"}\n");
  // No temporary file is left.
  EXPECT_EQ(c.folder.list(), "dump init out tokens");
  std::filesystem::remove_all(c.folder / "out");
}

TEST(Train, EveryLayoutFollowsTheFormulas) {
  Case c;
  for (uint64_t dp : {1, 2, 4})
    for (uint64_t tp : {1, 2, 4})
      for (uint64_t microBatches : {1, 2})
        for (uint64_t stages : {1, 2})
          if (dp * tp * stages <= 8)
            checkRun(c, dp, tp, microBatches, "", stages);
}

TEST(Train, UnderMpirunToo) {
  if (std::string(CLEAVE_MPIRUN).empty())
    GTEST_SKIP() << "no Open MPI here";
  Case c;
  checkRun(c, 2, 2, 2, mpirun + "-np 4 ");
  checkRun(c, 1, 1, 1, mpirun + "-np 1 ");
  checkRun(c, 2, 1, 2, mpirun + "-np 4 ", 2);
}

/// The bytes that a run without --init saves.
std::string saveAfter(const TestFolder &folder, const std::string &layout,
                      const std::string &arguments) {
  ToyResult result =
      runToy(folder,
             "--data " + (folder / "text") + " --overwrite --export " +
                 (folder / "out") + " --lr 0 " + arguments,
             layout);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  return readAll(folder / "out/model.safetensors");
}

TEST(Train, SavedFilesDoNotDependOnTheLayout) {
  TestFolder folder;
  folder.write("text", std::string(200, '\1'));
  std::string expected =
      saveAfter(folder, getLayout(1, 1), "--steps 1 --seed 3");
  ASSERT_GT(expected.size(), vocab * 3 * width * 4);
  for (auto [dp, tp] : {std::pair(2, 1), {1, 2}, {2, 4}, {8, 1}, {4, 2}})
    EXPECT_EQ(saveAfter(folder, getLayout(dp, tp), "--steps 1 --seed 3"),
              expected)
        << dp << " " << tp;
  EXPECT_EQ(saveAfter(folder, getLayout(2, 2, 1, 2), "--steps 1 --seed 3"),
            expected);
  EXPECT_NE(saveAfter(folder, getLayout(1, 1), "--steps 1 --seed 4"), expected);
  // Read by another layout, and written again.
  std::filesystem::create_directory(folder / "in");
  folder.write("in/model.safetensors", expected);
  EXPECT_EQ(
      saveAfter(folder, getLayout(2, 4), "--steps 1 --init " + (folder / "in")),
      expected);
}

TEST(Train, MetricsAndTraceSayWhatRan) {
  Case c;
  ToyResult result = runToy(
      c.folder,
      "--tokens " + (c.folder / "tokens") + " --init " + (c.folder / "init") +
          " --metrics " + (c.folder / "m") + " --trace " + (c.folder / "t") +
          " --trace-steps 2 --peak-gflops 10",
      getLayout(2, 2, 2));
  ASSERT_EQ(result.exitCode, 0) << result.err;

  std::istringstream lines(readAll(c.folder / "m"));
  size_t step = 0;
  for (std::string line; std::getline(lines, line); ++step) {
    auto m = nlohmann::json::parse(line);
    EXPECT_EQ(m["step"], step);
    EXPECT_NEAR(m["loss"], c.losses[step], 1e-5);
    EXPECT_NEAR(m["grad_norm"], c.norms[step], 1e-5);
    EXPECT_EQ(m["lr"], step == 0 ? 4 : 8);
    // The loss is partial over dp: with replicas over tp, twice the sum.
    ASSERT_EQ(m["rank_losses"].size(), 4u);
    double sum = 0;
    for (double loss : m["rank_losses"])
      sum += loss;
    EXPECT_NEAR(sum, 2 * c.losses[step], 1e-5);
    double seconds = m["seconds"];
    EXPECT_NEAR(m["tokens_per_s"].get<double>() * seconds, tokensPerStep, 1e-6);
    // Both cores of two, or fewer: 4 ranks of 2 threads want 8.
    double cores = std::min(8, int(std::thread::hardware_concurrency()));
    EXPECT_GT(m["mfu"].get<double>() * seconds * cores * 10e9, 0.99e6);
    double phases = 0;
    for (const char *phase : {"forward", "backward", "optimizer"}) {
      EXPECT_GT(m["phases"][phase], 0);
      phases += m["phases"][phase].get<double>();
    }
    EXPECT_GT(m["collective_seconds"], 0);
    EXPECT_LT(m["collective_seconds"], phases);
    EXPECT_EQ(m["arena_bytes"], m["high_water_bytes"]);
  }
  EXPECT_EQ(step, steps);

  // In each of 2 steps: 3 instructions of the loop in each of 2 micro-batches
  // and 4 behind it compute; 1 in the loop and 2 behind it are collectives.
  auto trace = nlohmann::json::parse(readAll(c.folder / "t"));
  std::map<std::pair<int, int>, int> events;
  std::set<std::string> names;
  for (const auto &event : trace["traceEvents"]) {
    names.insert(event["name"]);
    if (event["ph"] == "M") {
      if (event["args"].contains("name"))
        names.insert(event["args"]["name"]);
      continue;
    }
    ++events[{event["pid"], event["tid"]}];
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
    EXPECT_LT(event["args"]["step"], 2);
  }
  ASSERT_EQ(events.size(), 8u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ((events[{rank, 0}]), 2 * (3 * 2 + 6));
    EXPECT_EQ((events[{rank, 1}]), 2 * (1 * 2 + 2));
  }
  for (const char *name : {"test Embedding", "test AllReduce", "test Schedule",
                           "rank 3 (dp 1, tp 1)", "compute", "collectives"})
    EXPECT_TRUE(names.contains(name)) << name;
}

/// Ranks of which one did an update and one did not have nothing that they
/// could go on from.
TEST(Train, RanksThatDisagreeOnAStepEnd) {
  Case c;
  ToyResult result = runToy(
      c.folder,
      "--tokens " + (c.folder / "tokens") + " --init " + (c.folder / "init") +
          " --skip-budget 9 --save " + (c.folder / "saved"),
      getLayout(2, 1) + " TOY_DISAGREE=1");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_EQ(result.err.find("error: step 0: some ranks changed their state and "
                            "some did not, though all have the same loss and "
                            "gradient norm\n"),
            0u)
      << result.err;
  EXPECT_EQ(result.out.find("step 1/"), std::string::npos) << result.out;
  for (const auto &each :
       std::filesystem::directory_iterator(c.folder / "saved"))
    EXPECT_TRUE(each.path().filename() == "lock") << each.path();
}

/// Ranks of two stages have different instructions; what is said of a step is
/// of all.
TEST(Train, MetricsAndTraceSayWhatStagesRan) {
  Case c;
  ToyResult result =
      runToy(c.folder,
             "--tokens " + (c.folder / "tokens") + " --init " +
                 (c.folder / "init") + " --metrics " + (c.folder / "m") +
                 " --trace " + (c.folder / "t") + " --trace-steps 1",
             getLayout(1, 1, 2, 2));
  ASSERT_EQ(result.exitCode, 0) << result.err;
  std::istringstream lines(readAll(c.folder / "m"));
  for (std::string line; std::getline(lines, line);) {
    auto m = nlohmann::json::parse(line);
    EXPECT_EQ(m["rank_losses"], (std::vector<double>{m["loss"], m["loss"]}));
    // Of the last buffer only what it has is used.
    EXPECT_GT(m["high_water_bytes"].get<int>() + 64, m["arena_bytes"]);
    for (const char *phase : {"forward", "backward", "optimizer"})
      EXPECT_GT(m["phases"][phase], 0);
  }
  auto trace = nlohmann::json::parse(readAll(c.folder / "t"));
  std::map<int, std::map<std::string, int>> names;
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X")
      ++names[event["pid"]][event["name"]];
  EXPECT_EQ(names[0]["test Embedding"], 2);
  EXPECT_EQ(names[1]["test Embedding"], 0);
  for (int rank : {0, 1}) {
    EXPECT_EQ(names[rank]["test Send"], 2);
    EXPECT_EQ(names[rank]["test Recv"], 2);
  }
}

/// A run goes on in another number of stages, and ends with the same bits.
TEST(Train, GoesOnInAnotherNumberOfStages) {
  Case c;
  auto run = [&](uint64_t stages, const std::string &arguments) {
    ToyResult result =
        runToy(c.folder, "--tokens " + (c.folder / "tokens") + " " + arguments,
               getLayout(2, 2, 2, stages));
    EXPECT_EQ(result.exitCode, 0) << result.err;
  };
  run(1, "--export " + (c.folder / "whole"));
  std::string expected = readAll(c.folder / "whole/model.safetensors");
  for (uint64_t stages : {1, 2}) {
    std::string name = std::to_string(stages);
    std::string saved = c.folder / ("saved" + name);
    std::string exported = c.folder / ("exported" + name);
    run(stages, "--steps 3 --save " + saved);
    run(3 - stages, "--resume --save " + saved + " --export " + exported);
    EXPECT_TRUE(readAll(exported + "/model.safetensors") == expected);
    // The checkpoint that another number of stages wrote has all of it, too.
    CheckpointReader reader;
    ASSERT_OK(CheckpointReader::open(saved + "/step-00000006", reader));
    ASSERT_OK(reader.verify());
    ExportOptions options;
    options.folder = c.folder / ("read" + name);
    ASSERT_OK(exportCheckpoint(reader, options));
    EXPECT_TRUE(readAll(options.folder + "/model.safetensors") == expected);
  }
}

TEST(Train, TheSampleOrderIsThatOfEveryLayout) {
  // On real text with as many samples as three steps take.
  TestFolder folder;
  std::string text;
  for (int i = 0; i < 24 * 4 + 1; ++i)
    text += char(i * 7 % 13);
  folder.write("text", text);
  auto run = [&](const std::string &layout, const std::string &seed) {
    ToyResult result =
        runToy(folder,
               "--data " + (folder / "text") + " --steps 5 --seed " + seed +
                   " --dump-outputs " + (folder / "dump"),
               layout);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    SafetensorsFile dump;
    EXPECT_OK(SafetensorsFile::open(folder / "dump", dump));
    return readTensor(dump, "trajectory.loss");
  };
  std::vector<double> expected = run(getLayout(1, 1), "1");
  for (auto [dp, tp] : {std::pair(2, 1), {4, 2}, {1, 4}})
    for (uint64_t microBatches : {1, 2})
      expectNear(run(getLayout(dp, tp, microBatches), "1"), expected, "loss");
}

TEST(Train, MeasuresAPlausiblePeak) {
  // A core does at least one addition a cycle, and at most 2 x 2 x 16.
  using DType = cleave::program::DType;
  double f32 = measureCorePeakGflops(DType::F32);
  EXPECT_GT(f32, 0.5);
  EXPECT_LT(f32, 64 * 7);
  // Converting takes no multiply-add; pairs are twice as many, where they are.
  double bf16 = measureCorePeakGflops(DType::BF16);
  bool hasPairs = cleave::cpu::getActiveIsa() == cleave::cpu::Isa::Avx512Bf16;
  EXPECT_GT(bf16, 0.7 * f32);
  EXPECT_LT(bf16, (hasPairs ? 3 : 1.4) * f32);
  if (hasPairs) {
    EXPECT_GT(bf16, 0.7e-9 * cleave::cpu::measurePeak(
                                 cleave::cpu::Isa::Avx512Bf16, true, 0.02));
  }
}

/// Products by what their factors are, weighed by their size.
TEST(Train, KnowsTheTypeThatAProgramMultiplies) {
  using DType = cleave::program::DType;
  auto getType = [](std::vector<std::array<int64_t, 3>> products) {
    ProgramBuilder b({}, 1);
    for (auto [m, typeA, typeB] : products) {
      auto bytes = [](int64_t type) { return uint64_t(type == 1 ? 2 : 4); };
      // Factors that are there from the start.
      auto declare = [&](uint64_t rows, int64_t type, fb::Operand operand) {
        std::string name = "state " + std::to_string(b.stage->states.size());
        b.state(name, {rows, 64}, {{}, {}}, operand).dtype =
            type == 1 ? DType::BF16 : DType::F32;
      };
      fb::Operand a = b.allocate(uint64_t(m) * 64 * bytes(typeA));
      fb::Operand in = b.allocate(64 * 64 * bytes(typeB));
      declare(uint64_t(m), typeA, a);
      declare(64, typeB, in);
      fb::Operand out = b.allocate(uint64_t(m) * 64 * 4);
      fb::Operand workspace = b.allocate(
          cleave::cpu::gemmWorkspaceBytes(m, 64, 64, false, false, int(typeA),
                                          int(typeB), 0, b.program.threads));
      b.add(
          fb::GemmT{
              {}, m, 64, 64, false, false, fb::DType(typeA), fb::DType(typeB)},
          {a, in, out, workspace});
    }
    Program program;
    EXPECT_OK(b.load(program));
    return getMatrixType(program);
  };
  EXPECT_EQ(getType({}), DType::F32);
  EXPECT_EQ(getType({{8, 0, 0}}), DType::F32);
  EXPECT_EQ(getType({{8, 1, 1}}), DType::BF16);
  EXPECT_EQ(getType({{8, 1, 0}}), DType::F32);
  EXPECT_EQ(getType({{64, 1, 1}, {8, 0, 0}}), DType::BF16);
  EXPECT_EQ(getType({{64, 0, 0}, {8, 1, 1}}), DType::F32);
}

} // namespace
