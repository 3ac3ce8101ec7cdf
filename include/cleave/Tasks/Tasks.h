//===- Tasks.h - What the instructions of a step ask for ------------------===//
//
// A step as a list of tasks: of each instruction what it computes or moves, its
// stream, and what it waits for; nothing of where its operands lie. It is made
// from the instructions of a program, and is what is priced and simulated: so
// what is predicted is the list that runs.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TASKS_TASKS_H
#define CLEAVE_TASKS_TASKS_H

#include "cleave/Cost/Work.h"
#include "cleave/Hardware/Hardware.h"
#include "cleave/Mesh/Mesh.h"
#include "runtime/program/program_generated.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

/// What an instruction computes or moves, on each of its ranks.
struct TaskShape {
  enum class Kind {
    Memory,     ///< whatever streams `bytes` through memory
    Matmul,     ///< m x k by k x n
    Attention,  ///< causal, of `heads` heads of all samples
    Collective, ///< over the ranks that differ along `axes`
    Send,       ///< of `bytes`, to stage `peer`
    Recv        ///< of what that stage sends
  };
  Kind kind = Kind::Memory;
  /// Read and written; of a collective what a rank puts in, of a message its
  /// size.
  double bytes = 0;
  DType dtype = DType::F32;   ///< Matmul, Attention
  double m = 0, n = 0, k = 0; ///< Matmul
  /// Matmul: how much longer it takes for rows of elements that are not
  /// aligned, see getMisalignment.
  double slow = 1;
  /// Matmul: bytes of sums that it adds to, read and written.
  double sums = 0;
  Direction direction = Direction::Forward; ///< Attention
  /// Attention: queries of a head, and query-key pairs of one.
  double heads = 0, rows = 0, pairs = 0, headDim = 0;
  CollectiveKind collective = CollectiveKind::AllReduce;
  AxisList axes;                 ///< Collective
  int64_t peer = 0, channel = 0; ///< Send, Recv

  /// Whether its time is that of other ranks, too.
  bool communicates() const { return kind >= Kind::Collective; }
  bool operator==(const TaskShape &) const = default;
};

/// Bytes of a kernel's operands, of which what it reads or writes in several
/// ways, as the halves of a rotation, moves once: the first of those that are
/// equal has them. `operands`: inputs, then outputs, by anything that tells
/// them apart.
template <typename Operand>
void countOnce(llvm::ArrayRef<Operand> operands, size_t inputs,
               llvm::MutableArrayRef<int64_t> bytes) {
  for (size_t i = 0; i != operands.size(); ++i) {
    size_t first = i < inputs ? 0 : inputs;
    if (llvm::is_contained(operands.slice(first, i - first), operands[i]))
      bytes[i] = 0;
  }
}

/// The shape of an instruction: its opcode and that one's table, as program.fbs
/// has them, the bytes of its operands, and its group.
TaskShape getTaskShape(program::Opcode opcode, const void *work,
                       llvm::ArrayRef<int64_t> operandBytes, AxisList group);

struct Task {
  std::string name;  ///< "gemm layers.3.mlp.up"
  std::string phase; ///< forward, backward, optimizer; or nothing
  TaskShape shape;
  int64_t stream = 0;
  int64_t event = 0; ///< that it records when it is done; 0: none
  /// Events: it begins once the latest record of each, in the serial order, is
  /// done.
  llvm::SmallVector<int64_t, 2> waits;
  /// A collective that begins together with the next one, in one bucket.
  bool withNext = false;
};

/// One execution of tasks [begin, end).
struct TaskRun {
  int64_t begin = 0, end = 0, microBatch = 0;
};

/// What the ranks of a pipeline stage execute in a step, all of them alike.
struct StageTasks {
  std::vector<Task> tasks;
  std::vector<TaskRun> runs;
  /// Before this run, the update's first, all streams are waited for.
  int64_t updateRun = 0;
  double memory = 0; ///< bytes of a rank

  /// Streams are numbered below this.
  int64_t countStreams() const;
  /// Calls `visit(begin, end)` for the tasks that begin together, in their
  /// order; of most there is one.
  void forEachBucket(llvm::function_ref<void(size_t, size_t)> visit) const;
};

struct TaskProgram {
  Mesh mesh;
  std::optional<Axis> stageAxis; ///< none: one stage, on all ranks
  std::vector<StageTasks> stages;
  double modelFlops = 0; ///< of a step, all ranks together
  double tokens = 0;     ///< likewise
};

/// The tasks of a program that the loader accepts.
TaskProgram readTasks(const program::Program &program);

/// Puts all tasks into one stream, where the order of runs and list is all that
/// they wait for.
void makeSerial(TaskProgram &program);

} // namespace cleave

#endif // CLEAVE_TASKS_TASKS_H
