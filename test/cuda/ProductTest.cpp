//===- ProductTest.cpp - The simulated cuBLASLt against a plain product ---===//
#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/cpu/ThreadPool.h"
#include "test/cuda/Simulated.h"
#include <cstring>
#include <random>

using namespace cleave::simulated;
namespace cpu = cleave::cpu;

namespace {

/// `C[m,n] (+)= op(A) op(B) + bias`, row-major, as the product asks for it:
/// cuBLASLt's A is our B, and its B our A. In memory rows have `gap` elements
/// between them.
struct Case {
  int64_t m, n, k;
  bool transA, transB, hasBias, accumulate, isBf16;
  int64_t gap;
};

using cpu::toBf16;

/// A row-major matrix of small integers, whose products are exact.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, int64_t gap, bool isBf16,
         std::mt19937 &random)
      : rows(rows), columns(columns), stride(columns + gap), isBf16(isBf16),
        values(size_t(rows * stride), -77) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        at(r, c) = float(int(random() % 7) - 3);
  }
  float &at(int64_t r, int64_t c) { return values[size_t(r * stride + c)]; }
  Address upload(const Simulation &machine) const {
    if (!isBf16)
      return machine.upload(values);
    std::vector<uint16_t> narrow;
    for (float value : values)
      narrow.push_back(toBf16(value));
    return machine.upload(narrow);
  }
  void *makeLayout() const {
    void *layout = nullptr;
    EXPECT_EQ(Libraries::get().cublasLt.layoutCreate(
                  &layout, isBf16 ? dataBF16 : dataF32, uint64_t(columns),
                  uint64_t(rows), stride),
              0);
    return layout;
  }

  int64_t rows, columns, stride;
  bool isBf16;
  std::vector<float> values;
};

void *makeDescriptor(bool transA, bool transB) {
  const CublasLtApi &lt = Libraries::get().cublasLt;
  void *descriptor = nullptr;
  EXPECT_EQ(lt.descCreate(&descriptor, computeF32, dataF32), 0);
  int a = transA ? operationT : operationN,
      b = transB ? operationT : operationN;
  EXPECT_EQ(lt.descSet(descriptor, descTransA, &a, sizeof a), 0);
  EXPECT_EQ(lt.descSet(descriptor, descTransB, &b, sizeof b), 0);
  return descriptor;
}

/// Of D's type.
void setBias(void *descriptor, Address bias) {
  const CublasLtApi &lt = Libraries::get().cublasLt;
  int epilogue = epilogueBias;
  EXPECT_EQ(lt.descSet(descriptor, descEpilogue, &epilogue, 4), 0);
  EXPECT_EQ(lt.descSet(descriptor, descBiasPointer, &bias, 8), 0);
}

class Product {
public:
  Product(const Case &test, uint64_t seed) : test(test), random(seed) {}

  /// Runs it with each algorithm that the library offers.
  void check() {
    const CublasLtApi &lt = Libraries::get().cublasLt;
    void *handle = nullptr, *preference = nullptr;
    ASSERT_EQ(lt.create(&handle), 0);
    ASSERT_EQ(lt.preferenceCreate(&preference), 0);
    uint64_t most = 4 << 20;
    ASSERT_EQ(lt.preferenceSet(preference, preferenceMaxWorkspace, &most, 8),
              0);
    void *descriptor = makeDescriptor(test.transB, test.transA);
    if (test.hasBias)
      setBias(descriptor, bias.upload(machine));
    void *layoutA = a.makeLayout(), *layoutB = b.makeLayout(),
         *layoutC = c.makeLayout();
    MatmulHeuristic found[8];
    int count = 0;
    ASSERT_EQ(lt.getHeuristic(handle, descriptor, layoutB, layoutA, layoutC,
                              layoutC, preference, 8, found, &count),
              0);
    ASSERT_GE(count, 3);
    Address placeA = a.upload(machine), placeB = b.upload(machine);
    Address workspace = machine.allocate(most);
    void *stream = machine.makeStream();
    float one = 1, beta = test.accumulate ? 1 : 0;
    auto toPointer = [](Address address) {
      return reinterpret_cast<void *>(uintptr_t(address));
    };
    for (int i = 0; i < count; ++i) {
      Address placeC = c.upload(machine);
      ASSERT_EQ(lt.matmul(handle, descriptor, &one, toPointer(placeB), layoutB,
                          toPointer(placeA), layoutA, &beta, toPointer(placeC),
                          layoutC, toPointer(placeC), layoutC, &found[i].algo,
                          toPointer(workspace), found[i].workspaceBytes,
                          stream),
                0);
      ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
      compare(placeC);
    }
    EXPECT_EQ(lt.layoutDestroy(layoutA), 0);
    EXPECT_EQ(lt.layoutDestroy(layoutB), 0);
    EXPECT_EQ(lt.layoutDestroy(layoutC), 0);
    EXPECT_EQ(lt.descDestroy(descriptor), 0);
    EXPECT_EQ(lt.preferenceDestroy(preference), 0);
    EXPECT_EQ(lt.destroy(handle), 0);
  }

private:
  float compute(int64_t i, int64_t j) {
    float sum = test.accumulate ? c.at(i, j) : 0;
    sum += test.hasBias ? bias.at(0, j) : 0;
    for (int64_t l = 0; l < test.k; ++l)
      sum += (test.transA ? a.at(l, i) : a.at(i, l)) *
             (test.transB ? b.at(j, l) : b.at(l, j));
    return sum;
  }
  /// All of it, what lies between its rows included.
  void compare(Address place) {
    std::vector<float> wide;
    std::vector<uint16_t> narrow;
    if (test.isBf16)
      narrow = machine.download<uint16_t>(place, c.values.size());
    else
      wide = machine.download<float>(place, c.values.size());
    for (int64_t i = 0; i < test.m; ++i)
      for (int64_t j = 0; j < c.stride; ++j) {
        size_t at = size_t(i * c.stride + j);
        float expected = j < test.n ? compute(i, j) : c.values[at];
        if (test.isBf16)
          ASSERT_EQ(narrow[at], toBf16(expected)) << i << ", " << j;
        else
          ASSERT_EQ(wide[at], expected) << i << ", " << j;
      }
  }

  Case test;
  std::mt19937 random;
  Simulation machine;
  Matrix a{test.transA ? test.k : test.m, test.transA ? test.m : test.k,
           test.gap, test.isBf16, random};
  Matrix b{test.transB ? test.n : test.k, test.transB ? test.k : test.n,
           test.gap, test.isBf16, random};
  Matrix c{test.m, test.n, test.gap, test.isBf16, random};
  Matrix bias{1, test.n, 0, test.isBf16, random};
};

TEST(Product, AgainstPlainProduct) {
  EXPECT_EQ(Libraries::get().cublasLt.getVersion(), 130100u);
  for (unsigned bits = 0; bits < 64; ++bits) {
    auto bit = [&](int i) { return (bits >> i & 1) != 0; };
    Product({5, 7, 4, bit(0), bit(1), bit(2), bit(3), bit(4), bit(5) ? 3 : 0},
            bits)
        .check();
    if (testing::Test::HasFailure())
      return;
  }
}

/// Numbers whose sums depend on their order, in the machine's memory and for
/// the CPU.
struct Numbers {
  Numbers(const Simulation &machine, size_t count, bool isBf16,
          std::mt19937 &random) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < count; ++i) {
      wide.push_back(normal(random));
      narrow.push_back(toBf16(wide.back()));
    }
    address = isBf16 ? machine.upload(narrow) : machine.upload(wide);
    data = isBf16 ? static_cast<void *>(narrow.data()) : wide.data();
  }
  void *getPointer() const {
    return reinterpret_cast<void *>(uintptr_t(address));
  }

  std::vector<float> wide;
  std::vector<uint16_t> narrow;
  Address address;
  void *data;
};

/// The very bits of the CPU's product. It is given the bias in f32, and the
/// library in the type of C.
void compareBits(bool isBf16, bool isBf16C, bool hasBias, bool accumulate) {
  const CublasLtApi &lt = Libraries::get().cublasLt;
  constexpr int64_t m = 40, n = 56, k = 1000;
  std::mt19937 random(isBf16 + 2 * isBf16C + 4 * hasBias + 8 * accumulate);
  Simulation machine{{"THREADS", "2"}};
  Numbers a(machine, m * k, isBf16, random), b(machine, k * n, isBf16, random),
      c(machine, m * n, isBf16C, random), bias(machine, n, isBf16C, random);

  void *handle = nullptr, *layoutA = nullptr, *layoutB = nullptr,
       *layoutC = nullptr;
  ASSERT_EQ(lt.create(&handle), 0);
  void *descriptor = makeDescriptor(false, false);
  if (hasBias)
    setBias(descriptor, bias.address);
  int type = isBf16 ? dataBF16 : dataF32;
  ASSERT_EQ(lt.layoutCreate(&layoutA, type, k, m, k), 0);
  ASSERT_EQ(lt.layoutCreate(&layoutB, type, n, k, n), 0);
  ASSERT_EQ(lt.layoutCreate(&layoutC, isBf16C ? dataBF16 : dataF32, n, m, n),
            0);
  float one = 1, beta = accumulate ? 1 : 0;
  ASSERT_EQ(lt.matmul(handle, descriptor, &one, b.getPointer(), layoutB,
                      a.getPointer(), layoutA, &beta, c.getPointer(), layoutC,
                      c.getPointer(), layoutC, nullptr, nullptr, 0, nullptr),
            0);

  cpu::GemmArgs args{};
  args.m = m;
  args.n = n;
  args.k = k;
  args.typeA = args.typeB =
      isBf16 ? cpu::ElementType::BF16 : cpu::ElementType::F32;
  args.typeC = isBf16C ? cpu::ElementType::BF16 : cpu::ElementType::F32;
  args.a = a.data;
  args.b = b.data;
  args.c = c.data;
  args.bias = hasBias ? bias.wide.data() : nullptr;
  args.accumulate = accumulate;
  cpu::ThreadPool pool(1);
  std::vector<float> storage(
      cpu::getGemmWorkspace(m, n, k, args.typeC).bytes / 4 + 16);
  uintptr_t workspace = (uintptr_t(storage.data()) + 63) / 64 * 64;
  cpu::gemm(args, reinterpret_cast<void *>(workspace), pool);
  if (isBf16C)
    EXPECT_EQ(machine.download<uint16_t>(c.address, m * n), c.narrow);
  else
    EXPECT_EQ(machine.download<float>(c.address, m * n), c.wide);
}

TEST(Product, BitsOfTheCpu) {
  for (bool hasBias : {false, true})
    for (bool accumulate : {false, true}) {
      compareBits(false, false, hasBias, accumulate);
      compareBits(true, false, hasBias, accumulate);
      compareBits(true, true, hasBias, accumulate);
    }
}

/// An algorithm counts on what was said of the operands' alignment.
TEST(Product, Alignment) {
  const CublasLtApi &lt = Libraries::get().cublasLt;
  Simulation machine;
  Address place = machine.allocate(1024);
  void *handle = nullptr, *preference = nullptr, *layout = nullptr;
  ASSERT_EQ(lt.create(&handle), 0);
  ASSERT_EQ(lt.preferenceCreate(&preference), 0);
  ASSERT_EQ(lt.layoutCreate(&layout, dataF32, 4, 4, 4), 0);
  void *descriptor = makeDescriptor(false, false);
  auto multiply = [&](uint64_t offsetB, uint64_t offsetBias) {
    if (offsetBias > 0)
      setBias(descriptor, place + 512 + offsetBias);
    MatmulHeuristic found;
    int count = 0;
    EXPECT_EQ(lt.getHeuristic(handle, descriptor, layout, layout, layout,
                              layout, preference, 1, &found, &count),
              0);
    auto point = [&](uint64_t offset) {
      return reinterpret_cast<void *>(uintptr_t(place + offset));
    };
    float one = 1, zero = 0;
    return lt.matmul(handle, descriptor, &one, point(0), layout,
                     point(128 + offsetB), layout, &zero, point(256), layout,
                     point(256), layout, &found.algo, nullptr, 0, nullptr);
  };
  EXPECT_EQ(multiply(0, 0), 0);
  EXPECT_EQ(multiply(16, 0), 0);
  EXPECT_EQ(multiply(4, 0), 7);
  constexpr int alignmentB = 6;
  uint32_t bytes = 4;
  ASSERT_EQ(lt.preferenceSet(preference, alignmentB, &bytes, 4), 0);
  EXPECT_EQ(multiply(4, 0), 0);
  bytes = 3;
  EXPECT_EQ(lt.preferenceSet(preference, alignmentB, &bytes, 4), 7);
  EXPECT_EQ(multiply(0, 16), 0);
  EXPECT_EQ(multiply(0, 4), 7);
}

/// What the library refuses, and with which status.
TEST(Product, Refusals) {
  const CublasLtApi &lt = Libraries::get().cublasLt;
  Simulation machine;
  void *handle = nullptr, *preference = nullptr, *descriptor = nullptr;
  EXPECT_EQ(lt.descCreate(&descriptor, 77, dataF32), 15);
  ASSERT_EQ(lt.create(&handle), 0);
  ASSERT_EQ(lt.preferenceCreate(&preference), 0);
  descriptor = makeDescriptor(false, false);
  auto ask = [&](std::vector<int> types, uint64_t inner, int64_t ld) {
    void *layouts[3];
    EXPECT_EQ(lt.layoutCreate(&layouts[0], types[0], 4, 3, ld), 0);
    EXPECT_EQ(lt.layoutCreate(&layouts[1], types[1], inner, 5, 3), 0);
    EXPECT_EQ(lt.layoutCreate(&layouts[2], types[2], 4, 5, 4), 0);
    MatmulHeuristic found[2];
    int count = 0;
    int status =
        lt.getHeuristic(handle, descriptor, layouts[0], layouts[1], layouts[2],
                        layouts[2], preference, 2, found, &count);
    EXPECT_EQ(count, status == 0 ? 1 : 0);
    return status;
  };
  EXPECT_EQ(ask({dataF32, dataF32, dataF32}, 3, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataBF16, dataF32}, 3, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataF32, dataF32}, 3, 4), 15);
  EXPECT_EQ(ask({dataF32, dataF32, dataBF16}, 3, 4), 15);
  EXPECT_EQ(ask({dataF32, dataF32, dataF32}, 3, 3), 7);
  EXPECT_EQ(ask({dataF32, dataF32, dataF32}, 2, 4), 7);
  // A bias is of D's type where nobody says otherwise.
  int epilogue = epilogueBias;
  ASSERT_EQ(lt.descSet(descriptor, descEpilogue, &epilogue, 4), 0);
  EXPECT_EQ(ask({dataF32, dataF32, dataF32}, 3, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataBF16, dataBF16}, 3, 4), 0);
  int type = dataF32;
  ASSERT_EQ(lt.descSet(descriptor, descBiasType, &type, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataBF16, dataF32}, 3, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataBF16, dataBF16}, 3, 4), 15);
  type = dataBF16;
  ASSERT_EQ(lt.descSet(descriptor, descBiasType, &type, 4), 0);
  EXPECT_EQ(ask({dataBF16, dataBF16, dataBF16}, 3, 4), 0);
  EXPECT_EQ(ask({dataF32, dataF32, dataF32}, 3, 4), 15);
}

} // namespace
