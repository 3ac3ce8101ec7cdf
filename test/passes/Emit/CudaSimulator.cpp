//===- CudaSimulator.cpp - CUDA kernels on the CPU ------------------------===//
#include "CudaSimulator.h"
#include "Harness.h"
#include "passes/Emit/EmitPtx.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <bit>
#include <cmath>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <ucontext.h>

using namespace cleave;
using namespace cleave::test;

//===----------------------------------------------------------------------===//
// Fibers
//===----------------------------------------------------------------------===//

namespace {

/// One block at a time: its threads run in turn, each until it waits.
struct Block {
  enum class State { Runs, Shuffles, Waits, Done };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state = State::Runs;
  };

  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  std::function<void()> body;
  unsigned current = 0;
  int32_t number = 0;
  /// What each thread gives to a shuffle, in turns of two, since a thread may
  /// reach the next one before its neighbour has read.
  std::vector<float> given[2];
  std::vector<unsigned> turn;

  void run(unsigned threads, std::function<void()> work);
  void yield(State state) {
    fibers[current].state = state;
    swapcontext(&fibers[current].context, &scheduler);
  }
};

Block block;

void enterFiber() {
  block.body();
  block.yield(Block::State::Done);
}

} // namespace

void Block::run(unsigned threads, std::function<void()> work) {
  body = std::move(work);
  fibers = std::vector<Fiber>(threads);
  turn.assign(threads, 0);
  for (auto &values : given)
    values.assign(threads, 0);
  constexpr size_t stackBytes = 64 * 1024;
  for (Fiber &fiber : fibers) {
    fiber.stack = std::make_unique<char[]>(stackBytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enterFiber, 0);
  }
  while (true) {
    for (current = 0; current < threads; ++current)
      swapcontext(&scheduler, &fibers[current].context);
    State state = fibers.front().state;
    for (Fiber &fiber : fibers)
      if (fiber.state != state)
        llvm::report_fatal_error("threads of a block wait in different places");
    if (state == State::Done)
      return;
  }
}

extern "C" {
int32_t simulateThread() { return int32_t(block.current); }
int32_t simulateBlock() { return block.number; }
void simulateBarrier(int32_t) { block.yield(Block::State::Waits); }
float simulateDivide(float x, float y) { return x / y; }
float simulateReciprocal(float x) { return 1 / x; }
float simulateExp2(float x) { return std::exp2(x); }
/// Code for x86-64-v3 calls this to round to bf16, and takes the result from
/// the lowest 16 bits of xmm0.
float __truncsfbf2(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  bits = std::isnan(x) ? 0x7fff0000 : bits + 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>(bits >> 16);
}
float simulateShuffle(int32_t mask, float value, int32_t offset,
                      int32_t clamp) {
  if (mask != -1 || clamp != 31)
    llvm::report_fatal_error("a shuffle of part of a warp");
  unsigned me = block.current;
  std::vector<float> &values = block.given[block.turn[me]++ % 2];
  values[me] = value;
  block.yield(Block::State::Shuffles);
  return values[me ^ unsigned(offset)];
}
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Gives `module` a function `launch_<kernel>(const int64_t *parameters)`.
static void addEntry(llvm::Module &module, llvm::Function &kernel) {
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *type =
      llvm::FunctionType::get(b.getVoidTy(), {pointer}, /*isVarArg=*/false);
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                       "launch_" + kernel.getName(), module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "", entry));
  llvm::SmallVector<llvm::Value *> arguments;
  for (llvm::Argument &argument : kernel.args()) {
    llvm::Value *slot = b.CreateConstGEP1_64(b.getInt64Ty(), entry->getArg(0),
                                             argument.getArgNo());
    arguments.push_back(b.CreateLoad(argument.getType(), slot));
  }
  b.CreateCall(&kernel, arguments);
  b.CreateRetVoid();
}

static llvm::SmallVector<char, 0> compileForHost(llvm::Module &module) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, "x86-64-v3", "", {}, llvm::Reloc::PIC_));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    llvm::report_fatal_error("cannot write an object");
  passes.run(module);
  return object;
}

CudaSimulator::CudaSimulator(mlir::ModuleOp kernels) {
  llvm::LLVMContext context;
  auto module = emit::emitCudaLLVM(kernels, {}, context, launches);
  if (failed(module))
    llvm::report_fatal_error("samples do not compile for CUDA");
  const std::pair<const char *, const char *> names[] = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", "simulateThread"},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", "simulateBlock"},
      {"llvm.nvvm.shfl.sync.bfly.f32", "simulateShuffle"},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", "simulateBarrier"},
      {"llvm.nvvm.div.full", "simulateDivide"},
      {"llvm.nvvm.rcp.approx.ftz.f", "simulateReciprocal"},
      {"llvm.nvvm.ex2.approx.ftz.f32", "simulateExp2"}};
  for (auto [intrinsic, function] : names)
    if (llvm::Function *callee = (*module)->getFunction(intrinsic)) {
      // A plain function by that name, which may do anything.
      auto *plain = llvm::Function::Create(callee->getFunctionType(),
                                           llvm::GlobalValue::ExternalLinkage,
                                           function, **module);
      for (llvm::User *user : llvm::make_early_inc_range(callee->users())) {
        auto *call = llvm::cast<llvm::CallInst>(user);
        call->setCalledFunction(plain);
        call->setAttributes({});
      }
      callee->eraseFromParent();
    }
  for (const emit::CudaLaunch &launch : launches) {
    llvm::Function *kernel = (*module)->getFunction(launch.symbol);
    kernel->setCallingConv(llvm::CallingConv::C);
    addEntry(**module, *kernel);
  }
  library = loadObject(compileForHost(**module), /*mayImport=*/true);
}

CudaSimulator::~CudaSimulator() { dlclose(library); }

void CudaSimulator::launch(const std::string &symbol,
                           llvm::ArrayRef<void *> operands, int64_t shardIndex,
                           int64_t microBatch) {
  const emit::CudaLaunch *launch =
      llvm::find_if(launches, [&](const emit::CudaLaunch &candidate) {
        return candidate.symbol == symbol;
      });
  if (launch == launches.end() || launch->operands != operands.size())
    llvm::report_fatal_error("no such kernel, or not with these operands");
  std::vector<int64_t> parameters;
  for (void *operand : operands)
    parameters.push_back(int64_t(operand));
  parameters.push_back(shardIndex);
  parameters.push_back(microBatch);
  std::vector<std::max_align_t> scratch(launch->scratchBytes /
                                        sizeof(std::max_align_t));
  parameters.push_back(int64_t(scratch.data()));
  auto entry = reinterpret_cast<void (*)(const int64_t *)>(
      dlsym(library, ("launch_" + symbol).c_str()));
  for (unsigned i = 0; i < launch->blocks; ++i) {
    block.number = int32_t(i);
    block.run(launch->threads, [&] { entry(parameters.data()); });
  }
}
