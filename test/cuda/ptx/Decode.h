//===- Decode.h - The statements of a function as instructions ------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_DECODE_H
#define CLEAVE_TEST_CUDA_PTX_DECODE_H

#include "Lanes.h"
#include "Syntax.h"
#include <map>
#include <set>

namespace cleave::ptx {

/// Where a symbol lies; its address is known when a warp starts.
struct Symbol {
  Space space;
  Base base;
  uint64_t offset;
};

/// A mnemonic's words after the first, each of which must be taken.
class Modifiers {
public:
  explicit Modifiers(std::string_view mnemonic);

  std::string_view name;
  bool take(std::string_view word);
  /// Takes any of several words, and says which; -1 where none is there.
  int takeAny(std::initializer_list<std::string_view> words);
  void takeAll(std::initializer_list<std::string_view> words);
  /// Takes every word that starts so.
  void takePrefixed(std::string_view prefix);
  /// Takes the first type.
  Type takeType();
  /// The first word that nothing took, or none.
  std::string_view getRest() const;

private:
  std::vector<std::string_view> words;
};

/// Builds one function's code.
class Decoder {
public:
  Decoder(Module &module, Function &function,
          const std::map<std::string, Symbol, std::less<>> &globals);

  void openScope();
  Status closeScope(uint32_t line);
  /// Registers NAME, or with a count NAME0, NAME1, ...
  Status declareRegisters(std::string_view name, Type type, uint32_t count,
                          bool isRange, uint32_t line);
  Status declareSymbol(std::string_view name, const Symbol &symbol,
                       uint32_t line);
  Status declareLabel(std::string_view name, uint32_t line);
  void declareTargets(std::string_view name,
                      std::vector<std::string_view> labels);
  Status decode(const Statement &statement);
  /// Where all is read: labels, control flow, what may be unwritten.
  Status finish();

private:
  struct Register {
    uint32_t offset;
    Type type;
  };
  struct Range {
    uint32_t first, count, stride;
    Type type;
  };
  struct Scope {
    std::map<std::string, Register, std::less<>> registers;
    std::map<std::string, Range, std::less<>> ranges;
    std::map<std::string, Symbol, std::less<>> symbols;
    std::map<std::string, uint32_t, std::less<>> labels;
    std::map<std::string, std::vector<std::string_view>, std::less<>> targets;
    int parent;
  };
  struct Fixup {
    size_t instruction;
    std::string_view label;
    int scope;
    int slot; // of the table, or -1
  };

  Status error(const std::string &message) const;

  // Operands
  uint32_t allocate(unsigned width);
  uint32_t getConstant(unsigned width, uint64_t value, Base base);
  uint32_t getSpecial(Special special, unsigned width);
  uint32_t getSink(unsigned width);
  bool findRegister(std::string_view name, Register &result) const;
  const Symbol *findSymbol(std::string_view name) const;
  bool findSpecial(std::string_view name, Register &result);
  Status readValue(const Operand &operand, unsigned width, uint32_t &offset,
                   unsigned *registerWidth = nullptr);
  Status readPredicate(const Operand &operand, uint32_t &offset);
  Status readDestination(const Operand &operand, unsigned width,
                         uint32_t &offset, unsigned *registerWidth = nullptr);
  Status readAddress(const Operand &operand, uint32_t &offset, uint8_t &width,
                     int64_t &displacement);
  Status addWritten(Instruction &i, const Operand &operand, unsigned width,
                    unsigned *registerWidth = nullptr);
  Status addRead(Instruction &i, const Operand &operand, unsigned width,
                 unsigned *registerWidth = nullptr);
  Status addAddress(Instruction &i, const Operand &operand);
  Status addElements(Instruction &i, const Operand &operand, unsigned width,
                     bool isWritten);
  void pushOperand(Instruction &i, uint32_t offset, bool isWritten);
  Status expectOperands(size_t least, size_t most) const;
  Status expectTaken(const Modifiers &words) const;

  // Families
  Status decodeTable(Instruction &i);
  Status addBySignature(Instruction &i, const Computation &entry);
  Status decodeConvert(Instruction &i);
  Status decodeMove(Instruction &i);
  Status decodeCvta(Instruction &i);
  Status decodeLoad(Instruction &i);
  Status decodeStore(Instruction &i);
  Status takeSpace(Modifiers &words, Instruction &i);
  void takeMemoryModifiers(Modifiers &words, Instruction &i);
  Status decodeAtomic(Instruction &i, bool returns);
  Status decodeCopy(Instruction &i);
  Status decodeMatrix(Instruction &i, bool isLoad);
  Status decodeMultiply(Instruction &i);
  Status decodeBarrier(Instruction &i);
  Status decodeWarp(Instruction &i);
  Status decodeBranch(Instruction &i);
  Status decodeCall(Instruction &i);
  bool decodeSimple(Instruction &i);
  Status decodeOne(Instruction &i);

  Status findLabel(const Fixup &fixup, uint32_t &target) const;

  Module &module;
  Function &function;
  const std::map<std::string, Symbol, std::less<>> &globals;
  const LaneTable &table = LaneTable::get();
  std::vector<Scope> scopes;
  int scope = -1;
  std::vector<Fixup> fixups;
  std::map<std::tuple<unsigned, uint64_t, Base>, uint32_t> constants;
  std::map<std::pair<Special, unsigned>, uint32_t> specials;
  uint32_t carry = none;
  const Statement *statement = nullptr;
};

/// Finds where separated lanes meet, and which reads may be of registers that
/// nothing wrote.
void analyzeControlFlow(Function &function);

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_DECODE_H
