//===- LedgerCommand.cpp - cleave ledger ----------------------------------===//
#include "CommandLine.h"
#include "cleave/Ledger/Ledger.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
namespace json = llvm::json;

namespace {
struct LedgerFlags {
  std::vector<std::string> files;
  bool json = false, rows = false;
};
} // namespace

static json::Object toJSON(const LedgerErrors &errors) {
  json::Object missing;
  int64_t skipped = 0;
  for (const auto &[field, count] : errors.skipped) {
    missing[field] = count;
    skipped += count;
  }
  json::Object object{{"rows", errors.rows},
                      {"skipped", skipped},
                      {"illegal", errors.illegal},
                      {"missing", std::move(missing)}};
  // What there is nothing to compute from is null.
  auto set = [&](llvm::StringRef key, double value, bool has) {
    object[key] = has ? json::Value(value) : json::Value(nullptr);
  };
  set("median", errors.median, errors.rows > 0);
  set("mean", errors.mean, errors.rows > 0);
  set("p90", errors.p90, errors.rows > 0);
  set("bias", errors.bias, errors.rows > 0);
  set("spearman", errors.spearman, errors.rows > 1);
  set("gap", errors.gap, errors.groups > 0);
  object["groups"] = errors.groups;
  object["memory"] = json::Object{
      {"rows", errors.memoryRows},
      {"median",
       errors.memoryRows ? json::Value(errors.memoryMedian) : nullptr},
      {"bias", errors.memoryRows ? json::Value(errors.memoryBias) : nullptr}};
  object["fits"] =
      json::Object{{"rows", errors.fitRows}, {"right", errors.fitRight}};
  return object;
}

static json::Object toJSON(const LedgerRow &row) {
  json::Object object{{"id", row.id}, {"source", row.source}};
  if (!row.wrong.empty()) {
    object["error"] = row.wrong;
    return object;
  }
  if (!row.missing.empty()) {
    object["missing"] = row.missing;
    return object;
  }
  object["profile"] = row.profile.name;
  object["predicted_s"] = row.predicted.step;
  if (row.stepSeconds)
    object["measured_s"] = *row.stepSeconds;
  object["predicted_memory_bytes"] = row.predicted.memory.getTensors();
  if (row.memoryBytes)
    object["measured_memory_bytes"] = *row.memoryBytes;
  if (row.fits)
    object["measured_fits"] = *row.fits;
  object["predicted_fits"] = row.predictedFits();
  return object;
}

static void printLine(llvm::StringRef name, const LedgerErrors &errors) {
  auto percent = [](double value, bool has) {
    return has ? llvm::formatv("{0:F1}", 100 * value).str() : "-";
  };
  std::string skipped;
  for (const auto &[field, count] : errors.skipped)
    skipped += llvm::formatv("{0}{1} without {2}", skipped.empty() ? "" : ", ",
                             count, field)
                   .str();
  if (errors.illegal > 0)
    skipped += llvm::formatv("{0}{1} illegal", skipped.empty() ? "" : ", ",
                             errors.illegal)
                   .str();
  bool any = errors.rows > 0;
  llvm::outs() << llvm::formatv(
      "{0}\t{1}\t{2}\t{3}\t{4}\t{5}\t{6}\t{7}\t{8}\t{9}\n", name, errors.rows,
      percent(errors.median, any), percent(errors.mean, any),
      percent(errors.p90, any), percent(errors.bias, any),
      errors.rows > 1 ? llvm::formatv("{0:F3}", errors.spearman).str() : "-",
      percent(errors.gap, errors.groups > 0),
      percent(errors.memoryMedian, errors.memoryRows > 0), skipped);
}

/// Says what is wrong with rows; returns the exit code for it.
static int reportIllegal(const Ledger &ledger) {
  int code = 0;
  for (const LedgerRow &row : ledger.rows)
    if (!row.wrong.empty())
      code = tool::fail(row.wrong);
  return code;
}

static int runLedger(const LedgerFlags &flags) {
  Ledger ledger;
  for (const std::string &file : flags.files)
    if (llvm::Error error = ledger.load(file))
      return tool::fail(std::move(error));
  if (!flags.json) {
    llvm::outs() << "source\trows\tmedian %\tmean %\tp90 %\tbias %\tspearman\t"
                    "gap %\tmemory median %\tskipped\n";
    for (const std::string &source : ledger.getSources())
      printLine(source, ledger.getErrors(source));
    printLine("total", ledger.getErrors(""));
    if (flags.rows)
      for (const LedgerRow &row : ledger.rows) {
        if (!row.wrong.empty())
          llvm::outs() << llvm::formatv("{0}\t{1}\t{2}\n", row.source, row.id,
                                        row.wrong);
        else if (row.missing.empty() && row.stepSeconds)
          llvm::outs() << llvm::formatv("{0}\t{1}\t{2:F4}\t{3:F4}\n",
                                        row.source, row.id, *row.stepSeconds,
                                        row.predicted.step);
      }
    return reportIllegal(ledger);
  }
  json::Object sources;
  for (const std::string &source : ledger.getSources())
    sources[source] = toJSON(ledger.getErrors(source));
  json::Object root{{"total", toJSON(ledger.getErrors(""))},
                    {"sources", std::move(sources)}};
  if (flags.rows) {
    json::Array rows;
    for (const LedgerRow &row : ledger.rows)
      rows.push_back(toJSON(row));
    root["rows"] = std::move(rows);
  }
  llvm::outs() << llvm::formatv("{0:2}\n", json::Value(std::move(root)));
  return reportIllegal(ledger);
}

void tool::addLedgerCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<LedgerFlags>();
  CLI::App *command = app.add_subcommand(
      "ledger", "Price published training runs; print the errors per source");
  command
      ->add_option("files", flags->files,
                   "JSON arrays of runs (docs/formats.md)")
      ->required();
  command->add_flag("--rows", flags->rows,
                    "each run as well: measured and predicted seconds");
  command->add_flag("--json", flags->json, "JSON; errors as fractions");
  command->callback(
      [flags, &run] { run = [flags] { return runLedger(*flags); }; });
}
