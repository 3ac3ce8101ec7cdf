//===- Cases.cpp - Small functions, one for each way to use an op ---------===//
#include "Cases.h"
#include <tuple>

using namespace cleave::xf;

/// `func @f(ARGS) -> RESULT { BODY return %y }`
static std::string function(std::string arguments, std::string result,
                            std::string body) {
  return "func.func @f(" + arguments + ") -> " + result + " {\n" + body +
         "\nreturn %y : " + result + "\n}\n";
}

static Case linear(std::string name, std::string x, std::string w,
                   std::string bias, std::string y, int contract,
                   bool inputsFirst) {
  std::string b = bias.empty() ? "" : ", %b", type = bias.empty() ? "" : ", ";
  return {name, function("%x: " + x + ", %w: " + w +
                             (bias.empty() ? "" : ", %b: " + bias),
                         y,
                         "%y = xf.linear %x, %w" + b + " {contract = " +
                             std::to_string(contract) + " : i64" +
                             (inputsFirst ? ", inputs_first" : "") + "} : (" +
                             x + ", " + w + type + bias + ") -> " + y)};
}

static Case attention(std::string name, int heads, int kvHeads,
                      std::string more) {
  std::string q = "tensor<2x5x" + std::to_string(heads) + "x4xf32>";
  std::string k = "tensor<2x5x" + std::to_string(kvHeads) + "x4xf32>";
  std::string lse = "tensor<2x" + std::to_string(heads) + "x5xf32>";
  return {name, function("%q: " + q + ", %k: " + k + ", %v: " + k, q,
                         "%y, %lse = xf.attention %q, %k, %v "
                         "{scale = 0.7 : f64" +
                             more + "} : (" + q + ", " + k + ", " + k +
                             ") -> (" + q + ", " + lse + ")")};
}

static Case rmsNorm(std::string name, std::string x, std::string w,
                    std::string rows, std::string more) {
  return {name, function("%x: " + x + ", %w: " + w, x,
                         "%y, %r = xf.rms_norm %x, %w {eps = 1.0e-2 : f64" +
                             more + "} : (" + x + ", " + w + ") -> (" + x +
                             ", " + rows + ")")};
}

static Case rope(std::string name, int depth, std::string more) {
  std::string x = "tensor<2x3x2x" + std::to_string(depth) + "xf32>";
  return {name, function("%x: " + x +
                             ", %c: tensor<3x2xf32> {func.constant}, "
                             "%s: tensor<3x2xf32> {func.constant}",
                         x,
                         "%y = xf.rope %x, %c, %s " + more + " : (" + x +
                             ", tensor<3x2xf32>, tensor<3x2xf32>) -> " + x)};
}

/// Name, loss and norm.
using GuardCase = std::tuple<const char *, const char *, const char *>;

/// Of a loss and a norm that are so many times a positive number, with the
/// schedule that `limits` makes of %s.
static Case guard(const std::string &name, const std::string &loss,
                  const std::string &norm, const std::string &limits) {
  auto scaled = [](const std::string &result, const std::string &factor) {
    return result + "2 = xf.mul " + result + ", " + result +
           " : (tensor<f32>, tensor<f32>) -> tensor<f32>\n" + result +
           "3 = xf.scale " + result + "2 {factor = " + factor +
           " : f64} : (tensor<f32>) -> tensor<f32>\n";
  };
  return {"guard_" + name,
          function("%f: tensor<f32>, %l: tensor<f32>, %n: tensor<f32>, "
                   "%s: tensor<5xf32>",
                   "tensor<f32>",
                   scaled("%l", loss) + scaled("%n", norm) + limits +
                       "%y = xf.guard %f, %l3, %n3, %s1 : (tensor<f32>, "
                       "tensor<f32>, tensor<f32>, tensor<5xf32>) -> "
                       "tensor<f32>")};
}

std::vector<Case> cleave::xf::getDifferentiable() {
  std::vector<Case> cases;
  auto add = [&](Case one) { cases.push_back(std::move(one)); };

  add({"embedding",
       function("%i: tensor<2x4xi32>, %t: tensor<5x3xf32>", "tensor<2x4x3xf32>",
                "%y = xf.embedding %i, %t : (tensor<2x4xi32>, tensor<5x3xf32>) "
                "-> tensor<2x4x3xf32>"),
       5});
  add(linear("linear", "tensor<2x3x4xf32>", "tensor<5x4xf32>", "",
             "tensor<2x3x5xf32>", 1, false));
  add(linear("linear_bias", "tensor<2x3x4xf32>", "tensor<5x4xf32>",
             "tensor<5xf32>", "tensor<2x3x5xf32>", 1, false));
  add(linear("linear_heads", "tensor<2x3x4xf32>", "tensor<2x3x4xf32>",
             "tensor<2x3xf32>", "tensor<2x3x2x3xf32>", 1, false));
  add(linear("linear_inputs_first", "tensor<2x3x4xf32>", "tensor<4x2x3xf32>",
             "tensor<2x3xf32>", "tensor<2x3x2x3xf32>", 1, true));
  add(linear("linear_contract_2", "tensor<2x3x2x3xf32>", "tensor<4x2x3xf32>",
             "tensor<4xf32>", "tensor<2x3x4xf32>", 2, false));
  add(linear("linear_contract_2_inputs_first", "tensor<2x3x2x3xf32>",
             "tensor<2x3x4xf32>", "tensor<4xf32>", "tensor<2x3x4xf32>", 2,
             true));
  add(rmsNorm("rms_norm", "tensor<2x3x4xf32>", "tensor<4xf32>",
              "tensor<2x3xf32>", ""));
  add(rmsNorm("rms_norm_offset", "tensor<2x3x4xf32>", "tensor<4xf32>",
              "tensor<2x3xf32>", ", offset = 1.0 : f64, weight_in_f32"));
  add(rmsNorm("rms_norm_heads", "tensor<2x3x2x3xf32>", "tensor<2x3xf32>",
              "tensor<2x3xf32>", ""));
  add(rmsNorm("rms_norm_per_head", "tensor<2x3x2x3xf32>", "tensor<3xf32>",
              "tensor<2x3x2xf32>", ""));
  add({"layer_norm",
       function("%x: tensor<2x3x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>",
                "tensor<2x3x4xf32>",
                "%y, %m, %r = xf.layer_norm %x, %w, %b {eps = 1.0e-2 : f64} : "
                "(tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> "
                "(tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)")});
  add(rope("rope", 4, ""));
  add(rope("rope_inverse", 4, "{inverse}"));
  add(rope("rope_partial", 6, ""));
  add(attention("attention", 2, 2, ""));
  add(attention("attention_grouped", 4, 2, ""));
  add(attention("attention_one_key_head", 3, 1, ""));
  add(attention("attention_window", 4, 2, ", window = 2 : i64"));
  add(attention("attention_softcap", 4, 2, ", softcap = 1.5 : f64"));
  add(attention("attention_all", 4, 2,
                ", softcap = 1.5 : f64, window = 3 : i64"));
  for (int kind = 0; kind < 7; ++kind) {
    std::string x = "tensor<3x8xf32>",
                attribute = " {kind = " + std::to_string(kind) + " : i32} : ";
    add({"activation_" + std::to_string(kind),
         function("%x: " + x, x,
                  "%y = xf.activation %x" + attribute + "(" + x + ") -> " +
                      x)});
    add({"glu_" + std::to_string(kind),
         function("%g: " + x + ", %u: " + x, x,
                  "%y = xf.glu %g, %u" + attribute + "(" + x + ", " + x +
                      ") -> " + x)});
  }
  add({"add", function("%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xf32>, "
                       "%c: tensor<3x4xf32>, %d: tensor<4xf32>",
                       "tensor<2x3x4xf32>",
                       "%y = xf.add %a, %b, %c, %d : (tensor<2x3x4xf32>, "
                       "tensor<2x3x4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> "
                       "tensor<2x3x4xf32>")});
  // One value twice: its gradient is twice that of the sum.
  add({"add_twice",
       function("%a: tensor<2x3xf32>", "tensor<2x3xf32>",
                "%y = xf.add %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
                "tensor<2x3xf32>")});
  add({"scale", function("%x: tensor<2x3xf32>", "tensor<2x3xf32>",
                         "%y = xf.scale %x {factor = -2.5 : f64} : "
                         "(tensor<2x3xf32>) -> tensor<2x3xf32>")});
  add({"cast", function("%x: tensor<2x3xf32>", "tensor<2x3xf32>",
                        "%h = xf.cast %x : (tensor<2x3xf32>) -> "
                        "tensor<2x3xbf16>\n%y = xf.cast %h : "
                        "(tensor<2x3xbf16>) -> tensor<2x3xf32>")});
  add({"slice_rows", function("%x: tensor<6x4xf32>", "tensor<3x4xf32>",
                              "%y = xf.slice_rows %x {start = 2 : i64} : "
                              "(tensor<6x4xf32>) -> tensor<3x4xf32>")});
  std::string entropy = "%y, %l = xf.cross_entropy %x, %t {vocab = 5 : i64} : "
                        "(tensor<2x4x6xf32>, tensor<2x4xi32>) -> "
                        "(tensor<f32>, tensor<2x4xf32>)";
  std::string arguments = "%x: tensor<2x4x6xf32>, %t: tensor<2x4xi32>";
  add({"cross_entropy", function(arguments, "tensor<f32>", entropy), 5});
  add({"cross_entropy_ignored", function(arguments, "tensor<f32>", entropy), 5,
       true});
  // A value that several ops read gets the sum of their gradients.
  add({"shared", function("%x: tensor<2x3x4xf32>, %w: tensor<4x4xf32>",
                          "tensor<2x3x4xf32>", R"(
    %a = xf.linear %x, %w {contract = 1 : i64}
        : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    %b = xf.activation %a {kind = 3 : i32}
        : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %c = xf.linear %b, %w {contract = 1 : i64, inputs_first}
        : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    %y = xf.add %x, %c, %a : (tensor<2x3x4xf32>, tensor<2x3x4xf32>,
                              tensor<2x3x4xf32>) -> tensor<2x3x4xf32>)")});
  return cases;
}

std::vector<Case> cleave::xf::getOthers() {
  std::vector<Case> cases;
  auto add = [&](Case one) { cases.push_back(std::move(one)); };
  add({"parts_of_the_loss",
       function("%x: tensor<2x4x6xf32>, %t: tensor<2x4xi32>", "tensor<f32>", R"(
    %m = xf.row_max %x {vocab = 5 : i64}
        : (tensor<2x4x6xf32>) -> tensor<2x4xf32>
    %z = xf.sum_exp %x, %m {vocab = 5 : i64}
        : (tensor<2x4x6xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %p = xf.pick %x, %t
        : (tensor<2x4x6xf32>, tensor<2x4xi32>) -> tensor<2x4xf32>
    %each, %lse = xf.token_loss %m, %z, %p, %t
        : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xi32>)
       -> (tensor<2x4xf32>, tensor<2x4xf32>)
    %sum = xf.sum %each : (tensor<2x4xf32>) -> tensor<f32>
    %n = xf.count_tokens %t : (tensor<2x4xi32>) -> tensor<f32>
    %r = xf.reciprocal %n : (tensor<f32>) -> tensor<f32>
    %y = xf.mul %sum, %r : (tensor<f32>, tensor<f32>) -> tensor<f32>)"),
       5, true});
  add({"no_targets",
       function("%x: tensor<f32>", "tensor<f32>",
                "%z = xf.scale %x {factor = 0.0 : f64} : (tensor<f32>) -> "
                "tensor<f32>\n%y = xf.reciprocal %z : (tensor<f32>) -> "
                "tensor<f32>")});
  add({"padding",
       function("%x: tensor<2x4x6xf32>, %t: tensor<2x4xi32>",
                "tensor<2x4x6xf32>",
                "%y = xf.mask_rows %x, %t {id = 2 : i64} : (tensor<2x4x6xf32>, "
                "tensor<2x4xi32>) -> tensor<2x4x6xf32>"),
       5, true});
  // Bounds above and below the norm, and none.
  for (const char *bound : {"0.3", "1000.0", "0.0"})
    add({std::string("clip_") + bound,
         function("%g: tensor<3x4xf32>", "tensor<f32>",
                  "%s = xf.square_sum %g : (tensor<3x4xf32>) -> tensor<f32>\n"
                  "%n, %y = xf.clip_factor %s {max_norm = " +
                      std::string(bound) +
                      " : f64} : (tensor<f32>) -> (tensor<f32>, "
                      "tensor<f32>)")});
  // A step that counts has a clip factor above 0; where it is 0, or less, all
  // stays as it is.
  const std::string above0 = "%c2 = xf.mul %c, %c : (tensor<f32>, "
                             "tensor<f32>) -> tensor<f32>\n";
  const std::string at0 = "%c2 = xf.scale %c {factor = 0.0 : f64} : "
                          "(tensor<f32>) -> tensor<f32>\n";
  // Below limits of 0, at them and above them.
  const std::string zeros = "%s1 = xf.scale %s {factor = 0.0 : f64} : "
                            "(tensor<5xf32>) -> tensor<5xf32>\n";
  for (auto [name, loss, norm] : {GuardCase("good", "-0.1", "-2.0"),
                                  GuardCase("loss_at_limit", "0.0", "-1.0"),
                                  GuardCase("norm_at_limit", "-1.0", "0.0"),
                                  GuardCase("high_loss", "1.0e-6", "-1.0"),
                                  GuardCase("high_norm", "-1.0", "1.0e-6"),
                                  GuardCase("high", "2.0", "3.0")})
    add(guard(name, loss, norm, zeros));
  for (const char *decay : {"0.1", "0.0"})
    add({std::string("adamw_decay_") + decay,
         function("%w: tensor<3x4xf32>, %m: tensor<3x4xf32>, "
                  "%x: tensor<3x4xf32>, %g: tensor<3x4xf32>, "
                  "%c: tensor<f32>, %s: tensor<5xf32>",
                  "tensor<3x4xf32>",
                  // A second moment and its correction are positive.
                  "%v = xf.mul %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) "
                  "-> tensor<3x4xf32>\n"
                  "%s2 = xf.mul %s, %s : (tensor<5xf32>, tensor<5xf32>) -> "
                  "tensor<5xf32>\n" +
                      above0 +
                      "%y, %m1, %v1 = xf.adamw %w, %m, %v, %g, %c2, %s2 "
                      "{beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : "
                      "f64, decay = " +
                      std::string(decay) +
                      " : f64} : (tensor<3x4xf32>, tensor<3x4xf32>, "
                      "tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>, "
                      "tensor<5xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, "
                      "tensor<3x4xf32>)")});
  add({"adamw_bf16",
       function("%w: tensor<3x4xf32>, %m: tensor<3x4xbf16>, "
                "%x: tensor<3x4xf32>, %g: tensor<3x4xf32>, %c: tensor<f32>",
                "tensor<3x4xf32>",
                "%x2 = xf.mul %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) "
                "-> tensor<3x4xf32>\n"
                "%v = xf.cast %x2 : (tensor<3x4xf32>) -> tensor<3x4xbf16>\n"
                "%s = xf.schedule {kind = 0 : i32, lr = 0.1 : f64, min_lr = "
                "0.0 : f64, warmup_steps = 0 : i64, decay_steps = 0 : i64, "
                "stable_steps = 0 : i64, beta1 = 0.9 : f64, beta2 = 0.95 : "
                "f64} : tensor<5xf32>\n" +
                    above0 +
                    "%y, %m1, %v1 = xf.adamw %w, %m, %v, %g, %c2, %s "
                    "{beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : "
                    "f64, decay = 0.1 : f64} : (tensor<3x4xf32>, "
                    "tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3x4xf32>, "
                    "tensor<f32>, tensor<5xf32>) -> (tensor<3x4xf32>, "
                    "tensor<3x4xbf16>, tensor<3x4xbf16>)")});
  // With one moment; where moment and gradient are zero (`nothing`) too.
  auto addUpdate = [&](const std::string &op, const std::string &attributes,
                       const char *decay, const char *scale,
                       const std::string &clip) {
    std::string nothing = std::string(scale) == "0.0" ? "nothing_" : "";
    std::string bad = clip == at0 ? "bad_step_" : "";
    add({op + "_" + nothing + bad + "decay_" + decay,
         function("%w: tensor<3x4xf32>, %m: tensor<3x4xf32>, "
                  "%g: tensor<3x4xf32>, %c: tensor<f32>, %s: tensor<5xf32>",
                  "tensor<3x4xf32>",
                  "%m0 = xf.scale %m {factor = " + std::string(scale) +
                      " : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>\n"
                      "%g0 = xf.scale %g {factor = " +
                      scale +
                      " : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>\n" +
                      clip + "%y, %m1 = xf." + op + " %w, %m0, %g0, %c2, %s {" +
                      attributes + ", decay = " + decay +
                      " : f64} : (tensor<3x4xf32>, tensor<3x4xf32>, "
                      "tensor<3x4xf32>, tensor<f32>, tensor<5xf32>) -> "
                      "(tensor<3x4xf32>, tensor<3x4xf32>)")});
  };
  for (const char *decay : {"0.1", "0.0"})
    add({std::string("muon_decay_") + decay,
         function("%w: tensor<3x4xf32>, %m: tensor<3x4xf32>, "
                  "%g: tensor<3x4xf32>, %c: tensor<f32>, %s: tensor<5xf32>, "
                  "%d: tensor<3x4xf32>",
                  "tensor<3x4xf32>",
                  above0 +
                      "%y, %m1 = xf.muon %w, %m, %g, %c2, %s, %d {momentum = "
                      "0.9 : f64, decay = " +
                      std::string(decay) +
                      " : f64} : (tensor<3x4xf32>, tensor<3x4xf32>, "
                      "tensor<3x4xf32>, tensor<f32>, tensor<5xf32>, "
                      "tensor<3x4xf32>) -> (tensor<3x4xf32>, "
                      "tensor<3x4xf32>)")});
  add({"nesterov",
       function("%m: tensor<3x4xf32>, %g: tensor<3x4xf32>, %c: tensor<f32>",
                "tensor<3x4xf32>",
                "%y = xf.nesterov %m, %g, %c {momentum = 0.9 : f64} : "
                "(tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>) -> "
                "tensor<3x4xf32>")});
  // A norm above the bound and one below it.
  for (const char *eps : {"0.1", "100.0"})
    add({std::string("normalize_eps_") + eps,
         function("%x: tensor<3x4xf32>", "tensor<3x4xf32>",
                  "%s = xf.square_sum %x : (tensor<3x4xf32>) -> tensor<f32>\n"
                  "%y = xf.normalize %x, %s {eps = " +
                      std::string(eps) +
                      " : f64} : (tensor<3x4xf32>, tensor<f32>) -> "
                      "tensor<3x4xf32>")});
  for (const char *decay : {"0.1", "0.0"})
    for (const char *scale : {"1.0", "0.0"})
      for (const std::string &clip : {above0, at0}) {
        addUpdate("sgd", "momentum = 0.9 : f64", decay, scale, clip);
        addUpdate("lion", "beta1 = 0.9 : f64, beta2 = 0.99 : f64", decay, scale,
                  clip);
      }
  return cases;
}
