//===- PlanFlags.cpp - What plan and estimate are told --------------------===//
#include "PlanFlags.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Search/ReadArchitecture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

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
  app.add_option("--dtype", dtype, "of matrix products; state is f32")
      ->check(CLI::IsMember(dtypeNames))
      ->capture_default_str();
  app.add_option("--profile", profile,
                 "software that is to run it: one of cleave ledger's profiles "
                 "(nemo, pytorch-compile, deepspeed ...), or a .json file "
                 "(default: cleave, or cleave-cpu)");
  app.add_option(
         "--memory", memory,
         "GB of a device that may be used, its reserve included (default: all)")
      ->type_name("GB")
      ->check(makePositiveNumberCheck());
}

llvm::Expected<Machine> tool::getNotedMachine(const Cluster &cluster) {
  std::string note;
  llvm::Expected<Machine> machine = getMachine(cluster, note);
  if (machine && !note.empty())
    llvm::errs() << "cleave: note: " << note << '\n';
  return machine;
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
  request.work = {seqLen, globalBatch, DType::BF16};
  for (size_t i = 0; i != numDTypes; ++i)
    if (dtype == getName(DType(i)))
      request.work.dtype = DType(i);
  const Device &device = planned.machine.device;
  if (device.getMatrix(request.work.dtype).peak == 0)
    return llvm::createStringError(llvm::formatv(
        "--dtype {0}: {1} has no matrix unit for it", dtype, device.name));
  const std::string own = device.cores > 0 ? "cleave-cpu" : "cleave";
  const std::string &name = profile.empty() ? own : profile;
  llvm::Expected<Profile> stack = loadProfile(name);
  if (!stack)
    return llvm::createStringError("--profile: " +
                                   llvm::toString(stack.takeError()));
  if (!device.attention.count(stack->attention)) {
    if (name != own)
      return llvm::createStringError(llvm::formatv(
          "--profile {0}: its attention kernel \"{1}\" is not one of {2}'s: "
          "{3}",
          name, stack->attention, device.name,
          llvm::join(llvm::make_first_range(device.attention), ", ")));
    stack->attention = device.attention.begin()->first;
  }
  request.profile = std::move(*stack);
  request.memoryLimit = memory * 1e9;
  return planned;
}
