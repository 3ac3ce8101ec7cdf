//===- Ledger.cpp - Errors of predictions ---------------------------------===//
#include "cleave/Ledger/Ledger.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <numeric>

using namespace cleave;
namespace json = llvm::json;

llvm::Error Ledger::load(llvm::StringRef path) {
  llvm::Expected<json::Value> root = loadJson(path);
  if (!root)
    return root.takeError();
  const json::Array *array = root->getAsArray();
  if (!array)
    return llvm::createStringError(path + ": expects an array of rows");
  for (size_t i = 0; i != array->size(); ++i) {
    std::string where = (path + ": row " + llvm::Twine(i)).str();
    const json::Object *object = (*array)[i].getAsObject();
    llvm::Expected<LedgerRow> row =
        object ? readLedgerRow(*object, where)
               : llvm::createStringError(where + ": expects an object");
    if (!row) {
      LedgerRow illegal;
      illegal.id = where;
      if (object) {
        illegal.id = object->getString("id").value_or(where).str();
        illegal.source = object->getString("source").value_or("").str();
      }
      illegal.wrong = llvm::toString(row.takeError());
      rows.push_back(std::move(illegal));
      continue;
    }
    rows.push_back(std::move(*row));
    LedgerRow &last = rows.back();
    if (last.missing.empty())
      last.predicted =
          CostModel(last.model, last.machine, last.work, last.profile)
              .price(last.layout);
  }
  return llvm::Error::success();
}

std::vector<std::string> Ledger::getSources() const {
  std::vector<std::string> sources;
  for (const LedgerRow &row : rows)
    if (!llvm::is_contained(sources, row.source))
      sources.push_back(row.source);
  return sources;
}

/// Linear between order statistics.
static double getQuantile(std::vector<double> values, double q) {
  if (values.empty())
    return 0;
  llvm::sort(values);
  double at = q * double(values.size() - 1);
  size_t low = size_t(at);
  size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - double(low)) * (values[high] - values[low]);
}

/// Ranks, ties shared.
static std::vector<double> getRanks(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i != order.size();) {
    size_t end = i;
    while (end != order.size() && values[order[end]] == values[order[i]])
      ++end;
    for (size_t j = i; j != end; ++j)
      ranks[order[j]] = double(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

static double getSpearman(const std::vector<double> &a,
                          const std::vector<double> &b) {
  std::vector<double> x = getRanks(a), y = getRanks(b);
  double mean = double(x.size() - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i != x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

static double getMean(const std::vector<double> &values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.) /
                              double(values.size());
}

LedgerErrors Ledger::getErrors(llvm::StringRef source) const {
  LedgerErrors result;
  std::vector<double> errors, signs, measured, predicted, memory, memorySigns;
  struct Pick {
    double predicted, measured, best;
    int64_t rows;
  };
  std::map<std::string, Pick> groups;
  for (const LedgerRow &row : rows) {
    if (!source.empty() && row.source != source)
      continue;
    if (!row.wrong.empty()) {
      ++result.illegal;
      continue;
    }
    if (!row.missing.empty()) {
      ++result.skipped[row.missing];
      continue;
    }
    if (row.fits) {
      ++result.fitRows;
      result.fitRight += *row.fits == row.predictedFits();
    }
    if (row.memoryBytes) {
      double off = row.predicted.memory.getTensors() / *row.memoryBytes - 1;
      memory.push_back(std::abs(off));
      memorySigns.push_back(off);
    }
    if (!row.stepSeconds) {
      ++result.skipped["step_time_s"];
      continue;
    }
    double error = row.predicted.step / *row.stepSeconds - 1;
    errors.push_back(std::abs(error));
    signs.push_back(error);
    measured.push_back(*row.stepSeconds);
    predicted.push_back(row.predicted.step);
    auto [at, isNew] =
        groups.try_emplace(row.group, Pick{row.predicted.step, *row.stepSeconds,
                                           *row.stepSeconds, 0});
    Pick &pick = at->second;
    if (row.predicted.step < pick.predicted) {
      pick.predicted = row.predicted.step;
      pick.measured = *row.stepSeconds;
    }
    pick.best = std::min(pick.best, *row.stepSeconds);
    ++pick.rows;
  }
  result.rows = int64_t(errors.size());
  result.median = getQuantile(errors, 0.5);
  result.mean = getMean(errors);
  result.p90 = getQuantile(errors, 0.9);
  result.bias = getMean(signs);
  if (errors.size() > 1)
    result.spearman = getSpearman(measured, predicted);
  for (const auto &[name, pick] : groups)
    if (pick.rows > 1) {
      ++result.groups;
      result.gap += pick.measured / pick.best - 1;
    }
  if (result.groups > 0)
    result.gap /= double(result.groups);
  result.memoryRows = int64_t(memory.size());
  result.memoryMedian = getQuantile(memory, 0.5);
  result.memoryBias = getMean(memorySigns);
  return result;
}
