//===- Tasks.cpp - What the instructions of a step ask for ----------------===//
#include "cleave/Tasks/Tasks.h"
#include <algorithm>
#include <cassert>
#include <numeric>

using namespace cleave;
using llvm::ArrayRef;
using program::Opcode;

static DType getDType(int64_t code) {
  return program::DType(code) == program::DType::BF16 ? DType::BF16
                                                      : DType::F32;
}

static double getElementBytes(int64_t code) { return getBytes(getDType(code)); }

static TaskShape getMatmul(ArrayRef<int64_t> ints) {
  TaskShape shape;
  shape.kind = TaskShape::Kind::Matmul;
  shape.m = double(ints[0]);
  shape.n = double(ints[1]);
  shape.k = double(ints[2]);
  shape.dtype = getDType(ints[5]);
  return shape;
}

static TaskShape getAttention(Direction direction, ArrayRef<int64_t> ints) {
  TaskShape shape;
  shape.kind = TaskShape::Kind::Attention;
  shape.direction = direction;
  shape.heads = double(ints[0]) * double(ints[2]);
  shape.rows = double(ints[1]);
  shape.pairs = getCausalPairs(shape.rows, double(ints[5]));
  shape.headDim = double(ints[4]);
  shape.dtype = getDType(ints[6]);
  return shape;
}

/// Rows of a table that are looked up, and written or added to.
static double getEmbeddingBytes(ArrayRef<int64_t> ints) {
  double elements = double(ints[0]) * double(ints[1]);
  return elements * (getElementBytes(ints[3]) + getElementBytes(ints[4]));
}

static double getEmbeddingGradBytes(ArrayRef<int64_t> ints) {
  double elements = double(ints[0]) * double(ints[1]);
  double table = double(ints[2]) * double(ints[1]);
  double gradient = getElementBytes(ints[4]);
  constexpr int64_t accumulates = 1;
  return elements * (getElementBytes(ints[3]) + 2 * gradient) +
         (ints[5] == accumulates ? 0 : table * gradient);
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

static TaskShape getMessage(TaskShape::Kind kind, ArrayRef<int64_t> ints,
                            double bytes) {
  TaskShape shape;
  shape.kind = kind;
  shape.bytes = bytes;
  shape.peer = ints[0];
  shape.channel = ints[1];
  return shape;
}

TaskShape cleave::getTaskShape(Opcode opcode, ArrayRef<int64_t> ints,
                               ArrayRef<int64_t> operandBytes, AxisList group) {
  double all = double(
      std::accumulate(operandBytes.begin(), operandBytes.end(), int64_t(0)));
  double input = operandBytes.empty() ? 0 : double(operandBytes.front());
  TaskShape memory;
  memory.bytes = all;
  switch (opcode) {
  case Opcode::Gemm: {
    TaskShape shape = getMatmul(ints);
    shape.bytes = all;
    return shape;
  }
  case Opcode::Attention:
    return getAttention(Direction::Forward, ints);
  case Opcode::AttentionGrad:
    return getAttention(Direction::Backward, ints);
  case Opcode::Embedding:
    memory.bytes = getEmbeddingBytes(ints);
    return memory;
  case Opcode::EmbeddingGrad:
    memory.bytes = getEmbeddingGradBytes(ints);
    return memory;
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
    return getMessage(TaskShape::Kind::Send, ints, all);
  case Opcode::Recv:
    return getMessage(TaskShape::Kind::Recv, ints, all);
  case Opcode::Launch:
  case Opcode::Fill:
  case Opcode::Copy:
  case Opcode::Slice:
  case Opcode::Schedule:
    return memory;
  }
  return memory;
}

std::optional<Opcode> cleave::findOpcode(llvm::StringRef name) {
  for (Opcode opcode : program::EnumValuesOpcode())
    if (name == program::EnumNameOpcode(opcode))
      return opcode;
  return std::nullopt;
}

int64_t StageTasks::countStreams() const {
  int64_t streams = 1;
  for (const Task &task : tasks)
    streams = std::max(streams, task.stream + 1);
  return streams;
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

static Task readTask(const program::Instruction &instruction) {
  Task task;
  task.name = getText(instruction.name());
  if (task.name.empty())
    task.name = program::EnumNameOpcode(instruction.opcode());
  task.phase = getText(instruction.category());
  llvm::SmallVector<int64_t> ints, bytes;
  forEach(instruction.ints(), [&](int64_t value) { ints.push_back(value); });
  forEach(instruction.operands(), [&](const program::Operand *operand) {
    bytes.push_back(int64_t(operand->bytes()));
  });
  AxisList group;
  forEach(instruction.group(), [&](uint8_t axis) { group.push_back(axis); });
  task.shape =
      getTaskShape(instruction.opcode(), ints, bytes, std::move(group));
  task.stream = instruction.stream();
  task.event = instruction.event();
  forEach(instruction.waits(),
          [&](uint32_t event) { task.waits.push_back(event); });
  return task;
}

static StageTasks readStage(const program::Stage &stage) {
  StageTasks tasks;
  forEach(stage.instructions(), [&](const program::Instruction *instruction) {
    tasks.tasks.push_back(readTask(*instruction));
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
    tasks.stages.push_back(readStage(*stage));
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
    }
}
