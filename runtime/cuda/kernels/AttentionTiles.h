//===- AttentionTiles.h - How attention is cut on the GPU -----------------===//
//
// Host and device read the same tables: the host chooses the narrowest tile
// that a head fits into, and launches the kernel made for it.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONTILES_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONTILES_H

namespace cleave::cuda {

/// A block of `warps` warps owns getRows() rows of the result (queries, or keys
/// for the gradients of k and v) and goes over the other side by `columns`. A
/// warp owns 16 `rowTiles` rows; `split` warps share them, each with its part
/// of the head dim. At least `blocks` blocks are to fit on a multiprocessor.
struct TensorTile {
  int dim; ///< the head dim, padded with zeros
  int warps, rowTiles, columns, split, blocks;

  constexpr int getThreads() const { return 32 * warps; }
  constexpr int getRows() const { return warps / split * 16 * rowTiles; }
};

/// bf16, on tensor cores. The accumulators of a warp are what registers allow:
/// `rowTiles` * dim / 2 numbers a thread forward and for dq, twice as many over
/// `split` for dk and dv, and 4 to 8 for each row tile and 8 columns.
constexpr int tensorClasses = 5;
constexpr TensorTile forwardTiles[tensorClasses] = {{64, 4, 2, 64, 1, 2},
                                                    {96, 4, 2, 32, 1, 2},
                                                    {128, 4, 2, 32, 1, 2},
                                                    {192, 8, 1, 64, 1, 1},
                                                    {256, 8, 1, 64, 1, 1}};
constexpr TensorTile keyTiles[tensorClasses] = {{64, 4, 2, 32, 1, 2},
                                                {96, 8, 1, 64, 1, 1},
                                                {128, 8, 1, 64, 1, 1},
                                                {192, 8, 1, 64, 2, 1},
                                                {256, 8, 1, 32, 2, 1}};
constexpr TensorTile queryTiles[tensorClasses] = {{64, 4, 2, 64, 1, 2},
                                                  {96, 4, 2, 32, 1, 2},
                                                  {128, 4, 2, 32, 1, 2},
                                                  {192, 4, 1, 32, 1, 2},
                                                  {256, 8, 1, 32, 1, 1}};

/// Shared memory in bytes. Forward: q, and k and v twice, so that the next is
/// loaded while one is used. Backward: two tiles of rows, two of columns twice,
/// and log-sum-exp and delta of the queries, which are dq's rows, and the
/// columns of dk and dv.
constexpr int getForwardBytes(TensorTile t) {
  return 2 * t.dim * (t.getRows() + 4 * t.columns);
}
constexpr int getGradTileBytes(TensorTile t) {
  return 2 * t.dim * (2 * t.getRows() + 4 * t.columns);
}
constexpr int getKeyGradBytes(TensorTile t) {
  return getGradTileBytes(t) + 16 * t.columns;
}
constexpr int getQueryGradBytes(TensorTile t) {
  return getGradTileBytes(t) + 8 * t.getRows();
}

/// f32, and bf16 whose head dim is no multiple of 8, by ordinary arithmetic:
/// 256 threads as 16 x 16, each with `per` x `per` scores of a tile.
struct PlainTile {
  int dim, per;

  constexpr int getRows() const { return 16 * per; }
  /// Of a tile's row, in numbers: odd, so that a column is free of conflicts.
  constexpr int getStride() const { return dim + 1; }
  constexpr int getScoreStride() const { return getRows() + 1; }
};
constexpr int plainThreads = 256;
constexpr int plainClasses = 3;
constexpr PlainTile plainTiles[plainClasses] = {{64, 4}, {128, 4}, {256, 2}};

constexpr int getPlainForwardBytes(PlainTile t) {
  return 4 * t.getRows() * (3 * t.getStride() + t.getScoreStride());
}
constexpr int getPlainGradBytes(PlainTile t) {
  return 4 * t.getRows() * (4 * t.getStride() + 2 * t.getScoreStride());
}

/// Threads of the kernel that computes delta, a row a warp.
constexpr int deltaThreads = 256;

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONTILES_H
