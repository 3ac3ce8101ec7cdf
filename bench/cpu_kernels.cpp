//===- cpu_kernels.cpp - GEMM and attention against the core's peak -------===//
//
// Prints GFLOP/s and the ratio to the peak measured around each line (the best
// before and after it, times the threads), so that a clock that changes during
// the run changes both. Times are the best of several.
//   cpu_kernels [--isa NAME] [--threads N] [--filter TEXT] [--seconds S]
//               [--clock wall|cpu]
// --clock cpu counts the threads' CPU seconds, divided by their number: for a
// machine whose cores others use too. It hides imbalance between threads.
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/cpu/Peak.h"
#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

using namespace cleave::cpu;

namespace {

struct Options {
  Isa isa = getBestIsa();
  std::vector<int> threads = {1, 2};
  std::string filter;
  double seconds = 0.4; ///< for each line
  bool cpuClock = false;
};

struct Free {
  void operator()(void *p) const { free(p); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(int64_t bytes) {
  return Memory(std::aligned_alloc(64, size_t(roundUp(bytes, 64))));
}

/// `count` elements between -1 and 1.
Memory allocate(int64_t count, ElementType type) {
  bool narrow = type == ElementType::BF16;
  Memory memory = allocate(count * (narrow ? 2 : 4));
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    float x = float(int32_t(state)) * 0x1p-31f;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (narrow)
      static_cast<uint16_t *>(memory.get())[i] = uint16_t(bits >> 16);
    else
      static_cast<float *>(memory.get())[i] = x;
  }
  return memory;
}

double readClock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// Best seconds of a call, over about options.seconds and at least three calls.
template <class Fn>
double measure(const Options &options, int threads, Fn fn) {
  clockid_t clock =
      options.cpuClock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  double best = 1e30, total = 0;
  for (int i = 0; i < 3 || total < options.seconds; ++i) {
    double start = readClock(clock);
    fn();
    double took = readClock(clock) - start;
    best = std::min(best, options.cpuClock ? took / threads : took);
    total += took;
  }
  return best;
}

/// Measures one line of the table and prints it.
template <class Fn>
void report(const Options &options, const std::string &name, int threads,
            double flops, bool bf16, Fn fn) {
  if (name.find(options.filter) == std::string::npos)
    return;
  double peak = measurePeak(options.isa, bf16, 0.01);
  double seconds = measure(options, threads, fn);
  peak = std::max(peak, measurePeak(options.isa, bf16, 0.01));
  double rate = flops / seconds;
  printf("%-46s %d  %9.3f ms  %7.1f GFLOP/s  %5.1f %%\n", name.c_str(), threads,
         seconds * 1e3, rate * 1e-9, 100 * rate / (peak * threads));
  fflush(stdout);
}

struct Shape {
  const char *model;
  int64_t tokens, in, out;
};

// A linear layer of `in` by `out` features over `tokens`.
const Shape shapes[] = {
    {"gpt2 qkv", 256, 768, 2304},      {"gpt2 proj", 256, 768, 768},
    {"gpt2 up", 256, 768, 3072},       {"gpt2 down", 256, 3072, 768},
    {"gpt2 head", 256, 768, 50257},    {"gpt2 qkv", 1024, 768, 2304},
    {"gpt2 proj", 1024, 768, 768},     {"gpt2 up", 1024, 768, 3072},
    {"gpt2 down", 1024, 3072, 768},    {"gpt2 head", 1024, 768, 50257},
    {"llama qo", 1024, 2048, 2048},    {"llama kv", 1024, 2048, 512},
    {"llama up", 1024, 2048, 8192},    {"llama down", 1024, 8192, 2048},
    {"llama head", 256, 2048, 128256},
};

void benchGemm(const Options &options, const Shape &s, int direction,
               ElementType typeIn, ElementType typeOut, ThreadPool &pool) {
  // y[t,o] = x[t,i] w[o,i]^T;  dx[t,i] = dy[t,o] w[o,i];  dw[o,i] = dy^T x
  const char *names[] = {"fwd", "dgrad", "wgrad"};
  bool bf16 = typeIn == ElementType::BF16;
  std::string name = std::string(bf16 ? "bf16 " : "f32 ") + s.model + " " +
                     names[direction] + " " + std::to_string(s.tokens) + "x" +
                     std::to_string(s.in) + "x" + std::to_string(s.out);
  if (name.find(options.filter) == std::string::npos)
    return;
  GemmArgs args{};
  args.m = direction == 2 ? s.out : s.tokens;
  args.n = direction == 0 ? s.out : s.in;
  args.k = direction == 0 ? s.in : direction == 1 ? s.out : s.tokens;
  args.transA = direction == 2;
  args.transB = direction == 0;
  args.typeA = args.typeB = typeIn;
  args.typeC = typeOut;
  Memory a = allocate(args.m * args.k, typeIn);
  Memory b = allocate(args.k * args.n, typeIn);
  Memory c = allocate(args.m * args.n, typeOut);
  Memory workspace = allocate(int64_t(gemmWorkspaceBytes(
      args.m, args.n, args.k, args.transA, args.transB, int64_t(typeIn),
      int64_t(typeIn), int64_t(typeOut), pool.getThreads())));
  args.a = a.get();
  args.b = b.get();
  args.c = c.get();
  report(options, name, pool.getThreads(),
         2.0 * double(args.m) * double(args.n) * double(args.k),
         bf16 && options.isa == Isa::Avx512Bf16,
         [&] { gemm(args, workspace.get(), pool); });
}

struct AttentionCase {
  const char *model;
  int64_t batch, seq, heads, kvHeads, headDim;
};

const AttentionCase attentions[] = {
    {"gpt2", 4, 64, 12, 12, 64},
    {"gpt2", 1, 1024, 12, 12, 64},
    {"llama", 1, 2048, 32, 8, 64},
    {"llama-8b", 1, 2048, 8, 2, 128},
};

void benchAttention(const Options &options, const AttentionCase &a,
                    ElementType type, ThreadPool &pool) {
  AttentionShape s{a.batch,   a.seq, a.heads, a.kvHeads,
                   a.headDim, 0,     type,    1 / std::sqrt(float(a.headDim)),
                   0};
  std::string name = std::string(type == ElementType::F32 ? "f32 " : "bf16 ") +
                     a.model + " attention " + std::to_string(a.batch) + "x" +
                     std::to_string(a.seq) + "x" + std::to_string(a.heads) +
                     "/" + std::to_string(a.kvHeads) + "x" +
                     std::to_string(a.headDim);
  if (name.find(options.filter) == std::string::npos)
    return;
  int64_t queries = a.batch * a.seq * a.heads * a.headDim;
  int64_t keys = a.batch * a.seq * a.kvHeads * a.headDim;
  Memory q = allocate(queries, type), k = allocate(keys, type),
         v = allocate(keys, type), out = allocate(queries, type),
         dout = allocate(queries, type), dq = allocate(queries, type),
         dk = allocate(keys, type), dv = allocate(keys, type),
         lse = allocate(a.batch * a.heads * a.seq, ElementType::F32);
  int threads = pool.getThreads();
  Memory workspace = allocate(std::max(
      int64_t(attentionWorkspaceBytes(a.batch, a.seq, a.heads, a.kvHeads,
                                      a.headDim, int64_t(type), threads)),
      int64_t(attentionGradWorkspaceBytes(a.batch, a.seq, a.heads, a.kvHeads,
                                          a.headDim, int64_t(type), threads))));
  auto *sums = static_cast<float *>(lse.get());
  AttentionArgs forward{s, q.get(), k.get(), v.get(), out.get(), sums};
  AttentionGradArgs backward{s,    q.get(),    k.get(),  v.get(),  out.get(),
                             sums, dout.get(), dq.get(), dk.get(), dv.get()};
  // What causality leaves: two products forward, five backward.
  double product = double(a.batch) * double(a.heads) * double(a.seq) *
                   double(a.seq + 1) * double(a.headDim);
  report(options, name + " fwd", threads, 2 * product, false,
         [&] { attention(forward, workspace.get(), pool); });
  report(options, name + " bwd", threads, 5 * product, false,
         [&] { attentionGrad(backward, workspace.get(), pool); });
}

/// Reads the command line; false, with a message, where it is wrong.
bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; i += 2) {
    std::string key = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    bool known = !value.empty();
    if (key == "--threads")
      options.threads = {std::max(1, atoi(value.c_str()))};
    else if (key == "--filter")
      options.filter = value;
    else if (key == "--seconds")
      options.seconds = atof(value.c_str());
    else if (key == "--clock") {
      known = value == "cpu" || value == "wall";
      options.cpuClock = value == "cpu";
    } else if (key == "--isa") {
      known = false;
      for (int isa = 0; isa <= int(Isa::Avx512Bf16); ++isa)
        if (value == getName(Isa(isa))) {
          options.isa = Isa(isa);
          known = setActiveIsa(options.isa);
        }
    } else
      known = false;
    if (!known) {
      fprintf(stderr,
              "unknown or impossible option \"%s %s\"; expects --isa "
              "portable|avx2|avx512|avx512bf16 (as the CPU has), --threads N, "
              "--filter TEXT, --seconds S or --clock wall|cpu\n",
              key.c_str(), value.c_str());
      return false;
    }
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options))
    return 1;
  constexpr ElementType F32 = ElementType::F32, BF16 = ElementType::BF16;
  printf("%s, one core's peak: %.1f GFLOP/s f32", getName(options.isa),
         measurePeak(options.isa, false, 0.2) * 1e-9);
  if (double bf16 = measurePeak(options.isa, true, 0.2))
    printf(", %.1f bf16", bf16 * 1e-9);
  printf("\n%-46s threads, best time, rate, ratio to threads x peak\n",
         "case tokens x in x out");
  for (int threads : options.threads) {
    ThreadPool pool(threads);
    for (const Shape &shape : shapes)
      for (int direction = 0; direction < 3; ++direction) {
        benchGemm(options, shape, direction, F32, F32, pool);
        // Gradients of weights are summed in f32.
        benchGemm(options, shape, direction, BF16, direction == 2 ? F32 : BF16,
                  pool);
      }
    for (const AttentionCase &a : attentions)
      for (ElementType type : {F32, BF16})
        benchAttention(options, a, type, pool);
  }
}
