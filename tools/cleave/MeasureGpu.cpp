//===- MeasureGpu.cpp -----------------------------------------------------===//
#include "MeasureGpu.h"
#include "Measure.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/RandomNumbers.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::tool;
using namespace cleave::runtime::cuda;
using runtime::Status;
namespace fb = cleave::program;

/// What rotating operands take together, so that none is in a cache when its
/// turn comes again: several times the largest L2.
static constexpr uint64_t coldBytes = uint64_t(512) << 20;

Status Gpu::open(std::unique_ptr<Gpu> &gpu) {
  auto opened = std::make_unique<Gpu>();
  CLEAVE_RETURN_IF_ERROR(opened->open());
  gpu = std::move(opened);
  return Status();
}

Status Gpu::open() {
  std::string absence;
  CLEAVE_RETURN_IF_ERROR(Driver::open(driver, absence));
  if (!driver)
    return Status::error(absence);
  CLEAVE_RETURN_IF_ERROR(Context::create(*driver, 0, context));
  CLEAVE_RETURN_IF_ERROR(context->createStream(stream));
  CLEAVE_RETURN_IF_ERROR(context->createEvent(true, begin));
  CLEAVE_RETURN_IF_ERROR(context->createEvent(true, end));
  CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(
      *context, matmulWorkspace, "the workspace of products", workspace));
  CLEAVE_RETURN_IF_ERROR(CublasLt::open(driver->getVersion(), cublasLt));
  return cublasLt->check(cublasLt->api.create(&matmulHandle), "create",
                         __FILE__, __LINE__);
}

Gpu::~Gpu() {
  if (matmulHandle)
    cublasLt->api.destroy(matmulHandle);
}

Status Gpu::allocate(uint64_t bytes, DeviceMemory &memory) {
  CLEAVE_RETURN_IF_ERROR(
      DeviceMemory::allocate(*context, bytes, "a measurement", memory));
  return fillWithRandomNumbers(*driver, memory, stream.get());
}

/// Of one call, in the median of several launches of a graph of `calls`.
Status Gpu::measure(int calls, const Enqueue &enqueue, double &seconds) {
  // What is loaded at its first use cannot be captured.
  CLEAVE_RETURN_IF_ERROR(enqueue(0));
  CLEAVE_CUDA(*driver, streamSynchronize(stream.get()));
  CLEAVE_CUDA(*driver, streamBeginCapture(stream.get(), captureThreadLocal));
  Status status;
  for (int call = 0; call != calls && status.ok(); ++call)
    status = enqueue(call);
  void *captured = nullptr;
  int ended = driver->api.streamEndCapture(stream.get(), &captured);
  Handle graph(captured, driver->api.graphDestroy);
  CLEAVE_RETURN_IF_ERROR(status);
  CLEAVE_RETURN_IF_ERROR(
      driver->check(ended, "streamEndCapture", __FILE__, __LINE__));
  void *executable = nullptr;
  CLEAVE_CUDA(*driver, graphInstantiate(&executable, graph.get(), 0));
  Handle launched(executable, driver->api.graphExecDestroy);

  constexpr int launches = 6; // the first one warms up
  std::vector<double> taken;
  for (int launch = 0; launch != launches; ++launch) {
    CLEAVE_CUDA(*driver, eventRecord(begin.get(), stream.get()));
    CLEAVE_CUDA(*driver, graphLaunch(launched.get(), stream.get()));
    CLEAVE_CUDA(*driver, eventRecord(end.get(), stream.get()));
    CLEAVE_CUDA(*driver, eventSynchronize(end.get()));
    float milliseconds = 0;
    CLEAVE_CUDA(*driver,
                eventElapsedTime(&milliseconds, begin.get(), end.get()));
    if (launch > 0)
      taken.push_back(double(milliseconds) * 1e-3 / calls);
  }
  std::nth_element(taken.begin(), taken.begin() + taken.size() / 2,
                   taken.end());
  seconds = taken[taken.size() / 2];
  return Status();
}

Status Gpu::measureStream(double &rate) {
  DeviceMemory memory;
  CLEAVE_RETURN_IF_ERROR(allocate(coldBytes, memory));
  constexpr uint64_t half = coldBytes / 2;
  double seconds = 0;
  CLEAVE_RETURN_IF_ERROR(measure(
      4,
      [&](int) -> Status {
        CLEAVE_CUDA(*driver, copyDeviceToDeviceAsync(memory.getAddress() + half,
                                                     memory.getAddress(), half,
                                                     stream.get()));
        return Status();
      },
      seconds));
  rate = 2. * double(half) / seconds;
  return Status();
}

Status Gpu::measureMatmuls(DType dtype, double mostFlops,
                           std::vector<MatmulSample> &samples) {
  // Tokens, outputs and inputs of layers, up to those of 70 billion parameters.
  static constexpr Layer layers[] = {
      {256, 256, 256},     {512, 512, 512},     {1024, 1024, 1024},
      {1024, 5120, 5120},  {2048, 2048, 2048},  {2048, 2560, 2560},
      {2048, 11008, 4096}, {4096, 1024, 4096},  {4096, 4096, 4096},
      {4096, 14336, 4096}, {4096, 32000, 4096}, {8192, 8192, 8192},
      {8192, 28672, 8192}, {16384, 4096, 4096}, {16384, 3072, 1024},
      {128, 4096, 4096}};
  fb::DType type = dtype == DType::F32 ? fb::DType::F32 : fb::DType::BF16;
  uint64_t size = runtime::getBytes(type);
  for (const LayerProduct &product : getLayerProducts(layers)) {
    double flops =
        2. * double(product.m) * double(product.n) * double(product.k);
    if (flops > mostFlops)
      continue;
    MatmulShape shape{product.m,
                      product.n,
                      product.k,
                      product.transA,
                      product.transB,
                      type,
                      product.isWeightGradient ? fb::DType::F32 : type,
                      false};
    uint64_t a = uint64_t(product.m * product.k) * size,
             b = uint64_t(product.k * product.n) * size,
             c = uint64_t(product.m * product.n) *
                 runtime::getBytes(shape.typeC);
    uint64_t copies = std::clamp<uint64_t>(coldBytes / (a + b + c), 1, 64);
    // Results are nobody's operands, so that numbers stay small.
    DeviceMemory operands, results;
    CLEAVE_RETURN_IF_ERROR(allocate(copies * (a + b), operands));
    CLEAVE_RETURN_IF_ERROR(allocate(copies * c, results));
    std::unique_ptr<Matmul> matmul;
    CLEAVE_RETURN_IF_ERROR(
        Matmul::create(*cublasLt, matmulHandle, shape, matmul));
    constexpr int candidates = 8;
    std::vector<MatmulAlgo> found;
    CLEAVE_RETURN_IF_ERROR(
        matmul->findAlgorithms(matmulWorkspace, candidates, found));
    double best = 0;
    Status refusal;
    for (const MatmulAlgo &algorithm : found) {
      matmul->setAlgorithm(algorithm);
      double seconds = 0;
      int calls = int(std::clamp(2e12 / flops, 2., 32.));
      Status status = measure(
          calls,
          [&](int call) {
            uint64_t copy = uint64_t(call) % copies;
            Address operand = operands.getAddress() + copy * (a + b);
            return matmul->run(
                {operand, operand + a, 0, results.getAddress() + copy * c,
                 product.isWeightGradient},
                workspace.getAddress(), matmulWorkspace, stream.get());
          },
          seconds);
      // One that the library offers and then refuses is none.
      if (!status.ok())
        refusal = status;
      else if (best == 0 || seconds < best)
        best = seconds;
    }
    if (best == 0)
      return refusal;
    samples.push_back({product.m, product.n, product.k, best});
  }
  return Status();
}
