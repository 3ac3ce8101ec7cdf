//===- Product.cpp --------------------------------------------------------===//
#include "test/cuda/cublaslt/Product.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/cuda/CublasLtApi.h"
#include <algorithm>
#include <cstring>
#include <vector>

using namespace cleave::simulated;
using namespace cleave::runtime::cuda;
namespace cpu = cleave::cpu;

static uint64_t getElementBytes(int type) { return type == dataBF16 ? 2 : 4; }

static bool isFloat(int type) { return type == dataF32 || type == dataBF16; }

static std::string describe(const Layout &layout) {
  return std::to_string(layout.rows) + " x " + std::to_string(layout.columns) +
         " with ld " + std::to_string(layout.ld);
}

int Product::check(std::string &why) const {
  for (const Layout *layout : {&a, &b, &c, &d}) {
    if (!isFloat(layout->type)) {
      why = "data type " + std::to_string(layout->type);
      return statusNotSupported;
    }
    if (layout->rows == 0 || layout->columns == 0 ||
        layout->ld < int64_t(layout->rows)) {
      why = "a layout of " + describe(*layout);
      return statusInvalidValue;
    }
  }
  if (a.type != b.type || c.type != d.type ||
      (a.type == dataF32 && d.type != dataF32)) {
    why = "data types " + std::to_string(a.type) + ", " +
          std::to_string(b.type) + ", " + std::to_string(c.type) + ", " +
          std::to_string(d.type) + " of A, B, C, D";
    return statusNotSupported;
  }
  if (hasBias && getBiasType() != d.type) {
    why = "a bias of data type " + std::to_string(getBiasType()) +
          ", and D has " + std::to_string(d.type);
    return statusNotSupported;
  }
  if ((transB ? b.columns : b.rows) != getInner() || d.rows != getRows() ||
      d.columns != getColumns() || c.rows != d.rows || c.columns != d.columns) {
    why = "A " + describe(a) + (transA ? " transposed" : "") + ", B " +
          describe(b) + (transB ? " transposed" : "") + ", C " + describe(c) +
          ", D " + describe(d);
    return statusInvalidValue;
  }
  return statusSuccess;
}

uint64_t Product::getHash() const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  mix(transA | transB << 1 | hasBias << 2);
  for (const Layout *layout : {&a, &b, &c, &d}) {
    mix(uint64_t(layout->type));
    mix(layout->rows);
    mix(layout->columns);
    mix(uint64_t(layout->ld));
  }
  return hash;
}

namespace {

/// A matrix in device memory, as the CPU's row-major one of `columns` rows that
/// follow each other without a gap.
class Matrix {
public:
  Matrix(const Layout &layout, Address address, const char *name,
         Execution &execution)
      : layout(layout) {
    uint64_t element = getElementBytes(layout.type);
    row = layout.rows * element;
    stride = uint64_t(layout.ld) * element;
    place =
        execution.translate(address, (layout.columns - 1) * stride + row, name);
  }
  void *pack() {
    if (row == stride)
      return place;
    packed.resize(layout.columns * row);
    for (uint64_t i = 0; i < layout.columns; ++i)
      std::memcpy(packed.data() + i * row, place + i * stride, row);
    return packed.data();
  }
  void unpack() {
    if (row == stride)
      return;
    for (uint64_t i = 0; i < layout.columns; ++i)
      std::memcpy(place + i * stride, packed.data() + i * row, row);
  }

private:
  const Layout &layout;
  uint64_t row, stride;
  std::byte *place;
  std::vector<std::byte> packed;
};

cpu::ElementType toElementType(int type) {
  return type == dataBF16 ? cpu::ElementType::BF16 : cpu::ElementType::F32;
}

/// A vector as f32; nothing of null.
std::vector<float> widen(const std::byte *values, int type, uint64_t count) {
  std::vector<float> wide;
  for (uint64_t i = 0; values && i < count; ++i) {
    if (type == dataBF16) {
      uint16_t value;
      std::memcpy(&value, values + i * sizeof value, sizeof value);
      wide.push_back(cpu::fromBf16(value));
    } else {
      float value;
      std::memcpy(&value, values + i * sizeof value, sizeof value);
      wide.push_back(value);
    }
  }
  return wide;
}

class ProductWork : public Work {
public:
  ProductWork(const Product &product, const ProductAddresses &at)
      : product(product), at(at) {}

  std::string getName() const override {
    return "product of " + std::to_string(product.getRows()) + " x " +
           std::to_string(product.getInner()) + " x " +
           std::to_string(product.getColumns());
  }

  /// What is column-major is the transpose of what is row-major in the same
  /// bytes, so D^T = op(B)^T op(A)^T is the CPU's product of B and A.
  Progress execute(Execution &execution) const override {
    Matrix a(product.a, at.a, "A", execution),
        b(product.b, at.b, "B", execution), d(product.d, at.d, "D", execution);
    uint64_t rows = product.getRows();
    const std::byte *given =
        product.hasBias
            ? execution.translate(at.bias,
                                  rows * getElementBytes(product.getBiasType()),
                                  "the bias")
            : nullptr;
    std::byte *workspace =
        execution.translate(at.workspace, at.workspaceBytes, "the workspace");
    if (execution.hasFailed())
      return Progress::Done;
    // An algorithm may leave anything there. Its ends stand for the rest, which
    // would take longer than the product.
    uint64_t end = std::min<uint64_t>(at.workspaceBytes, 64 << 10);
    std::memset(workspace, 0xff, end);
    std::memset(workspace + at.workspaceBytes - end, 0xff, end);
    std::vector<float> bias = widen(given, product.getBiasType(), rows);
    cpu::GemmArgs args{};
    args.m = int64_t(product.getColumns());
    args.n = int64_t(product.getRows());
    args.k = int64_t(product.getInner());
    args.transA = product.transB;
    args.transB = product.transA;
    args.typeA = args.typeB = toElementType(product.a.type);
    args.typeC = toElementType(product.d.type);
    args.a = b.pack();
    args.b = a.pack();
    args.c = d.pack();
    args.bias = product.hasBias ? bias.data() : nullptr;
    args.accumulate = at.accumulate;
    execution.multiply(args);
    d.unpack();
    return Progress::Done;
  }

private:
  Product product;
  ProductAddresses at;
};

} // namespace

Work *cleave::simulated::makeProductWork(const Product &product,
                                         const ProductAddresses &addresses) {
  return new ProductWork(product, addresses);
}
