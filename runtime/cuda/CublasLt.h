//===- CublasLt.h - Matrix products by cuBLASLt ---------------------------===//
//
// The library is opened when a program runs, as the driver is. It thinks in
// column-major matrices: a row-major C[m,n] = op(A) op(B) is its
// C^T[n,m] = op(B)^T op(A)^T, so its A is our B and its B our A.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUBLASLT_H
#define CLEAVE_RUNTIME_CUDA_CUBLASLT_H

#include "runtime/base/Status.h"
#include "runtime/cuda/CublasLtApi.h"
#include "runtime/cuda/Driver.h"
#include "runtime/program/program_generated.h"
#include <array>
#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime::cuda {

/// The library of the process.
class CublasLt {
public:
  /// Of CUDA 13 and of CUDA 12.
  static constexpr std::array<const char *, 2> fileNames = {
      "libcublasLt.so.13", "libcublasLt.so.12"};

  /// Opens it at the first call, the newest that a driver of this version
  /// takes. Fails where it is missing or of another major version than 12 or
  /// 13, and says so.
  static Status open(int driverVersion, const CublasLt *&library);

  size_t getVersion() const { return version; }
  Status check(int result, const char *call, const char *file, int line) const;

  CublasLtApi api;

private:
  Status load(int driverVersion);

  size_t version = 0;
};

/// What a product is, but for where its operands lie: `C[m,n] (+)= op(A) op(B)
/// (+ bias[n])`, row-major, rows contiguous, as cpu::GemmArgs. A and B are of
/// one type; the bias is of C's.
struct MatmulShape {
  int64_t m, n, k;
  bool transA, transB;
  program::DType typeAB, typeC;
  bool hasBias;

  auto operator<=>(const MatmulShape &) const = default;
};

/// What operands are aligned to, in bytes, as far as algorithms count on it.
constexpr uint32_t matmulAlignment = 16;

/// "[m,k] x [k,n], bf16 -> f32"
std::string toString(const MatmulShape &shape);

struct MatmulOperands {
  Address a, b, bias, c;
  bool accumulate;
};

/// As text of so many digits, and back; false: `text` is of no algorithm.
constexpr size_t matmulAlgoDigits = 2 * sizeof(MatmulAlgo);
std::string toString(const MatmulAlgo &algorithm);
bool parse(std::string_view text, MatmulAlgo &algorithm);

/// A product of one shape, with the algorithm that computes it. Its descriptors
/// serve one call at a time.
class Matmul {
public:
  static Status create(const CublasLt &library, void *handle,
                       const MatmulShape &shape, std::unique_ptr<Matmul> &made);
  ~Matmul();
  Matmul(const Matmul &) = delete;
  Matmul &operator=(const Matmul &) = delete;

  /// What the library thinks fastest first, at most `most`, of those that get
  /// by with `workspaceBytes`. Fails where it has none.
  Status findAlgorithms(size_t workspaceBytes, int most,
                        std::vector<MatmulAlgo> &found);
  /// Fails where the library does not compute the product so, with at most
  /// `workspaceBytes`: an algorithm that another process was given for the same
  /// product and alignment.
  Status checkAlgorithm(const MatmulAlgo &algorithm,
                        size_t workspaceBytes) const;
  const MatmulShape &getShape() const { return shape; }
  void setAlgorithm(const MatmulAlgo &chosen) { algorithm = chosen; }
  const MatmulAlgo &getAlgorithm() const { return algorithm; }

  /// Enqueues it. cublasLtMatmul
  Status run(const MatmulOperands &operands, Address workspace,
             size_t workspaceBytes, void *stream);

private:
  Matmul(const CublasLt &library, void *handle, const MatmulShape &shape)
      : library(library), handle(handle), shape(shape) {}

  const CublasLt &library;
  void *handle;
  MatmulShape shape;
  void *description = nullptr, *layoutA = nullptr, *layoutB = nullptr,
       *layoutC = nullptr;
  MatmulAlgo algorithm{};
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUBLASLT_H
