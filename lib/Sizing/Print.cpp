//===- Print.cpp - An estimate as a table, a sweep or JSON ----------------===//
#include "cleave/Sizing/Sizing.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using namespace cleave;

/// Four digits, or all before the point if there are some more: 1.234, 12,345.
static std::string formatDigits(double value) {
  if (value < 1e4 || !(value < 1e12))
    return llvm::formatv("{0}", llvm::format("%.4g", value));
  return llvm::formatv("{0:N}", std::llround(value));
}

/// 1.5e12 -> "1.5 T"
static std::string formatCount(double value) {
  for (auto [unit, name] :
       {std::pair(1e12, " T"), {1e9, " B"}, {1e6, " M"}, {1e3, " K"}})
    // 999.96 B prints as 1 T.
    if (value >= unit * 0.99995)
      return formatDigits(value / unit) + name;
  return formatDigits(value);
}

static std::string formatSeconds(double seconds) {
  for (auto [unit, name, limit] :
       {std::tuple(1., " s", 600.), {60., " min", 600.}, {3600., " h", 240.}})
    if (seconds < unit * limit)
      return formatDigits(seconds / unit) + name;
  return formatDigits(seconds / 86400) + " days";
}

static double toDays(double seconds) { return seconds / 86400; }

static std::string formatDays(double seconds) {
  if (seconds < 86400)
    return formatSeconds(seconds);
  return formatDigits(toDays(seconds)) + " days";
}

static std::string formatLoss(double loss) {
  return llvm::formatv("{0:f4}", loss);
}

static std::string formatPercent(double share) {
  return llvm::formatv("{0:f2} %", 100 * share);
}

static double toMWh(double joules) { return joules / 3.6e9; }

namespace {
/// Rows of a name, a value and a remark, in columns.
class Table {
public:
  explicit Table(llvm::raw_ostream &os) : os(os) {}
  void add(llvm::StringRef name, const std::string &value,
           const std::string &remark) {
    os << llvm::left_justify(name, 12);
    if (remark.empty())
      os << value << "\n";
    else
      os << llvm::left_justify(value, 16) << " " << remark << "\n";
  }

private:
  llvm::raw_ostream &os;
};
} // namespace

/// What the law would rather have trained with the same FLOPs.
static std::string describeOptimum(const RunEstimate &run) {
  if (std::abs(run.size.parameters / run.optimum.parameters - 1) < 1e-3)
    return "";
  return llvm::formatv("; for this compute the law prefers {0} on {1}: {2}",
                       formatCount(run.optimum.parameters),
                       formatCount(run.optimum.tokens),
                       formatLoss(run.optimumLoss));
}

/// Where the interval comes from, and what other rules say.
static std::string describeRule(const RunEstimate &run, IntervalRule rule) {
  std::string text = getSource(rule).str();
  for (auto [other, seconds] : {std::pair(IntervalRule::Daly, run.dalySeconds),
                                {IntervalRule::Young, run.youngSeconds}})
    if (other != rule)
      text += llvm::formatv("; {0}: {1} s", getSource(other),
                            formatDigits(seconds));
  return text;
}

void cleave::printRun(llvm::raw_ostream &os, const RunEstimate &run,
                      const SizingOptions &options) {
  const Fleet &fleet = run.fleet;
  Table table(os);
  table.add("law", options.law.name.str(), options.law.source.str());
  table.add("parameters", formatCount(run.size.parameters), "");
  table.add("tokens", formatCount(run.size.tokens),
            formatDigits(run.size.tokens / run.size.parameters) +
                " per parameter");
  table.add("compute", formatDigits(run.flops) + " FLOPs",
            "6 x parameters x tokens");
  table.add("loss", formatLoss(run.loss),
            "nats per token" + describeOptimum(run));
  table.add("devices", formatDigits(double(fleet.devices)),
            llvm::formatv("of {0} TFLOP/s at {1} % MFU",
                          formatDigits(fleet.peakFlops / 1e12),
                          formatDigits(100 * fleet.mfu)));
  table.add("computing", formatDays(run.computeSeconds), "without failures");
  table.add("failures", formatDigits(run.computeFailures),
            llvm::formatv("in that time, one every {0}: MTBF {1} h / devices",
                          formatSeconds(run.failures.mtbf),
                          formatDigits(fleet.mtbfHours)));
  table.add("checkpoint", "every " + formatDigits(run.intervalSeconds) + " s",
            llvm::formatv("{0}; takes {1} s", describeRule(run, options.rule),
                          formatDigits(fleet.checkpointSeconds)));
  table.add("waste", formatPercent(1 - run.shares.goodput),
            llvm::formatv("checkpoints {0}, rework {1}, restarts ({2}) {3}",
                          formatPercent(run.shares.checkpoint),
                          formatPercent(run.shares.rework),
                          formatSeconds(fleet.restartSeconds),
                          formatPercent(run.shares.restart)));
  table.add("goodput", formatPercent(run.shares.goodput), "");
  table.add("wall", formatDays(run.wallSeconds),
            formatDigits(run.wallFailures) + " failures");
  table.add("energy", formatDigits(toMWh(run.energy)) + " MWh",
            llvm::formatv("{0} W a device, PUE {1}", formatDigits(fleet.watts),
                          formatDigits(fleet.pue)));
  table.add("price", formatDigits(run.price) + " USD",
            llvm::formatv("{0} USD a device and hour",
                          formatDigits(fleet.pricePerHour)));
}

void cleave::printSweep(llvm::raw_ostream &os,
                        llvm::ArrayRef<RunEstimate> runs) {
  os << "devices\tparams\ttokens\tcompute_days\twall_days\tfailures\tmtbf_min"
        "\tinterval_s\tgoodput\tenergy_mwh\tprice_usd\n";
  for (const RunEstimate &run : runs) {
    os << run.fleet.devices;
    if (!run.wrong.empty()) {
      os << "\terror: " << run.wrong << '\n';
      continue;
    }
    for (double value :
         {run.size.parameters, run.size.tokens, toDays(run.computeSeconds),
          toDays(run.wallSeconds), run.wallFailures, run.failures.mtbf / 60,
          run.intervalSeconds, run.shares.goodput, toMWh(run.energy),
          run.price})
      os << '\t' << llvm::format("%.6g", value);
    os << '\n';
  }
}

namespace {
/// Writes numbers with as many digits as tell them apart.
class Writer {
public:
  explicit Writer(llvm::raw_ostream &os) : json(os, 2) {}

  void add(llvm::StringRef name, double value) {
    std::string key = name.str();
    std::replace(key.begin(), key.end(), '-', '_');
    char text[32];
    char *end = std::to_chars(text, text + sizeof(text), value).ptr;
    json.attributeBegin(key);
    json.rawValue(llvm::StringRef(text, end - text));
    json.attributeEnd();
  }

  llvm::json::OStream json;
};
} // namespace

static void writeRun(Writer &writer, const RunEstimate &run,
                     const SizingOptions &options) {
  llvm::json::OStream &json = writer.json;
  if (!run.wrong.empty()) {
    json.attributeObject("fleet",
                         [&] { json.attribute("devices", run.fleet.devices); });
    json.attribute("error", run.wrong);
    return;
  }
  json.attributeObject("fleet", [&] {
    json.attribute("devices", run.fleet.devices);
    for (const FleetField &field : getFleetFields())
      writer.add(field.name, run.fleet.*field.value);
  });
  writer.add("params", run.size.parameters);
  writer.add("tokens", run.size.tokens);
  writer.add("flops", run.flops);
  writer.add("loss", run.loss);
  json.attributeObject("optimum", [&] {
    writer.add("params", run.optimum.parameters);
    writer.add("tokens", run.optimum.tokens);
    writer.add("loss", run.optimumLoss);
  });
  writer.add("compute_days", toDays(run.computeSeconds));
  writer.add("compute_failures", run.computeFailures);
  writer.add("mtbf_seconds", run.failures.mtbf);
  json.attributeObject("checkpoint", [&] {
    json.attribute("rule", getSource(options.rule));
    writer.add("interval_seconds", run.intervalSeconds);
    writer.add("daly_seconds", run.dalySeconds);
    writer.add("young_seconds", run.youngSeconds);
  });
  json.attributeObject("waste", [&] {
    writer.add("checkpoint", run.shares.checkpoint);
    writer.add("rework", run.shares.rework);
    writer.add("restart", run.shares.restart);
  });
  writer.add("goodput", run.shares.goodput);
  writer.add("wall_days", toDays(run.wallSeconds));
  writer.add("wall_failures", run.wallFailures);
  writer.add("energy_mwh", toMWh(run.energy));
  writer.add("price_usd", run.price);
}

void cleave::printJSON(llvm::raw_ostream &os, llvm::ArrayRef<RunEstimate> runs,
                       const SizingOptions &options) {
  Writer writer(os);
  llvm::json::OStream &json = writer.json;
  json.object([&] {
    json.attribute("version", 1);
    json.attributeObject("law", [&] {
      json.attribute("name", options.law.name);
      json.attribute("source", options.law.source);
      if (options.law.tokensPerParameter != 0)
        writer.add("tokens_per_parameter", options.law.tokensPerParameter);
    });
    json.attributeArray("runs", [&] {
      for (const RunEstimate &run : runs)
        json.object([&] { writeRun(writer, run, options); });
    });
  });
  os << '\n';
}
