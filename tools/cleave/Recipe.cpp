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
/// A key, which is a flag's name with underscores, and its legal values.
struct RecipeKey {
  llvm::StringRef name, legal;
  bool (*isLegal)(const json::Value &);
};
using Values = std::vector<std::pair<std::string, std::string>>;
} // namespace

static bool isPositive(const json::Value &value) {
  std::optional<int64_t> number = value.getAsInteger();
  return number && *number >= 1 && *number <= tool::maxCount;
}

static bool isCount(const json::Value &value) {
  return isPositive(value) || value.getAsInteger() == 0;
}

static bool isRate(const json::Value &value) {
  std::optional<double> number = value.getAsNumber();
  return number && std::isfinite(*number) && *number >= 0;
}

static bool isAboveZero(const json::Value &value) {
  return isRate(value) && value.getAsNumber() != 0;
}

static bool isShare(const json::Value &value) {
  return isRate(value) && *value.getAsNumber() < 1;
}

static bool isType(const json::Value &value) {
  std::optional<llvm::StringRef> text = value.getAsString();
  return text && llvm::is_contained({"f32", "bf16", "fp8", "fp4"}, *text);
}

static bool isSchedule(const json::Value &value) {
  std::optional<llvm::StringRef> text = value.getAsString();
  return text &&
         llvm::is_contained({"constant", "cosine", "linear", "wsd"}, *text);
}

static constexpr llvm::StringLiteral positive = "an integer in 1..2147483647",
                                     count = "an integer in 0..2147483647",
                                     rate = "a finite number of at least 0",
                                     share =
                                         "a number of at least 0 and below 1";

static const RecipeKey recipeKeys[] = {
    {"seq_len", positive, isPositive},
    {"global_batch", positive, isPositive},
    {"dtype", "f32, bf16, fp8 or fp4", isType},
    {"lr", rate, isRate},
    {"min_lr", rate, isRate},
    {"schedule", "constant, cosine, linear or wsd", isSchedule},
    {"warmup_steps", count, isCount},
    {"stable_steps", count, isCount},
    {"decay_steps", count, isCount},
    {"beta1", share, isShare},
    {"beta2", share, isShare},
    {"eps", "a finite number above 0", isAboveZero},
    {"weight_decay", rate, isRate},
    {"clip", rate, isRate},
};

/// The values of the keys that a file has, by flag, as flags take them.
static llvm::Expected<Values> readRecipe(const std::string &path) {
  llvm::Expected<json::Value> root = loadJson(path);
  if (!root)
    return root.takeError();
  const json::Object *object = root->getAsObject();
  if (!object)
    return llvm::createStringError(path + ": expects an object");
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
    if (!key.isLegal(*value))
      reader.fail(key.name, key.legal, value);
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
