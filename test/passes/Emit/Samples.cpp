//===- Samples.cpp - The kernels that emitters are tried on ---------------===//
#include "Samples.h"

using namespace cleave::test;

namespace {

/// Writes an exec.kernel. In bodies, %a, %b, ... are the inputs.
class Writer {
public:
  Writer(std::string mode, int64_t rows, int64_t columns, std::string suffix)
      : mode(std::move(mode)), suffix(std::move(suffix)), rows(rows),
        columns(columns) {}

  std::string access(const std::string &type, int64_t offset, int64_t div,
                     int64_t mod, int64_t stride, int col) const {
    auto text = [](int64_t value) { return std::to_string(value); };
    return "#exec.access<" + type + ", offset = " + text(offset) + ", row = (" +
           text(div) + ", " + text(mod) + ", " + text(stride) +
           "), col = " + text(col) + ">";
  }
  std::string full(const std::string &type) const {
    return access(type, 0, 1, 0, columns, 1);
  }
  std::string perRow(const std::string &type) const {
    return access(type, 0, 1, 0, 1, 0);
  }
  std::string perColumn(const std::string &type) const {
    return access(type, 0, 1, 1, 0, 1);
  }
  std::string scalar(const std::string &type, int64_t offset = 0) const {
    return access(type, offset, 1, 1, 0, 0);
  }

  /// `types`: of the block arguments; `yields`: what exec.yield says.
  void add(const std::string &name, std::vector<std::string> inputs,
           std::vector<std::string> outputs, std::vector<Fill> fills,
           const std::string &body, const std::string &accumulate = "never") {
    std::string full = name + suffix;
    std::string text = "exec.kernel @" + full + " mode = " + mode +
                       ", rows = " + std::to_string(rows) +
                       ", columns = " + std::to_string(columns) +
                       ", inputs = [" + join(inputs) + "], outputs = [" +
                       join(outputs) + "]";
    if (accumulate != "never")
      text += ", accumulate = " + accumulate;
    text += " {\n^bb0(";
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool isInteger = inputs[i].find("<i32") != std::string::npos;
      text += std::string(i ? ", " : "") + "%" + char('a' + i) +
              (isInteger ? ": i32" : ": f32");
    }
    text += "):\n" + body + "}\n";
    samples.push_back({full, text, std::move(fills)});
  }

  std::vector<Sample> samples;
  std::string mode, suffix;
  int64_t rows, columns;

private:
  static std::string join(const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts)
      text += (text.empty() ? "" : ", ") + part;
    return text;
  }
};

} // namespace

static std::string number(double value) {
  char text[64];
  snprintf(text, sizeof text, "%.9e", value);
  return text;
}

/// A name ending that tells a size and storage.
static std::string getSuffix(int64_t rows, int64_t columns,
                             const std::string &storage) {
  return "_" + std::to_string(rows) + "x" + std::to_string(columns) + "_" +
         storage;
}

/// %<out> = silu(%<x>) as x / (1 + exp(-x)), and %<out>_s the sigmoid.
static std::string silu(const std::string &out, const std::string &x) {
  return "%minus = arith.negf " + x + " : f32\n" +
         "%e = math.exp %minus : f32\n"
         "%one = arith.constant 1.0 : f32\n"
         "%d = arith.addf %e, %one : f32\n" +
         out + "_s = arith.divf %one, %d : f32\n" + out + " = arith.mulf " + x +
         ", " + out + "_s : f32\n";
}

static const char *const geluErf = R"(
  %c = arith.constant 0.70710678118 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %s = arith.mulf %a, %c : f32
  %e = math.erf %s : f32
  %p = arith.addf %e, %one : f32
  %phi = arith.mulf %p, %half : f32
  %y = arith.mulf %a, %phi : f32
)";

static const char *const geluTanh = R"(
  %c = arith.constant 0.7978845608 : f32
  %k = arith.constant 0.044715 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %xx = arith.mulf %a, %a : f32
  %kx = arith.mulf %xx, %k : f32
  %k1 = arith.addf %kx, %one : f32
  %cx = arith.mulf %a, %c : f32
  %u = arith.mulf %cx, %k1 : f32
  %t = math.tanh %u : f32
  %t1 = arith.addf %t, %one : f32
  %h = arith.mulf %t1, %half : f32
  %y = arith.mulf %a, %h : f32
)";

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static void addNorms(Writer &w, const std::string &s) {
  std::string n = "%n = arith.constant " + number(double(w.columns)) +
                  " : f32\n%eps = arith.constant 1.0e-5 : f32\n";
  w.add("rms_norm", {w.full(s), w.perColumn(s)}, {w.full(s), w.perRow("f32")},
        {Fill::Normal, Fill::Normal}, n + R"(
  %xx = arith.mulf %a, %a : f32
  %sum = exec.row_reduce sum %xx : f32
  %mean = arith.divf %sum, %n : f32
  %shifted = arith.addf %mean, %eps : f32
  %r = math.rsqrt %shifted : f32
  %xr = arith.mulf %a, %r : f32
  %y = arith.mulf %xr, %b : f32
  exec.yield %y, %r : f32, f32
)");
  w.add("add_rms_norm", {w.full(s), w.full(s), w.perColumn(s)},
        {w.full(s), w.full(s)}, {Fill::Normal, Fill::Normal, Fill::Normal},
        n + R"(
  %h = arith.addf %a, %b : f32
  %narrow = arith.truncf %h : f32 to bf16
  %x = arith.extf %narrow : bf16 to f32
  %xx = arith.mulf %x, %x : f32
  %sum = exec.row_reduce sum %xx : f32
  %mean = arith.divf %sum, %n : f32
  %shifted = arith.addf %mean, %eps : f32
  %r = math.rsqrt %shifted : f32
  %xr = arith.mulf %x, %r : f32
  %y = arith.mulf %xr, %c : f32
  exec.yield %x, %y : f32, f32
)");
  w.add("rms_norm_grad",
        {w.full(s), w.perColumn(s), w.perRow("f32"), w.full(s)}, {w.full(s)},
        {Fill::Normal, Fill::Normal, Fill::Positive, Fill::Normal}, n + R"(
  %g = arith.mulf %d, %b : f32
  %gx = arith.mulf %g, %a : f32
  %sum = exec.row_reduce sum %gx : f32
  %mean = arith.divf %sum, %n : f32
  %rr = arith.mulf %c, %c : f32
  %pull = arith.mulf %mean, %rr : f32
  %xp = arith.mulf %a, %pull : f32
  %diff = arith.subf %g, %xp : f32
  %y = arith.mulf %c, %diff : f32
  exec.yield %y : f32
)");
  w.add("layer_norm", {w.full(s), w.perColumn(s), w.perColumn(s)},
        {w.full(s), w.perRow("f32"), w.perRow("f32")},
        {Fill::Normal, Fill::Normal, Fill::Normal}, n + R"(
  %sum = exec.row_reduce sum %a : f32
  %mean = arith.divf %sum, %n : f32
  %x = arith.subf %a, %mean : f32
  %xx = arith.mulf %x, %x : f32
  %squares = exec.row_reduce sum %xx : f32
  %var = arith.divf %squares, %n : f32
  %shifted = arith.addf %var, %eps : f32
  %r = math.rsqrt %shifted : f32
  %xr = arith.mulf %x, %r : f32
  %xw = arith.mulf %xr, %b : f32
  %y = arith.addf %xw, %c : f32
  exec.yield %y, %mean, %r : f32, f32, f32
)");
  w.add(
      "layer_norm_grad",
      {w.full(s), w.perColumn(s), w.perRow("f32"), w.perRow("f32"), w.full(s)},
      {w.full(s)},
      {Fill::Normal, Fill::Normal, Fill::Normal, Fill::Positive, Fill::Normal},
      n + R"(
  %g = arith.mulf %e, %b : f32
  %x = arith.subf %a, %c : f32
  %normal = arith.mulf %x, %d : f32
  %sumG = exec.row_reduce sum %g : f32
  %meanG = arith.divf %sumG, %n : f32
  %gn = arith.mulf %g, %normal : f32
  %sumGN = exec.row_reduce sum %gn : f32
  %meanGN = arith.divf %sumGN, %n : f32
  %np = arith.mulf %normal, %meanGN : f32
  %pull = arith.addf %meanG, %np : f32
  %diff = arith.subf %g, %pull : f32
  %y = arith.mulf %d, %diff : f32
  exec.yield %y : f32
)");
}

static void addSoftmaxes(Writer &w, const std::string &s) {
  // The vocabulary ends before the columns do; indices are over shards.
  std::string column = "%local = exec.column : i32\n"
                       "%shard = exec.shard_index : i32\n"
                       "%width = arith.constant " +
                       std::to_string(w.columns) +
                       " : i32\n"
                       "%first = arith.muli %shard, %width : i32\n"
                       "%column = arith.addi %first, %local : i32\n";
  std::string inside =
      column + "%vocab = arith.constant " +
      std::to_string(w.columns + w.columns - (w.columns > 2 ? 2 : 0)) +
      " : i32\n%in = arith.cmpi slt, %column, %vocab : i32\n";
  w.add("row_max", {w.full(s)}, {w.perRow("f32")}, {Fill::Normal}, inside + R"(
  %lowest = arith.constant -3.40282347e+38 : f32
  %x = arith.select %in, %a, %lowest : f32
  %max = exec.row_reduce max %x : f32
  exec.yield %max : f32
)");
  w.add("sum_exp", {w.full(s), w.perRow("f32")}, {w.perRow("f32")},
        {Fill::Normal, Fill::Positive}, inside + R"(
  %shifted = arith.subf %a, %b : f32
  %exp = math.exp %shifted : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.select %in, %exp, %zero : f32
  %sum = exec.row_reduce sum %kept : f32
  exec.yield %sum : f32
)");
  w.add("softmax", {w.full(s)}, {w.full(s)}, {Fill::Normal}, R"(
  %max = exec.row_reduce max %a : f32
  %shifted = arith.subf %a, %max : f32
  %exp = math.exp %shifted : f32
  %sum = exec.row_reduce sum %exp : f32
  %y = arith.divf %exp, %sum : f32
  exec.yield %y : f32
)");
  w.add("pick", {w.full(s), w.perRow("i32")}, {w.perRow("f32")},
        {Fill::Normal, Fill::Index}, column + R"(
  %hit = arith.cmpi eq, %column, %b : i32
  %zero = arith.constant 0.0 : f32
  %x = arith.select %hit, %a, %zero : f32
  %sum = exec.row_reduce sum %x : f32
  exec.yield %sum : f32
)");
  // Sums that follow a maximum, and one that does not.
  w.add("cross_entropy", {w.full(s), w.perRow("i32"), w.scalar("f32")},
        {w.perRow("f32"), w.perRow("f32"), w.perRow("f32")},
        {Fill::Normal, Fill::Index, Fill::Normal}, inside + R"(
  %lowest = arith.constant -3.40282347e+38 : f32
  %x = arith.select %in, %a, %lowest : f32
  %max = exec.row_reduce max %x : f32
  %shifted = arith.subf %a, %max : f32
  %exp = math.exp %shifted : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.select %in, %exp, %zero : f32
  %sum = exec.row_reduce sum %kept : f32
  %weighted = arith.mulf %kept, %a : f32
  %scaled = arith.mulf %weighted, %c : f32
  %moment = exec.row_reduce sum %scaled : f32
  %hit = arith.cmpi eq, %column, %b : i32
  %target = arith.select %hit, %a, %zero : f32
  %picked = exec.row_reduce sum %target : f32
  %log = math.log %sum : f32
  %lse = arith.addf %max, %log : f32
  %loss = arith.subf %lse, %picked : f32
  %mean = arith.divf %moment, %sum : f32
  exec.yield %loss, %lse, %mean : f32, f32, f32
)");
  // Half of the row is left out: a thread may see nothing else at first.
  w.add("late_sum", {w.full(s)}, {w.perRow("f32")}, {Fill::Normal},
        "%column = exec.column : i32\n%half = arith.constant " +
            std::to_string(w.columns / 2) + R"( : i32
  %out = arith.cmpi slt, %column, %half : i32
  %lowest = arith.constant 0xFF800000 : f32
  %x = arith.select %out, %lowest, %a : f32
  %max = exec.row_reduce max %x : f32
  %shifted = arith.subf %x, %max : f32
  %exp = math.exp %shifted : f32
  %sum = exec.row_reduce sum %exp : f32
  exec.yield %sum : f32
)");
  w.add("cross_entropy_grad",
        {w.full(s), w.perRow("f32"), w.perRow("i32"), w.scalar("f32", 3)},
        {w.full(s)}, {Fill::Normal, Fill::Positive, Fill::Index, Fill::Normal},
        inside + R"(
  %hit = arith.cmpi eq, %column, %c : i32
  %shifted = arith.subf %a, %b : f32
  %p = math.exp %shifted : f32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %target = arith.select %hit, %one, %zero : f32
  %diff = arith.subf %p, %target : f32
  %grad = arith.mulf %d, %diff : f32
  %none = arith.constant 0 : i32
  %counted = arith.cmpi sge, %c, %none : i32
  %keep = arith.andi %in, %counted : i1
  %y = arith.select %keep, %grad, %zero : f32
  exec.yield %y : f32
)");
  w.add("count", {w.full("i32")}, {w.perRow("f32")}, {Fill::Index}, R"(
  %none = arith.constant 0 : i32
  %counted = arith.cmpi sge, %a, %none : i32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %x = arith.select %counted, %one, %zero : f32
  %sum = exec.row_reduce sum %x : f32
  exec.yield %sum : f32
)");
}

std::vector<Sample> cleave::test::makeRowSamples(int64_t rows, int64_t columns,
                                                 const std::string &storage) {
  const std::string &s = storage;
  Writer w("row", rows, columns, getSuffix(rows, columns, s));
  addNorms(w, s);
  addSoftmaxes(w, s);
  // A vector along the columns keeps this one from being flat.
  w.add("bias_gelu", {w.full(s), w.perColumn("f32")}, {w.full(s)},
        {Fill::Normal, Fill::Normal},
        std::string("%z = arith.addf %b, %b : f32\n") + geluErf +
            "%yz = arith.addf %y, %z : f32\nexec.yield %yz : f32\n");
  // A row reduction of what does not depend on the column.
  w.add("row_scalar", {w.perRow("f32"), w.full(s)}, {w.full(s)},
        {Fill::Normal, Fill::Normal}, R"(
  %sum = exec.row_reduce sum %a : f32
  %max = exec.row_reduce max %a : f32
  %both = arith.addf %sum, %max : f32
  %y = arith.subf %b, %both : f32
  exec.yield %y : f32
)");
  // Two halves of a row of 2 x columns; angles repeat every 3 rows of 2 heads.
  auto half = [&](int64_t offset) {
    return w.access(s, offset, 1, 0, 2 * columns, 1);
  };
  std::string angles = w.access("f32", 0, 2, 3, columns, 1);
  w.add("rope", {half(0), half(columns), angles, angles},
        {half(0), half(columns)},
        {Fill::Normal, Fill::Normal, Fill::Normal, Fill::Normal}, R"(
  %ac = arith.mulf %a, %c : f32
  %bd = arith.mulf %b, %d : f32
  %low = arith.subf %ac, %bd : f32
  %bc = arith.mulf %b, %c : f32
  %ad = arith.mulf %a, %d : f32
  %high = arith.addf %bc, %ad : f32
  exec.yield %low, %high : f32, f32
)");
  return w.samples;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

std::vector<Sample>
cleave::test::makeFlatSamples(int64_t elements, const std::string &storage,
                              const std::string &accumulate) {
  const std::string &s = storage;
  Writer w("flat", elements, 1, getSuffix(elements, 1, s) + "_" + accumulate);
  std::string all = w.access(s, 0, 1, 0, 1, 0);
  std::string wide = w.access("f32", 0, 1, 0, 1, 0);
  auto add = [&](const std::string &name, std::vector<std::string> inputs,
                 std::vector<std::string> outputs, std::vector<Fill> fills,
                 const std::string &body) {
    w.add(name, inputs, outputs, fills, body, accumulate);
  };
  add("gelu_erf", {all}, {all}, {Fill::Normal},
      std::string(geluErf) + "exec.yield %y : f32\n");
  add("gelu_tanh", {all}, {all}, {Fill::Normal},
      std::string(geluTanh) + "exec.yield %y : f32\n");
  add("gelu_tanh_grad", {all, all}, {all}, {Fill::Normal, Fill::Normal},
      std::string(geluTanh) + R"(
  %k3 = arith.constant 0.134145 : f32
  %kk = arith.mulf %xx, %k3 : f32
  %kk1 = arith.addf %kk, %one : f32
  %du = arith.mulf %kk1, %c : f32
  %tt = arith.mulf %t, %t : f32
  %dt = arith.subf %one, %tt : f32
  %hx = arith.mulf %a, %half : f32
  %hxdt = arith.mulf %hx, %dt : f32
  %slope0 = arith.mulf %hxdt, %du : f32
  %slope = arith.addf %h, %slope0 : f32
  %z = arith.mulf %b, %slope : f32
  exec.yield %z : f32
)");
  add("swiglu", {all, all}, {all}, {Fill::Normal, Fill::Normal},
      silu("%v", "%a") + "%y = arith.mulf %v, %b : f32\nexec.yield %y : f32\n");
  add("swiglu_grad", {all, all, all}, {all, all},
      {Fill::Normal, Fill::Normal, Fill::Normal}, silu("%v", "%a") + R"(
  %rest = arith.subf %one, %v_s : f32
  %xr = arith.mulf %a, %rest : f32
  %xr1 = arith.addf %xr, %one : f32
  %slope = arith.mulf %v_s, %xr1 : f32
  %du = arith.mulf %c, %b : f32
  %dg = arith.mulf %du, %slope : f32
  %dv = arith.mulf %c, %v : f32
  exec.yield %dg, %dv : f32, f32
)");
  add("token_loss", {wide, wide, wide, w.access("i32", 0, 1, 0, 1, 0)},
      {wide, wide}, {Fill::Normal, Fill::Positive, Fill::Normal, Fill::Index},
      R"(
  %log = math.log %b : f32
  %lse = arith.addf %a, %log : f32
  %none = arith.constant 0 : i32
  %counted = arith.cmpi sge, %d, %none : i32
  %zero = arith.constant 0.0 : f32
  %diff = arith.subf %lse, %c : f32
  %loss = arith.select %counted, %diff, %zero : f32
  exec.yield %loss, %lse : f32, f32
)");
  add("adamw", {wide, wide, wide, all, w.scalar("f32"), w.scalar("f32", 2)},
      {wide, wide, wide},
      {Fill::Normal, Fill::Normal, Fill::Positive, Fill::Normal, Fill::Positive,
       Fill::Positive},
      R"(
  %b1 = arith.constant 0.9 : f32
  %b1c = arith.constant 0.1 : f32
  %b2 = arith.constant 0.95 : f32
  %b2c = arith.constant 0.05 : f32
  %eps = arith.constant 1.0e-8 : f32
  %decay = arith.constant 0.1 : f32
  %one = arith.constant 1.0 : f32
  %g = arith.mulf %d, %e : f32
  %m0 = arith.mulf %b, %b1 : f32
  %m1 = arith.mulf %g, %b1c : f32
  %m = arith.addf %m0, %m1 : f32
  %v0 = arith.mulf %c, %b2 : f32
  %gg = arith.mulf %g, %g : f32
  %v1 = arith.mulf %gg, %b2c : f32
  %v = arith.addf %v0, %v1 : f32
  %root0 = math.sqrt %v : f32
  %root = arith.addf %root0, %eps : f32
  %lm = arith.mulf %f, %m : f32
  %step = arith.divf %lm, %root : f32
  %ld = arith.mulf %f, %decay : f32
  %keep = arith.subf %one, %ld : f32
  %kept = arith.mulf %a, %keep : f32
  %w = arith.subf %kept, %step : f32
  exec.yield %w, %m, %v : f32, f32, f32
)");
  // Elements repeat and are reordered: a general access on both sides.
  add("spread", {w.access(s, 1, 2, 5, 3, 0), all, w.access(s, 0, 1, 1, 7, 0)},
      {w.access(s, 2, 1, 0, 2, 0)}, {Fill::Normal, Fill::Normal, Fill::Normal},
      R"(
  %ab = arith.mulf %a, %b : f32
  %zero = arith.constant 0.0 : f32
  %r = arith.maximumf %ab, %zero : f32
  %y = arith.addf %r, %c : f32
  exec.yield %y : f32
)");
  return w.samples;
}

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

std::vector<Sample>
cleave::test::makeColumnSamples(int64_t rows, int64_t columns,
                                const std::string &storage,
                                const std::string &accumulate) {
  const std::string &s = storage;
  Writer w("column", rows, columns,
           getSuffix(rows, columns, s) + "_" + accumulate);
  w.add("bias_grad", {w.full(s)}, {w.perColumn("f32")}, {Fill::Normal},
        "exec.yield %a : f32\n", accumulate);
  w.add("norm_weight_grad",
        {w.full(s), w.perRow("f32"), w.full(s), w.perRow("f32")},
        {w.perColumn(s), w.perColumn("f32")},
        {Fill::Normal, Fill::Positive, Fill::Normal, Fill::Normal}, R"(
  %x = arith.subf %a, %d : f32
  %n = arith.mulf %x, %b : f32
  %y = arith.mulf %c, %n : f32
  exec.yield %y, %c : f32, f32
)",
        accumulate);
  return w.samples;
}

std::vector<Sample> cleave::test::makeMathSamples(int64_t elements) {
  Writer w("flat", elements, 1, "");
  std::string all = w.access("f32", 0, 1, 0, 1, 0);
  for (const char *name : {"exp", "log", "tanh", "erf", "rsqrt"})
    w.add(name, {all}, {all}, {Fill::Normal},
          std::string("%y = math.") + name +
              " %a : f32\nexec.yield %y : f32\n");
  return w.samples;
}
