//===- Product.h - One product as cuBLASLt is asked for it ----------------===//
#ifndef CLEAVE_TEST_CUDA_CUBLASLT_PRODUCT_H
#define CLEAVE_TEST_CUDA_CUBLASLT_PRODUCT_H

#include "runtime/cuda/CublasLtApi.h"
#include "test/cuda/driver/Work.h"
#include <string>

namespace cleave::simulated {

// cublasStatus_t
constexpr int statusSuccess = 0;
using runtime::cuda::statusExecutionFailed;
using runtime::cuda::statusInvalidValue;
using runtime::cuda::statusNotSupported;

/// A column-major matrix in memory: element (r, c) lies at r + c * ld.
struct Layout {
  int type = 0; ///< a cudaDataType
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
};

/// `D = op(A) op(B) + beta C + bias`, all column-major.
struct Product {
  bool transA = false, transB = false;
  bool hasBias = false;
  int biasType = -1; ///< -1: D's
  Layout a, b, c, d;

  int getBiasType() const { return biasType < 0 ? d.type : biasType; }
  /// A status; `why` says what is wrong.
  int check(std::string &why) const;
  uint64_t getRows() const { return transA ? a.columns : a.rows; }
  uint64_t getInner() const { return transA ? a.rows : a.columns; }
  uint64_t getColumns() const { return transB ? b.rows : b.columns; }
  /// Two products of different sizes, types or transposes have different ones.
  uint64_t getHash() const;
};

/// Where the matrices of a product lie.
struct ProductAddresses {
  Address a = 0, b = 0, d = 0, bias = 0;
  Address workspace = 0;
  uint64_t workspaceBytes = 0; ///< that the algorithm writes
  bool accumulate = false;     ///< beta is 1, and C is D
};

/// What a stream executes.
Work *makeProductWork(const Product &product,
                      const ProductAddresses &addresses);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_CUBLASLT_PRODUCT_H
