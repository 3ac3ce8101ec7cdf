//===- CudnnAttention.h - Attention by cuDNN ------------------------------===//
//
// Attention and its gradient as graphs for which cuDNN has one fused engine
// each: causal, in bf16, with a sliding window or without. What it has no
// engine for is left to the kernels of kernels/; the two agree on the log-sum-
// exp, so one may compute out and the other its gradients.
//
// The engine that cuDNN thinks fastest adds up dq in an order that differs from
// run to run, so a gradient in a fixed order is left to the kernels too. Its
// deterministic one keeps all of dscore: 4.4 GB where the other takes 0.3 GB,
// of batch 4, sequence 4096 and 32 heads of 64.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUDNNATTENTION_H
#define CLEAVE_RUNTIME_CUDA_CUDNNATTENTION_H

#include "runtime/cuda/Cudnn.h"
#include "runtime/cuda/kernels/Kernels.h"
#include <map>
#include <tuple>

namespace cleave::runtime::cuda {

/// One direction for one shape.
class CudnnAttention {
public:
  /// Fails where cuDNN has no engine for it.
  static Status create(const CudnnTarget &target,
                       const cleave::cuda::AttentionSizes &sizes, bool isGrad,
                       std::unique_ptr<CudnnAttention> &made);

  /// Of scratch, aligned to 256 bytes.
  uint64_t getScratchBytes() const;

  /// Enqueues it on the handle's stream.
  Status run(const cleave::cuda::AttentionParams &params,
             Address scratch) const;
  Status run(const cleave::cuda::AttentionGradParams &params) const;

private:
  CudnnAttention(const CudnnTarget &target,
                 const cleave::cuda::AttentionSizes &sizes)
      : target(target), sizes(sizes) {}

  void addForward(CudnnGraph &graph) const;
  void addBackward(CudnnGraph &graph) const;
  CudnnGraph::Tensor addMask(CudnnGraph &graph,
                             CudnnGraph::Tensor scores) const;
  bool hasWindow() const {
    return sizes.window > 0 && sizes.window < sizes.seq;
  }
  Status runPlan(std::vector<int64_t> ids, std::vector<const void *> pointers,
                 Address workspace) const;

  CudnnTarget target;
  cleave::cuda::AttentionSizes sizes;
  CudnnPlan plan;
  /// Of the gradient: where in scratch it sums dq, and dout * out.
  uint64_t dqOffset = 0, deltaOffset = 0, sumBytes = 0;
};

/// What an instruction asks for.
struct AttentionRequest {
  cleave::cuda::AttentionSizes sizes;
  bool isBF16 = false, isGrad = false;
  bool fixedOrder = false; ///< the same bits on each rank that computes it
};

/// All attention of a device, and who computes it.
class CudnnAttentions {
public:
  CudnnAttentions() = default;
  ~CudnnAttentions();
  CudnnAttentions(const CudnnAttentions &) = delete;
  CudnnAttentions &operator=(const CudnnAttentions &) = delete;

  /// Built once for each shape, on the thread whose GPU it is. Null: the
  /// kernels of our own compute it. By the environment variable
  /// CLEAVE_ATTENTION: "own" never asks cuDNN, "cudnn" fails where it cannot,
  /// "auto" takes it where it can and `mostScratch` bytes are enough. It cannot
  /// where the order of sums is fixed.
  Status find(const AttentionRequest &request, uint64_t mostScratch,
              const CudnnAttention *&found);
  /// "9.19.0" or "none": which cuDNN may compute attention here.
  Status getVersion(std::string &version);
  /// What is enqueued from now on goes to this stream.
  Status setStream(void *stream) const;

  /// "cuDNN 9.19.0", "own kernels (...)" with a reason; empty where there is
  /// none.
  std::string describe() const;

private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         float, float, bool, bool, bool>;

  Status open();
  Status openOnce() { return isOpen ? Status() : open(); }

  bool isOpen = false, isRequired = false;
  const Cudnn *library = nullptr;
  void *handle = nullptr;
  std::map<Key, std::unique_ptr<CudnnAttention>> made;
  std::string refusal; ///< the first
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUDNNATTENTION_H
