//===- Syntax.h - PTX as it is written ------------------------------------===//
//
// Words with their lines, and statements of a function's body: all of PTX's
// grammar that does not depend on what an instruction is.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_SYNTAX_H
#define CLEAVE_TEST_CUDA_PTX_SYNTAX_H

#include "Module.h"

namespace cleave::ptx {

/// A word (a name, number, directive or mnemonic, with its dots), or one
/// character of punctuation. `text` is empty at the end.
struct Token {
  std::string_view text;
  uint32_t line = 0;
  bool isWord = false;
};

class Tokens {
public:
  static Status read(std::string_view text, Tokens &tokens);

  const Token &peek(size_t ahead = 0) const;
  Token next();
  bool is(std::string_view text) const { return peek().text == text; }
  /// Takes the next token if it is `text`.
  bool take(std::string_view text);
  Status expect(std::string_view text);
  size_t getPosition() const { return at; }
  void setPosition(size_t position) { at = position; }
  /// An error at the next token.
  Status error(const std::string &message) const;

private:
  std::vector<Token> tokens;
  size_t at = 0;
  Token end;
};

Status makeError(uint32_t line, const std::string &message);

struct Operand {
  enum Form : uint8_t {
    Word,    ///< a register, number, symbol or label
    Pair,    ///< a|b
    Address, ///< [base], [base+offset]
    Vector,  ///< {a, b}
    List,    ///< (a, b)
  };
  Form form = Word;
  std::string_view word;
  bool isNegated = false; ///< !a
  bool isMinus = false;   ///< -1
  int64_t offset = 0;
  std::vector<Operand> elements;
};

/// `@!guard mnemonic operands;`
struct Statement {
  uint32_t line = 0;
  std::string_view guard;
  bool guardNegated = false;
  std::string_view mnemonic;
  std::vector<Operand> operands;
};

/// Reads up to and with the semicolon.
Status parseStatement(Tokens &tokens, Statement &statement);

/// The bits of a number as a value of `type`, whichever way it is written:
/// decimal, hexadecimal, 0f3F800000, 0d... False where `word` is no number.
bool parseNumber(std::string_view word, bool isMinus, Type type,
                 uint64_t &bits);
/// A number that says how many.
Status parseCount(Tokens &tokens, uint64_t &count);

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_SYNTAX_H
