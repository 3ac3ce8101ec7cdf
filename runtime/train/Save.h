//===- Save.h - Shards back into HuggingFace's tensors --------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_SAVE_H
#define CLEAVE_RUNTIME_TRAIN_SAVE_H

#include "runtime/executor/Executor.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/StateBox.h"

namespace cleave::runtime {

/// The states that a checkpoint is made of, each part of a tensor once: of two
/// states of the same box the one in f32, else the first.
std::vector<const program::State *> getSavedStates(const Program &program);

/// Their checkpoint tensors, as F32, in the order of the states. Fails, naming
/// the tensor, where the states do not cover it or overlap.
Status makeCheckpointLayout(const Program &program, SafetensorsLayout &layout);

/// Writes the elements of `box`, of a shard whose bytes are `local`, into
/// their tensor, which begins at byte `begin` of `file`, as f32.
Status writeBox(const StateBox &box, program::DType dtype,
                std::span<const std::byte> local, uint64_t begin,
                OutputFile &file);

/// Checks, before a long run, that saving into `folder` can work: that it can
/// be made and written to, and that the program has all of the checkpoint.
Status prepareSave(const Program &program, const std::string &folder);

/// Writes `folder`/model.safetensors and config.json, unpadded and in f32.
/// Collective. Each rank writes its own parts, of replicas the first; rank 0
/// gives the files their names when all are done. On failure no file has its
/// final name, and every rank fails.
Status saveCheckpoint(Executor &executor, const std::string &folder);

/// Has rank 0 create `path` with `size` bytes and every rank open it.
/// Collective; fails on all ranks.
Status openShared(Communicator &communicator, const std::string &path,
                  uint64_t size, OutputFile &file);

/// Commits a file that openShared gave, once `mine` is success on all ranks.
/// Collective; fails on all ranks.
Status commitShared(Communicator &communicator, const Status &mine,
                    OutputFile &file);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_SAVE_H
