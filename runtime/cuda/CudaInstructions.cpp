//===- CudaInstructions.cpp - What each opcode does on a GPU --------------===//
#include "runtime/base/Quote.h"
#include "runtime/comm/Agreement.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/InstructionKernels.h"
#include "runtime/program/Print.h"
#include "runtime/program/Work.h"
#include <algorithm>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::cuda;
namespace fb = cleave::program;

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

static Status refuseAttention(const AttentionSizes &sizes) {
  return Status::error("there is no CUDA kernel for attention of batch " +
                       std::to_string(sizes.batch) + ", sequence " +
                       std::to_string(sizes.seq) + ", head dimension " +
                       std::to_string(sizes.headDim) +
                       ": expects at most 65535, 1048560 and 256");
}

Status CudaDevice::prepare(CudaInstruction &each, const CleaveCudaCode &code) {
  const fb::Instruction &instruction = *each.instruction;
  if (isCollective(each.opcode))
    return communicator.getGroup(toSpan(instruction.group()), each.group);
  switch (each.opcode) {
  case fb::Opcode::Launch:
    return prepareLaunch(each, code);
  case fb::Opcode::Gemm:
    return prepareMatmul(each);
  case fb::Opcode::Attention:
  case fb::Opcode::AttentionGrad:
    return prepareAttention(each);
  case fb::Opcode::EmbeddingGrad: {
    const fb::EmbeddingGrad &table = *instruction.work_as_EmbeddingGrad();
    each.scratchBytes =
        getEmbeddingGradScratch(table.rows(), table.table_rows());
    return findOwnKernels(each);
  }
  default:
    return findOwnKernels(each);
  }
}

/// What getOwnLaunches() names.
Status CudaDevice::findOwnKernels(CudaInstruction &each) {
  return ownKernels.find(getOwnLaunches(*each.instruction), each.kernels);
}

Status CudaDevice::prepareLaunch(CudaInstruction &each,
                                 const CleaveCudaCode &code) {
  const fb::Kernel &kernel = getKernel(program.get(), *each.instruction);
  std::string symbol(toView(kernel.symbol()));
  for (uint64_t i = 0; i < code.kernel_count; ++i)
    if (symbol == code.kernels[i].symbol) {
      Kernel found;
      CLEAVE_RETURN_IF_ERROR(
          context->getFunction(generated, symbol.c_str(), found.function));
      found.grid[0] = code.kernels[i].blocks;
      found.block[0] = code.kernels[i].threads;
      each.joinedBytes = code.kernels[i].scratch_bytes;
      each.kernels = {found};
      if (const char *multi = code.kernels[i].multi_symbol) {
        each.multi = found;
        CLEAVE_RETURN_IF_ERROR(
            context->getFunction(generated, multi, each.multi.function));
      }
      return Status();
    }
  return Status::error("the executable has no CUDA kernel " + quote(symbol) +
                       ", which the program launches");
}

Status CudaDevice::prepareMatmul(CudaInstruction &each) {
  const fb::Gemm &gemm = *each.instruction->work_as_Gemm();
  if (gemm.type_a() != gemm.type_b())
    return Status::error("cuBLASLt multiplies matrices of one type, got " +
                         std::string(fb::EnumNameDType(gemm.type_a())) +
                         " and " + fb::EnumNameDType(gemm.type_b()));
  MatmulShape shape{gemm.m(),       gemm.n(),       gemm.k(),
                    gemm.trans_a(), gemm.trans_b(), gemm.type_a(),
                    gemm.type_c(),  gemm.has_bias()};
  std::unique_ptr<Matmul> &matmul = matmuls[shape];
  if (!matmul)
    CLEAVE_RETURN_IF_ERROR(
        Matmul::create(*cublasLt, matmulHandle, shape, matmul));
  each.matmul = matmul.get();
  each.scratchBytes = matmulWorkspace;
  // The bias in C's type, behind the library's.
  if (gemm.has_bias() && gemm.type_c() == fb::DType::BF16)
    each.scratchBytes = matmulWorkspace + uint64_t(gemm.n()) * 2;
  return findOwnKernels(each);
}

/// Whether cuDNN or kernels of our own compute an attention is the same on all
/// ranks: where several compute the same one, copies of one parameter must not
/// drift apart. So all have one version of the library, and what its plans may
/// take is what the fullest GPU has.
Status CudaDevice::agreeOnAttention() {
  auto isAttention = [](const fb::Instruction &each) {
    return each.work_type() == fb::Opcode::Attention ||
           each.work_type() == fb::Opcode::AttentionGrad;
  };
  bool hasAttention = false;
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    Stage each = program.getStage(number);
    for (size_t i = 0; i < each.getInstructionCount(); ++i)
      hasAttention |= isAttention(each.getInstruction(i));
  }
  if (!hasAttention)
    return Status();
  size_t free = 0, total = 0;
  CLEAVE_CUDA(*driver, memGetInfo(&free, &total));
  if (sharesGpu)
    free /= size_t(communicator.getWorldSize());
  double mine = free > scratchReserve ? double(free - scratchReserve) : 0;
  std::vector<double> all;
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles({&mine, 1}, all));
  attentionScratch = uint64_t(*std::ranges::min_element(all));
  std::string version;
  CLEAVE_RETURN_IF_ERROR(communicator.agree(attentions.getVersion(version)));
  return agreeOnItems(
      communicator,
      {{"the version of cuDNN (CLEAVE_ATTENTION=own does without)", version}});
}

Status CudaDevice::prepareAttention(CudaInstruction &each) {
  bool isGrad = each.opcode == fb::Opcode::AttentionGrad;
  const auto *forward = each.instruction->work_as_Attention();
  const auto *grad = each.instruction->work_as_AttentionGrad();
  AttentionSizes sizes = isGrad ? getSizes(*grad) : getSizes(*forward);
  AttentionRequest request{
      sizes, (isGrad ? grad->type() : forward->type()) == fb::DType::BF16,
      isGrad, isGrad && grad->fixed_order()};
  CLEAVE_RETURN_IF_ERROR(
      attentions.find(request, attentionScratch, each.attention));
  if (each.attention) {
    each.scratchBytes = each.attention->getScratchBytes();
    return Status();
  }
  if (!hasAttention(sizes))
    return refuseAttention(sizes);
  if (isGrad)
    each.scratchBytes = getAttentionGradScratch(sizes);
  return findOwnKernels(each);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Address CudaDevice::get(const CudaInstruction &each, size_t operand,
                        const RunContext &context) const {
  return arena.getAddress() +
         getPlace(each.operands[operand], context.microBatch);
}

Address CudaDevice::getScratch(const Stream &stream, uint64_t offset) const {
  return stream.scratch.getAddress() + offset;
}

Status CudaDevice::enqueue(const BoundInstruction &common,
                           const RunContext &context) {
  std::span<const CudaInstruction> bucket(&instructions[common.index],
                                          common.bucket);
  size_t number = isSerial ? 0 : common.instruction->stream();
  Stream &stream = streams[number];
  for (const CudaInstruction &each : bucket)
    for (uint32_t event : toSpan(each.instruction->waits()))
      if (!isSerial && isRecorded[event])
        CLEAVE_CUDA(*driver, streamWaitEvent(stream.handle.get(),
                                             events[event].get(), 0));
  for (const CudaInstruction &each : bucket) {
    if (observer) {
      Timed &times = timed.emplace_back(
          Timed{each.index, context.microBatch, number, {}, {}});
      CLEAVE_RETURN_IF_ERROR(this->context->createEvent(true, times.begin));
      CLEAVE_RETURN_IF_ERROR(this->context->createEvent(true, times.end));
      CLEAVE_CUDA(*driver, eventRecord(times.begin.get(), stream.handle.get()));
    }
    Status status = enqueueAlone(each, context, stream);
    if (status.getCode() == StatusCode::Failed)
      return status.at("step " + std::to_string(context.inputs.step) + ", " +
                       describeInstruction(stage, each.index));
    CLEAVE_RETURN_IF_ERROR(status);
    if (observer)
      CLEAVE_CUDA(*driver,
                  eventRecord(timed.back().end.get(), stream.handle.get()));
  }
  for (const CudaInstruction &each : bucket)
    if (uint32_t event = each.instruction->event(); event > 0 && !isSerial) {
      CLEAVE_CUDA(*driver,
                  eventRecord(events[event].get(), stream.handle.get()));
      isRecorded[event] = true;
    }
  return Status();
}

Status CudaDevice::enqueueAlone(const CudaInstruction &each,
                                const RunContext &context, Stream &stream) {
  const fb::Instruction &instruction = *each.instruction;
  switch (each.opcode) {
  case fb::Opcode::Launch:
    return enqueueKernel(each, context, stream);
  case fb::Opcode::Gemm:
    return enqueueMatmul(each, context, stream);
  case fb::Opcode::Attention:
    return enqueueAttention(each, context, stream);
  case fb::Opcode::AttentionGrad:
    return enqueueAttentionGrad(each, context, stream);
  case fb::Opcode::Embedding: {
    auto params = getRowParams<EmbeddingParams>(
        *instruction.work_as_Embedding(), each.shardIndex);
    params.ids = point<int32_t>(each, 0, context);
    params.table = point<void>(each, 1, context);
    params.out = point<void>(each, 2, context);
    return launch(each, params, stream);
  }
  case fb::Opcode::EmbeddingGrad: {
    const fb::EmbeddingGrad &table = *instruction.work_as_EmbeddingGrad();
    auto params = getRowParams<EmbeddingGradParams>(table, each.shardIndex);
    params.ids = point<int32_t>(each, 0, context);
    params.dout = point<void>(each, 1, context);
    params.dtable = point<void>(each, 2, context);
    params.scratch = toPointer(getScratch(stream));
    params.accumulate = accumulates(table.accumulate(), context.isFirst);
    return launch(each, params, stream);
  }
  case fb::Opcode::Fill:
    CLEAVE_CUDA(*driver,
                memsetAsync(get(each, 0, context), 0, each.operands[0].bytes(),
                            stream.handle.get()));
    return Status();
  case fb::Opcode::Copy:
    if (get(each, 0, context) != get(each, 1, context))
      CLEAVE_CUDA(*driver, copyDeviceToDeviceAsync(
                               get(each, 1, context), get(each, 0, context),
                               each.operands[0].bytes(), stream.handle.get()));
    return Status();
  case fb::Opcode::Slice: {
    const fb::Slice &table = *instruction.work_as_Slice();
    CopyRowsParams params = getParams(table, each.shardCount);
    Address in = get(each, 0, context) +
                 uint64_t(each.shardIndex) * uint64_t(params.bytes);
    if (table.outer() == 1) {
      CLEAVE_CUDA(*driver, copyDeviceToDeviceAsync(get(each, 1, context), in,
                                                   uint64_t(params.bytes),
                                                   stream.handle.get()));
      return Status();
    }
    params.in = toPointer(in);
    params.out = point<void>(each, 1, context);
    return launch(each, params, stream);
  }
  case fb::Opcode::Schedule:
    CLEAVE_CUDA(*driver, copyHostToDeviceAsync(
                             get(each, 0, context), each.values,
                             sizeof(each.values->values), stream.handle.get()));
    return Status();
  case fb::Opcode::AllReduce:
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
    return enqueueCollective({&each, each.bucket}, context, stream);
  case fb::Opcode::Send:
    return stream.communicator->send(
        each.peer, each.channel, get(each, 0, context),
        each.operands[0].bytes(), stream.handle.get());
  case fb::Opcode::Recv:
    return stream.communicator->receive(
        each.peer, each.channel, get(each, 0, context),
        each.operands[0].bytes(), stream.handle.get());
  case fb::Opcode::NONE:
    break;
  }
  return Status::error("unknown opcode " + std::to_string(int(each.opcode)));
}

/// Lanes go on behind what the stream has done.
Status CudaDevice::forkLanes(const Lane &lane, Stream &stream) {
  CLEAVE_CUDA(*driver, eventRecord(stream.forked.get(), stream.handle.get()));
  for (unsigned i = 1; i < lane.count; ++i)
    CLEAVE_CUDA(*driver, streamWaitEvent(stream.sides[i - 1].handle.get(),
                                         stream.forked.get(), 0));
  return Status();
}

/// The stream goes on behind what its lanes have done.
Status CudaDevice::joinLanes(const Lane &lane, Stream &stream) {
  for (unsigned i = 1; i < lane.count; ++i) {
    const Side &side = stream.sides[i - 1];
    CLEAVE_CUDA(*driver, eventRecord(side.end.get(), side.handle.get()));
    CLEAVE_CUDA(*driver,
                streamWaitEvent(stream.handle.get(), side.end.get(), 0));
  }
  return Status();
}

/// A generated kernel by itself, or with those that are one launch with it.
Status CudaDevice::launchKernel(const CudaInstruction &each,
                                const RunContext &context, const Stream &stream,
                                const Handle &where) const {
  int64_t params[] = {each.shardIndex, context.isFirst ? 0 : 1};
  // What is observed is launched by itself.
  if (Address table = observer ? 0 : each.table) {
    void *parameters[] = {&table, &params[1]};
    return each.multi.launch(*driver, parameters, where.get());
  }
  std::vector<Address> addresses;
  for (size_t i = 0; i < each.operands.size(); ++i)
    addresses.push_back(get(each, i, context));
  std::vector<void *> parameters;
  for (Address &address : addresses)
    parameters.push_back(&address);
  parameters.push_back(&params[0]);
  parameters.push_back(&params[1]);
  Address joined = stream.joined.getAddress();
  parameters.push_back(&joined);
  return each.kernels.front().launch(*driver, parameters.data(), where.get());
}

Status CudaDevice::enqueueKernel(const CudaInstruction &each,
                                 const RunContext &context, Stream &stream) {
  // One that is observed has its stream alone.
  if (observer)
    return launchKernel(each, context, stream, stream.handle);
  const Lane &lane = lanes[each.index];
  if (lane.follows)
    return Status();
  if (lane.forks)
    CLEAVE_RETURN_IF_ERROR(forkLanes(lane, stream));
  const Handle &where =
      lane.number ? stream.sides[lane.number - 1].handle : stream.handle;
  CLEAVE_RETURN_IF_ERROR(launchKernel(each, context, stream, where));
  return lane.joins ? joinLanes(lane, stream) : Status();
}

Status CudaDevice::enqueueMatmul(const CudaInstruction &each,
                                 const RunContext &context, Stream &stream) {
  const fb::Gemm &gemm = *each.instruction->work_as_Gemm();
  bool hasBias = gemm.has_bias();
  MatmulOperands operands{get(each, 0, context), get(each, 1, context), 0,
                          get(each, 2 + hasBias, context),
                          accumulates(gemm.accumulate(), context.isFirst)};
  if (hasBias)
    operands.bias = get(each, 2, context);
  if (!each.kernels.empty()) {
    ConvertParams params{};
    params.elements = gemm.n();
    params.in = toPointer<const float>(operands.bias);
    operands.bias = getScratch(stream, matmulWorkspace);
    params.out = toPointer(operands.bias);
    CLEAVE_RETURN_IF_ERROR(launch(each, params, stream));
  }
  return each.matmul->run(operands, getScratch(stream), matmulWorkspace,
                          stream.handle.get());
}

Status CudaDevice::enqueueAttention(const CudaInstruction &each,
                                    const RunContext &context, Stream &stream) {
  AttentionParams params{};
  params.sizes = getSizes(*each.instruction->work_as_Attention());
  params.q = point<void>(each, 0, context);
  params.k = point<void>(each, 1, context);
  params.v = point<void>(each, 2, context);
  params.out = point<void>(each, 3, context);
  params.lse = point<float>(each, 4, context);
  if (!each.attention)
    return launch(each, params, stream);
  CLEAVE_RETURN_IF_ERROR(attentions.setStream(stream.handle.get()));
  return each.attention->run(params, getScratch(stream));
}

Status CudaDevice::enqueueAttentionGrad(const CudaInstruction &each,
                                        const RunContext &context,
                                        Stream &stream) {
  AttentionGradParams params{};
  params.sizes = getSizes(*each.instruction->work_as_AttentionGrad());
  params.q = point<void>(each, 0, context);
  params.k = point<void>(each, 1, context);
  params.v = point<void>(each, 2, context);
  params.out = point<void>(each, 3, context);
  params.lse = point<float>(each, 4, context);
  params.dout = point<void>(each, 5, context);
  params.dq = point<void>(each, 6, context);
  params.dk = point<void>(each, 7, context);
  params.dv = point<void>(each, 8, context);
  params.scratch = toPointer(getScratch(stream));
  if (!each.attention)
    return launch(each, params, stream);
  CLEAVE_RETURN_IF_ERROR(attentions.setStream(stream.handle.get()));
  return each.attention->run(params);
}

/// A whole bucket, where it is told of the first of it.
Status CudaDevice::enqueueCollective(std::span<const CudaInstruction> bucket,
                                     const RunContext &context,
                                     Stream &stream) {
  std::vector<GpuCollective> collectives;
  for (const CudaInstruction &each : bucket)
    collectives.push_back({describeCollective(*each.instruction),
                           get(each, 0, context), get(each, 1, context)});
  if (collectives.empty())
    return Status();
  const Group &group = *bucket.front().group;
  if (group.getSize() > 1)
    return stream.communicator->run(group, collectives, stream.handle.get());
  for (size_t i = 0; i < bucket.size(); ++i)
    if (const GpuCollective &each = collectives[i]; each.in != each.out)
      CLEAVE_CUDA(*driver, copyDeviceToDeviceAsync(
                               each.out, each.in, bucket[i].operands[1].bytes(),
                               stream.handle.get()));
  return Status();
}
