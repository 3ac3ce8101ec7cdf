//===- CudaReport.cpp -----------------------------------------------------===//
#include "CudaReport.h"
#include "CommandLine.h"
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/Cudnn.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/InstructionKernels.h"
#include "runtime/cuda/NcclGpus.h"
#include "runtime/program/Work.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
using namespace cleave::tool;
namespace fb = cleave::program;
namespace json = llvm::json;
namespace gpu = runtime::cuda;

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

/// Calls `visit(instruction, times)` for each of a stage's instructions that
/// the runs [begin, end) execute.
template <typename Visit>
static void forEachInstruction(const runtime::Stage &stage, size_t begin,
                               size_t end, Visit visit) {
  std::vector<uint64_t> times(stage.getSegmentCount());
  for (const fb::Run &run : stage.getRuns().subspan(begin, end - begin))
    ++times[run.segment()];
  for (size_t i = 0; i != times.size(); ++i) {
    const fb::Segment &segment = stage.getSegment(i);
    for (uint64_t each = segment.begin(); times[i] && each != segment.end();
         ++each)
      visit(stage.getInstruction(each), times[i]);
  }
}

template <typename Visit>
static void forEachInstruction(const runtime::Program &program, Visit visit) {
  for (size_t i = 0; i != program.getStageCount(); ++i) {
    runtime::Stage stage = program.getStage(i);
    forEachInstruction(stage, 0, stage.getRuns().size(), visit);
  }
}

static std::vector<CudaReport::Graph>
getGraphs(const runtime::Program &program) {
  std::vector<CudaReport::Graph> graphs;
  for (size_t i = 0; i != program.getStageCount(); ++i) {
    runtime::Stage stage = program.getStage(i);
    size_t update = stage->update_run(), end = stage.getRuns().size();
    auto count = [&](size_t begin) {
      uint64_t instructions = 0;
      forEachInstruction(stage, begin, end,
                         [&](const fb::Instruction &, uint64_t times) {
                           instructions += times;
                         });
      return instructions;
    };
    graphs.push_back({i, count(0), count(update)});
  }
  return graphs;
}

static std::vector<CudaReport::Stream>
getStreams(const runtime::Program &program) {
  std::vector<CudaReport::Stream> streams;
  for (size_t i = 0; i != program.getStageCount(); ++i) {
    runtime::Stage stage = program.getStage(i);
    size_t first = streams.size();
    for (size_t number = 0; number != stage.countStreams(); ++number)
      streams.push_back({i, number, {}});
    forEachInstruction(stage, 0, stage.getRuns().size(),
                       [&](const fb::Instruction &instruction, uint64_t times) {
                         streams[first + instruction.stream()]
                             .instructions[instruction.work_type()] += times;
                       });
  }
  // Numbers are of groups of ranks, some of which have nothing to say.
  llvm::erase_if(streams, [](const CudaReport::Stream &stream) {
    return stream.instructions.empty();
  });
  return streams;
}

static std::optional<KernelResources> findResources(const CudaModule &module,
                                                    llvm::StringRef symbol) {
  if (!module.cubin)
    return std::nullopt;
  auto found = module.cubin->kernels.find(symbol);
  if (found == module.cubin->kernels.end())
    return std::nullopt;
  return found->second;
}

/// Of a kernel, and of the one that does several launches of it.
static std::optional<KernelResources>
findMostResources(const CudaModule &module, const CudaKernel &kernel) {
  std::optional<KernelResources> most = findResources(module, kernel.symbol);
  if (auto multi = findResources(module, kernel.multiSymbol); most && multi) {
    most->registers = std::max(most->registers, multi->registers);
    most->sharedBytes = std::max(most->sharedBytes, multi->sharedBytes);
    most->localBytes = std::max(most->localBytes, multi->localBytes);
  }
  return most;
}

/// Generated ones in the order of the table, then the runtime's in that of
/// their names.
static std::vector<CudaReport::Kernel>
getKernels(const runtime::Program &program, const CudaCode &code) {
  std::map<std::string, uint64_t> launches;
  std::map<std::string, CudaReport::Kernel> own;
  forEachInstruction(program, [&](const fb::Instruction &instruction,
                                  uint64_t times) {
    if (instruction.work_type() == fb::Opcode::Launch)
      launches
          [runtime::getKernel(program.get(), instruction).symbol()->str()] +=
          times;
    for (const cleave::cuda::KernelLaunch &launch :
         gpu::getOwnLaunches(instruction)) {
      CudaReport::Kernel &kernel = own[launch.symbol];
      kernel.threads = launch.block[0] * launch.block[1] * launch.block[2];
      kernel.dynamicSharedBytes = launch.sharedBytes;
      kernel.launches += times;
    }
  });
  std::vector<CudaReport::Kernel> kernels;
  for (const CudaKernel &each : code.kernels)
    kernels.push_back({each.symbol, false, !each.multiSymbol.empty(),
                       each.threads, 0, each.scratchBytes,
                       launches[each.symbol],
                       findMostResources(code.generated, each)});
  for (auto &[symbol, kernel] : own) {
    kernel.symbol = symbol;
    kernel.isOwn = true;
    if (code.own)
      kernel.resources = findResources(*code.own, symbol);
    kernels.push_back(kernel);
  }
  return kernels;
}

//===----------------------------------------------------------------------===//
// Libraries
//===----------------------------------------------------------------------===//

static bool isBF16Attention(const fb::Instruction &instruction) {
  if (const fb::Attention *table = instruction.work_as_Attention())
    return table->type() == fb::DType::BF16;
  const fb::AttentionGrad *table = instruction.work_as_AttentionGrad();
  return table && table->type() == fb::DType::BF16;
}

/// A gradient in a fixed order, which cuDNN does not have.
static bool isNeverCudnn(const fb::Instruction &instruction) {
  const fb::AttentionGrad *table = instruction.work_as_AttentionGrad();
  return table && table->fixed_order();
}

static std::vector<CudaReport::Library>
getLibraries(const runtime::Program &program) {
  uint64_t products = 0, attention = 0, never = 0;
  forEachInstruction(
      program, [&](const fb::Instruction &instruction, uint64_t times) {
        products += instruction.work_type() == fb::Opcode::Gemm ? times : 0;
        attention += isBF16Attention(instruction) ? times : 0;
        never += isNeverCudnn(instruction) ? times : 0;
      });
  std::vector<CudaReport::Library> libraries;
  libraries.push_back({{gpu::Driver::fileName},
                       gpu::Driver::getVersionText(gpu::Driver::oldest),
                       {},
                       false,
                       "everything; the version is that of CUDA"});
  const auto &names = gpu::CublasLt::fileNames;
  libraries.push_back({{names.begin(), names.end()},
                       "",
                       {},
                       false,
                       tool::count(products, "matrix product") + " a step"});
  if (attention > 0) {
    std::vector<std::string> wrong;
    for (size_t version : gpu::Cudnn::wrongVersions)
      wrong.push_back(gpu::Cudnn::getVersionText(version));
    std::string purpose = "attention in bf16, which the runtime's kernels "
                          "compute without it";
    if (never > 0)
      purpose += ", and in any case " + tool::count(never, "gradient") +
                 " a step that several ranks compute";
    libraries.push_back({{gpu::Cudnn::fileName},
                         gpu::Cudnn::getVersionText(gpu::Cudnn::oldest),
                         std::move(wrong),
                         true,
                         std::move(purpose)});
  }
  if (program.getWorldSize() > 1)
    libraries.push_back({{gpu::Nccl::fileName},
                         gpu::Nccl::getVersionText(gpu::Nccl::oldest),
                         {},
                         false,
                         "what ranks send each other, unless threads of one "
                         "process share a GPU"});
  return libraries;
}

CudaReport tool::makeCudaReport(const Executable &executable) {
  const runtime::Program &program = executable.program;
  return {getLibraries(program), getGraphs(program), getStreams(program),
          getKernels(program, *executable.cuda)};
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Object toJSON(const CudaModule &module, llvm::StringRef name) {
  json::Object object{{"name", name},
                      {"ptx_version", module.ptxVersion},
                      {"ptx_target", module.ptxTarget},
                      {"ptx_bytes", module.ptxBytes}};
  if (module.cubin) {
    object["cubin_chip"] = module.cubin->chip;
    object["cubin_bytes"] = module.cubinBytes;
  }
  return object;
}

static json::Object toJSON(const CudaReport::Kernel &kernel) {
  json::Object object{{"symbol", kernel.symbol},
                      {"module", kernel.isOwn ? "runtime" : "generated"},
                      {"launches", kernel.launches},
                      {"multi", kernel.isMulti},
                      {"threads", kernel.threads},
                      {"dynamic_shared_bytes", kernel.dynamicSharedBytes},
                      {"scratch_bytes", kernel.scratchBytes}};
  if (kernel.resources) {
    object["registers"] = kernel.resources->registers;
    object["static_shared_bytes"] = kernel.resources->sharedBytes;
    object["local_bytes"] = kernel.resources->localBytes;
  }
  return object;
}

json::Object tool::toJSON(const CudaReport &report, const CudaCode &code) {
  json::Array modules, libraries, graphs, streams, kernels;
  modules.push_back(::toJSON(code.generated, "generated"));
  if (code.own)
    modules.push_back(::toJSON(*code.own, "runtime"));
  for (const CudaReport::Library &library : report.libraries) {
    json::Object object{{"files", json::Array(library.files)},
                        {"optional", library.isOptional},
                        {"for", library.purpose}};
    if (!library.oldest.empty())
      object["oldest"] = library.oldest;
    if (!library.wrong.empty())
      object["wrong"] = json::Array(library.wrong);
    libraries.push_back(std::move(object));
  }
  for (const CudaReport::Graph &graph : report.graphs)
    graphs.push_back(
        json::Object{{"stage", graph.stage},
                     {"instructions", graph.instructions},
                     {"update_instructions", graph.updateInstructions}});
  for (const CudaReport::Stream &stream : report.streams) {
    json::Object counts;
    for (auto [opcode, count] : stream.instructions)
      counts[fb::EnumNameOpcode(opcode)] = count;
    streams.push_back(json::Object{{"stage", stream.stage},
                                   {"stream", stream.number},
                                   {"instructions", std::move(counts)}});
  }
  for (const CudaReport::Kernel &kernel : report.kernels)
    kernels.push_back(::toJSON(kernel));
  return json::Object{{"modules", std::move(modules)},
                      {"peak_flops", json::Object{{"f32", code.peakFlops[0]},
                                                  {"bf16", code.peakFlops[1]}}},
                      {"libraries", std::move(libraries)},
                      {"graphs", std::move(graphs)},
                      {"streams", std::move(streams)},
                      {"kernels", std::move(kernels)}};
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class Printer {
public:
  explicit Printer(const CudaReport &report) : report(report) {}

  void printModule(const CudaModule &module, llvm::StringRef name) {
    add("code", name + ": PTX " + module.ptxVersion + " for " +
                    module.ptxTarget + " and later" +
                    (module.cubin ? ", machine code for " + module.cubin->chip
                                  : ", no machine code: the driver compiles "
                                    "it when a run begins"));
  }
  void printLibraries();
  void printGraphs();
  void printStreams();
  void printKernels();

  std::string text = "\nCUDA\n";

private:
  void add(llvm::StringRef label, const llvm::Twine &line) {
    text += llvm::formatv("{0,-14}{1}\n", label, line.str());
  }
  std::string getLabel(size_t stage) const {
    return report.graphs.back().stage == 0
               ? ""
               : "stage " + std::to_string(stage) + ": ";
  }
  template <typename Get>
  std::string describeMost(Get get) const;

  const CudaReport &report;
};
} // namespace

void Printer::printLibraries() {
  for (const CudaReport::Library &library : report.libraries) {
    std::string line = llvm::join(library.files, " or ");
    if (!library.oldest.empty())
      line += " " + library.oldest + " or later";
    if (!library.wrong.empty())
      line += ", not " + llvm::join(library.wrong, ", ");
    add("library", line + (library.isOptional ? ", if there is one: " : ": ") +
                       library.purpose);
  }
}

void Printer::printGraphs() {
  for (const CudaReport::Graph &graph : report.graphs)
    add("graphs", getLabel(graph.stage) + "1 launch a step: " +
                      tool::count(graph.instructions, "instruction") + ", " +
                      llvm::Twine(graph.updateInstructions) +
                      " of them of the update");
}

void Printer::printStreams() {
  for (const CudaReport::Stream &stream : report.streams) {
    std::string line;
    for (auto [opcode, count] : stream.instructions)
      line += (line.empty() ? "" : ", ") + std::to_string(count) + " " +
              fb::EnumNameOpcode(opcode);
    add("stream " + std::to_string(stream.number),
        getLabel(stream.stage) + line);
  }
}

/// The most that any kernel takes, and the first one that does: "64 (cast)".
template <typename Get>
std::string Printer::describeMost(Get get) const {
  auto most =
      llvm::max_element(report.kernels, [&](const CudaReport::Kernel &a,
                                            const CudaReport::Kernel &b) {
        return get(a) < get(b);
      });
  uint64_t value = get(*most);
  return std::to_string(value) + (value ? " (" + most->symbol + ")" : "");
}

void Printer::printKernels() {
  auto isOwn = [](const CudaReport::Kernel &kernel) { return kernel.isOwn; };
  size_t own = size_t(llvm::count_if(report.kernels, isOwn));
  size_t multi = size_t(
      llvm::count_if(report.kernels, [](const CudaReport::Kernel &kernel) {
        return kernel.isMulti;
      }));
  add("kernels", llvm::Twine(report.kernels.size() - own) + " generated, " +
                     llvm::Twine(multi) +
                     " of them for several launches at "
                     "once, " +
                     llvm::Twine(own) +
                     " of the runtime; most threads of a "
                     "block: " +
                     describeMost([](const CudaReport::Kernel &kernel) {
                       return uint64_t(kernel.threads);
                     }));
  if (llvm::any_of(report.kernels, [](const CudaReport::Kernel &kernel) {
        return !kernel.resources;
      })) {
    add("registers", "not known of all kernels without their machine code; "
                     "cleave compile has it made by ptxas, where there is one");
    return;
  }
  add("registers",
      "most of a thread: " + describeMost([](const CudaReport::Kernel &kernel) {
        return uint64_t(kernel.resources->registers);
      }));
  add("shared memory", "most bytes of a block: static " +
                           describeMost([](const CudaReport::Kernel &kernel) {
                             return kernel.resources->sharedBytes;
                           }) +
                           ", dynamic " +
                           describeMost([](const CudaReport::Kernel &kernel) {
                             return kernel.dynamicSharedBytes;
                           }));
  add("local memory", "most bytes of a thread: " +
                          describeMost([](const CudaReport::Kernel &kernel) {
                            return kernel.resources->localBytes;
                          }));
}

std::string tool::print(const CudaReport &report, const CudaCode &code) {
  Printer printer(report);
  printer.printModule(code.generated, "generated kernels");
  if (code.own)
    printer.printModule(*code.own, "the runtime's kernels");
  else
    printer.text += "the runtime has no kernels for GPUs: Cleave was built "
                    "without a clang that compiles them\n";
  printer.printLibraries();
  printer.printGraphs();
  printer.printStreams();
  printer.printKernels();
  return std::move(printer.text);
}
