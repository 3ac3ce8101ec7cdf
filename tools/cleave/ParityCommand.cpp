//===- ParityCommand.cpp - cleave parity: a run against a reference -------===//
//
// A reference folder holds config.json, model.safetensors, case.json and
// golden.safetensors: what another implementation computed from the same
// weights and tokens. docs/formats.md describes the files and the bounds.
//
//===----------------------------------------------------------------------===//
#include "CompileFlags.h"
#include "Files.h"
#include "cleave/Json/Json.h"
#include "runtime/io/Safetensors.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace cleave;
using runtime::SafetensorsFile;
using runtime::TensorInfo;
namespace json = llvm::json;

namespace {
struct ParityFlags {
  std::string folder;
  tool::LayoutFlags layout;
  bool json = false;
};

/// What case.json says of the run.
struct Case {
  Workload work;
  BuildStepPassOptions step;
  int64_t steps = 0;
};

/// The largest legal deviation of each figure.
struct Bounds {
  double loss, logits, gradients, trajectoryLoss, trajectoryNorm;
};

/// One deviation, beside its bound; `worst` names the tensor or step.
struct Deviation {
  std::string what, worst;
  double value = 0, bound = 0;

  bool holds() const { return value <= bound; }
  void include(double other, const llvm::Twine &where) {
    // A NaN is the worst of all, and stays.
    if (worst.empty() || (!std::isnan(value) && !(other <= value))) {
      value = other;
      worst = where.str();
    }
  }
};

class Parity {
public:
  explicit Parity(ParityFlags flags) : flags(std::move(flags)) {}
  llvm::Expected<bool> run();

private:
  llvm::Error readCase();
  llvm::Error runCase(llvm::StringRef dump);
  llvm::Error compare(llvm::StringRef dump);
  void print();

  std::string getPath(llvm::StringRef name) const {
    llvm::SmallString<256> path(flags.folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }

  ParityFlags flags;
  Case reference;
  Bounds bounds = {};
  std::vector<Deviation> deviations;
};
} // namespace

static llvm::Error toError(const runtime::Status &status) {
  if (status.ok())
    return llvm::Error::success();
  return llvm::createStringError(status.message());
}

//===----------------------------------------------------------------------===//
// case.json
//===----------------------------------------------------------------------===//

llvm::Error Parity::readCase() {
  std::string path = getPath("case.json");
  llvm::Expected<json::Value> root = loadJson(path);
  if (!root)
    return root.takeError();
  std::string problem;
  auto number = [&](const json::Object *object, llvm::StringRef key) {
    std::optional<double> value =
        object ? object->getNumber(key) : std::nullopt;
    if (!value && problem.empty())
      problem = (path + ": key \"" + key + "\": expects a number").str();
    return value.value_or(0);
  };
  auto count = [&](const json::Object *object, llvm::StringRef key,
                   int64_t least) {
    double value = number(object, key);
    if ((value >= least && value <= tool::maxCount &&
         value == std::trunc(value)) ||
        !problem.empty())
      return int64_t(problem.empty() ? value : least);
    problem =
        llvm::formatv("{0}: key \"{1}\": got {2}, expects an integer in "
                      "{3}..{4}",
                      path, key, *object->get(key), least, tool::maxCount);
    return least;
  };
  const json::Object *top = root->getAsObject();
  const json::Object *optimizer = top ? top->getObject("optimizer") : nullptr;
  reference.work.globalBatch = count(top, "batch", 1);
  reference.work.seqLen = count(top, "seq", 1);
  BuildStepPassOptions &step = reference.step;
  step.lr = number(optimizer, "lr");
  step.minLr = number(optimizer, "min_lr");
  step.warmupSteps = count(optimizer, "warmup_steps", 0);
  step.eps = number(optimizer, "eps");
  step.weightDecay = number(optimizer, "weight_decay");
  step.clip = number(optimizer, "clip_grad_norm");
  reference.steps = count(optimizer, "steps", 1);
  step.decaySteps = reference.steps;
  step.schedule = "cosine";
  step.gradients = true;
  const json::Array *betas = optimizer ? optimizer->getArray("betas") : nullptr;
  if (!betas || betas->size() != 2)
    return llvm::createStringError(path +
                                   ": key \"betas\": expects two numbers");
  step.beta1 = (*betas)[0].getAsNumber().value_or(0);
  step.beta2 = (*betas)[1].getAsNumber().value_or(0);
  if (!problem.empty())
    return llvm::createStringError(problem);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The bounds
//===----------------------------------------------------------------------===//

/// In f32 they are some ten times what two f32 implementations of one model,
/// or f32 and f64, differ by.
static constexpr Bounds f32Bounds = {.loss = 2e-6,
                                     .logits = 1e-5,
                                     .gradients = 2e-5,
                                     .trajectoryLoss = 1e-5,
                                     .trajectoryNorm = 1e-4};

/// In bf16 they follow from its unit roundoff u = 2^-8, to which each op rounds
/// its result once. Such an error is spread evenly over [-u, u], so its
/// standard deviation is u / sqrt(3); n of them in a row add up to sqrt(n)
/// times that, as they have either sign. A value passes some 12 rounded results
/// in a layer (norm, q, rope, attention, o, sum; norm, gate, up, product, down,
/// sum), and 3 at the ends.
///  - Logits: the largest of thousands is within 4 deviations of one pass.
///  - Gradients: a step is three passes: forward, and a product for the
///    activations and one for the weights backward.
///  - The loss is a mean, in f32, of errors of either sign: what one bf16
///  number
///    can say.
///  - Later steps inherit what gradients did to the weights: their losses are
///    within one deviation of a pass, their norms within what gradients are.
static Bounds getBF16Bounds(size_t layers) {
  constexpr double unit = 1.0 / 256, deviations = 4, passes = 3;
  const double pass = unit * std::sqrt((12.0 * double(layers) + 3) / 3);
  return {.loss = unit,
          .logits = deviations * pass,
          .gradients = deviations * pass * std::sqrt(passes),
          .trajectoryLoss = pass,
          .trajectoryNorm = deviations * pass * std::sqrt(passes)};
}

/// An error over what it is measured by. No error is none of nothing, too; any
/// other is infinitely much of it.
static double getRelative(double error, double scale) {
  return error == 0 ? 0 : error / scale;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

llvm::Error Parity::runCase(llvm::StringRef dump) {
  FrontendOptions frontend;
  frontend.seqLen = reference.work.seqLen;
  llvm::Expected<Model> model = loadModel(getPath("config.json"), frontend);
  if (!model)
    return model.takeError();
  if (llvm::Error error = flags.layout.readPlanFile())
    return error;
  llvm::Expected<Cluster> cluster = parseCluster(flags.layout.cluster);
  if (!cluster)
    return cluster.takeError();
  CompileOptions options;
  options.work = reference.work;
  options.work.dtype = flags.layout.getDType(*cluster);
  llvm::Expected<Plan> plan =
      flags.layout.getPlan(*model, getPath("config.json"), options.work,
                           *cluster, /*report=*/nullptr);
  if (!plan)
    return plan.takeError();
  options.plan = *plan;
  options.stages.step = reference.step;
  options.stages.partition.cluster = flags.layout.cluster;
  options.stages.turn.cluster = flags.layout.cluster;
  options.stages.turn.parts = flags.layout.logitsChunks;
  options.stages.overlap.cluster = flags.layout.cluster;
  options.stages.choose = flags.layout.getChoice(*plan, *cluster);
  options.stages.overlap.mode = flags.layout.overlap;
  options.stages.kernels.threads =
      cluster->getThreads(plan->mesh.getNumRanks());
  bounds = options.work.dtype == DType::BF16
               ? getBF16Bounds(model->layers.size())
               : f32Bounds;
  options.logits = true;
  options.cpu = cluster->cpu;
  if (llvm::Error error = options.setDevice(*cluster))
    return error;

  auto executable = tool::TemporaryFile::create();
  if (!executable)
    return executable.takeError();
  llvm::Expected<Compiled> compiled =
      tool::buildExecutable(*model, options, executable->getPath());
  if (!compiled)
    return compiled.takeError();
  tool::printWarnings(*compiled);
  auto log = tool::TemporaryFile::create();
  if (!log)
    return log.takeError();
  llvm::Expected<int> code = tool::runExecutable(
      executable->getPath(),
      {"--tokens", getPath("golden.safetensors"), "--init", flags.folder,
       "--steps", std::to_string(reference.steps), "--dump-outputs", dump.str(),
       "--log-every", "0"},
      log->getPath());
  if (!code)
    return code.takeError();
  if (*code != 0)
    return llvm::createStringError("the run failed: " +
                                   tool::readMessage(log->getPath()));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The comparison
//===----------------------------------------------------------------------===//

namespace {
/// A tensor's elements as f64.
struct Elements {
  const char *data;
  const TensorInfo &info;

  double operator[](uint64_t i) const {
    if (info.dtype == "F64") {
      double value;
      std::memcpy(&value, data + i * 8, 8);
      return value;
    }
    float value;
    runtime::readAsFloat(data, info.dtype, i, 1, 1, &value);
    return value;
  }
  double getNorm() const {
    double sum = 0;
    for (uint64_t i = 0; i < info.elements; ++i)
      sum += (*this)[i] * (*this)[i];
    return std::sqrt(sum);
  }
};
} // namespace

/// The tensor of both files under one name, with as many elements.
static llvm::Expected<std::pair<Elements, Elements>>
findPair(const SafetensorsFile &expected, const SafetensorsFile &actual,
         const std::string &name) {
  const TensorInfo *a = expected.find(name), *b = actual.find(name);
  for (auto [file, info] : {std::pair(&expected, a), std::pair(&actual, b)})
    if (!info)
      return llvm::createStringError(file->getPath() + ": no tensor \"" + name +
                                     "\"");
  if (a->elements != b->elements)
    return llvm::createStringError(actual.getPath() + ": tensor \"" + name +
                                   "\" has " + std::to_string(b->elements) +
                                   " elements, the reference " +
                                   std::to_string(a->elements));
  return std::pair(Elements{expected.getData(*a), *a},
                   Elements{actual.getData(*b), *b});
}

llvm::Error Parity::compare(llvm::StringRef dump) {
  SafetensorsFile golden, ours;
  if (llvm::Error error =
          toError(SafetensorsFile::open(getPath("golden.safetensors"), golden)))
    return error;
  if (llvm::Error error = toError(SafetensorsFile::open(dump.str(), ours)))
    return error;

  auto compareEach = [&](const std::string &name, const char *what,
                         double bound, bool againstLargest) -> llvm::Error {
    auto pair = findPair(golden, ours, name);
    if (!pair)
      return pair.takeError();
    auto [expected, actual] = *pair;
    double largest = 0;
    for (uint64_t i = 0; i < expected.info.elements; ++i)
      largest = std::max(largest, std::abs(expected[i]));
    Deviation deviation{what, "", 0, bound};
    for (uint64_t i = 0; i < expected.info.elements; ++i)
      deviation.include(
          getRelative(std::abs(actual[i] - expected[i]),
                      againstLargest ? largest : std::abs(expected[i])),
          "element " + llvm::Twine(i));
    deviations.push_back(deviation);
    return llvm::Error::success();
  };
  if (llvm::Error error = compareEach("loss", "loss", bounds.loss, false))
    return error;
  if (llvm::Error error = compareEach("logits", "logits", bounds.logits, true))
    return error;

  double global = 0;
  for (const TensorInfo &info : golden.getTensors())
    if (llvm::StringRef(info.name).starts_with("grad."))
      global =
          std::hypot(global, Elements{golden.getData(info), info}.getNorm());
  Deviation gradients{"gradients", "", 0, bounds.gradients};
  for (const TensorInfo &info : golden.getTensors()) {
    if (!llvm::StringRef(info.name).starts_with("grad."))
      continue;
    auto pair = findPair(golden, ours, info.name);
    if (!pair)
      return pair.takeError();
    auto [expected, actual] = *pair;
    double sum = 0;
    for (uint64_t i = 0; i < info.elements; ++i)
      sum += std::pow(actual[i] - expected[i], 2);
    gradients.include(getRelative(std::sqrt(sum),
                                  std::max(expected.getNorm(), 1e-2 * global)),
                      llvm::StringRef(info.name).drop_front(5));
  }
  deviations.push_back(gradients);
  if (llvm::Error error = compareEach("trajectory.loss", "trajectory loss",
                                      bounds.trajectoryLoss, false))
    return error;
  if (llvm::Error error =
          compareEach("trajectory.grad_norm", "trajectory gradient norm",
                      bounds.trajectoryNorm, false))
    return error;
  for (const SafetensorsFile *file : {&golden, &ours})
    if (llvm::Error error = toError(file->check()))
      return error;
  return llvm::Error::success();
}

void Parity::print() {
  if (flags.json) {
    json::Array rows;
    bool holds = true;
    for (const Deviation &each : deviations) {
      rows.push_back(json::Object{{"what", each.what},
                                  {"deviation", std::isfinite(each.value)
                                                    ? json::Value(each.value)
                                                    : json::Value(nullptr)},
                                  {"bound", each.bound},
                                  {"worst", each.worst},
                                  {"holds", each.holds()}});
      holds &= each.holds();
    }
    llvm::outs() << llvm::formatv(
        "{0:2}\n", json::Value(json::Object{{"case", flags.folder},
                                            {"holds", holds},
                                            {"deviations", std::move(rows)}}));
    return;
  }
  llvm::outs() << "what\tdeviation\tbound\tworst\n";
  for (const Deviation &each : deviations)
    llvm::outs() << llvm::formatv("{0}\t{1:e2}\t{2:e2}\t{3}{4}\n", each.what,
                                  each.value, each.bound, each.worst,
                                  each.holds() ? "" : "\tFAILS");
}

llvm::Expected<bool> Parity::run() {
  if (llvm::Error error = readCase())
    return error;
  auto dump = tool::TemporaryFile::create();
  if (!dump)
    return dump.takeError();
  if (llvm::Error error = runCase(dump->getPath()))
    return error;
  if (llvm::Error error = compare(dump->getPath()))
    return error;
  print();
  return llvm::all_of(deviations,
                      [](const Deviation &each) { return each.holds(); });
}

void tool::addParityCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ParityFlags>();
  CLI::App *command = app.add_subcommand(
      "parity", "Run a reference case under a layout and print how far each "
                "figure is from the reference");
  command
      ->add_option("folder", flags->folder,
                   "config.json, model.safetensors, case.json, "
                   "golden.safetensors")
      ->required();
  flags->layout.add(*command);
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &run] {
    run = [flags] {
      llvm::Expected<bool> holds = Parity(*flags).run();
      if (!holds)
        return tool::fail(holds.takeError());
      return *holds ? 0 : 1;
    };
  });
}
