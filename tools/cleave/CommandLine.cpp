//===- CommandLine.cpp - What the commands of cleave share ----------------===//
#include "CommandLine.h"
#include "Files.h"
#include "cleave/Search/PlanFile.h"
#include "passes/Grad/Optimizers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace cleave;

/// Exit codes of every command; what is run keeps its own.
static constexpr int failureCode = 1, usageCode = 2;

int tool::failUsage(const llvm::Twine &message) {
  llvm::errs() << "cleave: error: " << message << "\n";
  return usageCode;
}

int tool::fail(const llvm::Twine &message) {
  int code = failUsage(message);
  return llvm::StringRef(message.str()).starts_with("--") ? code : failureCode;
}

int tool::flushOutput(int code) {
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return code;
  std::string reason = llvm::outs().error().message();
  llvm::outs().clear_error();
  return fail("standard output: " + reason);
}

std::string tool::count(int64_t number, llvm::StringRef noun) {
  bool hisses = noun.ends_with("batch") || noun.ends_with("pass");
  llvm::StringRef ending = number == 1 ? "" : hisses ? "es" : "s";
  return llvm::formatv("{0} {1}{2}", number, noun, ending);
}

int tool::fail(llvm::Error error) {
  return fail(llvm::toString(std::move(error)));
}

/// ORG/NAME, as the hub spells names, where ORG is no folder here. Such a name
/// has no character that a shell reads.
static bool looksLikeHubName(llvm::StringRef model) {
  auto isWord = [](llvm::StringRef word) {
    return !word.empty() && llvm::isAlnum(word.front()) &&
           llvm::all_of(word, [](char c) {
             return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  auto [organization, name] = model.split('/');
  return isWord(organization) && isWord(name) && !name.ends_with(".json") &&
         !llvm::sys::fs::exists(organization);
}

llvm::Expected<std::string> tool::findConfig(llvm::StringRef model) {
  if (!llvm::sys::fs::exists(model) && looksLikeHubName(model))
    return llvm::createStringError(llvm::formatv(
        "{0}: No such file or directory; a model of the HuggingFace hub is "
        "downloaded first, its config.json and, for its weights, its "
        "*.safetensors: hf download {0} config.json --local-dir {1} && hf "
        "download {0} --include \"*.safetensors*\" --local-dir {1}; then give "
        "the folder {1}",
        model, model.split('/').second));
  llvm::SmallString<256> config(model);
  if (llvm::sys::fs::is_directory(model))
    llvm::sys::path::append(config, "config.json");
  return config.str().str();
}

static bool isCount(double value) {
  return value >= 0 && value <= double(tool::maxCount);
}

const tool::NumberRule tool::positiveRule{
    "POSITIVE", "an integer in 1..2147483647", true,
    [](double value) { return value > 0 && isCount(value); }},
    tool::countRule{"NONNEGATIVE", "an integer in 0..2147483647", true,
                    isCount},
    tool::rateRule{"NONNEGATIVE", "a finite number of at least 0", false,
                   [](double value) { return value >= 0; }},
    tool::shareRule{"in [0, 1)", "a number of at least 0 and below 1", false,
                    [](double value) { return value >= 0 && value < 1; }},
    tool::positiveNumberRule{"POSITIVE", "a finite number above 0", false,
                             [](double value) { return value > 0; }};

const std::vector<std::string> tool::dtypeNames{"f32", "bf16", "fp8", "fp4"},
    tool::scheduleNames{"constant", "cosine", "linear", "wsd"},
    tool::momentNames{"f32", "bf16"}, tool::optimizerNames = [] {
      std::vector<std::string> names;
      for (const Optimizer &optimizer : getOptimizers())
        names.push_back(optimizer.name.str());
      return names;
    }();

std::string tool::makeFlag(llvm::StringRef key) {
  std::string flag = "--" + key.str();
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

CLI::Validator tool::makeCheck(const NumberRule &rule) {
  auto allows = [&rule](llvm::StringRef text) {
    int64_t whole;
    if (rule.isWhole)
      return !text.getAsInteger(10, whole) && rule.allows(double(whole));
    double value;
    return llvm::to_float(text, value) && std::isfinite(value) &&
           rule.allows(value);
  };
  return CLI::Validator(
      [=, &rule](std::string &text) {
        return allows(text) ? "" : "\"" + text + "\" is not " + rule.legal;
      },
      rule.shown, "");
}

CLI::Validator tool::makePositiveCheck() { return makeCheck(positiveRule); }

CLI::Validator tool::makeCountCheck() { return makeCheck(countRule); }

CLI::Validator tool::makePositiveNumberCheck() {
  return makeCheck(positiveNumberRule);
}

/// What the fields of a layout are of that no program does yet.
static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral>
    plannedFields[] = {
        {"cp", "context parallelism"},
        {"cp-kind", "context parallelism"},
        {"ep", "expert parallelism"},
        {"expert-tp", "expert parallelism"},
};

void tool::addHiddenFlag(CLI::App &app, const std::string &flag,
                         std::function<std::string(llvm::StringRef)> check) {
  auto refuse =
      [flag, check = std::move(check)](const std::string &text) -> std::string {
    if (std::string wrong = check(text); !wrong.empty())
      throw CLI::ParseError(flag + ": " + wrong,
                            CLI::ExitCodes::ValidationError);
    return "";
  };
  app.add_option(flag)->check(CLI::Validator(refuse, ""))->group("");
}

void tool::addPlannedFlags(CLI::App &app) {
  for (auto [field, what] : plannedFields)
    addHiddenFlag(
        app, ("--" + field).str(),
        [field = field, what = what](llvm::StringRef text) -> std::string {
          TrainLayout none, layout;
          if (!setField(layout, field, text))
            return llvm::formatv("\"{0}\" is not {1}", text,
                                 getLegalValues(field));
          if (getField(layout, field) == getField(none, field))
            return "";
          return llvm::formatv("programs have no {0} yet: expects {1}, got "
                               "\"{2}\"; cleave estimate prices it",
                               what, getFieldText(none, field), text);
        });
}

llvm::Expected<Model> tool::loadNotedModel(llvm::StringRef config,
                                           const FrontendOptions &options) {
  llvm::Expected<Model> model = loadModel(config, options);
  if (model)
    for (const std::string &note : model->notes)
      llvm::errs() << "cleave: note: " << note << "\n";
  return model;
}

void tool::addMomentsFlag(CLI::App &app, std::string &moments) {
  app.add_option(
         "--moments", moments,
         "type in which the optimizer's moments are kept between steps; "
         "in bf16 changes of less than half a unit, 0.2 to 0.4 %, are "
         "lost: fit for a beta2 of 0.95, not of 0.999")
      ->check(CLI::IsMember(momentNames))
      ->capture_default_str();
}

DType tool::getMomentsType(llvm::StringRef moments) {
  return moments == "bf16" ? DType::BF16 : DType::F32;
}
