//===- Measure.cpp - Seconds of the runtime's kernels and collectives -----===//
#include "Measure.h"
#include "runtime/comm/World.h"
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/cpu/ThreadPool.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace cleave;
using namespace cleave::cpu;

namespace {

/// What rotating operands take together, so that none is in a cache when its
/// turn comes again.
constexpr int64_t coldBytes = 192 << 20;
constexpr int64_t mostCopies = 24;

double getNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Median seconds of `run(call)` over at least `calls` of them.
template <class Fn>
double measure(int calls, Fn run) {
  std::vector<double> taken;
  run(0);
  for (int call = 1; call <= calls; ++call) {
    double start = getNow();
    run(call);
    taken.push_back(getNow() - start);
  }
  std::nth_element(taken.begin(), taken.begin() + calls / 2, taken.end());
  return taken[size_t(calls / 2)];
}

/// Memory that starts on a cache line, with small numbers in it: infinities
/// and denormals would change what a kernel takes.
class Buffer {
public:
  explicit Buffer(int64_t size)
      : bytes(roundUp(std::max<int64_t>(size, 1), hugePage)),
        data(static_cast<char *>(
            std::aligned_alloc(size_t(hugePage), size_t(bytes)))) {
    ::madvise(data.get(), size_t(bytes), MADV_HUGEPAGE); // as arenas are
    // 0x3c3c is 0.0115 in bf16 and in f32.
    std::memset(data.get(), 0x3c, size_t(bytes));
  }
  char *get() const { return data.get(); }

private:
  static constexpr int64_t hugePage = 2 << 20;
  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  int64_t bytes;
  std::unique_ptr<char, Free> data;
};

/// As many buffers of `size` bytes as are cold when their turn comes.
class Rotation {
public:
  Rotation(int64_t size, int64_t together)
      : count(std::clamp<int64_t>(coldBytes / std::max<int64_t>(together, 1), 2,
                                  mostCopies)) {
    for (int64_t i = 0; i != count; ++i)
      buffers.emplace_back(size);
  }
  char *get(int call) const { return buffers[size_t(call % count)].get(); }

private:
  int64_t count;
  std::vector<Buffer> buffers;
};

} // namespace

double tool::getForeignSeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  // user nice system idle iowait irq softirq steal, in ticks
  double ticks[8] = {};
  file >> name;
  for (double &each : ticks)
    file >> each;
  if (!file)
    return 0;
  double busy = 0;
  for (int i : {0, 1, 2, 5, 6, 7})
    busy += ticks[i];
  rusage own;
  ::getrusage(RUSAGE_SELF, &own);
  auto toSeconds = [](const timeval &time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return busy / double(::sysconf(_SC_CLK_TCK)) - toSeconds(own.ru_utime) -
         toSeconds(own.ru_stime);
}

std::vector<tool::LayerProduct>
tool::getLayerProducts(llvm::ArrayRef<Layer> layers) {
  std::vector<LayerProduct> products;
  for (auto [tokens, outputs, inputs] : layers) {
    products.push_back({tokens, outputs, inputs, false, true, false});
    products.push_back({tokens, inputs, outputs, false, false, false});
    products.push_back({outputs, inputs, tokens, true, false, true});
  }
  return products;
}

std::vector<MatmulSample> tool::measureMatmuls(DType dtype, int threads) {
  // As small and middle-sized models have them.
  static constexpr Layer layers[] = {
      {128, 192, 192},   {128, 512, 192},    {256, 384, 384},
      {256, 1536, 384},  {512, 512, 512},    {512, 704, 512},
      {512, 4096, 512},  {1024, 768, 768},   {2048, 512, 512},
      {2048, 1408, 512}, {1024, 2048, 2048}, {1024, 16384, 384}};
  ElementType type = dtype == DType::F32 ? ElementType::F32 : ElementType::BF16;
  int64_t size = dtype == DType::F32 ? 4 : 2;
  ThreadPool pool(threads);
  std::vector<MatmulSample> samples;
  for (const LayerProduct &product : getLayerProducts(layers)) {
    GemmArgs args{};
    args.m = product.m;
    args.n = product.n;
    args.k = product.k;
    args.transA = product.transA;
    args.transB = product.transB;
    args.typeA = args.typeB = type;
    args.typeC = product.isWeightGradient ? ElementType::F32 : type;
    args.accumulate = product.isWeightGradient;
    int64_t together =
        (args.m * args.k + args.n * args.k + args.m * args.n) * size;
    Rotation a(args.m * args.k * size, together),
        b(args.k * args.n * size, together),
        c(args.m * args.n * (product.isWeightGradient ? 4 : size), together);
    Buffer workspace(int64_t(gemmWorkspaceBytes(
        args.m, args.n, args.k, args.transA, args.transB, int64_t(type),
        int64_t(type), int64_t(args.typeC), threads)));
    double flops = 2. * double(args.m) * double(args.n) * double(args.k);
    int calls = int(std::clamp(1e10 / flops, 5., 15.));
    double seconds = measure(calls, [&](int call) {
      args.a = a.get(call);
      args.b = b.get(call);
      args.c = c.get(call);
      gemm(args, workspace.get(), pool);
    });
    samples.push_back({args.m, args.n, args.k, seconds});
  }
  return samples;
}

std::vector<AttentionSample> tool::measureAttention(int threads) {
  static constexpr struct {
    int64_t batch, seq, heads, headDim;
  } cases[] = {{8, 128, 8, 32}, {8, 128, 8, 64},  {4, 256, 8, 64},
               {2, 512, 8, 64}, {1, 1024, 8, 64}, {2, 512, 8, 128}};
  constexpr ElementType type = ElementType::F32;
  ThreadPool pool(threads);
  std::vector<AttentionSample> samples;
  for (const auto &each : cases) {
    int64_t bytes = each.batch * each.seq * each.heads * each.headDim * 4;
    Rotation q(bytes, 8 * bytes), k(bytes, 8 * bytes), v(bytes, 8 * bytes),
        out(bytes, 8 * bytes), dout(bytes, 8 * bytes), dq(bytes, 8 * bytes),
        dk(bytes, 8 * bytes), dv(bytes, 8 * bytes);
    Buffer lse(each.batch * each.heads * each.seq * 4);
    auto *sums = reinterpret_cast<float *>(lse.get());
    Buffer workspace(std::max(int64_t(attentionWorkspaceBytes(
                                  each.batch, each.seq, each.heads, each.heads,
                                  each.headDim, int64_t(type), threads)),
                              int64_t(attentionGradWorkspaceBytes(
                                  each.batch, each.seq, each.heads, each.heads,
                                  each.headDim, int64_t(type), threads))));
    AttentionShape shape{each.batch,
                         each.seq,
                         each.heads,
                         each.heads,
                         each.headDim,
                         0,
                         type,
                         1 / std::sqrt(float(each.headDim)),
                         0};
    double forward = measure(9, [&](int call) {
      attention(
          {shape, q.get(call), k.get(call), v.get(call), out.get(call), sums},
          workspace.get(), pool);
    });
    double backward = measure(9, [&](int call) {
      attentionGrad({shape, q.get(call), k.get(call), v.get(call),
                     out.get(call), sums, dout.get(call), dq.get(call),
                     dk.get(call), dv.get(call)},
                    workspace.get(), pool);
    });
    int64_t heads = each.batch * each.heads;
    samples.push_back(
        {Direction::Forward, heads, each.seq, each.headDim, forward});
    samples.push_back(
        {Direction::Backward, heads, each.seq, each.headDim, backward});
  }
  return samples;
}

double tool::measureStream(int threads) {
  constexpr int64_t count = 1 << 20; // 12 MB a call, as an activation's
  Rotation a(count * 4, 3 * count * 4), b(count * 4, 3 * count * 4),
      c(count * 4, 3 * count * 4);
  ThreadPool pool(threads);
  double seconds = measure(48, [&](int call) {
    auto *x = reinterpret_cast<const float *>(a.get(call));
    auto *y = reinterpret_cast<const float *>(b.get(call));
    auto *z = reinterpret_cast<float *>(c.get(call));
    pool.parallelFor(0, count, 1 << 14, [=](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i != end; ++i)
        z[i] = x[i] + y[i];
    });
  });
  return 3. * count * 4 / seconds;
}

runtime::Status
tool::measureCollectives(int ranks, std::vector<CollectiveSample> &samples) {
  using namespace runtime;
  WorldOptions options;
  options.backend = Backend::Local;
  return runRanks(
      runtime::Mesh({ranks}), options,
      [&](Communicator &communicator) -> Status {
        const runtime::Group *world = nullptr;
        CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
        constexpr int64_t most = 4 << 20;
        const int rotations = std::clamp(64 / ranks, 1, 8);
        std::vector<Buffer> ins, outs;
        for (int i = 0; i != rotations; ++i) {
          ins.emplace_back(most);
          outs.emplace_back(most);
        }
        for (size_t kind = 0; kind != numCollectiveKinds; ++kind)
          for (int64_t bytes = 1 << 10; bytes <= most; bytes *= 4) {
            uint64_t part = uint64_t(bytes / ranks / 64 * 64);
            auto run = [&](int call) -> Status {
              void *in = ins[size_t(call % rotations)].get();
              void *out = outs[size_t(call % rotations)].get();
              switch (CollectiveKind(kind)) {
              case CollectiveKind::AllGather:
                return communicator.allGather(*world, in, out, 1, part);
              case CollectiveKind::ReduceScatter:
                return communicator.reduceScatter(*world, in, out, 1, part / 4,
                                                  runtime::ElementType::F32,
                                                  Reduction::Sum);
              case CollectiveKind::AllReduce:
                return communicator.allReduce(
                    *world, in, in, part * uint64_t(ranks) / 4,
                    runtime::ElementType::F32, Reduction::Sum);
              case CollectiveKind::AllToAll:
                return communicator.allToAll(*world, in, out,
                                             {1, 1, 1, 1, part / 4, 4, true});
              }
              return Status::error("unknown kind");
            };
            // Calls follow each other as they do in a step; their mean also
            // counts a peer that comes late.
            int calls = bytes > (1 << 20) ? 12 : 40;
            for (int call = 0; call != 4; ++call)
              CLEAVE_RETURN_IF_ERROR(run(call));
            CLEAVE_RETURN_IF_ERROR(communicator.barrier(*world));
            double start = getNow();
            for (int call = 0; call != calls; ++call)
              CLEAVE_RETURN_IF_ERROR(run(call));
            double seconds = (getNow() - start) / calls;
            if (communicator.getRank() == 0)
              samples.push_back(
                  {CollectiveKind(kind), ranks, double(part) * ranks, seconds});
          }
        return {};
      });
}
