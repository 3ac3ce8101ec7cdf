//===- Tasks.cpp - What the instructions of a step ask for ----------------===//
#include "cleave/Tasks/Tasks.h"
#include "cleave/Cost/Kernels.h"
#include <algorithm>
#include <cassert>
#include <numeric>

using namespace cleave;
using llvm::ArrayRef;
using program::Opcode;

static DType convert(program::DType type) {
  return type == program::DType::BF16 ? DType::BF16 : DType::F32;
}

static double getElementBytes(program::DType type) {
  return getBytes(convert(type));
}

static TaskShape getMatmul(const program::Gemm &gemm, double bytes) {
  TaskShape shape;
  shape.kind = TaskShape::Kind::Matmul;
  shape.bytes = bytes;
  shape.m = double(gemm.m());
  shape.n = double(gemm.n());
  shape.k = double(gemm.k());
  shape.dtype = convert(gemm.type_a());
  if (gemm.accumulate() != program::Accumulate::Never)
    shape.sums = 2 * shape.m * shape.n * getElementBytes(gemm.type_c());
  // Rows of a, b and c, as they lie in memory.
  if (shape.dtype == DType::BF16)
    shape.slow = std::max({getMisalignment(gemm.trans_a() ? shape.m : shape.k),
                           getMisalignment(gemm.trans_b() ? shape.k : shape.n),
                           getMisalignment(shape.n)});
  return shape;
}

/// Of Attention or AttentionGrad.
template <typename Table>
static TaskShape getAttention(Direction direction, const Table &attention) {
  TaskShape shape;
  shape.kind = TaskShape::Kind::Attention;
  shape.direction = direction;
  shape.heads = double(attention.batch()) * double(attention.heads());
  shape.rows = double(attention.seq());
  shape.pairs = getCausalPairs(shape.rows, double(attention.window()));
  shape.headDim = double(attention.head_dim());
  shape.dtype = convert(attention.type());
  return shape;
}

static TaskShape getMemory(double bytes) {
  TaskShape shape;
  shape.bytes = bytes;
  return shape;
}

/// Rows of a table that are looked up, and written.
static TaskShape getEmbedding(const program::Embedding &embedding) {
  double elements = double(embedding.rows()) * double(embedding.width());
  return getMemory(elements * (getElementBytes(embedding.type_table()) +
                               getElementBytes(embedding.type_out())));
}

/// Rows that are added to those of a table, which may be set to zero first.
static TaskShape getEmbeddingGrad(const program::EmbeddingGrad &embedding) {
  double width = double(embedding.width());
  double elements = double(embedding.rows()) * width;
  double table = double(embedding.table_rows()) * width;
  double gradient = getElementBytes(embedding.type_dtable());
  bool accumulates = embedding.accumulate() == program::Accumulate::Always;
  return getMemory(elements *
                       (getElementBytes(embedding.type_dout()) + 2 * gradient) +
                   (accumulates ? 0 : table * gradient));
}

static TaskShape getCollective(CollectiveKind kind, double bytes,
                               AxisList group) {
  TaskShape shape;
  shape.kind = TaskShape::Kind::Collective;
  shape.collective = kind;
  shape.bytes = bytes;
  shape.axes = std::move(group);
  return shape;
}

/// Of Send or Recv.
template <typename Table>
static TaskShape getMessage(TaskShape::Kind kind, const Table &message,
                            double bytes) {
  TaskShape shape;
  shape.kind = kind;
  shape.bytes = bytes;
  shape.peer = message.stage();
  shape.channel = message.channel();
  return shape;
}

TaskShape cleave::getTaskShape(Opcode opcode, const void *work,
                               ArrayRef<int64_t> operandBytes, AxisList group) {
  double all = double(
      std::accumulate(operandBytes.begin(), operandBytes.end(), int64_t(0)));
  double input = operandBytes.empty() ? 0 : double(operandBytes.front());
  switch (opcode) {
  case Opcode::Gemm:
    return getMatmul(*static_cast<const program::Gemm *>(work), all);
  case Opcode::Attention:
    return getAttention(Direction::Forward,
                        *static_cast<const program::Attention *>(work));
  case Opcode::AttentionGrad:
    return getAttention(Direction::Backward,
                        *static_cast<const program::AttentionGrad *>(work));
  case Opcode::Embedding:
    return getEmbedding(*static_cast<const program::Embedding *>(work));
  case Opcode::EmbeddingGrad:
    return getEmbeddingGrad(*static_cast<const program::EmbeddingGrad *>(work));
  case Opcode::AllReduce:
    return getCollective(CollectiveKind::AllReduce, input, std::move(group));
  case Opcode::AllGather:
    return getCollective(CollectiveKind::AllGather, input, std::move(group));
  case Opcode::ReduceScatter:
    return getCollective(CollectiveKind::ReduceScatter, input,
                         std::move(group));
  case Opcode::AllToAll:
    return getCollective(CollectiveKind::AllToAll, input, std::move(group));
  case Opcode::Send:
    return getMessage(TaskShape::Kind::Send,
                      *static_cast<const program::Send *>(work), all);
  case Opcode::Recv:
    return getMessage(TaskShape::Kind::Recv,
                      *static_cast<const program::Recv *>(work), all);
  case Opcode::Launch:
  case Opcode::Fill:
  case Opcode::Copy:
  case Opcode::Slice:
  case Opcode::Schedule:
  case Opcode::NONE:
    break;
  }
  return getMemory(all);
}

int64_t StageTasks::countStreams() const {
  int64_t streams = 1;
  for (const Task &task : tasks)
    streams = std::max(streams, task.stream + 1);
  return streams;
}

void StageTasks::forEachBucket(
    llvm::function_ref<void(size_t, size_t)> visit) const {
  size_t begin = 0;
  for (size_t i = 0; i != tasks.size(); ++i)
    if (!tasks[i].withNext || i + 1 == tasks.size()) {
      visit(begin, i + 1);
      begin = i + 1;
    }
}

/// Whether there is a vector or string, and then each of its elements.
template <typename T, typename Visit>
static void forEach(const flatbuffers::Vector<T> *vector, Visit visit) {
  if (vector)
    for (auto element : *vector)
      visit(element);
}

static std::string getText(const flatbuffers::String *text) {
  return text ? text->str() : "";
}

static Task readTask(const program::Instruction &instruction,
                     const program::Program &program) {
  Task task;
  task.name = getText(instruction.name());
  if (task.name.empty())
    task.name = program::EnumNameOpcode(instruction.work_type());
  task.phase = getText(instruction.category());
  llvm::SmallVector<int64_t> bytes;
  llvm::SmallVector<std::pair<uint64_t, uint64_t>> operands;
  forEach(instruction.operands(), [&](const program::Operand *operand) {
    operands.push_back({operand->offset(), operand->bytes()});
    bytes.push_back(int64_t(operand->bytes()));
  });
  if (const program::Launch *launch = instruction.work_as_Launch())
    countOnce(ArrayRef(operands),
              program.kernels()->Get(uint32_t(launch->kernel()))->inputs(),
              bytes);
  AxisList group;
  forEach(instruction.group(), [&](uint8_t axis) { group.push_back(axis); });
  task.shape = getTaskShape(instruction.work_type(), instruction.work(), bytes,
                            std::move(group));
  task.stream = instruction.stream();
  task.event = instruction.event();
  forEach(instruction.waits(),
          [&](uint32_t event) { task.waits.push_back(event); });
  task.withNext = instruction.with_next();
  return task;
}

static StageTasks readStage(const program::Stage &stage,
                            const program::Program &program) {
  StageTasks tasks;
  forEach(stage.instructions(), [&](const program::Instruction *instruction) {
    tasks.tasks.push_back(readTask(*instruction, program));
  });
  forEach(stage.runs(), [&](const program::Run *run) {
    const program::Segment *segment = stage.segments()->Get(run->segment());
    tasks.runs.push_back({int64_t(segment->begin()), int64_t(segment->end()),
                          int64_t(run->micro_batch())});
  });
  tasks.updateRun = int64_t(stage.update_run());
  tasks.memory = double(stage.arena_bytes());
  return tasks;
}

TaskProgram cleave::readTasks(const program::Program &program) {
  TaskProgram tasks;
  llvm::SmallVector<MeshAxis> axes;
  forEach(program.axes(), [&](const program::Axis *axis) {
    axes.push_back({getText(axis->name()), int64_t(axis->size())});
  });
  tasks.mesh = Mesh(axes);
  if (program.stage_axis() >= 0)
    tasks.stageAxis = Axis(program.stage_axis());
  forEach(program.stages(), [&](const program::Stage *stage) {
    tasks.stages.push_back(readStage(*stage, program));
  });
  tasks.modelFlops = program.flops_per_step();
  tasks.tokens = double(program.global_batch()) * double(program.seq_len());
  return tasks;
}

void cleave::makeSerial(TaskProgram &program) {
  for (StageTasks &stage : program.stages)
    for (Task &task : stage.tasks) {
      task.stream = task.event = 0;
      task.waits.clear();
      task.withNext = false;
    }
}
