//===- RuntimeKernels.cpp -------------------------------------------------===//
#include "test/cuda/driver/RuntimeKernels.h"
#include "runtime/comm/Reduce.h"
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/kernels/EmbeddingSort.h"
#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/cuda/kernels/Launches.h"
#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Workspace.h"
#include <algorithm>
#include <cstring>
#include <string_view>

using namespace cleave::simulated;
namespace cpu = cleave::cpu;
namespace cuda = cleave::cuda;
using cleave::runtime::getElementBytes;
using cleave::runtime::Reduction;
using cpu::ElementType;

namespace {

/// The types that a name ends with, taken from its front one by one.
using Types = std::vector<ElementType>;

/// Addresses in a parameter structure, as host pointers.
class Pointers {
public:
  explicit Pointers(Execution &execution) : execution(execution) {}

  /// What the kernel loads at once is aligned to its size, or a GPU faults.
  template <typename T>
  T *get(T *pointer, uint64_t bytes, const char *operand,
         uint64_t alignment = 1) const {
    if (bytes > 0 && uintptr_t(pointer) % alignment != 0)
      fail(errorMisalignedAddress, std::string(operand) +
                                       " is not aligned to " +
                                       std::to_string(alignment) + " bytes");
    return reinterpret_cast<T *>(
        execution.translate(Address(uintptr_t(pointer)), bytes, operand));
  }
  void fail(int code, const std::string &message) const {
    execution.fail(code, message);
  }
  bool areGood() const { return !execution.hasFailed(); }
  cpu::ThreadPool &getPool() const { return execution.getPool(); }

private:
  Execution &execution;
};

uint64_t getScratchBytes(const cuda::EmbeddingGradParams &p) {
  return uint64_t(cuda::getEmbeddingSort(p.rows, p.tableRows).bytes);
}
uint64_t getScratchBytes(const cuda::AttentionGradParams &p) {
  return cuda::getAttentionGradScratch(p.sizes);
}

/// Scratch between the launches of an instruction. The CPU's code, which the
/// last one runs, needs none: the others leave a mark of their parameters all
/// over it, so that the last one sees whether it comes behind them, and whether
/// something else wrote there in between.
template <typename Params>
class Scratch {
public:
  Scratch(const Params &p, const Pointers &pointers)
      : pointers(pointers), bytes(getScratchBytes(p)),
        begin(static_cast<std::byte *>(
            pointers.get(p.scratch, bytes, "scratch", 16))) {
    std::byte raw[sizeof(Params)];
    std::memcpy(raw, &p, sizeof p);
    for (std::byte byte : raw)
      mark = (mark ^ uint64_t(byte)) * 0x100000001b3;
  }
  void leaveMark() {
    for (uint64_t i = 0; pointers.areGood() && i + 8 <= bytes; i += 8)
      std::memcpy(begin + i, &mark, 8);
  }
  /// Leaves NaN behind, as memory that nobody may read again.
  void takeMark() {
    if (!pointers.areGood())
      return;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8)
      if (std::memcmp(begin + i, &mark, 8) != 0)
        return pointers.fail(errorIllegalAddress,
                             "byte " + std::to_string(i) +
                                 " of the scratch is not what the launches "
                                 "before this one left there");
    std::memset(begin, 0xff, bytes);
  }

private:
  const Pointers &pointers;
  uint64_t bytes;
  std::byte *begin;
  uint64_t mark = 0xcbf29ce484222325;
};

/// A launch of an instruction before its last one, which does all of it.
template <typename Params>
void leaveMark(const Params &p, const Types &, const Pointers &pointers) {
  Scratch<Params>(p, pointers).leaveMark();
}

void run(const cuda::EmbeddingParams &p, const Types &types,
         const Pointers &pointers) {
  uint64_t width = uint64_t(p.width);
  cpu::EmbeddingArgs args{};
  args.rows = p.rows;
  args.width = p.width;
  args.tableRows = p.tableRows;
  args.first = p.first;
  args.typeTable = types[0];
  args.typeOut = types[1];
  args.ids = pointers.get(p.ids, uint64_t(p.rows) * 4, "ids");
  args.table = pointers.get(
      p.table, uint64_t(p.tableRows) * width * getElementBytes(types[0]),
      "table");
  args.out = pointers.get(
      p.out, uint64_t(p.rows) * width * getElementBytes(types[1]), "out");
  if (pointers.areGood())
    cpu::embedding(args, pointers.getPool());
}

void run(const cuda::EmbeddingGradParams &p, const Types &types,
         const Pointers &pointers) {
  uint64_t width = uint64_t(p.width);
  cpu::EmbeddingGradArgs args{};
  args.rows = p.rows;
  args.width = p.width;
  args.tableRows = p.tableRows;
  args.first = p.first;
  args.typeDout = types[0];
  args.typeDtable = types[1];
  args.ids = pointers.get(p.ids, uint64_t(p.rows) * 4, "ids");
  args.dout = pointers.get(
      p.dout, uint64_t(p.rows) * width * getElementBytes(types[0]), "dout");
  args.dtable = pointers.get(
      p.dtable, uint64_t(p.tableRows) * width * getElementBytes(types[1]),
      "dtable");
  args.accumulate = p.accumulate != 0;
  Scratch(p, pointers).takeMark();
  if (pointers.areGood())
    cpu::embeddingGrad(args, pointers.getPool());
}

void run(const cuda::CopyRowsParams &p, const Types &,
         const Pointers &pointers) {
  if (p.outer < 1 || p.bytes < 1)
    return;
  auto extend = [&](int64_t stride) {
    return uint64_t((p.outer - 1) * stride + p.bytes);
  };
  auto *in = static_cast<const std::byte *>(
      pointers.get(p.in, extend(p.inStride), "in"));
  auto *out =
      static_cast<std::byte *>(pointers.get(p.out, extend(p.outStride), "out"));
  if (!pointers.areGood())
    return;
  for (int64_t i = 0; i < p.outer; ++i)
    std::memcpy(out + i * p.outStride, in + i * p.inStride, size_t(p.bytes));
}

void run(const cuda::ConvertParams &p, const Types &,
         const Pointers &pointers) {
  uint64_t elements = uint64_t(std::max<int64_t>(p.elements, 0));
  const float *in = pointers.get(p.in, elements * 4, "in", 4);
  auto *out =
      static_cast<uint16_t *>(pointers.get(p.out, elements * 2, "out", 2));
  if (!pointers.areGood())
    return;
  for (uint64_t i = 0; i < elements; ++i)
    out[i] = cpu::toBf16(in[i]);
}

/// Whether two of a launch's buffers of `bytes` are neither the same nor
/// disjoint: threads of a GPU would then see what others have written, or not.
bool overlap(const void *first, const void *second, uint64_t bytes) {
  auto a = uintptr_t(first), b = uintptr_t(second);
  return a != b && std::max(a, b) - std::min(a, b) < bytes;
}

template <Reduction reduction>
void reduce(const cuda::ReduceParams &p, const Types &types,
            const Pointers &pointers) {
  uint64_t element = getElementBytes(types[0]);
  uint64_t bytes = uint64_t(std::max<int64_t>(p.elements, 0)) * element;
  if (p.inputs < 1 || p.inputs > p.most || p.outputs < 0 || p.outputs > p.most)
    return pointers.fail(errorIllegalAddress,
                         std::to_string(p.inputs) + " inputs, " +
                             std::to_string(p.outputs) + " outputs");
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (int i = 0; i < p.inputs; ++i)
    inputs.push_back(pointers.get(
        p.in[i], bytes, ("input " + std::to_string(i)).c_str(), element));
  for (int i = 0; i < p.outputs; ++i) {
    std::string name = "output " + std::to_string(i);
    outputs.push_back(pointers.get(p.out[i], bytes, name.c_str(), element));
    auto overlaps = [&](const void *other) {
      return overlap(p.out[i], other, bytes);
    };
    if (std::any_of(p.in, p.in + p.inputs, overlaps) ||
        std::any_of(p.out, p.out + i, overlaps))
      pointers.fail(errorIllegalAddress,
                    name + " is part of another buffer of the launch");
  }
  if (pointers.areGood() && bytes > 0)
    cleave::runtime::reduceInOrder(inputs, outputs, bytes / element, types[0],
                                   reduction);
}

int64_t locate(const cuda::RowGroups &groups, int64_t row) {
  return row / groups.rowsOfGroup * groups.groupStride +
         row % groups.rowsOfGroup * groups.rowStride;
}

void run(const cuda::CopyPartsParams &p, const Types &,
         const Pointers &pointers) {
  if (p.rows < 1 || p.bytes < 1)
    return;
  for (const cuda::RowGroups *groups : {&p.inGroups, &p.outGroups})
    if (groups->rowsOfGroup < 1 || groups->rowStride < 0 ||
        groups->groupStride < 0)
      return pointers.fail(errorIllegalAddress,
                           "groups of no rows, or of a negative stride");
  int64_t lastIn = 0, lastOut = 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    lastIn = std::max(lastIn, locate(p.inGroups, row));
    lastOut = std::max(lastOut, locate(p.outGroups, row));
  }
  // The kernel moves units of 16, 4 or 2 bytes, and rows begin at one.
  int64_t all = p.bytes | p.inGroups.rowStride | p.inGroups.groupStride |
                p.outGroups.rowStride | p.outGroups.groupStride;
  if (all % 2 != 0)
    pointers.fail(errorMisalignedAddress,
                  "rows of " + std::to_string(p.bytes) +
                      " bytes, or their strides, are odd");
  auto *in = static_cast<const std::byte *>(
      pointers.get(p.in, uint64_t(lastIn + p.bytes), "in", 2));
  auto *out = static_cast<std::byte *>(
      pointers.get(p.out, uint64_t(lastOut + p.bytes), "out", 2));
  if (!pointers.areGood())
    return;
  for (int64_t row = 0; row < p.rows; ++row)
    std::memcpy(out + locate(p.outGroups, row), in + locate(p.inGroups, row),
                size_t(p.bytes));
}

cpu::AttentionShape getShape(const cuda::AttentionSizes &s, ElementType type) {
  return {s.batch,  s.seq, s.heads, s.kvHeads, s.headDim,
          s.window, type,  s.scale, s.softcap};
}

/// Tensor cores take rows of q, k and v in units of 16 bytes.
uint64_t getAlignment(const cuda::AttentionSizes &s, ElementType type) {
  bool usesTensorCores = type == ElementType::BF16 && s.headDim % 8 == 0;
  return usesTensorCores ? 16 : getElementBytes(type);
}

/// Bytes of attention's operands.
struct AttentionBytes {
  AttentionBytes(const cuda::AttentionSizes &s, ElementType type)
      : q(uint64_t(s.batch * s.seq * s.heads * s.headDim) *
          getElementBytes(type)),
        k(uint64_t(s.batch * s.seq * s.kvHeads * s.headDim) *
          getElementBytes(type)),
        lse(uint64_t(s.batch * s.heads * s.seq) * 4) {}
  uint64_t q, k, lse;
};

void run(const cuda::AttentionParams &p, const Types &types,
         const Pointers &pointers) {
  AttentionBytes bytes(p.sizes, types[0]);
  uint64_t align = getAlignment(p.sizes, types[0]);
  cpu::AttentionArgs args{};
  args.shape = getShape(p.sizes, types[0]);
  args.q = pointers.get(p.q, bytes.q, "q", align);
  args.k = pointers.get(p.k, bytes.k, "k", align);
  args.v = pointers.get(p.v, bytes.k, "v", align);
  args.out = pointers.get(p.out, bytes.q, "out", align);
  args.lse = pointers.get(p.lse, bytes.lse, "lse", 4);
  if (!pointers.areGood())
    return;
  const cuda::AttentionSizes &s = p.sizes;
  Workspace workspace(cpu::attentionWorkspaceBytes(
      s.batch, s.seq, s.heads, s.kvHeads, s.headDim, int64_t(types[0]),
      pointers.getPool().getThreads()));
  cpu::attention(args, workspace.get(), pointers.getPool());
}

void run(const cuda::AttentionGradParams &p, const Types &types,
         const Pointers &pointers) {
  AttentionBytes bytes(p.sizes, types[0]);
  uint64_t align = getAlignment(p.sizes, types[0]);
  cpu::AttentionGradArgs args{};
  args.shape = getShape(p.sizes, types[0]);
  args.q = pointers.get(p.q, bytes.q, "q", align);
  args.k = pointers.get(p.k, bytes.k, "k", align);
  args.v = pointers.get(p.v, bytes.k, "v", align);
  args.out = pointers.get(p.out, bytes.q, "out", align);
  args.lse = pointers.get(p.lse, bytes.lse, "lse", 4);
  args.dout = pointers.get(p.dout, bytes.q, "dout", align);
  args.dq = pointers.get(p.dq, bytes.q, "dq", align);
  args.dk = pointers.get(p.dk, bytes.k, "dk", align);
  args.dv = pointers.get(p.dv, bytes.k, "dv", align);
  Scratch(p, pointers).takeMark();
  if (!pointers.areGood())
    return;
  const cuda::AttentionSizes &s = p.sizes;
  Workspace workspace(cpu::attentionGradWorkspaceBytes(
      s.batch, s.seq, s.heads, s.kvHeads, s.headDim, int64_t(types[0]),
      pointers.getPool().getThreads()));
  cpu::attentionGrad(args, workspace.get(), pointers.getPool());
}

/// A kind of kernel. Names are `prefix`, then `types` types, then what a kernel
/// is specialized for.
struct Kind {
  const char *prefix;
  size_t types;          ///< of floats, but for those of reductions
  size_t parameterBytes; ///< 0: none
  void (*run)(const void *params, const Types &types, const Pointers &pointers);
};

template <typename Params>
using Run = void (*)(const Params &, const Types &, const Pointers &);

template <typename Params, Run<Params> execute = run>
constexpr Kind makeKind(const char *prefix, size_t types) {
  return {prefix, types, sizeof(Params),
          [](const void *params, const Types &types, const Pointers &pointers) {
            Params copy;
            std::memcpy(&copy, params, sizeof copy);
            execute(copy, types, pointers);
          }};
}

/// The first whose prefix a name has.
constexpr Kind kinds[] = {
    makeKind<cuda::EmbeddingGradParams>("cleave_embedding_grad_", 2),
    makeKind<cuda::EmbeddingParams>("cleave_embedding_", 2),
    makeKind<cuda::AttentionGradParams>("cleave_attention_grad_", 1),
    makeKind<cuda::AttentionParams>("cleave_attention_", 1),
    makeKind<cuda::CopyRowsParams>("cleave_copy_rows", 0),
    makeKind<cuda::CopyPartsParams>("cleave_copy_parts", 0),
    makeKind<cuda::ConvertParams>("cleave_convert_f32_bf16", 0),
    makeKind<cuda::ReduceParams, reduce<Reduction::Sum>>("cleave_reduce_sum_",
                                                         1),
    makeKind<cuda::ReduceParams, reduce<Reduction::Max>>("cleave_reduce_max_",
                                                         1),
    makeKind<cuda::AttentionGradParams, leaveMark>("cleave_part_attention_", 0),
    makeKind<cuda::EmbeddingGradParams, leaveMark>("cleave_part_embedding_", 0),
    {"cleave_part_", 0, 0, nullptr},
};

/// Takes "f32_", "bf16_" or "i32_", whose underscore may lack at the end.
bool takeType(std::string_view &name, ElementType &type) {
  std::string_view word = name.substr(0, name.find('_'));
  if (word == "f32")
    type = ElementType::F32;
  else if (word == "bf16")
    type = ElementType::BF16;
  else if (word == "i32")
    type = ElementType::I32;
  else
    return false;
  name.remove_prefix(std::min(word.size() + 1, name.size()));
  return true;
}

class RuntimeFunction : public Function {
public:
  RuntimeFunction(const Kind &kind, Types types)
      : kind(kind), types(std::move(types)) {}

  std::vector<size_t> getParameterSizes() const override {
    if (kind.parameterBytes == 0)
      return {};
    return {kind.parameterBytes};
  }

  void launch(const LaunchShape &, Parameters parameters,
              Execution &execution) const override {
    if (kind.run)
      kind.run(parameters[0].data(), types, Pointers(execution));
  }

private:
  const Kind &kind;
  Types types;
};

} // namespace

std::shared_ptr<const Function>
cleave::simulated::findRuntimeKernel(const std::string &name) {
  for (const Kind &kind : kinds) {
    std::string_view rest = name;
    if (!rest.starts_with(kind.prefix))
      continue;
    rest.remove_prefix(std::string_view(kind.prefix).size());
    Types types(kind.types);
    for (ElementType &type : types)
      if (!takeType(rest, type))
        return nullptr;
    return std::make_shared<RuntimeFunction>(kind, std::move(types));
  }
  return nullptr;
}
