//===- KernelSum.h - Seconds of the kernels of a part of the model --------===//
#ifndef CLEAVE_LIB_COST_KERNELSUM_H
#define CLEAVE_LIB_COST_KERNELSUM_H

#include "cleave/Cost/Kernels.h"
#include "cleave/Cost/Work.h"
#include "llvm/ADT/ArrayRef.h"
#include <numeric>

namespace cleave {

/// Adds up kernels; forward and backward of one op at a time. Each call returns
/// the seconds of its forward kernels, for what recomputation repeats.
struct KernelSum {
  /// What products of an input and weights are for: their outputs, or
  /// gradients.
  enum class Pass { Forward, Input, Weight };

  const Device &device;
  DType dtype;
  double rate; ///< of matrix products, see Profile::matrixRate
  double launch = device.getMatrix(dtype).launch;
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  double linear = 0; ///< forward seconds of all products

  /// x [rows, in] -> [rows, out] and its two gradients.
  double addLinear(double rows, double out, double in) {
    return addLinears(rows, out, in);
  }
  /// The same of several weights that read one x, each by a product of its own;
  /// the sum of their gradients of x reads each but one once more.
  double addLinears(double rows, llvm::ArrayRef<double> outs, double in) {
    addCasts(rows * in, rows * std::accumulate(outs.begin(), outs.end(), 0.));
    double time = 0;
    for (double out : outs)
      time += addProduct(rows, out, in);
    backwardInput += getStreamTime(device, double(outs.size() - 1) * rows * in *
                                               getBytes(DType::BF16));
    return time;
  }
  /// Seconds of one product of x [rows, in] and a weight, which are not added.
  double getProduct(Pass pass, double rows, double out, double in) const {
    double seconds =
        pass == Pass::Forward ? getMatmulTime(device, dtype, rows, out, in)
        : pass == Pass::Input ? getMatmulTime(device, dtype, rows, in, out)
                              : getMatmulTime(device, dtype, out, in, rows);
    return seconds / rate;
  }
  /// Pointwise or row kernels that move these bytes.
  double addStream(double forwardBytes, double backwardBytes) {
    double time = launch + getStreamTime(device, forwardBytes);
    forward += time;
    backwardInput += launch + getStreamTime(device, backwardBytes);
    return time;
  }
  /// The same, of a tensor of so many bytes.
  double addPasses(Passes passes, double bytes) {
    return addStream(passes.forward * bytes, passes.backward * bytes);
  }

private:
  double addProduct(double rows, double out, double in) {
    double time = getProduct(Pass::Forward, rows, out, in);
    forward += time;
    linear += time;
    backwardInput += getProduct(Pass::Input, rows, out, in);
    backwardWeight += getProduct(Pass::Weight, rows, out, in);
    return time;
  }
  /// Below bf16, operands are quantized in two layouts, since products for
  /// gradients read them transposed. Kernels that write an input anyway write
  /// these; output gradients are read and cast. Weights are once a step.
  void addCasts(double input, double output) {
    if (dtype != DType::FP8 && dtype != DType::FP4)
      return;
    forward += getStreamTime(device, input * getBytes(dtype));
    backwardInput += getStreamTime(
        device, output * (getBytes(DType::BF16) + 2 * getBytes(dtype)));
  }
};

} // namespace cleave

#endif // CLEAVE_LIB_COST_KERNELSUM_H
