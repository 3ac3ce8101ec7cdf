//===- Recipe.cpp - A run, from a file ------------------------------------===//
#include "Recipe.h"
#include "CommandLine.h"
#include "cleave/Json/Json.h"
#include "cleave/Json/Reader.h"
#include "cleave/Search/Print.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace cleave;
namespace json = llvm::json;

namespace {
/// Who reads a key: a command that has the flag; the same, but a plan file says
/// all of it; the executable.
enum class Reads { Command, Layout, Executable };

/// A key, which is a flag's name with underscores, and its legal values, in one
/// of these ways.
struct RecipeKey {
  /// A text, or several; true or false, which may be a text as well.
  enum class Text { None, One, Many, Flag, FlagOrOne };

  std::string name;
  Reads reads = Reads::Command;
  const tool::NumberRule *number = nullptr;
  const std::vector<std::string> *names = nullptr;
  Text text = Text::None;
  std::string field = {}; ///< of a layout, as lib/Search knows it

  std::string getFlag() const { return tool::makeFlag(name); }
  std::string getLegal() const;
  /// The flags that a value stands for, as a flag takes it or as several flags
  /// of that name; nothing if it is not legal.
  std::optional<std::vector<std::string>> read(const json::Value &value) const;

private:
  bool allowsText(llvm::StringRef text) const;
  bool allowsField(const json::Value &value) const;
};

struct RecipeValue {
  const RecipeKey *key;
  std::vector<std::string> texts; ///< "": a flag of the executable alone
};
} // namespace

static const std::vector<std::string> transports{"auto", "local", "mpi", "tcp"};

static std::vector<RecipeKey> makeKeys() {
  using tool::NumberRule;
  using Text = RecipeKey::Text;
  std::vector<RecipeKey> keys;
  auto addNumbers = [&](Reads reads, const NumberRule &rule,
                        llvm::ArrayRef<llvm::StringRef> names) {
    for (llvm::StringRef name : names)
      keys.push_back({name.str(), reads, &rule});
  };
  auto addNames = [&](Reads reads, llvm::StringRef name,
                      const std::vector<std::string> &names) {
    keys.push_back({name.str(), reads, nullptr, &names});
  };
  auto addText = [&](Reads reads, llvm::StringRef name, Text text) {
    keys.push_back({name.str(), reads, nullptr, nullptr, text});
  };
  addNumbers(Reads::Command, tool::positiveRule, {"seq_len", "global_batch"});
  addNames(Reads::Command, "dtype", tool::dtypeNames);
  addNumbers(Reads::Command, tool::rateRule,
             {"lr", "min_lr", "weight_decay", "clip"});
  addNames(Reads::Command, "lr_schedule", tool::scheduleNames);
  addNumbers(Reads::Command, tool::countRule,
             {"warmup_steps", "stable_steps", "decay_steps"});
  addNames(Reads::Command, "optimizer", tool::optimizerNames);
  addNames(Reads::Command, "moments", tool::momentNames);
  addNumbers(Reads::Command, tool::shareRule, {"beta1", "beta2", "momentum"});
  addNumbers(Reads::Command, tool::positiveNumberRule, {"eps"});

  addText(Reads::Command, "plan", Text::One);
  for (llvm::StringRef field : getLayoutFields())
    keys.push_back({getLayoutKey(field), Reads::Layout, nullptr, nullptr,
                    Text::None, field.str()});

  addText(Reads::Executable, "data", Text::Many);
  for (llvm::StringRef name :
       {"tokens", "init", "save", "export", "max_shard_size", "metrics",
        "trace", "dump_outputs"})
    addText(Reads::Executable, name, Text::One);
  addText(Reads::Executable, "resume", Text::FlagOrOne);
  addText(Reads::Executable, "overwrite", Text::Flag);
  addNumbers(Reads::Executable, tool::positiveRule,
             {"steps", "save_every", "keep", "threads", "trace_steps"});
  addNumbers(Reads::Executable, tool::countRule,
             {"seed", "skip_budget", "log_every"});
  addNumbers(Reads::Executable, tool::rateRule,
             {"spike_sigmas", "peak_gflops"});
  addNames(Reads::Executable, "transport", transports);
  return keys;
}

static llvm::ArrayRef<RecipeKey> getKeys() {
  static const std::vector<RecipeKey> keys = makeKeys();
  return keys;
}

bool RecipeKey::allowsText(llvm::StringRef value) const {
  return !value.empty() && !value.contains('\0');
}

/// A field's numbers are numbers in the file, its names are texts.
bool RecipeKey::allowsField(const json::Value &value) const {
  TrainLayout layout;
  if (field == "sequence-parallel")
    return value.kind() == json::Value::Boolean;
  if (std::optional<int64_t> number = value.getAsInteger())
    return setField(layout, field, std::to_string(*number));
  std::optional<llvm::StringRef> name = value.getAsString();
  int64_t number;
  return name && name->getAsInteger(10, number) &&
         setField(layout, field, *name);
}

std::string RecipeKey::getLegal() const {
  if (field == "sequence-parallel")
    return "true or false";
  if (!field.empty())
    return getLegalValues(field);
  if (names)
    return "one of " + llvm::join(*names, ", ");
  if (number)
    return number->legal;
  return text == Text::Many        ? "a text, or a list of texts"
         : text == Text::Flag      ? "true or false"
         : text == Text::FlagOrOne ? "true, false, or a text"
                                   : "a text";
}

std::optional<std::vector<std::string>>
RecipeKey::read(const json::Value &value) const {
  std::optional<llvm::StringRef> given = value.getAsString();
  if (number) {
    std::optional<double> found = value.getAsNumber();
    if (!found || !std::isfinite(*found) || !number->allows(*found) ||
        (number->isWhole && !value.getAsInteger()))
      return std::nullopt;
  } else if (names) {
    if (!given || !llvm::is_contained(*names, *given))
      return std::nullopt;
  } else if (!field.empty()) {
    if (!allowsField(value))
      return std::nullopt;
  } else if (std::optional<bool> on = value.getAsBoolean();
             on && (text == Text::Flag || text == Text::FlagOrOne)) {
    return *on ? std::vector<std::string>{""} : std::vector<std::string>();
  } else if (const json::Array *list = value.getAsArray();
             list && text == Text::Many && !list->empty()) {
    std::vector<std::string> texts;
    for (const json::Value &each : *list) {
      std::optional<llvm::StringRef> one = each.getAsString();
      if (!one || !allowsText(*one))
        return std::nullopt;
      texts.push_back(one->str());
    }
    return texts;
  } else if (text == Text::Flag || !given || !allowsText(*given)) {
    return std::nullopt;
  }
  return std::vector<std::string>{given ? given->str()
                                        : llvm::formatv("{0}", value).str()};
}

/// The values of the keys that a file has.
static llvm::Expected<std::vector<RecipeValue>>
readRecipe(const std::string &path) {
  llvm::Expected<json::Object> object = loadJsonObject(path);
  if (!object)
    return object.takeError();
  JsonReader reader(path);
  if (object->get("schedule"))
    reader.fail(llvm::createStringError(
        path + ": key \"schedule\": the learning rate's is \"lr_schedule\", "
               "the pipeline's \"pipeline_schedule\""));
  std::vector<llvm::StringRef> legal = {"version"};
  for (const RecipeKey &key : getKeys())
    legal.push_back(key.name);
  reader.checkKeys(*object, "", legal);
  reader.checkVersion(*object);
  std::vector<RecipeValue> values;
  for (const RecipeKey &key : getKeys()) {
    const json::Value *value = object->get(key.name);
    if (!value)
      continue;
    if (key.reads == Reads::Layout && object->get("plan"))
      reader.fail(llvm::createStringError(
          path + ": key \"" + key.name +
          "\": excludes \"plan\", which says all of the layout"));
    if (auto texts = key.read(*value))
      values.push_back({&key, std::move(*texts)});
    else
      reader.fail(key.name, key.getLegal(), value);
  }
  if (llvm::Error error = reader.takeError())
    return error;
  return values;
}

static bool isGiven(const CLI::App &app, const std::string &flag) {
  const CLI::Option *option =
      const_cast<CLI::App &>(app).get_option_no_throw(flag);
  return option && option->count() > 0;
}

/// Gives the file's values to the flags that are not given; throws CLI11's
/// error of a file.
static void applyRecipe(CLI::App &app, const std::string &path,
                        std::vector<std::string> *run) {
  llvm::Expected<std::vector<RecipeValue>> values = readRecipe(path);
  if (!values)
    throw CLI::FileError(llvm::toString(values.takeError()));
  // A layout is one decision, whoever takes it: a plan that is given goes
  // before all degrees of the file, a degree before the file's plan.
  bool hasPlan = isGiven(app, "--plan") || isGiven(app, "--batch");
  bool hasLayout = llvm::any_of(getKeys(), [&](const RecipeKey &key) {
    return key.reads == Reads::Layout && isGiven(app, key.getFlag());
  });
  for (const auto &[key, texts] : *values) {
    if (key->reads == Reads::Executable) {
      for (const std::string &text : texts)
        if (run)
          run->push_back(key->getFlag() + (text.empty() ? "" : "=" + text));
      continue;
    }
    CLI::Option *option = app.get_option_no_throw(key->getFlag());
    // A search has no learning rate and no layout; and flags go before the
    // file.
    if (!option || option->count() > 0 ||
        (key->reads == Reads::Layout && hasPlan) ||
        (key->name == "plan" && (hasPlan || hasLayout)))
      continue;
    for (const std::string &text : texts)
      option->add_result(text);
  }
}

void tool::addRecipeFlag(CLI::App &app, std::vector<std::string> *run) {
  app.add_option_function<std::string>(
         "--recipe",
         [&app, run](const std::string &path) { applyRecipe(app, path, run); },
         run ? "recipe.json: a whole run, with what is the executable's own; a "
               "flag goes before its key there"
             : "recipe.json: a whole run, of which this takes what it has "
               "flags "
               "for; a flag goes before its key there")
      ->type_name("FILE");
}

//===----------------------------------------------------------------------===//
// The executable's own
//===----------------------------------------------------------------------===//

static std::string getFlag(const std::string &argument) {
  return argument.substr(0, argument.find('='));
}

std::string tool::describeRunFlag(const std::string &flag) {
  for (const RecipeKey &key : getKeys())
    if (key.reads == Reads::Executable && key.getFlag() == flag)
      return flag + " is the executable's own and goes after --";
  return "";
}

static bool has(const std::vector<std::string> &arguments,
                const std::string &flag) {
  return llvm::any_of(arguments, [&](const std::string &argument) {
    return getFlag(argument) == flag;
  });
}

std::vector<std::string>
tool::mergeRunFlags(const std::vector<std::string> &given,
                    const std::vector<std::string> &recipe) {
  // They say the same in two ways.
  bool hasSamples = has(given, "--data") || has(given, "--tokens");
  std::vector<std::string> merged;
  for (const std::string &argument : recipe) {
    std::string flag = getFlag(argument);
    bool isSamples = flag == "--data" || flag == "--tokens";
    if (!has(given, flag) && !(isSamples && hasSamples))
      merged.push_back(argument);
  }
  llvm::append_range(merged, given);
  return merged;
}

std::string
tool::getMissingRunFlags(const std::vector<std::string> &arguments) {
  if (has(arguments, "--help") || has(arguments, "-h") ||
      has(arguments, "--version"))
    return "";
  std::vector<std::string> missing;
  bool hasTokens = has(arguments, "--tokens");
  if (!hasTokens && !has(arguments, "--data"))
    missing.push_back("--data");
  // Of tokens there are as many steps as the file has.
  if (!hasTokens && !has(arguments, "--steps"))
    missing.push_back("--steps");
  return llvm::join(missing, " and ");
}
