//===- cuda_attention.cpp - Attention on a GPU: ours against cuDNN's ------===//
//
// Usage: cuda_attention [--small]. Runs both directions of attention by the
// kernels of our own and by cuDNN on the same data, compares all results, small
// shapes with a reference in f64 too, and times both. `--small`: only those.
// Fails where results deviate; prints "SKIPPED" and succeeds where there is no
// GPU. Links nothing of CUDA, so it can be carried to another machine.
//
// Results are compared by head and position. A deviation is one of a row's
// norm, in units of bf16's rounding (2^-8), relative to that row or to what
// rows of its position usually are, whichever is larger; that of lse is
// absolute or relative, whichever is smaller.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudnnAttention.h"
#include "runtime/cuda/Kernel.h"
#include "runtime/cuda/kernels/Launches.h"
#include "test/runtime/cpu/AttentionReference.h"
#include <algorithm>
#include <cmath>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;
using cleave::cuda::AttentionGradParams;
using cleave::cuda::AttentionParams;
using cleave::cuda::AttentionSizes;
using runtime::cuda::Context;
using runtime::cuda::CudnnAttention;
using runtime::cuda::CudnnAttentions;
using runtime::cuda::DeviceMemory;
using runtime::cuda::Driver;
using runtime::cuda::Handle;
using runtime::cuda::OwnKernels;

namespace {

constexpr double unit = 0x1p-8;

struct Shape {
  int64_t batch, seq, heads, kvHeads, headDim, window = 0;
  float softcap = 0;
  bool isSmall = false;
};

constexpr Shape shapes[] = {
    {2, 48, 4, 2, 16, 0, 0, true},   {2, 100, 4, 2, 72, 0, 0, true},
    {1, 300, 3, 3, 64, 0, 0, true},  {2, 200, 4, 1, 64, 77, 0, true},
    {1, 130, 2, 1, 128, 0, 0, true}, {1, 96, 2, 2, 256, 0, 0, true},
    {1, 128, 2, 2, 64, 0, 20, true}, {1, 200, 4, 2, 192, 0, 0, true},
    {32, 1024, 12, 12, 64},          {4, 4096, 32, 8, 64},
    {2, 4096, 24, 8, 128},           {1, 4096, 32, 8, 128},
    {1, 8192, 32, 8, 128},           {1, 8192, 8, 4, 256, 4096},
};

/// A tensor [batch, seq, heads, width] of bf16, or lse [batch, heads, seq] of
/// f32, here and there.
struct Tensor {
  bool isF32 = false;
  int64_t batch = 0, seq = 0, heads = 0, width = 0;
  DeviceMemory memory;
  std::vector<double> values; ///< as last read

  size_t getSize() const { return size_t(batch * seq * heads * width); }
  size_t getBytes() const { return getSize() * (isF32 ? 4 : 2); }
  void *get() const { return reinterpret_cast<void *>(memory.getAddress()); }
};

enum { Q, K, V, Dout, Out, Lse, Dq, Dk, Dv, TensorCount };
constexpr const char *names[] = {"q",   "k",  "v",  "dout", "out",
                                 "lse", "dq", "dk", "dv"};

/// What rounding may do. The dq of the first tokens is a small difference of
/// large terms, one of which is computed from out as it was rounded.
double getMost(int tensor) {
  return tensor == Lse ? 1e-3 : (tensor == Dq ? 4 : 2) * unit;
}

/// One shape on the GPU.
class Trial {
public:
  Trial(const Context &context, const OwnKernels &kernels,
        CudnnAttentions *cudnn, const Shape &shape)
      : context(context), driver(context.getDriver()), kernels(kernels),
        cudnn(cudnn), shape(shape), sizes{shape.batch,
                                          shape.seq,
                                          shape.heads,
                                          shape.kvHeads,
                                          shape.headDim,
                                          shape.window,
                                          1 / std::sqrt(float(shape.headDim)),
                                          shape.softcap} {}

  /// `agrees` becomes false where results deviate.
  Status run(bool &agrees);

private:
  using Results = std::vector<std::vector<double>>;

  Status allocate();
  Status fill(Tensor &tensor, uint64_t seed);
  Status clearResults();
  Status readResults(Results &results);
  Status runOwn(bool isGrad);
  Status runCudnn(bool isGrad);
  Status runGraph();
  Status time(Status (Trial::*body)(bool), bool isGrad, double &seconds);
  Status synchronize();
  double getDeviation(int which, const std::vector<double> &got,
                      const std::vector<double> &want) const;
  void checkFinite(const Results &got, bool &agrees) const;
  void compare(const std::string &what, const Results &got, const Results &want,
               bool &agrees) const;
  Status report(const char *who, Status (Trial::*body)(bool));
  double countFlops(bool isGrad) const;

  const Context &context;
  const Driver &driver;
  const OwnKernels &kernels;
  CudnnAttentions *cudnn; ///< null: there is none
  Shape shape;
  AttentionSizes sizes;
  Tensor tensors[TensorCount];
  DeviceMemory scratch;
  Handle stream;
  const CudnnAttention *plans[2] = {};
};

} // namespace

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

Status Trial::allocate() {
  CLEAVE_RETURN_IF_ERROR(context.createStream(stream));
  for (int i = 0; i < TensorCount; ++i) {
    bool isKey = i == K || i == V || i == Dk || i == Dv;
    Tensor &tensor = tensors[i];
    tensor.isF32 = i == Lse;
    tensor.batch = sizes.batch;
    tensor.seq = sizes.seq;
    tensor.heads = isKey ? sizes.kvHeads : sizes.heads;
    tensor.width = i == Lse ? 1 : sizes.headDim;
    CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(context, tensor.getBytes(),
                                                  names[i], tensor.memory));
  }
  uint64_t bytes = getAttentionGradScratch(sizes);
  for (const CudnnAttention *plan : plans)
    bytes = std::max(bytes, plan ? plan->getScratchBytes() : 0);
  CLEAVE_RETURN_IF_ERROR(
      DeviceMemory::allocate(context, bytes, "scratch", scratch));
  CLEAVE_CUDA(driver,
              memsetAsync(scratch.getAddress(), 0xff, bytes, stream.get()));
  for (int i : {Q, K, V, Dout})
    CLEAVE_RETURN_IF_ERROR(fill(tensors[i], uint64_t(i)));
  return Status();
}

/// Uniform in [-1, 1).
Status Trial::fill(Tensor &tensor, uint64_t seed) {
  std::vector<uint16_t> raw(tensor.getSize());
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  tensor.values.resize(shape.isSmall ? raw.size() : 0);
  for (size_t i = 0; i < raw.size(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    raw[i] = cpu::toBf16(float(int32_t(state >> 32)) * 0x1p-31f);
    if (shape.isSmall)
      tensor.values[i] = double(cpu::fromBf16(raw[i]));
  }
  CLEAVE_CUDA(driver, copyHostToDevice(tensor.memory.getAddress(), raw.data(),
                                       tensor.getBytes()));
  return Status();
}

Status Trial::synchronize() {
  CLEAVE_CUDA(driver, streamSynchronize(stream.get()));
  return Status();
}

/// To NaN.
Status Trial::clearResults() {
  for (int i : {Out, Lse, Dq, Dk, Dv})
    CLEAVE_CUDA(driver, memsetAsync(tensors[i].memory.getAddress(), 0xff,
                                    tensors[i].getBytes(), stream.get()));
  return Status();
}

Status Trial::readResults(Results &results) {
  CLEAVE_RETURN_IF_ERROR(synchronize());
  results.resize(TensorCount);
  for (int i : {Out, Lse, Dq, Dk, Dv}) {
    std::vector<uint16_t> raw(tensors[i].getBytes() / 2);
    CLEAVE_CUDA(driver,
                copyDeviceToHost(raw.data(), tensors[i].memory.getAddress(),
                                 tensors[i].getBytes()));
    std::vector<double> &values = results[size_t(i)];
    values.resize(tensors[i].getSize());
    for (size_t k = 0; k < values.size(); ++k)
      if (tensors[i].isF32) {
        float value;
        memcpy(&value, &raw[2 * k], sizeof value);
        values[k] = double(value);
      } else {
        values[k] = double(cpu::fromBf16(raw[k]));
      }
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

template <typename Params>
static void setOperands(Params &params, const AttentionSizes &sizes,
                        const Tensor *tensors) {
  params.sizes = sizes;
  params.q = tensors[Q].get();
  params.k = tensors[K].get();
  params.v = tensors[V].get();
  params.out = tensors[Out].get();
  params.lse = static_cast<float *>(tensors[Lse].get());
}

static AttentionParams getParams(const AttentionSizes &sizes,
                                 const Tensor *tensors) {
  AttentionParams params{};
  setOperands(params, sizes, tensors);
  return params;
}

static AttentionGradParams getGradParams(const AttentionSizes &sizes,
                                         const Tensor *tensors,
                                         const DeviceMemory &scratch) {
  AttentionGradParams params{};
  setOperands(params, sizes, tensors);
  params.dout = tensors[Dout].get();
  params.dq = tensors[Dq].get();
  params.dk = tensors[Dk].get();
  params.dv = tensors[Dv].get();
  params.scratch = reinterpret_cast<void *>(scratch.getAddress());
  return params;
}

Status Trial::runOwn(bool isGrad) {
  constexpr cpu::ElementType type = cpu::ElementType::BF16;
  if (isGrad)
    return kernels.launch(getAttentionGradLaunches(sizes, type),
                          getGradParams(sizes, tensors, scratch), stream.get());
  return kernels.launch(getAttentionLaunches(sizes, type),
                        getParams(sizes, tensors), stream.get());
}

Status Trial::runCudnn(bool isGrad) {
  CLEAVE_RETURN_IF_ERROR(cudnn->setStream(stream.get()));
  if (isGrad)
    return plans[1]->run(getGradParams(sizes, tensors, scratch));
  return plans[0]->run(getParams(sizes, tensors), scratch.getAddress());
}

/// Both directions of cuDNN in a captured graph.
Status Trial::runGraph() {
  CLEAVE_CUDA(driver, streamBeginCapture(stream.get(),
                                         runtime::cuda::captureThreadLocal));
  Status status = runCudnn(false);
  if (status.ok())
    status = runCudnn(true);
  void *graph = nullptr, *executable = nullptr;
  int ended = driver.api.streamEndCapture(stream.get(), &graph);
  CLEAVE_RETURN_IF_ERROR(status);
  CLEAVE_RETURN_IF_ERROR(
      driver.check(ended, "streamEndCapture", __FILE__, __LINE__));
  Handle ownedGraph(graph, driver.api.graphDestroy);
  CLEAVE_CUDA(driver, graphInstantiate(&executable, graph, 0));
  Handle owned(executable, driver.api.graphExecDestroy);
  CLEAVE_CUDA(driver, graphLaunch(executable, stream.get()));
  return synchronize();
}

Status Trial::time(Status (Trial::*body)(bool), bool isGrad, double &seconds) {
  constexpr int warm = 2, repeats = 10;
  Handle begin, end;
  CLEAVE_RETURN_IF_ERROR(context.createEvent(true, begin));
  CLEAVE_RETURN_IF_ERROR(context.createEvent(true, end));
  for (int i = 0; i < warm + repeats; ++i) {
    if (i == warm)
      CLEAVE_CUDA(driver, eventRecord(begin.get(), stream.get()));
    CLEAVE_RETURN_IF_ERROR((this->*body)(isGrad));
  }
  CLEAVE_CUDA(driver, eventRecord(end.get(), stream.get()));
  CLEAVE_RETURN_IF_ERROR(synchronize());
  float milliseconds = 0;
  CLEAVE_CUDA(driver, eventElapsedTime(&milliseconds, begin.get(), end.get()));
  seconds = double(milliseconds) * 1e-3 / repeats;
  return Status();
}

/// Of the products of what the mask lets through: 2 forward, 5 backward.
double Trial::countFlops(bool isGrad) const {
  double pairs = 0;
  for (int64_t i = 0; i < sizes.seq; ++i)
    pairs += double(sizes.window > 0 ? std::min(i + 1, sizes.window) : i + 1);
  return (isGrad ? 5 : 2) * 2 * pairs * double(sizes.headDim) *
         double(sizes.batch * sizes.heads);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

double Trial::getDeviation(int which, const std::vector<double> &got,
                           const std::vector<double> &want) const {
  const Tensor &t = tensors[which];
  double worst = 0;
  auto note = [&](double error) {
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
  };
  if (which == Lse) {
    for (size_t i = 0; i < got.size(); ++i)
      note(std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
    return worst;
  }
  auto getRow = [&](int64_t b, int64_t s, int64_t h) {
    return size_t(((b * t.seq + s) * t.heads + h) * t.width);
  };
  auto sumSquares = [&](size_t row) {
    double sum = 0;
    for (size_t c = row; c < row + size_t(t.width); ++c)
      sum += want[c] * want[c];
    return sum;
  };
  std::vector<double> usual(size_t(t.seq));
  double overall = 0;
  for (int64_t s = 0; s < t.seq; ++s) {
    for (int64_t b = 0; b < t.batch; ++b)
      for (int64_t h = 0; h < t.heads; ++h)
        usual[size_t(s)] += sumSquares(getRow(b, s, h));
    usual[size_t(s)] /= double(t.batch * t.heads);
    overall += usual[size_t(s)] / double(t.seq);
  }
  // Where all is zero but for rounding, as dq of the first token is.
  constexpr double least = 1e-2;
  for (int64_t s = 0; s < t.seq; ++s)
    for (int64_t b = 0; b < t.batch; ++b)
      for (int64_t h = 0; h < t.heads; ++h) {
        size_t row = getRow(b, s, h);
        double squares = 0;
        for (size_t c = row; c < row + size_t(t.width); ++c)
          squares += (got[c] - want[c]) * (got[c] - want[c]);
        double scale = std::max(
            {sumSquares(row), usual[size_t(s)], least * least * overall});
        note(std::sqrt(squares / scale));
      }
  return worst;
}

/// What there is nothing to compare with is at least a number everywhere.
void Trial::checkFinite(const Results &got, bool &agrees) const {
  bool isFinite = true;
  for (int i : {Out, Dq, Dk, Dv, Lse})
    isFinite &= std::ranges::all_of(
        got[size_t(i)], [](double value) { return std::isfinite(value); });
  printf("  own: compared with nothing, %s\n",
         isFinite ? "all finite" : "NOT FINITE");
  agrees &= isFinite;
}

void Trial::compare(const std::string &what, const Results &got,
                    const Results &want, bool &agrees) const {
  bool isNear = true;
  printf("  %-22s", what.c_str());
  for (int i : {Out, Dq, Dk, Dv, Lse}) {
    double deviation = getDeviation(i, got[size_t(i)], want[size_t(i)]);
    isNear &= deviation <= getMost(i);
    if (i == Lse)
      printf(" lse %.1e", deviation);
    else
      printf(" %s %.2f,", names[i], deviation / unit);
  }
  printf("%s\n", isNear ? "" : "  WRONG");
  agrees &= isNear;
}

Status Trial::report(const char *who, Status (Trial::*body)(bool)) {
  for (bool isGrad : {false, true}) {
    double seconds = 0;
    CLEAVE_RETURN_IF_ERROR(time(body, isGrad, seconds));
    printf("  %-22s %10.1f us  %6.1f TFLOP/s\n",
           (std::string(who) + (isGrad ? " backward" : " forward")).c_str(),
           seconds * 1e6, countFlops(isGrad) / seconds * 1e-12);
  }
  return Status();
}

Status Trial::run(bool &agrees) {
  Status refusal;
  for (bool isGrad : {false, true})
    if (cudnn && refusal.ok())
      refusal = cudnn->find({sizes, true, isGrad}, UINT64_MAX, plans[isGrad]);
  bool hasCudnn = plans[0] && plans[1];
  if (cudnn && !hasCudnn)
    printf("  no cuDNN: %s\n", refusal.ok() ? cudnn->describe().c_str()
                                            : refusal.message().c_str());
  CLEAVE_RETURN_IF_ERROR(allocate());

  Results own, others;
  CLEAVE_RETURN_IF_ERROR(clearResults());
  CLEAVE_RETURN_IF_ERROR(runOwn(false));
  CLEAVE_RETURN_IF_ERROR(runOwn(true));
  CLEAVE_RETURN_IF_ERROR(readResults(own));
  Results reference(TensorCount);
  if (shape.isSmall) {
    cpu::AttentionShape s{};
    s.batch = sizes.batch;
    s.seq = sizes.seq;
    s.heads = sizes.heads;
    s.kvHeads = sizes.kvHeads;
    s.headDim = sizes.headDim;
    s.window = sizes.window;
    s.scale = sizes.scale;
    s.softcap = sizes.softcap;
    cpu::Reference exact(s, tensors[Q].values, tensors[K].values,
                         tensors[V].values, tensors[Dout].values);
    reference[Out] = exact.out;
    reference[Lse] = exact.lse;
    reference[Dq] = exact.dq;
    reference[Dk] = exact.dk;
    reference[Dv] = exact.dv;
    compare("own, reference", own, reference, agrees);
  }
  if (!shape.isSmall && !hasCudnn)
    checkFinite(own, agrees);
  if (hasCudnn) {
    CLEAVE_RETURN_IF_ERROR(clearResults());
    CLEAVE_RETURN_IF_ERROR(runCudnn(false));
    CLEAVE_RETURN_IF_ERROR(runCudnn(true));
    CLEAVE_RETURN_IF_ERROR(readResults(others));
    if (shape.isSmall)
      compare("cuDNN, reference", others, reference, agrees);
    compare("cuDNN, own", others, own, agrees);
    CLEAVE_RETURN_IF_ERROR(clearResults());
    CLEAVE_RETURN_IF_ERROR(runGraph());
    CLEAVE_RETURN_IF_ERROR(readResults(others));
    compare("cuDNN in a graph, own", others, own, agrees);
    printf("  %-22s %10.1f MB\n", "cuDNN scratch",
           double(plans[1]->getScratchBytes()) * 1e-6);
  }
  CLEAVE_RETURN_IF_ERROR(report("own", &Trial::runOwn));
  return hasCudnn ? report("cuDNN", &Trial::runCudnn) : Status();
}

//===----------------------------------------------------------------------===//
// Main
//===----------------------------------------------------------------------===//

/// What the process that runs trials tells the one that waits for it.
struct Progress {
  size_t next;
  bool disagrees;
};

/// 0 at the end, 1 where a trial has left the GPU unusable.
static int runTrials(bool onlySmall, Progress &progress) {
  auto fail = [&](const Status &status) {
    printf("FAILED: %s\n", status.message().c_str());
    progress.disagrees = true;
    return 0;
  };
  const Driver *driver = nullptr;
  std::string absence;
  if (Status status = Driver::open(driver, absence); !status.ok())
    return fail(status);
  if (!driver) {
    printf("SKIPPED: %s\n", absence.c_str());
    return 0;
  }
  std::unique_ptr<Context> context;
  OwnKernels kernels;
  Status status = Context::create(*driver, 0, context);
  if (status.ok())
    status = OwnKernels::load(*context, kernels);
  if (!status.ok())
    return fail(status);
  const runtime::cuda::Cudnn *library = nullptr;
  runtime::cuda::Cudnn::open(library, absence);
  CudnnAttentions cudnn;
  printf("%s, %s\n", context->getName().c_str(),
         library ? ("cuDNN " + library->getVersionText()).c_str()
                 : ("no cuDNN: " + absence).c_str());
  for (; progress.next < std::size(shapes); ++progress.next) {
    const Shape &s = shapes[progress.next];
    if (onlySmall && !s.isSmall)
      continue;
    printf("batch %ld, seq %ld, heads %ld/%ld, dim %ld", long(s.batch),
           long(s.seq), long(s.heads), long(s.kvHeads), long(s.headDim));
    if (s.window > 0)
      printf(", window %ld", long(s.window));
    if (s.softcap > 0)
      printf(", softcap %g", double(s.softcap));
    printf("\n");
    fflush(stdout);
    bool agrees = true;
    constexpr unsigned patience = 120; // seconds
    alarm(patience);
    status =
        Trial(*context, kernels, library ? &cudnn : nullptr, s).run(agrees);
    alarm(0);
    if (!status.ok())
      printf("  FAILED: %s\n", status.message().c_str());
    progress.disagrees |= !agrees || !status.ok();
    fflush(stdout);
    if (driver->api.contextSynchronize() != runtime::cuda::success)
      return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  bool onlySmall = argc == 2 && std::string(argv[1]) == "--small";
  if (argc > 1 && !onlySmall) {
    fprintf(stderr, "usage: cuda_attention [--small]\n");
    return 2;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  // Trials run in processes of their own: one that breaks its GPU's context
  // does not take the others with it.
  void *shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return 2;
  auto &progress = *new (shared) Progress{};
  for (bool isDone = false; !isDone; ++progress.next) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
      return 2;
    if (child == 0) {
      int code = runTrials(onlySmall, progress);
      fflush(stdout);
      _exit(code);
    }
    int code = 0;
    waitpid(child, &code, 0);
    isDone = code == 0 || progress.next >= std::size(shapes);
    if (code != 0)
      progress.disagrees = true;
    if (WIFSIGNALED(code))
      printf("  FAILED: ended by signal %d\n", WTERMSIG(code));
  }
  if (progress.next > std::size(shapes))
    printf("%s\n", progress.disagrees ? "some results are WRONG or missing"
                                      : "all that was compared agrees");
  return progress.disagrees ? 1 : 0;
}
