//===- CudaProducts.cpp - Which algorithm computes each product -----------===//
#include "runtime/base/Log.h"
#include "runtime/comm/Agreement.h"
#include "runtime/cuda/ChoiceCache.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/program/Print.h"
#include <algorithm>
#include <optional>
#include <set>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

/// How many of a product's algorithms have trials, those that the library
/// thinks fastest.
static constexpr int candidates = 8;

CudaDevice::Products CudaDevice::getProducts() const {
  Products products;
  for (const CudaInstruction &each : instructions)
    if (each.matmul &&
        std::ranges::find(products, each.matmul, &CudaInstruction::matmul) ==
            products.end())
      products.push_back(&each);
  return products;
}

int CudaDevice::getFirstRank(size_t stageNumber) const {
  int rank = 0;
  while (program.getStageNumber(rank) != stageNumber)
    ++rank;
  return rank;
}

/// All ranks of a stage take what its first one finds: where several compute
/// the same product, copies of one parameter must not drift apart.
Status CudaDevice::chooseAlgorithms() {
  Products products = getProducts();
  int rank = communicator.getRank();
  Status status;
  if (rank == getFirstRank(program.getStageNumber(rank)))
    status = findAlgorithms(products);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  if (communicator.getWorldSize() > 1)
    return shareAlgorithms(products);
  return Status();
}

/// What an earlier run has kept, or else the fastest by trial.
Status CudaDevice::findAlgorithms(const Products &products) {
  ChoiceCache cache("cuBLASLt " + std::to_string(cublasLt->getVersion()) +
                    ", " + context->getName() + " (" + context->getChip() +
                    ")");
  std::string limits = "; workspace " + std::to_string(matmulWorkspace) +
                       ", aligned to " + std::to_string(matmulAlignment) +
                       ", of " + std::to_string(candidates);
  std::optional<Trials> trials;
  size_t refused = 0;
  for (const CudaInstruction *product : products) {
    Matmul &matmul = *product->matmul;
    std::string name = toString(matmul.getShape()) + limits;
    if (const std::string *kept = cache.find(name)) {
      MatmulAlgo algorithm;
      if (parse(*kept, algorithm) &&
          matmul.checkAlgorithm(algorithm, matmulWorkspace).ok()) {
        matmul.setAlgorithm(algorithm);
        continue;
      }
      ++refused;
    }
    if (!trials)
      CLEAVE_RETURN_IF_ERROR(prepareTrials(trials.emplace()));
    if (Status status = findFastest(*product, *trials); !status.ok())
      return Status::error(describeInstruction(stage, product->index) + ": " +
                           status.message());
    cache.add(name, toString(matmul.getAlgorithm()));
  }
  if (refused > 0)
    logWarning(cache.getPath() + ": cuBLASLt refuses " +
               std::to_string(refused) + " of " +
               std::to_string(products.size()) +
               " algorithms, which are chosen anew");
  cache.save();
  return Status();
}

Status CudaDevice::prepareTrials(Trials &trials) const {
  // Of their own, since not every stream has one.
  CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(*context, matmulWorkspace,
                                                "the workspace of products",
                                                trials.workspace));
  CLEAVE_RETURN_IF_ERROR(context->createEvent(true, trials.begin));
  return context->createEvent(true, trials.end);
}

/// Of those that the library thinks fastest the one that is.
Status CudaDevice::findFastest(const CudaInstruction &product,
                               const Trials &trials) {
  constexpr int repeats = 3;
  Matmul &matmul = *product.matmul;
  std::vector<MatmulAlgo> found;
  CLEAVE_RETURN_IF_ERROR(
      matmul.findAlgorithms(matmulWorkspace, candidates, found));
  RunContext first;
  bool hasBias = product.instruction->work_as_Gemm()->has_bias();
  MatmulOperands operands{get(product, 0, first), get(product, 1, first),
                          hasBias ? get(product, 2, first) : 0,
                          get(product, 2 + hasBias, first), false};
  void *stream = streams[0].handle.get();
  MatmulAlgo fastest = found.front();
  float best = -1;
  for (size_t i = 0; i < found.size() && found.size() > 1; ++i) {
    matmul.setAlgorithm(found[i]);
    auto runOnce = [&] {
      return matmul.run(operands, trials.workspace.getAddress(),
                        matmulWorkspace, stream);
    };
    // One that the library offers and then refuses is none.
    if (!runOnce().ok())
      continue;
    CLEAVE_CUDA(*driver, eventRecord(trials.begin.get(), stream));
    for (int repeat = 0; repeat < repeats; ++repeat)
      CLEAVE_RETURN_IF_ERROR(runOnce());
    CLEAVE_CUDA(*driver, eventRecord(trials.end.get(), stream));
    CLEAVE_CUDA(*driver, eventSynchronize(trials.end.get()));
    float milliseconds = 0;
    CLEAVE_CUDA(*driver, eventElapsedTime(&milliseconds, trials.begin.get(),
                                          trials.end.get()));
    if (best < 0 || milliseconds < best) {
      best = milliseconds;
      fastest = found[i];
    }
  }
  matmul.setAlgorithm(fastest);
  return Status();
}

/// From the first rank of each stage to its others, on all machines by one
/// version of the library: what an algorithm is, only that one knows.
Status CudaDevice::shareAlgorithms(const Products &products) {
  CLEAVE_RETURN_IF_ERROR(agreeOnItems(
      communicator,
      {{"the version of cuBLASLt", std::to_string(cublasLt->getVersion())}}));
  int rank = communicator.getRank();
  Status status;
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    int first = getFirstRank(number);
    std::string text;
    if (rank == first)
      for (const CudaInstruction *product : products)
        text += toString(product->matmul->getAlgorithm());
    CLEAVE_RETURN_IF_ERROR(communicator.broadcast(text, first));
    if (rank != first && program.getStageNumber(rank) == number)
      status = takeAlgorithms(products, text, first);
  }
  return communicator.agree(status);
}

/// `text`: of the algorithms of rank `first`, one after the other.
Status CudaDevice::takeAlgorithms(const Products &products,
                                  std::string_view text, int first) {
  for (const CudaInstruction *product : products) {
    Matmul &matmul = *product->matmul;
    MatmulAlgo algorithm;
    Status status;
    if (!parse(text.substr(0, matmulAlgoDigits), algorithm))
      status = Status::error("it is no algorithm");
    else
      status = matmul.checkAlgorithm(algorithm, matmulWorkspace);
    if (!status.ok())
      return Status::error(
          describeInstruction(stage, product->index) +
          ": cuBLASLt refuses the algorithm of rank " + std::to_string(first) +
          " for " + toString(matmul.getShape()) +
          ", expects GPUs of one kind in a stage: " + status.message());
    matmul.setAlgorithm(algorithm);
    text.remove_prefix(matmulAlgoDigits);
  }
  return Status();
}

/// Runs everything once that libraries compute. They load code as they first
/// need it, for which the driver may wait until the GPU has nothing to do; it
/// would wait for ever for a collective whose other ranks wait for this one.
/// Kernels of ours are loaded as they are found.
Status CudaDevice::warmUp() {
  std::set<const void *> warm;
  CLEAVE_RETURN_IF_ERROR(fork());
  for (const CudaInstruction &each : instructions) {
    const void *work = each.matmul;
    if (each.attention)
      work = each.attention;
    if (!work || !warm.insert(work).second)
      continue;
    Stream &stream = streams[isSerial ? 0 : each.instruction->stream()];
    // What overwrites and what adds to a sum may be different code.
    for (bool isFirst : {true, false})
      if (Status status = enqueueAlone(each, {.isFirst = isFirst}, stream);
          !status.ok())
        return Status::error(describeInstruction(stage, each.index) + ": " +
                             status.message());
  }
  return join();
}
