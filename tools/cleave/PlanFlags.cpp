//===- PlanFlags.cpp - What plan and estimate are told --------------------===//
#include "PlanFlags.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Search/ReadArchitecture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

using namespace cleave;

void tool::PlanFlags::add(CLI::App &app) {
  app.add_option("model", model, "folder with a config.json, or that file")
      ->required();
  app.add_option("--cluster", cluster,
                 "hardware preset and number of devices (h100-sxm:512), local "
                 "or local:N (this machine, see cleave calibrate), or a "
                 "cluster.json")
      ->required();
  addRecipeFlag(app);
  app.add_option("--seq-len", seqLen, "tokens of a sequence")
      ->check(makePositiveCheck())
      ->required();
  app.add_option("--global-batch", globalBatch, "sequences of a step")
      ->check(makePositiveCheck())
      ->required();
  app.add_option("--dtype", dtype,
                 "of matrix products; parameters are kept in f32 (default: "
                 "bf16, on CPUs f32)")
      ->check(CLI::IsMember(dtypeNames));
  addMomentsFlag(app, moments);
  app.add_option("--profile", profile,
                 "software that is to run it: one of cleave ledger's profiles "
                 "(nemo, pytorch-compile, deepspeed ...), or a .json file "
                 "(default: cleave, or cleave-cpu)");
  auto *most = app.add_option("--memory", memory,
                              "GB of a device that may be used, its reserve "
                              "included (default: all but the headroom)")
                   ->type_name("GB")
                   ->check(makePositiveNumberCheck());
  describe(app.add_option("--memory-headroom", headroom,
                          "share of a device's memory that is left free, for "
                          "what no model of it knows"),
           "%", {0, mostHeadroom, true})
      ->capture_default_str()
      ->excludes(most);
}

char tool::UsageError::ID;

int tool::failPlan(llvm::Error error) {
  bool isUsage = error.isA<UsageError>();
  std::string message = llvm::toString(std::move(error));
  return isUsage ? failUsage(message) : fail(message);
}

tool::ProgressLine::ProgressLine(llvm::StringRef what)
    : what(what.str()), isShown(llvm::sys::Process::StandardErrIsDisplayed()),
      begin(std::chrono::steady_clock::now()) {}

tool::ProgressLine::~ProgressLine() {
  if (isShown)
    llvm::errs() << "\r\033[K";
}

void tool::ProgressLine::show(int64_t done, int64_t all) {
  if (!isShown)
    return;
  auto passed = std::chrono::steady_clock::now() - begin;
  llvm::errs() << llvm::formatv(
      "\r\033[K{0}: {1} of {2} searches, {3} s", what, done, all,
      std::chrono::duration_cast<std::chrono::seconds>(passed).count());
}

llvm::Expected<Machine> tool::getNotedMachine(const Cluster &cluster) {
  std::string note;
  llvm::Expected<Machine> machine = getMachine(cluster, note);
  if (machine && !note.empty())
    llvm::errs() << "cleave: note: " << note << '\n';
  return machine;
}

/// Whether a number is of the kind that people write as 70B.
static bool takesSuffix(const LegalRange &range) { return range.high >= 1e18; }

/// Reads 70e9, 70B and the like; refuses what is out of range. `text` becomes
/// what CLI11 can read.
std::string tool::readNumber(std::string &text, const LegalRange &range) {
  llvm::StringRef digits = text;
  double factor = 1, number = 0;
  if (takesSuffix(range))
    for (auto [suffix, value] : {std::pair("K", 1e3),
                                 {"M", 1e6},
                                 {"B", 1e9},
                                 {"T", 1e12},
                                 {"P", 1e15}})
      if (factor == 1 && digits.consume_back(suffix))
        factor = value;
  if (digits.trim() != digits || digits.getAsDouble(number) ||
      !range.contains(number * factor))
    return llvm::formatv("expects a number {0}{1}, got \"{2}\"",
                         range.toString(),
                         takesSuffix(range) ? ", like 70e9 or 70B" : "", text);
  text = llvm::formatv("{0}", llvm::format("%.17g", number * factor));
  return {};
}

/// Documents a number: its unit, meaning and range.
CLI::Option *tool::describe(CLI::Option *option, llvm::StringRef unit,
                            const LegalRange &range) {
  option->type_name(unit.str());
  return option->transform(CLI::Validator(
      [range](std::string &text) { return readNumber(text, range); }, ""));
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
tool::loadPlanText(llvm::StringRef path) {
  constexpr uint64_t mostBytes = 16 << 20;
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return llvm::createStringError(path + ": " + buffer.getError().message());
  if ((*buffer)->getBufferSize() > mostBytes)
    return llvm::createStringError(path + ": is too large to be a plan");
  return std::move(*buffer);
}

llvm::Expected<DType> tool::getDType(llvm::StringRef name,
                                     const Device &device) {
  DType dtype = getUsualDType(device.cores == 0);
  for (size_t i = 0; i != numDTypes; ++i)
    if (name == getName(DType(i)))
      dtype = DType(i);
  if (device.getMatrix(dtype).peak == 0)
    return llvm::make_error<UsageError>(
        llvm::formatv("--dtype {0}: {1} has no matrix unit for it",
                      getName(dtype), device.name)
            .str());
  return dtype;
}

llvm::Expected<Profile> tool::loadStack(const std::string &profile,
                                        const Device &device) {
  const std::string own = getOwnProfile(device).str();
  const std::string &name = profile.empty() ? own : profile;
  llvm::Expected<Profile> stack = loadProfile(name);
  if (!stack) {
    if (llvm::StringRef(name).ends_with(".json"))
      return stack.takeError(); // names the file
    return llvm::make_error<UsageError>("--profile: " +
                                        llvm::toString(stack.takeError()));
  }
  if (std::string kernel = chooseAttention(*stack, device);
      kernel != stack->attention) {
    llvm::errs() << llvm::formatv(
        "cleave: note: {0} has no attention kernel \"{1}\", which profile {2} "
        "is of: priced with \"{3}\"\n",
        device.name, stack->attention, stack->name, kernel);
    stack->attention = kernel;
  }
  return stack;
}

llvm::Expected<tool::Planned> tool::PlanFlags::load() const {
  llvm::Expected<std::string> config = findConfig(model);
  if (!config)
    return config.takeError();
  llvm::Expected<Architecture> architecture = loadArchitecture(*config);
  if (!architecture)
    return architecture.takeError();
  if (architecture->maxPositions > 0 && seqLen > architecture->maxPositions)
    llvm::errs() << llvm::formatv(
        "cleave: note: sequences of {0} tokens are longer than the {1} "
        "positions that the model is for\n",
        seqLen, architecture->maxPositions);
  llvm::Expected<Cluster> where = parseCluster(cluster);
  if (!where)
    return where.takeError();
  llvm::Expected<Machine> machine = getNotedMachine(*where);
  if (!machine)
    return machine.takeError();
  Planned planned{std::move(*architecture), std::move(*machine), {}};
  SearchRequest &request = planned.request;
  const Device &device = planned.machine.device;
  llvm::Expected<DType> type = getDType(dtype, device);
  if (!type)
    return type.takeError();
  request.work = {seqLen, globalBatch, *type, getMomentsType(moments)};
  llvm::Expected<Profile> stack = loadStack(profile, device);
  if (!stack)
    return stack.takeError();
  request.profile = std::move(*stack);
  request.memoryLimit = memory * 1e9;
  if (memory == 0 && headroom > 0)
    request.setHeadroom(device, headroom);
  return planned;
}
