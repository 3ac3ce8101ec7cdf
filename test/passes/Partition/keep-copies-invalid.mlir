// RUN: cleave-opt %s --cleave-keep-copies -verify-diagnostics

// expected-error @+1 {{expects a function named "step"}}
module {
  func.func @forward() {
    return
  }
}
