#include "runtime/cuda/kernels/Launches.h"

#include "runtime/cuda/kernels/AttentionTiles.h"
#include "runtime/cuda/kernels/EmbeddingSort.h"

#include <cassert>

using namespace cleave::cuda;
using namespace cleave::cpu;

/// The most blocks along y and z.
static constexpr int64_t maxGrid = 65535;

static std::string getName(ElementType type) {
  return type == ElementType::BF16 ? "bf16" : "f32";
}

static KernelLaunch getLaunch(std::string symbol, int64_t x, int64_t y,
                              int64_t z, int threads, int sharedBytes = 0) {
  return {std::move(symbol),
          {unsigned(x), unsigned(y), unsigned(z)},
          {unsigned(threads), 1, 1},
          unsigned(sharedBytes)};
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

std::vector<KernelLaunch>
cleave::cuda::getEmbeddingLaunches(const EmbeddingParams &params,
                                   ElementType typeTable, ElementType typeOut) {
  if (params.rows <= 0 || params.width <= 0)
    return {};
  return {getLaunch("cleave_embedding_" + getName(typeTable) + "_" +
                        getName(typeOut),
                    params.rows, ceilDiv(params.width, 512), 1, 128)};
}

std::vector<KernelLaunch>
cleave::cuda::getEmbeddingGradLaunches(const EmbeddingGradParams &params,
                                       ElementType typeDout,
                                       ElementType typeDtable) {
  if (params.tableRows <= 0 || params.width <= 0)
    return {};
  EmbeddingSort sort = getEmbeddingSort(params.rows, params.tableRows);
  std::vector<KernelLaunch> launches;
  // Without rows there is nothing to sort, but the table may be cleared.
  for (int pass = 0; pass < sort.passes && params.rows > 0; ++pass) {
    std::string name = std::to_string(pass);
    launches.push_back(getLaunch("cleave_part_embedding_count_" + name,
                                 sort.blocks, 1, 1, sortThreads,
                                 4 * sortDigits));
    launches.push_back(getLaunch("cleave_part_embedding_scatter_" + name,
                                 sort.blocks, 1, 1, sortThreads,
                                 4 * sortWarps * (sortDigits + 1)));
  }
  launches.push_back(getLaunch("cleave_part_embedding_starts",
                               ceilDiv(params.tableRows + 1, sortThreads), 1, 1,
                               sortThreads));
  launches.push_back(getLaunch(
      "cleave_embedding_grad_" + getName(typeDout) + "_" + getName(typeDtable),
      ceilDiv(params.tableRows, sumRows), ceilDiv(params.width, sumColumns), 1,
      sumThreads));
  return launches;
}

size_t cleave::cuda::getEmbeddingGradScratch(int64_t rows, int64_t tableRows) {
  return size_t(getEmbeddingSort(rows, tableRows).bytes);
}

std::vector<KernelLaunch>
cleave::cuda::getCopyRowsLaunches(const CopyRowsParams &params) {
  if (params.outer <= 0 || params.bytes <= 0)
    return {};
  // As many blocks as rows of 256 units of 16 bytes, up to some that fill any
  // GPU; the kernel goes on by the size of the grid.
  constexpr int64_t most = 2048, blockBytes = 256 * int64_t(16);
  int64_t y = smaller(ceilDiv(params.bytes, blockBytes), most);
  int64_t perBlock = larger(1, blockBytes / params.bytes);
  int64_t x = smaller(ceilDiv(params.outer, perBlock), ceilDiv(most, y));
  return {getLaunch("cleave_copy_rows", x, y, 1, 256)};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

bool cleave::cuda::hasAttention(const AttentionSizes &sizes) {
  // Sixteen queries at least are a block, and a query's number is an int.
  return sizes.headDim > 0 && sizes.headDim <= 256 && sizes.batch <= maxGrid &&
         sizes.seq <= 16 * maxGrid;
}

/// The narrowest class of tiles that a head fits into.
template <class Tile, int Count>
static int getClass(const Tile (&tiles)[Count], int64_t dim) {
  for (int i = 0; i < Count; ++i)
    if (dim <= tiles[i].dim)
      return i;
  assert(false && "hasAttention() is false");
  return Count - 1;
}

static bool isPlain(const AttentionSizes &sizes, ElementType type) {
  return type == ElementType::F32 || sizes.headDim % 8 != 0;
}

/// What follows a kernel's name: f32_d64, bf16_d64, or bf16_any_d64 where the
/// head dim rules tensor cores out.
static std::string getSuffix(const AttentionSizes &sizes, ElementType type) {
  std::string name = getName(type);
  if (!isPlain(sizes, type))
    return name + "_d" +
           std::to_string(
               forwardTiles[getClass(forwardTiles, sizes.headDim)].dim);
  return name + (type == ElementType::BF16 ? "_any" : "") + "_d" +
         std::to_string(plainTiles[getClass(plainTiles, sizes.headDim)].dim);
}

static bool isEmpty(const AttentionSizes &sizes) {
  return sizes.batch <= 0 || sizes.seq <= 0 || sizes.heads <= 0;
}

std::vector<KernelLaunch>
cleave::cuda::getAttentionLaunches(const AttentionSizes &sizes,
                                   ElementType type) {
  if (isEmpty(sizes))
    return {};
  std::string symbol = "cleave_attention_" + getSuffix(sizes, type);
  auto over = [&](int rows, int threads, int bytes) {
    return getLaunch(symbol, sizes.heads, ceilDiv(sizes.seq, rows), sizes.batch,
                     threads, bytes);
  };
  if (isPlain(sizes, type)) {
    PlainTile t = plainTiles[getClass(plainTiles, sizes.headDim)];
    return {over(t.getRows(), plainThreads, getPlainForwardBytes(t))};
  }
  TensorTile t = forwardTiles[getClass(forwardTiles, sizes.headDim)];
  return {over(t.getRows(), t.getThreads(), getForwardBytes(t))};
}

std::vector<KernelLaunch>
cleave::cuda::getAttentionGradLaunches(const AttentionSizes &sizes,
                                       ElementType type) {
  if (isEmpty(sizes))
    return {};
  std::string suffix = getSuffix(sizes, type);
  auto over = [&](const char *name, int64_t heads, int rows, int threads,
                  int bytes) {
    return getLaunch(name + suffix, heads, ceilDiv(sizes.seq, rows),
                     sizes.batch, threads, bytes);
  };
  const char *keys = "cleave_part_attention_keys_";
  const char *queries = "cleave_attention_grad_";
  std::vector<KernelLaunch> launches = {getLaunch(
      "cleave_part_attention_delta_" + getName(type),
      ceilDiv(sizes.batch * sizes.seq * sizes.heads, deltaThreads / 32), 1, 1,
      deltaThreads)};
  if (isPlain(sizes, type)) {
    PlainTile t = plainTiles[getClass(plainTiles, sizes.headDim)];
    int bytes = getPlainGradBytes(t);
    launches.push_back(
        over(keys, sizes.kvHeads, t.getRows(), plainThreads, bytes));
    launches.push_back(
        over(queries, sizes.heads, t.getRows(), plainThreads, bytes));
    return launches;
  }
  TensorTile k = keyTiles[getClass(keyTiles, sizes.headDim)];
  TensorTile q = queryTiles[getClass(queryTiles, sizes.headDim)];
  launches.push_back(over(keys, sizes.kvHeads, k.getRows(), k.getThreads(),
                          getKeyGradBytes(k)));
  launches.push_back(over(queries, sizes.heads, q.getRows(), q.getThreads(),
                          getQueryGradBytes(q)));
  return launches;
}

size_t cleave::cuda::getAttentionGradScratch(const AttentionSizes &sizes) {
  return size_t(4 * sizes.batch * sizes.heads * sizes.seq);
}
