//===- Syntax.cpp - PTX as it is written ----------------------------------===//
#include "Syntax.h"
#include "Numbers.h"
#include <cctype>
#include <charconv>
#include <cstring>

using namespace cleave;
using namespace cleave::ptx;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {

struct TypeName {
  std::string_view name;
  Type type;
  unsigned width;
};

constexpr TypeName typeNames[] = {
    {"pred", Type::Pred, 0}, {"b8", Type::B8, 1},
    {"b16", Type::B16, 2},   {"b32", Type::B32, 4},
    {"b64", Type::B64, 8},   {"b128", Type::B128, 16},
    {"u8", Type::U8, 1},     {"u16", Type::U16, 2},
    {"u32", Type::U32, 4},   {"u64", Type::U64, 8},
    {"s8", Type::S8, 1},     {"s16", Type::S16, 2},
    {"s32", Type::S32, 4},   {"s64", Type::S64, 8},
    {"f16", Type::F16, 2},   {"f16x2", Type::F16x2, 4},
    {"bf16", Type::BF16, 2}, {"bf16x2", Type::BF16x2, 4},
    {"f32", Type::F32, 4},   {"f64", Type::F64, 8},
    {"tf32", Type::TF32, 4},
};

} // namespace

Type ptx::parseType(std::string_view name) {
  for (const TypeName &entry : typeNames)
    if (entry.name == name)
      return entry.type;
  return Type::None;
}

unsigned ptx::getWidth(Type type) {
  for (const TypeName &entry : typeNames)
    if (entry.type == type)
      return entry.width;
  return 0;
}

bool ptx::isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 ||
         type == Type::S64;
}

bool ptx::isFloat(Type type) { return type >= Type::F16 && type <= Type::TF32; }

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

Status ptx::makeError(uint32_t line, const std::string &message) {
  return Status::error("PTX, line " + std::to_string(line) + ": " + message);
}

static bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

Status Tokens::read(std::string_view text, Tokens &tokens) {
  tokens = Tokens();
  uint32_t line = 1;
  size_t i = 0;
  while (i < text.size()) {
    char c = text[i];
    if (c == '\n')
      ++line;
    if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
      ++i;
      continue;
    }
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (text.substr(i, 2) == "/*") {
      size_t close = text.find("*/", i);
      if (close == std::string_view::npos)
        return makeError(line, "expects the end of the comment");
      for (; i < close + 2; ++i)
        line += text[i] == '\n';
      continue;
    }
    size_t begin = i;
    if (c == '"') {
      i = text.find('"', i + 1);
      if (i == std::string_view::npos)
        return makeError(line, "expects the end of the string");
      ++i;
    } else if (isWordCharacter(c)) {
      // L1::no_allocate is one word, a label and its colon are two.
      while (i < text.size() &&
             (isWordCharacter(text[i]) || text.substr(i, 2) == "::"))
        i += text[i] == ':' ? 2 : 1;
    } else {
      ++i;
    }
    tokens.tokens.push_back(
        {text.substr(begin, i - begin), line, isWordCharacter(c)});
  }
  tokens.end.line = line;
  return Status();
}

const Token &Tokens::peek(size_t ahead) const {
  return at + ahead < tokens.size() ? tokens[at + ahead] : end;
}

Token Tokens::next() {
  Token token = peek();
  at += at < tokens.size();
  return token;
}

bool Tokens::take(std::string_view text) {
  if (!is(text))
    return false;
  ++at;
  return true;
}

Status Tokens::error(const std::string &message) const {
  const Token &token = peek();
  return makeError(token.line,
                   message +
                       (token.text.empty()
                            ? ", but the text ends"
                            : ", got \"" + std::string(token.text) + "\""));
}

Status Tokens::expect(std::string_view text) {
  if (take(text))
    return Status();
  return error("expects \"" + std::string(text) + "\"");
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

static Status parseOperand(Tokens &tokens, Operand &operand);

static Status parseElements(Tokens &tokens, std::string_view close,
                            Operand &operand) {
  while (!tokens.take(close)) {
    if (!operand.elements.empty())
      CLEAVE_RETURN_IF_ERROR(tokens.expect(","));
    operand.elements.emplace_back();
    CLEAVE_RETURN_IF_ERROR(parseOperand(tokens, operand.elements.back()));
  }
  return Status();
}

/// `+4`, `-4`, `+-4` or nothing.
static Status parseOffset(Tokens &tokens, int64_t &offset) {
  bool isMinus = false, isThere = false;
  while (tokens.is("+") || tokens.is("-")) {
    isMinus ^= tokens.next().text == "-";
    isThere = true;
  }
  if (!isThere)
    return Status();
  uint64_t bits;
  if (!tokens.peek().isWord ||
      !parseNumber(tokens.peek().text, isMinus, Type::S64, bits))
    return tokens.error("expects an offset");
  tokens.next();
  offset = int64_t(bits);
  return Status();
}

static Status parseAddress(Tokens &tokens, Operand &operand) {
  operand.form = Operand::Address;
  operand.isMinus = tokens.take("-");
  if (!tokens.peek().isWord)
    return tokens.error("expects an address");
  operand.word = tokens.next().text;
  CLEAVE_RETURN_IF_ERROR(parseOffset(tokens, operand.offset));
  return tokens.expect("]");
}

static Status parseOperand(Tokens &tokens, Operand &operand) {
  if (tokens.take("[")) {
    return parseAddress(tokens, operand);
  }
  if (tokens.take("{")) {
    operand.form = Operand::Vector;
    return parseElements(tokens, "}", operand);
  }
  if (tokens.take("(")) {
    operand.form = Operand::List;
    return parseElements(tokens, ")", operand);
  }
  operand.isNegated = tokens.take("!");
  operand.isMinus = tokens.take("-");
  if (!tokens.peek().isWord)
    return tokens.error("expects an operand");
  operand.word = tokens.next().text;
  if (tokens.take("|")) {
    Operand first = operand, second;
    CLEAVE_RETURN_IF_ERROR(parseOperand(tokens, second));
    operand = Operand();
    operand.form = Operand::Pair;
    operand.elements = {first, second};
    return Status();
  }
  return parseOffset(tokens, operand.offset);
}

Status ptx::parseStatement(Tokens &tokens, Statement &statement) {
  statement = Statement();
  statement.line = tokens.peek().line;
  if (tokens.take("@")) {
    statement.guardNegated = tokens.take("!");
    statement.guard = tokens.next().text;
    statement.line = tokens.peek().line;
  }
  if (!tokens.peek().isWord)
    return tokens.error("expects an instruction");
  statement.mnemonic = tokens.next().text;
  while (!tokens.take(";")) {
    if (!statement.operands.empty())
      CLEAVE_RETURN_IF_ERROR(tokens.expect(","));
    statement.operands.emplace_back();
    CLEAVE_RETURN_IF_ERROR(parseOperand(tokens, statement.operands.back()));
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static bool parseFloat(std::string_view word, bool isMinus, Type type,
                       uint64_t &bits) {
  double value;
  std::string_view digits = word.substr(std::min<size_t>(2, word.size()));
  bool isSingle = word.starts_with("0f") || word.starts_with("0F");
  bool isDouble = word.starts_with("0d") || word.starts_with("0D");
  if (isSingle || isDouble) {
    uint64_t raw;
    auto [end, error] = std::from_chars(digits.begin(), digits.end(), raw, 16);
    if (error != std::errc() || end != digits.end() ||
        digits.size() != (isSingle ? 8 : 16))
      return false;
    // As it is written, also where it is no number.
    if (getWidth(type) == (isSingle ? 4U : 8U) && !isMinus) {
      bits = raw;
      return true;
    }
    value = isSingle ? double(toFloat(uint32_t(raw))) : toDouble(raw);
  } else {
    auto [end, error] = std::from_chars(word.begin(), word.end(), value);
    if (error != std::errc() || end != word.end())
      return false;
  }
  value = isMinus ? -value : value;
  switch (type) {
  case Type::F64:
  case Type::B64:
    bits = toBits(value);
    return true;
  case Type::F32:
  case Type::TF32:
  case Type::B32:
    bits = toBits(float(value));
    return true;
  case Type::F16:
    bits = toHalf(value);
    return true;
  case Type::BF16:
    bits = toBf16(value);
    return true;
  default:
    return false;
  }
}

bool ptx::parseNumber(std::string_view word, bool isMinus, Type type,
                      uint64_t &bits) {
  if (word.empty() || !std::isdigit(static_cast<unsigned char>(word[0])))
    return false;
  if (word.find('.') != std::string_view::npos ||
      (word.size() > 1 && word[0] == '0' && std::strchr("fFdD", word[1])))
    return parseFloat(word, isMinus, type, bits);
  if (word.back() == 'U')
    word.remove_suffix(1);
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b") || word.starts_with("0B")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word[0] == '0') {
    base = 8;
  }
  uint64_t value;
  auto [end, error] = std::from_chars(word.begin(), word.end(), value, base);
  if (error != std::errc() || end != word.end())
    return false;
  bits = isMinus ? 0 - value : value;
  if (unsigned width = getWidth(type); width < 8 && width != 0)
    bits &= (uint64_t(1) << (8 * width)) - 1;
  return true;
}

Status ptx::parseCount(Tokens &tokens, uint64_t &count) {
  if (!tokens.peek().isWord ||
      !parseNumber(tokens.peek().text, false, Type::U64, count))
    return tokens.error("expects a number");
  tokens.next();
  return Status();
}
