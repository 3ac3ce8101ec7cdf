//===- Fields.cpp - Layouts and constraints as text -----------------------===//
#include "cleave/Search/Format.h"
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

double cleave::getRate(Objective objective, const Device &device,
                       int64_t devices) {
  return objective == Objective::Cost
             ? double(devices) * device.pricePerHour / 3600
             : 1;
}

double cleave::getValue(Objective objective, const Device &device,
                        const TrainLayout &layout, const Estimate &estimate) {
  return objective == Objective::Memory
             ? estimate.memory.getTotal()
             : estimate.step * getRate(objective, device, layout.getDevices());
}

LayoutKind cleave::getKind(const TrainLayout &layout) {
  return {layout.tp,
          layout.cp,
          layout.dp,
          layout.pp,
          layout.ep,
          layout.expertTp,
          int64_t(layout.schedule)};
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

namespace {
struct Field {
  llvm::StringRef name, meaning;
  int64_t (*get)(const TrainLayout &);
  void (*set)(TrainLayout &, int64_t);
  int64_t least = 1, most = int64_t(1) << 24;
  /// Of the values from `least` on.
  std::vector<llvm::StringRef> names = {};

  /// Whether it has numbers beside names.
  bool hasNumbers() const { return int64_t(names.size()) <= most - least; }
};
} // namespace

template <typename E>
static std::vector<llvm::StringRef> getNames(int count) {
  std::vector<llvm::StringRef> names;
  for (int i = 0; i != count; ++i)
    names.push_back(getName(E(i)));
  return names;
}

#define MEMBER(MEMBER)                                                         \
  [](const TrainLayout &layout) { return int64_t(layout.MEMBER); },            \
      [](TrainLayout &layout, int64_t value) {                                 \
        layout.MEMBER = decltype(layout.MEMBER)(value);                        \
      }

static const std::vector<Field> &getFields() {
  static const std::vector<Field> fields = {
      {"tp", "tensor-parallel degree", MEMBER(tp)},
      {"cp", "context-parallel degree", MEMBER(cp)},
      {"cp-kind", "how cp's ranks share keys", MEMBER(contextKind), 0, 2,
       getNames<ContextKind>(numContextKinds)},
      {"dp", "data-parallel degree; left out: what is left of the cluster",
       MEMBER(dp)},
      {"pp", "pipeline stages", MEMBER(pp)},
      {"virtual-stages", "model chunks of a stage", MEMBER(virtualStages)},
      {"pipeline-schedule", "what a stage runs when", MEMBER(schedule), 0,
       numSchedules - 1, getNames<Schedule>(numSchedules)},
      {"first-blocks",
       "blocks of the virtual stage with the embedding",
       MEMBER(firstBlocks),
       TrainLayout::even,
       1 << 24,
       {"even"}},
      {"last-blocks",
       "blocks of the virtual stage with the head",
       MEMBER(lastBlocks),
       TrainLayout::even,
       1 << 24,
       {"even"}},
      {"ep", "expert-parallel degree, over the ranks of tp x cp x dp",
       MEMBER(ep)},
      {"expert-tp", "tensor parallelism of experts, 1 or tp", MEMBER(expertTp)},
      {"sequence-parallel",
       "Megatron's sequence parallelism",
       MEMBER(sequenceParallel),
       0,
       1,
       {"false", "true"}},
      {"zero", "ZeRO stage, over dp x cp", MEMBER(zero), 0, 3},
      {"shard-group", "ranks that share a copy of ZeRO; 0: all",
       MEMBER(zeroGroup), 0},
      {"micro-batch", "samples of a rank in one micro-batch",
       MEMBER(microBatch)},
      {"recompute", "before a block's backward pass", MEMBER(recompute), 0, 2,
       getNames<Recompute>(3)},
      {"recompute-modules", "what selective recomputation repeats",
       MEMBER(recomputedModules), 1, recomputeAll},
      {"recompute-blocks", "of each virtual stage, so many; 0: all",
       MEMBER(recomputeBlocks), 0},
      {"order", "of the axes over the devices, innermost first", MEMBER(order),
       0, numAxisOrders - 1, getNames<AxisOrder>(numAxisOrders)}};
  return fields;
}

#undef MEMBER

static const Field *findField(llvm::StringRef name) {
  auto found = llvm::find_if(
      getFields(), [&](const Field &field) { return field.name == name; });
  return found == getFields().end() ? nullptr : &*found;
}

std::vector<llvm::StringRef> cleave::getLayoutFields() {
  std::vector<llvm::StringRef> names;
  for (const Field &field : getFields())
    names.push_back(field.name);
  return names;
}

std::string cleave::getMeaning(llvm::StringRef field) {
  return llvm::formatv("{0}: {1}", findField(field)->meaning,
                       getLegalValues(field));
}

int64_t cleave::getField(const TrainLayout &layout, llvm::StringRef field) {
  return findField(field)->get(layout);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static constexpr std::pair<unsigned, llvm::StringLiteral> modules[] = {
    {recomputePointwise, "pointwise"},
    {recomputeAttention, "attention"},
    {recomputeNorms, "norms"},
    {recomputeOutput, "output"},
    {recomputeUp, "up"},
    {recomputeActivation, "activation"},
    {recomputeDown, "down"},
    {recomputeExpertActivation, "expert-activation"},
    {recomputeExperts, "experts"},
    {recomputeLatent, "latent"},
    {recomputeHalf, "half"}};

static std::string getModulesText(unsigned set) {
  std::vector<llvm::StringRef> names;
  for (auto [module, name] : modules)
    if ((set & module) == module) {
      names.push_back(name);
      set &= ~module;
    }
  return llvm::join(names, "+");
}

static std::optional<int64_t> readModules(llvm::StringRef text) {
  unsigned set = 0;
  llvm::SmallVector<llvm::StringRef> names;
  text.split(names, '+');
  for (llvm::StringRef name : names) {
    const auto *found = llvm::find_if(
        modules, [&](const auto &module) { return module.second == name; });
    if (found == std::end(modules))
      return std::nullopt;
    set |= found->first;
  }
  return set;
}

/// The number that a value stands for, or nothing.
static std::optional<int64_t> readValue(const Field &field,
                                        llvm::StringRef text) {
  if (field.name == "recompute-modules")
    return readModules(text);
  if (auto found = llvm::find(field.names, text); found != field.names.end())
    return field.least + (found - field.names.begin());
  int64_t value = 0;
  if (!field.hasNumbers() || text.getAsInteger(10, value) ||
      value < field.least + int64_t(field.names.size()) || value > field.most)
    return std::nullopt;
  return value;
}

std::string cleave::getLegalValues(llvm::StringRef name) {
  const Field &field = *findField(name);
  if (name == "recompute-modules") {
    std::vector<llvm::StringRef> names;
    for (auto [module, text] : modules)
      names.push_back(text);
    return llvm::join(names, ", ") + ", or several with + between them";
  }
  std::string text;
  if (!field.names.empty())
    text =
        (field.hasNumbers() ? "" : "one of ") + llvm::join(field.names, ", ");
  if (!field.hasNumbers())
    return text;
  if (!text.empty())
    text += " or ";
  text += llvm::formatv("a whole number from {0}",
                        field.least + int64_t(field.names.size()));
  if (field.most < 1 << 24)
    text += llvm::formatv(" to {0}", field.most);
  return text;
}

bool cleave::setField(TrainLayout &layout, llvm::StringRef name,
                      llvm::StringRef text) {
  const Field *field = findField(name);
  if (!field)
    return false;
  std::optional<int64_t> value = readValue(*field, text);
  if (value)
    field->set(layout, *value);
  return value.has_value();
}

std::string cleave::getFieldText(const TrainLayout &layout,
                                 llvm::StringRef name) {
  const Field &field = *findField(name);
  int64_t value = field.get(layout), at = value - field.least;
  if (name == "recompute-modules")
    return getModulesText(unsigned(value));
  return at < int64_t(field.names.size()) ? field.names[size_t(at)].str()
                                          : std::to_string(value);
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

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
  const Field *known = findField(field);
  if (!known)
    return llvm::createStringError(
        llvm::formatv("\"{0}\": unknown field \"{1}\", expects one of {2}",
                      text, field, llvm::join(getLayoutFields(), ", ")));
  std::optional<int64_t> value = readValue(*known, rest);
  if (!value)
    return llvm::createStringError(
        llvm::formatv("\"{0}\": value \"{1}\": expects {2}", text, rest,
                      getLegalValues(field)));
  if (known->name == "recompute-modules" && constraint.comparison != "=" &&
      constraint.comparison != "!=")
    return llvm::createStringError(llvm::formatv(
        "\"{0}\": sets of modules have no order: expects = or !=", text));
  constraint.field = known->name.str();
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
  if (layout.firstBlocks != TrainLayout::even)
    text += llvm::formatv(", blocks {0} first, {1} last", layout.firstBlocks,
                          layout.lastBlocks);
  if (layout.recompute == Recompute::Full)
    text += ", recompute full";
  else if (layout.recompute == Recompute::Selective)
    text += ", recompute " + getFieldText(layout, "recompute-modules");
  if (layout.recompute != Recompute::None && layout.recomputeBlocks > 0)
    text += " of " + formatNumber(layout.recomputeBlocks, "block");
  add(layout.order != AxisOrder(), "order " + getName(layout.order));
  return text;
}
