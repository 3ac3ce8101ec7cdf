//===- Cudnn.h - Graphs of operations by cuDNN ----------------------------===//
//
// The library is opened when a program runs, and what it offers is optional: a
// machine without it uses kernels of our own. It is given a graph of small
// operations on tensors and looks for an engine that computes all of them as
// one; the tensors between them are virtual, so they take no memory.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUDNN_H
#define CLEAVE_RUNTIME_CUDA_CUDNN_H

#include "runtime/base/Status.h"
#include "runtime/cuda/CudnnApi.h"
#include "runtime/cuda/Driver.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime::cuda {

/// The library of the process.
class Cudnn {
public:
  static constexpr const char *fileName = "libcudnn.so.9";
  /// Before it the sum of dq had to be cleared by the caller.
  static constexpr size_t oldest = 90600;
  /// Have errors in attention that their makers warn of.
  static constexpr std::array<size_t, 3> wrongVersions = {91000, 91001, 91400};

  /// Opens it at the first call. Where there is none that can be used,
  /// `library` becomes null and `absence` says why.
  static void open(const Cudnn *&library, std::string &absence);

  /// 91900 for 9.19.0
  size_t getVersion() const { return version; }
  std::string getVersionText() const { return getVersionText(version); }
  static std::string getVersionText(size_t version);
  /// Fails for one whose attention cannot be used.
  static Status checkVersion(size_t version);
  Status check(int result, const char *call, const char *file, int line) const;

  CudnnApi api;

private:
  Status load();

  size_t version = 0;
};

/// Returns an error that names the call, where a call of the library fails.
#define CLEAVE_CUDNN(library, call)                                            \
  CLEAVE_RETURN_IF_ERROR(                                                      \
      (library).check((library).api.call, #call, __FILE__, __LINE__))

/// What plans are made for.
struct CudnnTarget {
  const Cudnn &library;
  void *handle = nullptr; ///< of the GPU that is current
  /// Where there is no handle: a descriptor of a GPU that is elsewhere. Its
  /// plans cannot be run.
  void *device = nullptr;
};

/// Something that the library has made, with what is set and read of it.
class CudnnDescriptor {
public:
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor &&other) noexcept { swap(other); }
  CudnnDescriptor &operator=(CudnnDescriptor &&other) noexcept {
    swap(other);
    return *this;
  }
  ~CudnnDescriptor();

  static Status create(const Cudnn &library, cudnn::DescriptorType type,
                       CudnnDescriptor &made);
  Status set(cudnn::Attribute attribute, cudnn::ValueType type, int64_t count,
             const void *values);
  template <typename T>
  Status set(cudnn::Attribute attribute, cudnn::ValueType type,
             const T &value) {
    return set(attribute, type, 1, static_cast<const void *>(&value));
  }
  template <typename T>
  Status set(cudnn::Attribute attribute, cudnn::ValueType type,
             const std::vector<T> &values) {
    return set(attribute, type, int64_t(values.size()),
               static_cast<const void *>(values.data()));
  }
  /// Nothing is set any more.
  Status finalize();
  void *get() const { return handle; }

private:
  void swap(CudnnDescriptor &other) noexcept {
    std::swap(library, other.library);
    std::swap(handle, other.handle);
  }

  const Cudnn *library = nullptr;
  void *handle = nullptr;
};

/// A graph that has been given an engine.
class CudnnPlan {
public:
  uint64_t getWorkspaceBytes() const { return workspaceBytes; }

  /// Enqueues it on the handle's stream. `pointers` are those of the tensors
  /// `ids`: on the GPU, or on the host for a tensor by value, which has been
  /// read on return. cudnnBackendExecute
  Status run(const CudnnTarget &target, const std::vector<int64_t> &ids,
             const std::vector<const void *> &pointers,
             Address workspace) const;

private:
  friend class CudnnGraph;
  CudnnDescriptor plan;
  uint64_t workspaceBytes = 0;
};

/// Builds a graph. The first call that fails is kept for the last; those
/// between do nothing.
class CudnnGraph {
public:
  using Dims = std::array<int64_t, 4>;
  using Tensor = void *;

  explicit CudnnGraph(const Cudnn &library) : library(library) {}

  /// In memory; `id` is for CudnnPlan::run.
  Tensor addTensor(int64_t id, cudnn::DataType type, const Dims &dims,
                   const Dims &strides);
  /// One number, of the host.
  Tensor addScalar(int64_t id, cudnn::DataType type);
  /// Between operations. Contiguous, or of other strides.
  Tensor addVirtual(cudnn::DataType type, const Dims &dims);
  Tensor addVirtual(cudnn::DataType type, const Dims &dims,
                    const Dims &strides);

  /// c = a b, of the two last dims; heads of b may stand for several of a.
  void addMatmul(Tensor a, Tensor b, Tensor c);
  /// y = x op b, or op x; for a selection `t ? x : b`. All but comparisons,
  /// which yield booleans, are computed in f32.
  void addPointwise(cudnn::PointwiseMode mode, Tensor x, Tensor b, Tensor y,
                    Tensor t = nullptr);
  /// y = each element's index along a dim, in the shape of x.
  void addIndex(int64_t dim, Tensor x, Tensor y);
  /// y = x reduced over the dims in which y has fewer elements.
  void addReduction(cudnn::ReduceMode mode, Tensor x, Tensor y);
  /// y = x in other strides or of another type.
  void addReshape(Tensor x, Tensor y);

  /// The engine that the library thinks fastest of those that can be built.
  /// Fails where it has none.
  Status build(const CudnnTarget &target, CudnnPlan &plan);

private:
  Tensor addTensor(int64_t id, cudnn::DataType type, const Dims &dims,
                   const Dims &strides, bool isVirtual, bool isByValue);
  Status makeTensor(int64_t id, cudnn::DataType type, const Dims &dims,
                    const Dims &strides, bool isVirtual, bool isByValue,
                    CudnnDescriptor &made) const;
  Status addPointwise(CudnnDescriptor &pointwise, Tensor x, Tensor b, Tensor y,
                      Tensor t);
  Status makeOperation(
      cudnn::DescriptorType type,
      std::initializer_list<std::pair<cudnn::Attribute, Tensor>> operands);
  Status findConfigs(const CudnnTarget &target, const CudnnDescriptor &graph,
                     std::vector<CudnnDescriptor> &configs) const;
  static Status tryPlan(const CudnnTarget &target,
                        const CudnnDescriptor &config, CudnnPlan &plan);
  /// Runs `body` unless something has failed.
  template <typename Body>
  void attempt(const Body &body) {
    if (status.ok())
      status = body();
  }

  const Cudnn &library;
  Status status;
  int64_t lastVirtual = 1000; ///< ids of virtual tensors begin behind it
  std::vector<CudnnDescriptor> parts; ///< all but the operations
  std::vector<CudnnDescriptor> operations;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUDNN_H
