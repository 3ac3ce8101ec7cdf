//===- loops.cpp - The kernels as one would write them in C ---------------===//
#include <cmath>
#include <cstdint>

extern "C" {

void loopRmsNorm(const float *x, const float *w, float *y, float *rstd,
                 int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += x[c] * x[c];
    rstd[r] = 1 / std::sqrt(sum / float(columns) + 1e-5f);
    for (int64_t c = 0; c < columns; ++c)
      y[c] = x[c] * rstd[r] * w[c];
  }
}

void loopSoftmax(const float *x, float *y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    float max = x[0];
    for (int64_t c = 1; c < columns; ++c)
      max = x[c] > max ? x[c] : max;
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      y[c] = std::exp(x[c] - max);
      sum += y[c];
    }
    float scale = 1 / sum;
    for (int64_t c = 0; c < columns; ++c)
      y[c] *= scale;
  }
}

void loopSwiglu(const float *gate, const float *up, float *y, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

void loopGelu(const float *x, float *y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float u = 0.7978845608f * x[i] * (1 + 0.044715f * x[i] * x[i]);
    y[i] = 0.5f * x[i] * (1 + std::tanh(u));
  }
}

void loopLayerNorm(const float *x, const float *w, const float *b, float *y,
                   float *means, float *rstds, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += x[c];
    float mean = sum / float(columns);
    for (int64_t c = 0; c < columns; ++c)
      squares += (x[c] - mean) * (x[c] - mean);
    float rstd = 1 / std::sqrt(squares / float(columns) + 1e-5f);
    for (int64_t c = 0; c < columns; ++c)
      y[c] = (x[c] - mean) * rstd * w[c] + b[c];
    means[r] = mean;
    rstds[r] = rstd;
  }
}

void loopAdamW(float *w, float *m, float *v, const float *g, float clip,
               float lr, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float d = g[i] * clip;
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.95f * v[i] + 0.05f * d * d;
    w[i] = w[i] * (1 - lr * 0.1f) - lr * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

void loopColumnSum(const float *x, float *y, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c)
    y[c] = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[c] += x[r * columns + c];
}
}
