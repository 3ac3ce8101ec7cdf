//===- Fields.cpp - Layouts and constraints as text -----------------------===//
#include "cleave/Search/Search.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

llvm::StringRef cleave::getName(Objective objective) {
  static constexpr llvm::StringRef names[] = {"time", "memory", "cost"};
  return names[size_t(objective)];
}

static constexpr llvm::StringRef fields[] = {
    "tp",          "cp",       "cp-kind",   "dp", "pp",   "virtual-stages",
    "schedule",    "ep",       "expert-tp", "sp", "zero", "shard-group",
    "micro-batch", "recompute"};

llvm::ArrayRef<llvm::StringRef> cleave::getLayoutFields() { return fields; }

static std::vector<llvm::StringRef> getNames(llvm::StringRef field) {
  std::vector<llvm::StringRef> names;
  if (field == "cp-kind")
    for (int i = 0; i != 3; ++i)
      names.push_back(getName(ContextKind(i)));
  else if (field == "schedule")
    for (int i = 0; i != 6; ++i)
      names.push_back(getName(Schedule(i)));
  else if (field == "recompute")
    for (int i = 0; i != 3; ++i)
      names.push_back(getName(Recompute(i)));
  return names;
}

int64_t cleave::getField(const TrainLayout &layout, llvm::StringRef field) {
  const int64_t values[] = {layout.tp,
                            layout.cp,
                            int64_t(layout.contextKind),
                            layout.dp,
                            layout.pp,
                            layout.virtualStages,
                            int64_t(layout.schedule),
                            layout.ep,
                            layout.expertTp,
                            layout.sequenceParallel,
                            layout.zero,
                            layout.zeroGroup,
                            layout.microBatch,
                            int64_t(layout.recompute)};
  return values[llvm::find(fields, field) - std::begin(fields)];
}

/// The number that a value stands for, or nothing.
static std::optional<int64_t> getValue(llvm::StringRef field,
                                       llvm::StringRef text) {
  std::vector<llvm::StringRef> names = getNames(field);
  if (!names.empty()) {
    auto found = llvm::find(names, text);
    if (found == names.end())
      return std::nullopt;
    return found - names.begin();
  }
  if (field == "sp" && (text == "true" || text == "false"))
    return text == "true";
  int64_t value = 0;
  bool mayBeZero = field == "sp" || field == "zero" || field == "shard-group";
  int64_t most = field == "sp" ? 1 : field == "zero" ? 3 : int64_t(1) << 24;
  if (text.getAsInteger(10, value) || value < (mayBeZero ? 0 : 1) ||
      value > most)
    return std::nullopt;
  return value;
}

std::string cleave::getLegalValues(llvm::StringRef field) {
  std::vector<llvm::StringRef> names = getNames(field);
  if (!names.empty())
    return "one of " + llvm::join(names, ", ");
  return field == "sp"            ? "true or false"
         : field == "zero"        ? "a whole number from 0 to 3"
         : field == "shard-group" ? "a whole number from 0"
                                  : "a whole number from 1";
}

bool cleave::setField(TrainLayout &layout, llvm::StringRef field,
                      llvm::StringRef text) {
  // selective:pointwise; full:0.5 recomputes every second block.
  auto [name, more] = text.split(':');
  if (field == "recompute") {
    layout.recomputeShare = 1;
    layout.recomputedModules = recomputeAttention;
    double share = 0;
    if (name == "selective" && more == "pointwise")
      layout.recomputedModules = recomputePointwise;
    else if (!more.empty() && (more.getAsDouble(share) || !(share > 0) ||
                               share > 1 || name == "none"))
      return false;
    else if (!more.empty())
      layout.recomputeShare = share;
    text = name;
  }
  std::optional<int64_t> value = getValue(field, text);
  if (!value)
    return false;
  int64_t *const counts[] = {&layout.tp,
                             &layout.cp,
                             nullptr,
                             &layout.dp,
                             &layout.pp,
                             &layout.virtualStages,
                             nullptr,
                             &layout.ep,
                             &layout.expertTp,
                             nullptr,
                             nullptr,
                             &layout.zeroGroup,
                             &layout.microBatch,
                             nullptr};
  size_t at = size_t(llvm::find(fields, field) - std::begin(fields));
  if (at == std::size(fields))
    return false;
  if (counts[at])
    *counts[at] = *value;
  else if (field == "cp-kind")
    layout.contextKind = ContextKind(*value);
  else if (field == "schedule")
    layout.schedule = Schedule(*value);
  else if (field == "recompute")
    layout.recompute = Recompute(*value);
  else if (field == "zero")
    layout.zero = int(*value);
  else
    layout.sequenceParallel = *value != 0;
  return true;
}

std::string cleave::getFieldText(const TrainLayout &layout,
                                 llvm::StringRef field) {
  int64_t value = getField(layout, field);
  std::vector<llvm::StringRef> names = getNames(field);
  if (field == "recompute" && layout.recompute == Recompute::Selective &&
      layout.recomputedModules == recomputePointwise)
    return "selective:pointwise";
  if (field == "recompute" && layout.recompute != Recompute::None &&
      layout.recomputeShare < 1)
    return llvm::formatv("{0}:{1}", names[size_t(value)],
                         llvm::format("%g", layout.recomputeShare));
  if (!names.empty())
    return names[size_t(value)].str();
  if (field == "sp")
    return value ? "true" : "false";
  return std::to_string(value);
}

bool Constraint::allows(int64_t actual) const {
  bool holds = comparison == "="    ? actual == value
               : comparison == "!=" ? actual != value
               : comparison == "<"  ? actual < value
               : comparison == "<=" ? actual <= value
               : comparison == ">"  ? actual > value
                                    : actual >= value;
  return holds != forbids;
}

llvm::Expected<Constraint> cleave::parseConstraint(llvm::StringRef text,
                                                   bool forbids) {
  Constraint constraint;
  constraint.text = text.str();
  constraint.forbids = forbids;
  size_t at = text.find_first_of("=!<>");
  llvm::StringRef field = text.take_front(at),
                  rest = text.drop_front(std::min(at, text.size()));
  for (llvm::StringRef comparison : {"!=", "<=", ">=", "=", "<", ">"})
    if (constraint.comparison.empty() && rest.consume_front(comparison))
      constraint.comparison = comparison.str();
  if (constraint.comparison.empty())
    return llvm::createStringError(llvm::formatv(
        "\"{0}\": expects FIELD=VALUE, or one of != < <= > >= between them",
        text));
  if (!llvm::is_contained(fields, field))
    return llvm::createStringError(
        llvm::formatv("\"{0}\": unknown field \"{1}\", expects one of {2}",
                      text, field, llvm::join(llvm::ArrayRef(fields), ", ")));
  std::optional<int64_t> value = getValue(field, rest);
  if (!value)
    return llvm::createStringError(
        llvm::formatv("\"{0}\": value \"{1}\": expects {2}", text, rest,
                      getLegalValues(field)));
  constraint.field = field.str();
  constraint.value = *value;
  return constraint;
}

std::string cleave::toString(const TrainLayout &layout) {
  std::string text = llvm::formatv("tp {0}", layout.tp);
  auto add = [&](bool says, const llvm::Twine &more) {
    if (says)
      text += (", " + more).str();
  };
  add(layout.sequenceParallel, "sp");
  add(layout.cp > 1,
      llvm::formatv("cp {0} ({1})", layout.cp, getName(layout.contextKind)));
  add(true, llvm::formatv("pp {0}", layout.pp));
  add(layout.pp > 1, getName(layout.schedule));
  add(layout.virtualStages > 1,
      llvm::formatv("{0} virtual stages", layout.virtualStages));
  add(true, llvm::formatv("dp {0}", layout.dp));
  add(layout.ep > 1, llvm::formatv("ep {0}", layout.ep));
  add(layout.expertTp > 1, llvm::formatv("expert-tp {0}", layout.expertTp));
  add(layout.zero > 0, llvm::formatv("zero {0}", layout.zero));
  add(layout.zeroGroup > 0, llvm::formatv("groups of {0}", layout.zeroGroup));
  add(true, llvm::formatv("micro-batch {0}", layout.microBatch));
  add(layout.recompute != Recompute::None,
      "recompute " + getFieldText(layout, "recompute"));
  return text;
}
