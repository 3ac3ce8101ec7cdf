//===- Fit.cpp - Constants of a device from measured seconds --------------===//
#include "cleave/Calibrate/Fit.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

namespace {
/// A constant that is fitted, and what it may be.
struct Knob {
  double &value;
  double least, most;
};
} // namespace

/// Lowers `error` by turning one knob at a time, up and down by a factor that
/// shrinks to 1: the constants are positive and nearly independent.
static void descend(llvm::ArrayRef<Knob> knobs,
                    llvm::function_ref<double()> error) {
  double best = error();
  for (double factor = 2; factor > 1.0005;) {
    bool improved = false;
    for (const Knob &knob : knobs)
      for (double turn : {factor, 1 / factor}) {
        double before = knob.value;
        knob.value = std::clamp(before * turn, knob.least, knob.most);
        double now = error();
        if (now < best) {
          best = now;
          improved = true;
        } else {
          knob.value = before;
        }
      }
    if (!improved)
      factor = std::sqrt(factor);
  }
}

/// Of an absolute value, since a call that was disturbed says nothing.
static double getError(double predicted, double measured) {
  return std::abs(std::log(predicted / measured));
}

void cleave::fitMatmuls(Device &device, DType dtype,
                        llvm::ArrayRef<MatmulSample> samples) {
  MatrixUnit &unit = device.matrix[size_t(dtype)];
  unit.efficiency = unit.memoryEfficiency = 0.8;
  unit.tileStartup = unit.launch = 1e-6;
  const Knob knobs[] = {{unit.efficiency, 0.01, 1},
                        {unit.tileStartup, 1e-9, 1e-3},
                        {unit.launch, 1e-9, 1e-2},
                        {unit.memoryEfficiency, 0.01, 1}};
  descend(knobs, [&] {
    double sum = 0;
    for (const MatmulSample &each : samples)
      sum += getError(getMatmulTime(device, dtype, double(each.m),
                                    double(each.n), double(each.k)),
                      each.seconds);
    return sum;
  });
}

AttentionUnit cleave::fitAttention(const Device &device,
                                   llvm::ArrayRef<AttentionSample> samples) {
  Device fitted = device;
  AttentionUnit &unit = fitted.attention["fitted"];
  unit = {0.2, 0.2, 64, 0.8, 0};
  const Knob knobs[] = {{unit.forward, 0.001, 1},
                        {unit.backward, 0.001, 1},
                        {unit.ramp, 1, 1e5},
                        {unit.narrow, 0.1, 1}};
  descend(knobs, [&] {
    double sum = 0;
    for (const AttentionSample &each : samples) {
      double rows = double(each.rows), dim = double(each.headDim);
      sum += getError(getAttentionTime(fitted, "fitted", DType::BF16,
                                       each.direction, double(each.heads), rows,
                                       rows * (rows + 1) / 2, dim, dim),
                      each.seconds);
    }
    return sum;
  });
  return unit;
}

CollectiveCurve cleave::fitCollective(CollectiveKind kind,
                                      llvm::ArrayRef<CollectiveSample> all) {
  std::vector<CollectiveSample> samples;
  Machine machine;
  machine.levels.resize(1);
  CollectiveCurve &curve = machine.levels[0].link.collectives[size_t(kind)];
  curve.startup = curve.startupPerRank = 1e-6;
  for (const CollectiveSample &each : all) {
    if (each.kind != kind)
      continue;
    samples.push_back(each);
    if (curve.bandwidth.empty() || curve.bandwidth.back().first != each.ranks)
      curve.bandwidth.emplace_back(each.ranks, 1e9);
  }
  std::vector<Knob> knobs = {{curve.startup, 1e-8, 1e-1},
                             {curve.startupPerRank, 1e-9, 1e-1}};
  for (auto &[ranks, rate] : curve.bandwidth)
    knobs.push_back({rate, 1e3, 1e13});
  descend(knobs, [&] {
    double sum = 0;
    for (const CollectiveSample &each : samples) {
      machine.devices = machine.levels[0].size = each.ranks;
      sum += getError(
          getCollectiveTime(machine, kind, {each.ranks, 1}, each.bytes),
          each.seconds);
    }
    return sum;
  });
  return curve;
}
