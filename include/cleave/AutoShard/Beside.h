//===- Beside.h - What a choice takes where collectives run aside ---------===//
#ifndef CLEAVE_AUTOSHARD_BESIDE_H
#define CLEAVE_AUTOSHARD_BESIDE_H

#include "cleave/AutoShard/Moves.h"
#include "cleave/Cost/Profile.h"
#include "cleave/Hardware/Hardware.h"

namespace cleave {

/// What the overlap stage lets run beside compute on a cluster. `mode`: auto,
/// all but what moves inside a node of CPUs; always; or never. Mesh and machine
/// must outlive it.
BesideCompute getBesideCompute(const Mesh &mesh, const Machine &machine,
                               const Profile &profile, llvm::StringRef mode);

/// Seconds of a step in which collectives run beside compute: as lib/Streams
/// would order it without a limit of memory, gathers so early that they are
/// done in time, reductions as soon as their input is there, and what is waited
/// for with the products around it in parts of their rows where that pays; and
/// as lib/Simulate would play that. What is done once a step runs beside the
/// first micro-batch or the last, but the update comes behind all. `moves`: of
/// getMoves; says of each of their steps what is exposed.
double timeBeside(const ShardingProblem &problem, const ShardingChoice &choice,
                  llvm::MutableArrayRef<Move> moves, CollectivePricer price,
                  const BesideCompute &beside);

/// Why a tensor is moved, which is much of whether compute waits for it.
enum class Reason {
  ForwardParameters,   ///< from where they are held
  BackwardParameters,  ///< likewise
  ForwardActivations,  ///< and what is kept of them
  BackwardActivations, ///< and their gradients
  Gradients,           ///< of parameters, of one micro-batch
  Sums,                ///< of these, once a step
  States,              ///< to where they are held, once a step
};
constexpr size_t numReasons = size_t(Reason::States) + 1;

/// By tensor.
std::vector<Reason> findReasons(const ShardingProblem &problem);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_BESIDE_H
