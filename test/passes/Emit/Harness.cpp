//===- Harness.cpp - Compiles, loads and runs sample kernels --------------===//
#include "Harness.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "passes/Emit/EmitObject.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static constexpr char filler = char(0xa5);

GuardedBuffer::GuardedBuffer(size_t bytes) : bytes(bytes) {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  size_t rounded = (bytes + 63) / 64 * 64;
  size_t readable = (rounded + 64 + page - 1) / page * page;
  mapped = readable + page;
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    llvm::report_fatal_error("mmap failed");
  mapping = static_cast<char *>(memory);
  std::memset(mapping, filler, readable);
  mprotect(mapping + readable, page, PROT_NONE);
  start = mapping + readable - rounded;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept
    : mapping(other.mapping), start(other.start), mapped(other.mapped),
      bytes(other.bytes) {
  other.mapping = nullptr;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping)
    munmap(mapping, mapped);
}

bool GuardedBuffer::isIntact() const {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  auto isFiller = [](char c) { return c == filler; };
  return std::all_of(mapping, start, isFiller) &&
         std::all_of(start + bytes, mapping + mapped - page, isFiller);
}

GuardedBuffer test::toBytes(const Operand &operand, Type type) {
  size_t width = type.getIntOrFloatBitWidth() / 8;
  GuardedBuffer buffer(operand.size() * width);
  for (size_t i = 0; i < operand.size(); ++i) {
    float value = float(operand[i]);
    int32_t integer = int32_t(operand[i]);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint16_t upper = uint16_t(bits >> 16);
    const void *from = type.isF32()    ? static_cast<const void *>(&value)
                       : type.isBF16() ? static_cast<const void *>(&upper)
                                       : &integer;
    std::memcpy(buffer.data() + i * width, from, width);
  }
  return buffer;
}

Operand test::fromBytes(const GuardedBuffer &bytes, Type type) {
  size_t width = type.getIntOrFloatBitWidth() / 8;
  Operand operand(bytes.size() / width);
  for (size_t i = 0; i < operand.size(); ++i) {
    const char *from = bytes.data() + i * width;
    if (type.isInteger(32)) {
      int32_t value;
      std::memcpy(&value, from, 4);
      operand[i] = value;
      continue;
    }
    char raw[4] = {};
    std::memcpy(raw + 4 - width, from, width);
    float value;
    std::memcpy(&value, raw, 4);
    operand[i] = value;
  }
  return operand;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> test::parse(const std::vector<Sample> &samples,
                                  MLIRContext &context) {
  context
      .loadDialect<exec::ExecDialect, arith::ArithDialect, math::MathDialect>();
  std::string text;
  for (const Sample &sample : samples)
    text += sample.text;
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    llvm::report_fatal_error("samples do not parse");
  return module;
}

void test::linkObject(llvm::ArrayRef<char> object, const std::string &path,
                      bool mayImport) {
  llvm::SmallString<64> input;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("kernels", "o", descriptor, input))
    llvm::report_fatal_error("no temporary file");
  llvm::FileRemover remover(input);
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
      .write(object.data(), object.size());
  auto linker = llvm::sys::findProgramByName(
      "ld.lld", {"/usr/lib/llvm-22/bin", "/usr/bin"});
  if (!linker)
    llvm::report_fatal_error("ld.lld not found");
  if (llvm::sys::ExecuteAndWait(
          *linker,
          {"ld.lld", "-shared",
           mayImport ? "--unresolved-symbols=ignore-all" : "--no-undefined",
           input, "-o", path}))
    llvm::report_fatal_error("linking failed");
}

void *test::loadObject(llvm::ArrayRef<char> object, bool mayImport) {
  llvm::SmallString<64> path;
  if (llvm::sys::fs::createTemporaryFile("kernels", "so", path))
    llvm::report_fatal_error("no temporary file");
  llvm::FileRemover remover(path);
  linkObject(object, path.str().str(), mayImport);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    llvm::report_fatal_error(dlerror());
  return library;
}

CompiledSamples::CompiledSamples(std::vector<Sample> list,
                                 const std::string &cpu)
    : samples(std::move(list)), context(MLIRContext::Threading::DISABLED),
      module(parse(samples, context)) {
  static const uint8_t program[] = {1, 2, 3, 0, 255};
  auto object = emit::emitObject(*module, {cpu, program});
  if (failed(object))
    llvm::report_fatal_error("samples do not compile");
  library = loadObject(*object, /*mayImport=*/false);
}

CompiledSamples::~CompiledSamples() { dlclose(library); }

exec::KernelOp CompiledSamples::getKernel(const std::string &name) {
  return cast<exec::KernelOp>(SymbolTable::lookupSymbolIn(*module, name));
}

CleaveKernelFn CompiledSamples::getFunction(const std::string &name) {
  auto *table =
      static_cast<const CleaveKernelEntry *>(dlsym(library, "cleave_kernels"));
  uint64_t count =
      *static_cast<uint64_t *>(dlsym(library, "cleave_kernel_count"));
  for (uint64_t i = 0; i < count; ++i)
    if (name == table[i].symbol)
      return table[i].fn;
  llvm::report_fatal_error("kernel is not in the table");
}

std::span<const unsigned char> CompiledSamples::getProgram() {
  return {static_cast<unsigned char *>(dlsym(library, "cleave_program")),
          *static_cast<uint64_t *>(dlsym(library, "cleave_program_size"))};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

exec::AccessAttr test::getAccess(exec::KernelOp kernel, size_t i) {
  size_t inputs = kernel.getInputs().size();
  return cast<exec::AccessAttr>(i < inputs ? kernel.getInputs()[i]
                                           : kernel.getOutputs()[i - inputs]);
}

std::vector<Operand> test::makeOperands(exec::KernelOp kernel,
                                        const Sample &sample, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> index(-1,
                                           2 * int(kernel.getColumns()) - 1);
  std::vector<Operand> operands;
  size_t count = kernel.getInputs().size() + kernel.getOutputs().size();
  for (size_t i = 0; i < count; ++i) {
    exec::AccessAttr access = getAccess(kernel, i);
    Fill fill = i < sample.fills.size() ? sample.fills[i] : Fill::Normal;
    Operand operand(size_t(countElements(kernel, access)));
    for (double &element : operand) {
      element = fill == Fill::Index ? index(random) : normal(random);
      if (fill == Fill::Positive)
        element = float(std::abs(element) + 0.1);
    }
    // What storage cannot hold, no kernel has seen.
    operands.push_back(
        fromBytes(toBytes(operand, access.getType()), access.getType()));
  }
  return operands;
}

double test::getDeviation(const Operand &got, const Operand &want,
                          double scale) {
  double squares = 0, worst = 0;
  for (double x : want)
    squares += x * x;
  double rms = std::sqrt(squares / double(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    double error =
        std::abs(got[i] - want[i]) / (std::abs(want[i]) + rms + scale);
    // A NaN is as far off as can be.
    if (!(error <= worst))
      worst = std::isnan(error) && rms == 0 && got[i] == want[i] ? worst
              : std::isnan(error)                                ? 1e30
                                                                 : error;
  }
  return worst;
}
