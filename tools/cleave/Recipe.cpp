//===- Recipe.cpp - How a model is trained, from a file -------------------===//
#include "CommandLine.h"
#include "cleave/Json/Json.h"
#include "cleave/Json/Reader.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace cleave;
namespace json = llvm::json;

namespace {
/// A key, which is a flag's name with underscores, and the legal values: of a
/// number or names.
struct RecipeKey {
  llvm::StringRef name;
  const tool::NumberRule *number;
  const std::vector<std::string> *names;

  bool allows(const json::Value &value) const {
    if (names) {
      std::optional<llvm::StringRef> text = value.getAsString();
      return text && llvm::is_contained(*names, *text);
    }
    std::optional<double> found = value.getAsNumber();
    return found && std::isfinite(*found) && number->allows(*found) &&
           (!number->isWhole || value.getAsInteger());
  }
  std::string getLegal() const {
    return names ? "one of " + llvm::join(*names, ", ") : number->legal;
  }
};
using Values = std::vector<std::pair<std::string, std::string>>;
} // namespace

static const RecipeKey recipeKeys[] = {
    {"seq_len", &tool::positiveRule, nullptr},
    {"global_batch", &tool::positiveRule, nullptr},
    {"dtype", nullptr, &tool::dtypeNames},
    {"lr", &tool::rateRule, nullptr},
    {"min_lr", &tool::rateRule, nullptr},
    {"schedule", nullptr, &tool::scheduleNames},
    {"warmup_steps", &tool::countRule, nullptr},
    {"stable_steps", &tool::countRule, nullptr},
    {"decay_steps", &tool::countRule, nullptr},
    {"beta1", &tool::shareRule, nullptr},
    {"beta2", &tool::shareRule, nullptr},
    {"eps", &tool::positiveNumberRule, nullptr},
    {"weight_decay", &tool::rateRule, nullptr},
    {"clip", &tool::rateRule, nullptr},
};

/// The values of the keys that a file has, by flag, as flags take them.
static llvm::Expected<Values> readRecipe(const std::string &path) {
  llvm::Expected<json::Object> object = loadJsonObject(path);
  if (!object)
    return object.takeError();
  JsonReader reader(path);
  std::vector<llvm::StringRef> legal = {"version"};
  for (const RecipeKey &key : recipeKeys)
    legal.push_back(key.name);
  reader.checkKeys(*object, "", legal);
  reader.checkVersion(*object);
  Values values;
  for (const RecipeKey &key : recipeKeys) {
    const json::Value *value = object->get(key.name);
    if (!value)
      continue;
    if (!key.allows(*value))
      reader.fail(key.name, key.getLegal(), value);
    std::string flag = "--" + key.name.str();
    std::replace(flag.begin(), flag.end(), '_', '-');
    std::optional<llvm::StringRef> text = value->getAsString();
    values.emplace_back(flag,
                        text ? text->str() : llvm::formatv("{0}", *value));
  }
  if (llvm::Error error = reader.takeError())
    return error;
  return values;
}

void tool::addRecipeFlag(CLI::App &app) {
  auto apply = [&app](const std::string &path) {
    llvm::Expected<Values> values = readRecipe(path);
    if (!values)
      throw CLI::FileError(llvm::toString(values.takeError()));
    for (const auto &[flag, value] : *values) {
      CLI::Option *option = app.get_option_no_throw(flag);
      // A plan has no learning rate; and flags go before the file.
      if (!option || option->count() > 0)
        continue;
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      option->add_result(value);
    }
  };
  app.add_option_function<std::string>(
         "--recipe", apply,
         "recipe.json: sequence length, batch, type and optimizer for this and "
         "other commands; a flag goes before its key there")
      ->trigger_on_parse();
}
