//===- Operands.cpp - Registers, numbers, symbols and addresses -----------===//
#include "Decode.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::ptx;

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

Modifiers::Modifiers(std::string_view mnemonic) {
  size_t at = mnemonic.find('.');
  name = mnemonic.substr(0, at);
  while (at != std::string_view::npos) {
    size_t next = mnemonic.find('.', at + 1);
    words.push_back(mnemonic.substr(at + 1, next - at - 1));
    at = next;
  }
}

bool Modifiers::take(std::string_view word) {
  auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end())
    return false;
  words.erase(found);
  return true;
}

int Modifiers::takeAny(std::initializer_list<std::string_view> choices) {
  int number = 0;
  for (std::string_view word : choices) {
    if (take(word))
      return number;
    ++number;
  }
  return -1;
}

void Modifiers::takeAll(std::initializer_list<std::string_view> choices) {
  for (std::string_view word : choices)
    take(word);
}

void Modifiers::takePrefixed(std::string_view prefix) {
  std::erase_if(
      words, [&](std::string_view word) { return word.starts_with(prefix); });
}

Type Modifiers::takeType() {
  for (auto word = words.begin(); word != words.end(); ++word)
    if (Type type = parseType(*word); type != Type::None) {
      words.erase(word);
      return type;
    }
  return Type::None;
}

std::string_view Modifiers::getRest() const {
  return words.empty() ? std::string_view() : words.front();
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

Decoder::Decoder(Module &module, Function &function,
                 const std::map<std::string, Symbol, std::less<>> &globals)
    : module(module), function(function), globals(globals) {
  openScope();
}

Status Decoder::error(const std::string &message) const {
  return makeError(statement->line,
                   std::string(statement->mnemonic) + ": " + message);
}

void Decoder::openScope() {
  scopes.emplace_back();
  scopes.back().parent = scope;
  scope = int(scopes.size()) - 1;
}

Status Decoder::closeScope(uint32_t line) {
  if (scope <= 0)
    return makeError(line, "\"}\" closes nothing");
  scope = scopes[size_t(scope)].parent;
  return Status();
}

uint32_t Decoder::allocate(unsigned width) {
  uint32_t offset = function.registerBytes;
  uint32_t bytes = width == 0 ? 4 : width * warpSize;
  function.registerBytes +=
      (bytes + registerAlignment - 1) / registerAlignment * registerAlignment;
  return offset;
}

Status Decoder::declareRegisters(std::string_view name, Type type,
                                 uint32_t count, bool isRange, uint32_t line) {
  unsigned width = getWidth(type);
  // Registers of 8 bits are as those of 16.
  width = width == 1 ? 2 : width;
  if (width > 8)
    return makeError(line, "registers of 128 bits are not supported");
  uint32_t first = function.registerBytes;
  for (uint32_t i = 0; i < count; ++i)
    allocate(width);
  Scope &inner = scopes[size_t(scope)];
  bool isNew;
  if (isRange) {
    uint32_t stride = count ? (function.registerBytes - first) / count : 0;
    isNew = inner.ranges
                .emplace(std::string(name), Range{first, count, stride, type})
                .second;
  } else {
    isNew = inner.registers.emplace(std::string(name), Register{first, type})
                .second;
  }
  if (!isNew)
    return makeError(line, "\"" + std::string(name) + "\" is declared twice");
  return Status();
}

Status Decoder::declareSymbol(std::string_view name, const Symbol &symbol,
                              uint32_t line) {
  Scope &inner = scopes[size_t(scope)];
  if (!inner.symbols.emplace(std::string(name), symbol).second)
    return makeError(line, "\"" + std::string(name) + "\" is declared twice");
  return Status();
}

Status Decoder::declareLabel(std::string_view name, uint32_t line) {
  Scope &inner = scopes[size_t(scope)];
  if (!inner.labels.emplace(std::string(name), uint32_t(function.code.size()))
           .second)
    return makeError(line, "\"" + std::string(name) + "\" is declared twice");
  return Status();
}

void Decoder::declareTargets(std::string_view name,
                             std::vector<std::string_view> labels) {
  scopes[size_t(scope)].targets.emplace(std::string(name), std::move(labels));
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

uint32_t Decoder::getConstant(unsigned width, uint64_t value, Base base) {
  auto [entry, isNew] = constants.try_emplace({width, value, base}, 0);
  if (isNew) {
    entry->second = allocate(width);
    function.constants.push_back({entry->second, uint8_t(width), value, base});
  }
  return entry->second;
}

uint32_t Decoder::getSpecial(Special special, unsigned width) {
  auto [entry, isNew] = specials.try_emplace({special, width}, 0);
  if (isNew) {
    entry->second = allocate(width);
    function.specials.push_back({entry->second, uint8_t(width), special});
  }
  return entry->second;
}

/// Each is its own, so that one instruction may have several.
uint32_t Decoder::getSink(unsigned width) { return allocate(width); }

bool Decoder::findRegister(std::string_view name, Register &result) const {
  size_t digits = name.size();
  while (digits > 0 &&
         std::isdigit(static_cast<unsigned char>(name[digits - 1])))
    --digits;
  for (int s = scope; s >= 0; s = scopes[size_t(s)].parent) {
    const Scope &inner = scopes[size_t(s)];
    if (auto found = inner.registers.find(name);
        found != inner.registers.end()) {
      result = found->second;
      return true;
    }
    // The prefix may end with digits itself.
    for (size_t cut = digits; cut < name.size(); ++cut) {
      auto found = inner.ranges.find(name.substr(0, cut));
      uint64_t number;
      if (found == inner.ranges.end() || name.size() - cut > 9)
        continue;
      number = std::stoul(std::string(name.substr(cut)));
      if (number >= found->second.count)
        continue;
      result = {found->second.first + uint32_t(number) * found->second.stride,
                found->second.type};
      return true;
    }
  }
  return false;
}

const Symbol *Decoder::findSymbol(std::string_view name) const {
  for (int s = scope; s >= 0; s = scopes[size_t(s)].parent) {
    const auto &symbols = scopes[size_t(s)].symbols;
    if (auto found = symbols.find(name); found != symbols.end())
      return &found->second;
  }
  auto found = globals.find(name);
  return found == globals.end() ? nullptr : &found->second;
}

namespace {
struct SpecialName {
  std::string_view name;
  Special special;
};
constexpr SpecialName specialNames[] = {
    {"%tid.x", Special::ThreadX},
    {"%tid.y", Special::ThreadY},
    {"%tid.z", Special::ThreadZ},
    {"%ntid.x", Special::BlockDimX},
    {"%ntid.y", Special::BlockDimY},
    {"%ntid.z", Special::BlockDimZ},
    {"%ctaid.x", Special::BlockX},
    {"%ctaid.y", Special::BlockY},
    {"%ctaid.z", Special::BlockZ},
    {"%nctaid.x", Special::GridX},
    {"%nctaid.y", Special::GridY},
    {"%nctaid.z", Special::GridZ},
    {"%laneid", Special::Lane},
    {"%warpid", Special::Warp},
    {"%nwarpid", Special::Warps},
    {"%lanemask_eq", Special::LaneMaskEq},
    {"%lanemask_lt", Special::LaneMaskLt},
    {"%lanemask_le", Special::LaneMaskLe},
    {"%lanemask_gt", Special::LaneMaskGt},
    {"%lanemask_ge", Special::LaneMaskGe},
    {"%smid", Special::Multiprocessor},
    {"%nsmid", Special::One},
    {"%gridid", Special::Zero},
    {"%dynamic_smem_size", Special::DynamicShared},
    {"%total_smem_size", Special::TotalShared},
    {"%cluster_ctaid.x", Special::Zero},
    {"%cluster_ctarank", Special::Zero},
    {"%cluster_nctaid.x", Special::One},
    {"%cluster_nctarank", Special::One},
};
constexpr std::string_view clockNames[] = {"%clock", "%clock64", "%clock_hi",
                                           "%globaltimer"};
} // namespace

bool Decoder::findSpecial(std::string_view name, Register &result) {
  for (const SpecialName &entry : specialNames)
    if (entry.name == name) {
      result = {getSpecial(entry.special, 4), Type::B32};
      return true;
    }
  return false;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static unsigned getRegisterWidth(Type type) {
  unsigned width = getWidth(type);
  return width == 1 ? 2 : width;
}

static std::string quote(std::string_view word) {
  return "\"" + std::string(word) + "\"";
}

/// A value to read: a register, whose width must be `width` unless the caller
/// asks what it is; or a constant of that width.
Status Decoder::readValue(const Operand &operand, unsigned width,
                          uint32_t &offset, unsigned *registerWidth) {
  if (operand.form != Operand::Word)
    return error("expects a register or a constant");
  Register found;
  if (findRegister(operand.word, found) || findSpecial(operand.word, found)) {
    if (found.type == Type::Pred)
      return error("expects a value, got the predicate " + quote(operand.word));
    unsigned has = getRegisterWidth(found.type);
    // Special registers are read at any width.
    if (has != width && !registerWidth && operand.word[0] == '%')
      for (const SpecialName &entry : specialNames)
        if (entry.name == operand.word) {
          offset = getSpecial(entry.special, width);
          return Status();
        }
    if (registerWidth)
      *registerWidth = has;
    else if (has != width)
      return error(quote(operand.word) + " has " + std::to_string(has * 8) +
                   " bits, expects " + std::to_string(width * 8));
    offset = found.offset;
    return Status();
  }
  unsigned constantWidth = std::max(2U, width);
  if (registerWidth)
    *registerWidth = constantWidth;
  Type type = constantWidth == 2   ? Type::B16
              : constantWidth == 4 ? Type::B32
                                   : Type::B64;
  uint64_t bits;
  if (operand.word == "WARP_SZ") {
    offset = getConstant(constantWidth, warpSize, Base::Zero);
    return Status();
  }
  if (parseNumber(operand.word, operand.isMinus, type, bits)) {
    offset = getConstant(constantWidth, bits, Base::Zero);
    return Status();
  }
  if (const Symbol *symbol = findSymbol(operand.word)) {
    offset = getConstant(
        constantWidth, symbol->offset + uint64_t(operand.offset), symbol->base);
    return Status();
  }
  return error("unknown operand " + quote(operand.word));
}

/// A negated predicate is one of its own, computed before.
Status Decoder::readPredicate(const Operand &operand, uint32_t &offset) {
  Register found;
  if (operand.form != Operand::Word || !findRegister(operand.word, found)) {
    // True and false may be written as numbers.
    uint64_t bits;
    if (parseNumber(operand.word, operand.isMinus, Type::B64, bits)) {
      bool value = (bits != 0) != operand.isNegated;
      offset = getConstant(0, value ? allLanes : 0, Base::Zero);
      return Status();
    }
    return error("expects a predicate, got " + quote(operand.word));
  }
  if (found.type != Type::Pred)
    return error("expects a predicate, got " + quote(operand.word));
  offset = found.offset;
  if (!operand.isNegated)
    return Status();
  Instruction negation;
  negation.kind = Kind::Compute;
  negation.compute = table.find("not.pred")->compute;
  negation.line = statement->line;
  negation.passesOn = true;
  offset = allocate(0);
  pushOperand(negation, offset, true);
  pushOperand(negation, found.offset, false);
  function.code.push_back(negation);
  return Status();
}

/// A register to write; `width` 0 is a predicate.
Status Decoder::readDestination(const Operand &operand, unsigned width,
                                uint32_t &offset, unsigned *registerWidth) {
  if (operand.form == Operand::Word && operand.word == "_") {
    unsigned has = width == 1 ? 2 : width;
    offset = getSink(has);
    if (registerWidth)
      *registerWidth = has;
    return Status();
  }
  Register found;
  if (operand.form != Operand::Word || !findRegister(operand.word, found))
    return error("expects a register to write, got " + quote(operand.word));
  unsigned has = getRegisterWidth(found.type);
  if ((found.type == Type::Pred) != (width == 0))
    return error("expects a " +
                 std::string(width == 0 ? "predicate" : "value") + ", got " +
                 quote(operand.word));
  if (registerWidth)
    *registerWidth = has;
  else if (has != width)
    return error(quote(operand.word) + " has " + std::to_string(has * 8) +
                 " bits, expects " + std::to_string(width * 8));
  offset = found.offset;
  return Status();
}

Status Decoder::readAddress(const Operand &operand, uint32_t &offset,
                            uint8_t &width, int64_t &displacement) {
  if (operand.form != Operand::Address)
    return error("expects an address in brackets");
  displacement = operand.offset;
  Register found;
  if (findRegister(operand.word, found)) {
    width = uint8_t(getRegisterWidth(found.type));
    if (width != 4 && width != 8)
      return error("expects an address of 32 or 64 bits");
    offset = found.offset;
    return Status();
  }
  width = 8;
  if (const Symbol *symbol = findSymbol(operand.word)) {
    offset = getConstant(8, symbol->offset, symbol->base);
    return Status();
  }
  uint64_t bits;
  if (!parseNumber(operand.word, operand.isMinus, Type::B64, bits))
    return error("unknown address " + quote(operand.word));
  offset = getConstant(8, bits, Base::Zero);
  return Status();
}

void Decoder::pushOperand(Instruction &i, uint32_t offset, bool isWritten) {
  if (i.count < i.operands.size())
    i.operands[i.count] = offset;
  ++i.count;
  i.written += isWritten;
}

Status Decoder::addWritten(Instruction &i, const Operand &operand,
                           unsigned width, unsigned *registerWidth) {
  uint32_t offset = 0;
  CLEAVE_RETURN_IF_ERROR(
      readDestination(operand, width, offset, registerWidth));
  pushOperand(i, offset, true);
  return Status();
}

Status Decoder::addRead(Instruction &i, const Operand &operand, unsigned width,
                        unsigned *registerWidth) {
  uint32_t offset = 0;
  if (width == 0)
    CLEAVE_RETURN_IF_ERROR(readPredicate(operand, offset));
  else
    CLEAVE_RETURN_IF_ERROR(readValue(operand, width, offset, registerWidth));
  pushOperand(i, offset, false);
  return Status();
}

Status Decoder::addAddress(Instruction &i, const Operand &operand) {
  uint32_t offset = 0;
  CLEAVE_RETURN_IF_ERROR(readAddress(operand, offset, i.sourceWidth, i.offset));
  pushOperand(i, offset, false);
  return Status();
}

/// What one register or a vector of them holds, in memory `width` bytes each.
Status Decoder::addElements(Instruction &i, const Operand &operand,
                            unsigned width, bool isWritten) {
  std::vector<Operand> single = {operand};
  const std::vector<Operand> &elements =
      operand.form == Operand::Vector ? operand.elements : single;
  if (elements.size() != i.vector)
    return error("expects " + std::to_string(i.vector) + " elements, got " +
                 std::to_string(elements.size()));
  if (i.count + elements.size() > i.operands.size())
    return error("has too many operands");
  unsigned common = 0;
  for (const Operand &element : elements) {
    unsigned has = 0;
    if (isWritten)
      CLEAVE_RETURN_IF_ERROR(addWritten(i, element, width, &has));
    else
      CLEAVE_RETURN_IF_ERROR(addRead(i, element, width, &has));
    if (element.word == "_")
      continue;
    if (has < width || (common != 0 && has != common))
      return error(quote(element.word) + " has " + std::to_string(has * 8) +
                   " bits");
    common = has;
  }
  i.registerWidth = uint8_t(common != 0 ? common : std::max(2U, width));
  return Status();
}

Status Decoder::expectOperands(size_t least, size_t most) const {
  size_t count = statement->operands.size();
  if (count >= least && count <= most)
    return Status();
  std::string wanted = std::to_string(least);
  if (most != least)
    wanted += " to " + std::to_string(most);
  return error("expects " + wanted + " operands, got " + std::to_string(count));
}

Status Decoder::expectTaken(const Modifiers &words) const {
  if (words.getRest().empty())
    return Status();
  return error("unknown modifier \"." + std::string(words.getRest()) + "\"");
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

Status Decoder::decodeMove(Instruction &i) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
  const Operand &to = statement->operands[0], &from = statement->operands[1];
  i.kind = Kind::Compute;
  i.passesOn = true;
  Modifiers words(statement->mnemonic);
  unsigned width = getWidth(words.takeType());
  for (std::string_view name : clockNames)
    if (from.word == name) {
      i.kind = Kind::Clock;
      i.passesOn = false;
      i.width = uint8_t(width);
      return addWritten(i, to, width);
    }
  bool packs = from.form == Operand::Vector;
  if (!packs && to.form != Operand::Vector)
    return decodeTable(i);
  size_t parts = (packs ? from : to).elements.size();
  if (parts != 2 && parts != 4)
    return error("expects a vector of 2 or 4");
  std::string name = packs ? "pack." : "unpack.";
  name += std::to_string(parts) + "x" + std::to_string(width * 8 / parts);
  const Computation *entry = table.find(name);
  if (!entry)
    return error("unknown vector");
  i.compute = entry->compute;
  unsigned part = width / unsigned(parts);
  i.vector = uint8_t(parts);
  if (packs) {
    i.packs = true;
    CLEAVE_RETURN_IF_ERROR(addWritten(i, to, width));
    for (const Operand &element : from.elements)
      CLEAVE_RETURN_IF_ERROR(addRead(i, element, part));
    return Status();
  }
  for (const Operand &element : to.elements)
    CLEAVE_RETURN_IF_ERROR(addWritten(i, element, part));
  return addRead(i, from, width);
}
