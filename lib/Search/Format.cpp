//===- Format.cpp - Quantities and parts as the planner shows them --------===//
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

std::string cleave::formatSeconds(double seconds) {
  if (seconds < 1)
    return llvm::formatv("{0} ms", llvm::format("%.4g", seconds * 1e3));
  return llvm::formatv("{0} s", llvm::format("%.4g", seconds));
}

std::string cleave::formatShare(double part, double whole) {
  return llvm::formatv("{0:F1} %", 100 * part / whole);
}

static std::string formatBytes(double bytes, int digits) {
  bool isSmall = bytes < 1e8;
  return llvm::formatv(
      "{0} {1}", llvm::format("%.*f", digits, bytes / (isSmall ? 1e6 : 1e9)),
      isSmall ? "MB" : "GB");
}

std::string cleave::formatBytes(double bytes) {
  return ::formatBytes(bytes, 1);
}

std::pair<std::string, std::string> cleave::formatBytesApart(double a,
                                                             double b) {
  // A byte is enough.
  for (int digits = 1; digits != 9; ++digits) {
    std::pair texts(::formatBytes(a, digits), ::formatBytes(b, digits));
    if (texts.first != texts.second)
      return texts;
  }
  return {formatBytes(a), formatBytes(b)};
}

std::string cleave::formatNumber(int64_t number, llvm::StringRef noun) {
  return llvm::formatv("{0} {1}{2}", number, noun,
                       number == 1               ? ""
                       : noun.ends_with("batch") ? "es"
                                                 : "s");
}

std::string cleave::formatNumbers(llvm::ArrayRef<int64_t> numbers) {
  constexpr size_t most = 24;
  bool isLong = numbers.size() > most;
  std::string text = llvm::join(
      llvm::map_range(numbers.take_front(isLong ? most - 1 : most),
                      [](int64_t number) { return std::to_string(number); }),
      ", ");
  return isLong ? llvm::formatv("{0}, ... {1}", text, numbers.back()).str()
                : text;
}

std::string cleave::formatValue(Objective objective, double value) {
  switch (objective) {
  case Objective::Time:
    return formatSeconds(value);
  case Objective::Memory:
    return formatBytes(value);
  case Objective::Cost:
    return llvm::formatv("{0} USD", llvm::format("%.4g", value));
  }
  llvm_unreachable("an objective");
}

void cleave::printRow(llvm::raw_ostream &os, llvm::StringRef name,
                      const llvm::Twine &value, const llvm::Twine &remark) {
  std::string text = value.str(), more = remark.str();
  os << llvm::left_justify(name, 12);
  if (more.empty())
    os << text << '\n';
  else
    os << llvm::left_justify(text, std::max<size_t>(13, text.size() + 1))
       << more << '\n';
}

static constexpr Part<Estimate> timeParts[] = {
    {{"compute", "compute"}, &Estimate::compute},
    {{"tp", "tensor"}, &Estimate::tensor},
    {{"cp", "context"}, &Estimate::context},
    {{"ep", "expert"}, &Estimate::expert},
    {{"pp", "pipeline"}, &Estimate::pipeline},
    {{"dp", "data"}, &Estimate::data},
    {{"bubble", "bubble"}, &Estimate::bubble},
    {{"optimizer", "optimizer"}, &Estimate::optimizer},
    {{"host", "host"}, &Estimate::host}};

static constexpr Part<MemoryUse> memoryParts[] = {
    {{"parameters", "parameters"}, &MemoryUse::parameters},
    {{"gradients", "gradients"}, &MemoryUse::gradients},
    {{"optimizer state", "optimizer"}, &MemoryUse::optimizer},
    {{"activations", "activations"}, &MemoryUse::activations},
    {{"temporaries", "temporaries"}, &MemoryUse::temporaries},
    {{"reserve", "reserve"}, &MemoryUse::reserve}};

llvm::ArrayRef<Part<Estimate>> cleave::getTimeParts() { return timeParts; }

llvm::ArrayRef<Part<MemoryUse>> cleave::getMemoryParts() { return memoryParts; }
