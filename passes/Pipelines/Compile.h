//===- Compile.h - From a model and a plan to an object file --------------===//
#ifndef CLEAVE_PASSES_PIPELINES_COMPILE_H
#define CLEAVE_PASSES_PIPELINES_COMPILE_H

#include "cleave/AutoShard/Choose.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Plan/Plan.h"
#include "passes/Pipelines/Pipelines.h"

#include <array>

namespace cleave {

struct CompileOptions {
  Workload work{.dtype = DType::F32};
  Plan plan;
  StageOptions stages;
  bool logits = false;        ///< keep the logits as an output
  std::string cpu = "native"; ///< that kernels are generated for
  /// A GPU that they are generated for as well, such as "sm_90"; none if empty.
  std::string cudaChip;
  std::array<double, 2> cudaPeaks = {}; ///< FLOP/s of it, in f32 and bf16
  /// That a rank has, less what no program may use; nothing: who knows.
  std::optional<double> memory;
  /// Generates kernels for the cluster's GPUs, where it has such, and says what
  /// memory its ranks have.
  llvm::Error setDevice(const Cluster &cluster);
  std::string dumpAfter;      ///< a stage whose IR goes to `dump`; "all": each
  bool dumpLocations = false; ///< with what the ops are called
  llvm::raw_ostream *dump = nullptr;
  bool remarks = false; ///< say what the passes decided
};

struct Compiled {
  llvm::SmallVector<char, 0> object; ///< defines runtime/abi/Kernel.h's symbols
  std::vector<uint8_t> program;      ///< sealed, as the object has it
  int64_t arenaBytes = 0, lowerBound = 0;
  std::vector<std::pair<std::string, int64_t>> memory; ///< at the peak
  int64_t kernels = 0, instructions = 0;
  std::vector<std::string> notes;    ///< for the user, a sentence each
  std::vector<std::string> warnings; ///< of what is likely not as it should be
};

/// What `checkCompilation` did.
struct MeaningReport {
  int64_t layers = 0;         ///< of the small model
  std::vector<MeshAxis> mesh; ///< of the simulated ranks
  int64_t microBatches = 0;
  int64_t passes = 0; ///< that changed the step
};

/// The training step of a model as a problem of placements on the plan's mesh,
/// whose other placements do not count, with the plan's micro-batches and what
/// it recomputes; of a pipeline, on the mesh of one stage (StageShares.h).
llvm::Expected<ShardingProblem> buildShardingProblem(const Model &model,
                                                     CompileOptions options,
                                                     const Machine &machine);

/// Compiles a small model of the same structure, by the same plan and options
/// with each mesh axis cut down to two ranks, and runs its step in f64 on
/// simulated ranks before and after every pass. Fails where a pass changes what
/// the step computes, and says where.
llvm::Expected<MeaningReport> checkCompilation(const Model &model,
                                               const CompileOptions &options);

/// Runs every stage. Warnings and remarks go to stderr; the error says what
/// failed, and why.
llvm::Expected<Compiled> compileModel(const Model &model,
                                      CompileOptions options);

/// From a file of IR as it is after the stage `after`, by the rest of the
/// stages. The plan is the module's, and not that of the options; the threads
/// of a rank are the cluster's.
llvm::Expected<Compiled> compileIR(llvm::StringRef path, llvm::StringRef after,
                                   const Cluster &cluster,
                                   CompileOptions options);

} // namespace cleave

#endif // CLEAVE_PASSES_PIPELINES_COMPILE_H
