//===- generated_kernels.cpp - Generated kernels against plain loops ------===//
//
// Times, on one core, each kernel as we generate it, the same as a loop
// compiled by g++ -O3 -march=native -ffast-math, and a memcpy of the same
// bytes. The ratio is to the slower of the two; it should be at most 1.2.
// Last, the time to compile the kernels of a model.
//
//===----------------------------------------------------------------------===//
#include "passes/Emit/EmitObject.h"
#include "test/passes/Emit/Harness.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace cleave;
using namespace cleave::test;

extern "C" {
void loopRmsNorm(const float *x, const float *w, float *y, float *rstd,
                 int64_t rows, int64_t columns);
void loopSoftmax(const float *x, float *y, int64_t rows, int64_t columns);
void loopSwiglu(const float *gate, const float *up, float *y, int64_t count);
void loopGelu(const float *x, float *y, int64_t count);
void loopLayerNorm(const float *x, const float *w, const float *b, float *y,
                   float *means, float *rstds, int64_t rows, int64_t columns);
void loopAdamW(float *w, float *m, float *v, const float *g, float clip,
               float lr, int64_t count);
void loopColumnSum(const float *x, float *y, int64_t rows, int64_t columns);
}

static double getSeconds(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  return taken.count();
}

namespace {
struct Contest {
  const char *name;
  std::function<void()> ours, loop;
  size_t bytesRead, bytesWritten;
};
} // namespace

static float *allocate(size_t count) {
  auto *data = static_cast<float *>(std::aligned_alloc(64, count * 4));
  for (size_t i = 0; i < count; ++i)
    data[i] = float(i % 1013 + 1) / 512;
  return data;
}

int main() {
  constexpr int64_t rows = 256, columns = 4096, count = rows * columns;
  std::vector<Sample> samples = makeRowSamples(rows, columns, "f32");
  llvm::append_range(samples, makeFlatSamples(count, "f32", "never"));
  llvm::append_range(samples, makeColumnSamples(rows, columns, "f32", "never"));
  llvm::append_range(samples, makeRowSamples(rows, 768, "f32"));
  CompiledSamples compiled(samples, "native");

  float *a = allocate(count), *b = allocate(count), *y = allocate(count);
  float *c = allocate(count), *w = allocate(columns);
  float *r = allocate(rows), *s = allocate(rows);
  auto kernel = [&](const char *name, std::vector<void *> buffers,
                    int64_t range) -> std::function<void()> {
    CleaveKernelFn function = compiled.getFunction(name);
    return [=] {
      int64_t params[] = {0, 0};
      function(buffers.data(), params, 0, range);
    };
  };
  constexpr size_t full = size_t(count) * 4;
  const Contest contests[] = {
      {"rms_norm", kernel("rms_norm_256x4096_f32", {a, w, y, r}, rows),
       [&] { loopRmsNorm(a, w, y, r, rows, columns); }, full, full},
      {"softmax", kernel("softmax_256x4096_f32", {a, y}, rows),
       [&] { loopSoftmax(a, y, rows, columns); }, full, full},
      {"swiglu", kernel("swiglu_1048576x1_f32_never", {a, b, y}, count),
       [&] { loopSwiglu(a, b, y, count); }, 2 * full, full},
      {"gelu_tanh", kernel("gelu_tanh_1048576x1_f32_never", {a, y}, count),
       [&] { loopGelu(a, y, count); }, full, full},
      {"adamw",
       kernel("adamw_1048576x1_f32_never", {a, b, c, y, w, w, a, b, c}, count),
       [&] { loopAdamW(a, b, c, y, w[0], w[2], count); }, 4 * full, 3 * full},
      {"ln 768", kernel("layer_norm_256x768_f32", {a, w, w, y, r, s}, rows),
       [&] { loopLayerNorm(a, w, w, y, r, s, rows, 768); }, full * 768 / 4096,
       full * 768 / 4096},
      {"bias_grad", kernel("bias_grad_256x4096_f32_never", {a, w}, columns),
       [&] { loopColumnSum(a, w, rows, columns); }, full, 0},
  };
  char *from = reinterpret_cast<char *>(allocate(4 * count));
  char *to = reinterpret_cast<char *>(allocate(4 * count));
  printf("%-10s %9s %9s %9s   %s\n", "256x4096", "ours us", "loop us",
         "memcpy us", "ours / slower of the two");
  for (const Contest &contest : contests) {
    double ours = 1e9, loop = 1e9, copy = 1e9;
    size_t bytes = (contest.bytesRead + contest.bytesWritten) / 2;
    for (int trial = 0; trial < 60; ++trial) {
      ours = std::min(ours, getSeconds(contest.ours));
      loop = std::min(loop, getSeconds(contest.loop));
      copy = std::min(copy, getSeconds([&] { std::memcpy(to, from, bytes); }));
    }
    printf("%-10s %9.1f %9.1f %9.1f   %.2f\n", contest.name, ours * 1e6,
           loop * 1e6, copy * 1e6, ours / std::max(loop, copy));
  }

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<Sample> model;
  for (int64_t width : {768, 3072})
    llvm::append_range(model, makeRowSamples(256, width, "bf16"));
  llvm::append_range(model, makeFlatSamples(786432, "bf16", "never"));
  llvm::append_range(model, makeColumnSamples(256, 768, "bf16", "always"));
  auto module = parse(model, context);
  double seconds = getSeconds([&] {
    if (failed(emit::emitObject(*module, {})))
      std::abort();
  });
  printf("%zu kernels compiled in %.2f s\n", model.size(), seconds);
  return 0;
}
