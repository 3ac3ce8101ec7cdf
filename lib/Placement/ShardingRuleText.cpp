//===- ShardingRuleText.cpp - The einsum-like notation of sharding rules --===//
#include "cleave/Placement/ShardingRule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

namespace {

using Sizes = ArrayRef<std::pair<StringRef, int64_t>>;

/// Reads one rule, part by part; `rule` is complete after the last.
class RuleParser {
public:
  explicit RuleParser(Sizes sizes) : sizes(sizes) {}

  llvm::Error parse(StringRef text);
  ShardingRule rule;

private:
  llvm::Error parseTensors(StringRef text,
                           llvm::SmallVectorImpl<TensorFactors> &tensors);
  llvm::Error parseClause(StringRef text);
  llvm::Error parseNames(StringRef text,
                         llvm::function_ref<void(FactorInfo &)> apply);
  llvm::Expected<llvm::SmallVector<unsigned, 2>> parseOperands(StringRef text);
  /// The factor of that name, numbered now if it is new.
  llvm::Expected<Factor> getOrAddFactor(StringRef name);

  Sizes sizes;
};

} // namespace

/// Takes the next word or single parenthesis off the front of `text`.
static StringRef takeToken(StringRef &text) {
  text = text.ltrim();
  size_t length = text.find_first_of(" \t\n()");
  if (length == 0)
    length = 1;
  StringRef token = text.take_front(length);
  text = text.drop_front(token.size()).ltrim();
  return token;
}

llvm::Expected<Factor> RuleParser::getOrAddFactor(StringRef name) {
  if (std::optional<Factor> factor = rule.getFactor(name))
    return *factor;
  auto *size = llvm::find_if(sizes, [&](auto &s) { return s.first == name; });
  if (size == sizes.end())
    return llvm::createStringError(Twine("expects a size for factor \"") +
                                   name + "\"");
  FactorInfo info;
  info.name = name.str();
  info.size = size->second;
  rule.factors.push_back(std::move(info));
  return static_cast<Factor>(rule.factors.size() - 1);
}

llvm::Error
RuleParser::parseTensors(StringRef text,
                         llvm::SmallVectorImpl<TensorFactors> &tensors) {
  if (text.trim().empty())
    return llvm::Error::success();
  for (StringRef part : llvm::split(text, ',')) {
    TensorFactors &tensor = tensors.emplace_back();
    bool inCompound = false;
    part = part.trim();
    if (part.empty())
      return llvm::createStringError("expects the dims of a tensor, or \".\"");
    if (part == ".")
      continue;
    while (!part.empty()) {
      StringRef token = takeToken(part);
      if (token == "(" || token == ")") {
        if (inCompound == (token == "("))
          return llvm::createStringError(Twine("unexpected \"") + token +
                                         "\" in a sharding rule");
        inCompound = token == "(";
        if (inCompound)
          tensor.emplace_back();
        continue;
      }
      if (!inCompound)
        tensor.emplace_back();
      if (token == "1")
        continue;
      llvm::Expected<Factor> factor = getOrAddFactor(token);
      if (!factor)
        return factor.takeError();
      tensor.back().push_back(*factor);
    }
    if (inCompound)
      return llvm::createStringError("expects \")\" in a sharding rule");
  }
  return llvm::Error::success();
}

llvm::Error
RuleParser::parseNames(StringRef text,
                       llvm::function_ref<void(FactorInfo &)> apply) {
  for (text = text.trim(); !text.empty();) {
    StringRef name = takeToken(text);
    std::optional<Factor> factor = rule.getFactor(name);
    if (!factor)
      return llvm::createStringError(Twine("no factor \"") + name +
                                     "\" in the tensors of the rule");
    apply(rule.factors[*factor]);
  }
  return llvm::Error::success();
}

llvm::Expected<llvm::SmallVector<unsigned, 2>>
RuleParser::parseOperands(StringRef text) {
  llvm::SmallVector<unsigned, 2> operands;
  for (text = text.trim(); !text.empty();) {
    StringRef token = takeToken(text);
    if (token.getAsInteger(10, operands.emplace_back()))
      return llvm::createStringError(
          Twine("expects the number of an operand, got \"") + token + "\"");
  }
  return operands;
}

llvm::Error RuleParser::parseClause(StringRef text) {
  StringRef kind = takeToken(text);
  if (kind == "reduce" || kind == "max")
    return parseNames(text, [&](FactorInfo &factor) {
      factor.reduction = kind == "max" ? Reduction::Max : Reduction::Sum;
    });
  if (kind == "pass" || kind == "passmax" || kind == "add") {
    llvm::Expected<llvm::SmallVector<unsigned, 2>> list = parseOperands(text);
    if (!list)
      return list.takeError();
    if (kind == "add")
      rule.addends.assign(list->begin(), list->end());
    else
      rule.passes.push_back(
          {*list, kind == "pass" ? Reduction::Sum : Reduction::Max});
    return llvm::Error::success();
  }
  if (kind == "block") {
    auto [names, reason] = text.split(':');
    if (reason.trim().empty())
      return llvm::createStringError(
          "expects \": reason\" after blocked factors");
    return parseNames(names, [reason = reason](FactorInfo &factor) {
      factor.blocked = reason.trim().str();
    });
  }
  return llvm::createStringError(
      Twine("expects \"reduce\", \"max\", \"pass\", \"passmax\", \"add\" or "
            "\"block\", got \"") +
      kind + "\"");
}

llvm::Error RuleParser::parse(StringRef text) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, '|');
  size_t arrow = parts.front().find("->");
  if (arrow == StringRef::npos)
    return llvm::createStringError(
        "expects \"->\" between operands and results of a sharding rule");
  if (llvm::Error error =
          parseTensors(parts.front().take_front(arrow), rule.operands))
    return error;
  if (llvm::Error error =
          parseTensors(parts.front().drop_front(arrow + 2), rule.results))
    return error;
  for (StringRef clause : ArrayRef(parts).drop_front())
    if (llvm::Error error = parseClause(clause))
      return error;
  return rule.verify();
}

llvm::Expected<ShardingRule> ShardingRule::parse(StringRef text, Sizes sizes) {
  RuleParser parser(sizes);
  if (llvm::Error error = parser.parse(text))
    return error;
  return std::move(parser.rule);
}

std::string ShardingRule::toString() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto printTensor = [&](const TensorFactors &tensor) {
    if (tensor.empty())
      os << '.';
    llvm::interleave(
        tensor, os,
        [&](const DimFactors &dim) {
          if (dim.empty())
            os << '1';
          if (dim.size() > 1)
            os << '(';
          llvm::interleave(
              dim, os, [&](Factor factor) { os << factors[factor].name; }, " ");
          if (dim.size() > 1)
            os << ')';
        },
        " ");
  };
  llvm::interleave(operands, os, printTensor, ", ");
  os << (operands.empty() ? "->" : " ->");
  if (!results.empty())
    os << ' ';
  llvm::interleave(results, os, printTensor, ", ");

  for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
    StringRef lead = reduction == Reduction::Sum ? " | reduce" : " | max";
    for (const FactorInfo &factor : factors)
      if (factor.reduction == reduction) {
        os << lead << ' ' << factor.name;
        lead = "";
      }
  }
  for (const PassGroup &pass : passes) {
    os << (pass.reduction == Reduction::Sum ? " | pass" : " | passmax");
    for (unsigned operand : pass.operands)
      os << ' ' << operand;
  }
  if (!addends.empty()) {
    os << " | add";
    for (unsigned operand : addends)
      os << ' ' << operand;
  }
  // Factors that are blocked for one reason share a clause.
  for (size_t i = 0; i < factors.size(); ++i) {
    const std::string &reason = factors[i].blocked;
    bool isFirst = llvm::none_of(ArrayRef(factors).take_front(i),
                                 [&](auto &f) { return f.blocked == reason; });
    if (reason.empty() || !isFirst)
      continue;
    os << " | block";
    for (const FactorInfo &factor : ArrayRef(factors).drop_front(i))
      if (factor.blocked == reason)
        os << ' ' << factor.name;
    os << ": " << reason;
  }
  return text;
}
