//===- Export.h - Weights as HuggingFace's folder -------------------------===//
//
// model.safetensors, or numbered files and model.safetensors.index.json where
// there is more than fits into one; and config.json. Values are unpadded and in
// f32, tied weights are there once, as transformers itself saves them.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_EXPORT_H
#define CLEAVE_RUNTIME_CHECKPOINT_EXPORT_H

#include "runtime/checkpoint/Restore.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/executor/Executor.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"

namespace cleave::runtime {

/// Bytes of one file beyond which another is begun, if nothing else is said:
/// what transformers calls max_shard_size, whose default is 5GB up to version
/// 4 and 50GB from 5 on.
inline constexpr uint64_t defaultExportFileBytes = 5'000'000'000;

struct ExportOptions {
  std::string folder;
  uint64_t fileBytes = defaultExportFileBytes;
  bool overwrite = false; ///< replace weights that are in the folder
};

/// The files of a model folder and where each tensor goes.
struct ExportLayout {
  struct File {
    std::string name;
    SafetensorsLayout tensors;
  };
  struct Place {
    size_t file;
    uint64_t begin; ///< byte of the file
  };
  std::vector<File> files;
  std::map<std::string, Place, std::less<>> places; ///< by tensor
  std::string index; ///< of index.json; empty where there is one file

  uint64_t getBytes() const;
};

/// The states that a model folder is made of, each part of a tensor once: of
/// two states of the same box the one in f32, else the first.
std::vector<const program::State *> getExportedStates(const Program &program);

/// Lays out their tensors, as F32, in the order of the states. Fails, naming
/// the tensor, where the states do not cover it or overlap.
Status makeExportLayout(const Program &program, uint64_t fileBytes,
                        ExportLayout &layout);

/// Checks, before a long run, that an export can work: that the folder can be
/// made and written to and has no weights that may not be replaced, and that
/// the program has all of the model.
Status prepareExport(const Program &program, const ExportOptions &options);

/// Writes the folder from the state in memory. Collective. Each rank writes its
/// own parts, of replicas the first; rank 0 gives the files their names when
/// all are done. On failure no file has its final name, and every rank fails.
Status exportModel(Executor &executor, const ExportOptions &options);

/// Writes the folder from a checkpoint, in one process, with bounded memory.
Status exportCheckpoint(CheckpointReader &reader, const ExportOptions &options);

/// Writes the elements of `box`, of a shard whose bytes are `local`, into
/// their tensor, which begins at byte `begin` of `file`, as f32.
Status writeBox(const StateBox &box, program::DType dtype,
                std::span<const std::byte> local, uint64_t begin,
                OutputFile &file);

/// Has rank 0 create `path` with `size` bytes and every rank open it.
/// Collective; fails on all ranks.
Status openShared(Communicator &communicator, const std::string &path,
                  uint64_t size, OutputFile &file);

/// Commits a file that openShared gave, once `mine` is success on all ranks.
/// Collective; fails on all ranks.
Status commitShared(Communicator &communicator, const Status &mine,
                    OutputFile &file);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_EXPORT_H
