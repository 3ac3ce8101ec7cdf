//===- Decode.cpp - What an instruction is --------------------------------===//
#include "Decode.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::ptx;

//===----------------------------------------------------------------------===//
// Lane by lane
//===----------------------------------------------------------------------===//

static unsigned getLetterWidth(char letter) {
  return letter == 'h' ? 2 : letter == 'i' ? 4 : letter == 'l' ? 8 : 0;
}

static Rounding takeRounding(Modifiers &words, Instruction &i) {
  static constexpr Rounding roundings[] = {Rounding::Nearest, Rounding::Zero,
                                           Rounding::Down, Rounding::Up,
                                           Rounding::NearestTiesAway};
  int plain = words.takeAny({"rn", "rz", "rm", "rp", "rna"});
  int integral = words.takeAny({"rni", "rzi", "rmi", "rpi"});
  i.integral = integral >= 0;
  int which = integral >= 0 ? integral : std::max(plain, 0);
  return roundings[which];
}

Status Decoder::addBySignature(Instruction &i, const Computation &entry) {
  // The carry has no name.
  bool writesCarry = statement->mnemonic.find(".cc.") != std::string_view::npos;
  bool readsCarry = statement->mnemonic.starts_with("addc") ||
                    statement->mnemonic.starts_with("subc");
  if ((writesCarry || readsCarry) && carry == none)
    carry = allocate(0);
  bool isWritten = true, isOptional = false;
  size_t next = 0;
  const std::vector<Operand> &operands = statement->operands;
  for (const char *letter = entry.signature; *letter; ++letter) {
    if (*letter == '=') {
      isWritten = false;
      continue;
    }
    if (*letter == '?') {
      isOptional = true;
      continue;
    }
    unsigned width = getLetterWidth(*letter);
    bool isPredicate = *letter == 'p';
    if (isPredicate && !isOptional && i.count > 0 &&
        ((isWritten && writesCarry) || (!isWritten && readsCarry))) {
      pushOperand(i, carry, isWritten);
      continue;
    }
    // p|q, of which the second may be missing.
    if (isWritten && isPredicate && letter[1] == 'p' && !operands.empty()) {
      bool isPair = operands[0].form == Operand::Pair;
      CLEAVE_RETURN_IF_ERROR(
          addWritten(i, isPair ? operands[0].elements[0] : operands[0], 0));
      if (isPair)
        CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[0].elements[1], 0));
      else
        pushOperand(i, getSink(0), true);
      ++letter;
      ++next;
      continue;
    }
    if (next == operands.size()) {
      if (isOptional)
        break;
      return error("expects more operands");
    }
    const Operand &operand = operands[next++];
    CLEAVE_RETURN_IF_ERROR(isWritten ? addWritten(i, operand, width)
                                     : addRead(i, operand, width));
  }
  if (next != operands.size())
    return error("has too many operands");
  return Status();
}

Status Decoder::decodeTable(Instruction &i) {
  const Computation *entry = table.find(std::string(statement->mnemonic));
  if (!entry)
    return makeError(statement->line, "unknown instruction \"" +
                                          std::string(statement->mnemonic) +
                                          "\"");
  i.kind = Kind::Compute;
  i.compute = entry->compute;
  Modifiers words(statement->mnemonic);
  i.rounding = takeRounding(words, i);
  i.flush = words.take("ftz");
  i.saturate = words.take("sat");
  i.relu = words.take("relu");
  int join = words.takeAny({"and", "or", "xor"});
  i.mode = words.name == "setp" ? uint8_t(join + 1) : 0;
  return addBySignature(i, *entry);
}

Status Decoder::decodeConvert(Instruction &i) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 3));
  const std::vector<Operand> &operands = statement->operands;
  Modifiers words(statement->mnemonic);
  i.rounding = takeRounding(words, i);
  i.flush = words.take("ftz");
  i.saturate = words.take("sat");
  i.finite = words.take("satfinite");
  i.relu = words.take("relu");
  i.type = words.takeType();
  i.sourceType = words.takeType();
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  if (i.type == Type::None || i.sourceType == Type::None)
    return error("expects two types");
  i.width = uint8_t(getWidth(i.type));
  unsigned toWidth = 0, fromWidth = 0;
  i.kind = Kind::Convert;
  CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[0], i.width, &toWidth));
  for (size_t n = 1; n < operands.size(); ++n)
    CLEAVE_RETURN_IF_ERROR(
        addRead(i, operands[n], getWidth(i.sourceType), &fromWidth));
  i.registerWidth = uint8_t(toWidth);
  i.sourceWidth = uint8_t(fromWidth);
  if (toWidth < i.width || fromWidth < getWidth(i.sourceType))
    return error("its registers are too narrow");
  bool isPair = i.type == Type::BF16x2 || i.type == Type::F16x2;
  if (isPair != (operands.size() == 3))
    return error("expects two sources for a pair, else one");
  // Whole registers have code of their own.
  const Computation *entry = table.find(std::string(statement->mnemonic));
  if (entry && getLetterWidth(entry->signature[0]) == toWidth &&
      getLetterWidth(entry->signature[2]) == fromWidth) {
    i.kind = Kind::Compute;
    i.compute = entry->compute;
  }
  return Status();
}

/// Addresses of global and constant memory are generic ones as they are; the
/// others lie in windows.
Status Decoder::decodeCvta(Instruction &i) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
  Modifiers words(statement->mnemonic);
  bool isTo = words.take("to");
  CLEAVE_RETURN_IF_ERROR(takeSpace(words, i));
  if (words.takeAny({"u64"}) < 0)
    return error("expects addresses of 64 bits");
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  uint64_t window = i.space == Space::Shared  ? sharedWindow
                    : i.space == Space::Local ? localWindow
                    : i.space == Space::Param ? paramWindow
                                              : 0;
  i.kind = Kind::Compute;
  i.compute = table.find("add.s64")->compute;
  CLEAVE_RETURN_IF_ERROR(addWritten(i, statement->operands[0], 8));
  CLEAVE_RETURN_IF_ERROR(addRead(i, statement->operands[1], 8));
  pushOperand(i, getConstant(8, isTo ? 0 - window : window, Base::Zero), false);
  return Status();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status Decoder::takeSpace(Modifiers &words, Instruction &i) {
  static constexpr Space spaces[] = {
      Space::Global, Space::Shared, Space::Shared, Space::Const,
      Space::Local,  Space::Param,  Space::Param,  Space::Param};
  int which = words.takeAny({"global", "shared", "shared::cta", "const",
                             "local", "param", "param::entry", "param::func"});
  i.space = which < 0 ? Space::Generic : spaces[which];
  return Status();
}

void Decoder::takeMemoryModifiers(Modifiers &words, Instruction &i) {
  i.strong = words.takeAny({"volatile", "relaxed", "acquire", "release",
                            "acq_rel", "mmio"}) >= 0;
  words.takeAll({"weak", "cta", "cluster", "gpu", "sys", "nc", "ca", "cg", "cs",
                 "lu", "cv", "wb", "wt", "noftz"});
  words.takePrefixed("L1::");
  words.takePrefixed("L2::");
  static constexpr uint8_t vectors[] = {2, 4, 8};
  int vector = words.takeAny({"v2", "v4", "v8"});
  i.vector = vector < 0 ? 1 : vectors[vector];
}

Status Decoder::decodeLoad(Instruction &i) {
  // A hint for the cache may follow.
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 3));
  Modifiers words(statement->mnemonic);
  CLEAVE_RETURN_IF_ERROR(takeSpace(words, i));
  takeMemoryModifiers(words, i);
  i.kind = Kind::Load;
  i.type = words.takeType();
  i.width = uint8_t(getWidth(i.type));
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  if (i.width == 0 || i.width > 8)
    return error("expects a type of 8 to 64 bits");
  CLEAVE_RETURN_IF_ERROR(
      addElements(i, statement->operands[0], i.width, /*isWritten=*/true));
  return addAddress(i, statement->operands[1]);
}

Status Decoder::decodeStore(Instruction &i) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 3));
  Modifiers words(statement->mnemonic);
  CLEAVE_RETURN_IF_ERROR(takeSpace(words, i));
  takeMemoryModifiers(words, i);
  i.kind = Kind::Store;
  i.type = words.takeType();
  i.width = uint8_t(getWidth(i.type));
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  if (i.width == 0 || i.width > 8)
    return error("expects a type of 8 to 64 bits");
  CLEAVE_RETURN_IF_ERROR(addAddress(i, statement->operands[0]));
  return addElements(i, statement->operands[1], i.width, /*isWritten=*/false);
}

Status Decoder::decodeAtomic(Instruction &i, bool returns) {
  Modifiers words(statement->mnemonic);
  CLEAVE_RETURN_IF_ERROR(takeSpace(words, i));
  takeMemoryModifiers(words, i);
  i.kind = Kind::Atomic;
  i.strong = true;
  int which = words.takeAny(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  if (which < 0)
    return error("expects an operation");
  i.mode = uint8_t(which);
  i.type = words.takeType();
  i.width = uint8_t(getWidth(i.type));
  i.registerWidth = i.width;
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  if (i.width < 2 || i.width > 8 || i.vector != 1)
    return error("expects one value of 16 to 64 bits");
  bool isExchange = Atomic(i.mode) == Atomic::CompareExchange;
  size_t count = 2 + returns + isExchange;
  CLEAVE_RETURN_IF_ERROR(expectOperands(count, count + 1));
  size_t next = 0;
  const std::vector<Operand> &operands = statement->operands;
  if (returns)
    CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[next++], i.width));
  CLEAVE_RETURN_IF_ERROR(addAddress(i, operands[next++]));
  CLEAVE_RETURN_IF_ERROR(addRead(i, operands[next++], i.width));
  if (isExchange)
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[next++], i.width));
  return Status();
}

/// cp.async and what belongs to it. The source's displacement is `target`.
Status Decoder::decodeCopy(Instruction &i) {
  Modifiers words(statement->mnemonic);
  const std::vector<Operand> &operands = statement->operands;
  if (!words.take("async"))
    return error("expects cp.async");
  if (words.take("commit_group")) {
    i.kind = Kind::CommitGroup;
    CLEAVE_RETURN_IF_ERROR(expectTaken(words));
    return expectOperands(0, 0);
  }
  bool waitsForAll = words.take("wait_all");
  if (waitsForAll || words.take("wait_group")) {
    i.kind = Kind::WaitGroup;
    CLEAVE_RETURN_IF_ERROR(expectTaken(words));
    CLEAVE_RETURN_IF_ERROR(expectOperands(!waitsForAll, !waitsForAll));
    i.offset = -1;
    uint64_t bits;
    if (!waitsForAll) {
      if (!parseNumber(operands[0].word, false, Type::B64, bits))
        return error("expects a number of groups");
      i.offset = int64_t(bits);
    }
    return Status();
  }
  i.kind = Kind::CopyAsync;
  bool hasHint = words.take("L2::cache_hint");
  bool isGlobal = words.take("cg");
  words.takeAll({"ca", "global"});
  words.takePrefixed("L2::");
  if (words.takeAny({"shared", "shared::cta"}) < 0)
    return error("expects a destination in shared memory");
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  CLEAVE_RETURN_IF_ERROR(expectOperands(3 + hasHint, 4 + hasHint));
  uint64_t bytes;
  if (!parseNumber(operands[2].word, false, Type::B64, bytes) ||
      (bytes != 16 && (isGlobal || (bytes != 4 && bytes != 8))))
    return error(isGlobal ? "expects 16 bytes" : "expects 4, 8 or 16 bytes");
  i.width = uint8_t(bytes);
  CLEAVE_RETURN_IF_ERROR(addAddress(i, operands[0]));
  uint32_t source = 0;
  int64_t displacement = 0;
  CLEAVE_RETURN_IF_ERROR(
      readAddress(operands[1], source, i.registerWidth, displacement));
  pushOperand(i, source, false);
  i.target = uint32_t(displacement);
  if (operands.size() == 4U + hasHint) {
    Register found;
    i.mode = findRegister(operands[3].word, found) &&
             found.type == Type::Pred; // then nothing is read
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[3], i.mode ? 0 : 4));
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

Status Decoder::decodeMatrix(Instruction &i, bool isLoad) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
  Modifiers words(statement->mnemonic);
  words.takeAll({"sync", "aligned"});
  i.kind = isLoad ? Kind::LoadMatrix : Kind::StoreMatrix;
  static constexpr uint8_t counts[] = {1, 2, 4};
  int count = words.takeAny({"x1", "x2", "x4"});
  i.transpose = words.take("trans");
  i.type = words.takeType();
  if (count < 0 || !words.take("m8n8") || i.type != Type::B16)
    return error("expects 1, 2 or 4 matrices of 8 by 8 elements of b16");
  if (words.takeAny({"shared", "shared::cta"}) < 0)
    return error("expects shared memory");
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  i.vector = counts[count];
  i.space = Space::Shared;
  const std::vector<Operand> &operands = statement->operands;
  if (isLoad)
    CLEAVE_RETURN_IF_ERROR(addElements(i, operands[0], 4, true));
  CLEAVE_RETURN_IF_ERROR(addAddress(i, operands[isLoad]));
  if (!isLoad)
    CLEAVE_RETURN_IF_ERROR(addElements(i, operands[1], 4, false));
  return Status();
}

/// d, a, b, c, with their registers one after the other; `mode` is the depth.
Status Decoder::decodeMultiply(Instruction &i) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(4, 4));
  Modifiers words(statement->mnemonic);
  words.takeAll({"sync", "aligned", "row", "col"});
  static constexpr uint8_t depths[] = {16, 8, 4};
  int depth = words.takeAny({"m16n8k16", "m16n8k8", "m16n8k4"});
  Type result = words.takeType();
  i.type = words.takeType();
  Type second = words.takeType(), third = words.takeType();
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  bool isNarrow = i.type == Type::BF16 || i.type == Type::F16;
  bool isKnown = depth >= 0 && (isNarrow ? depth < 2 : depth > 0);
  if (!isKnown || result != Type::F32 || third != Type::F32 ||
      second != i.type || (!isNarrow && i.type != Type::TF32))
    return makeError(statement->line, "unknown instruction \"" +
                                          std::string(statement->mnemonic) +
                                          "\"");
  i.kind = Kind::Multiply;
  i.mode = depths[depth];
  // Each register of a holds 1 or 2 of 8 by 4 elements.
  unsigned fragments = i.mode / (isNarrow ? 8 : 4);
  const std::vector<Operand> &operands = statement->operands;
  i.vector = 4;
  CLEAVE_RETURN_IF_ERROR(addElements(i, operands[0], 4, true));
  i.vector = uint8_t(2 * fragments);
  CLEAVE_RETURN_IF_ERROR(addElements(i, operands[1], 4, false));
  i.vector = uint8_t(fragments);
  CLEAVE_RETURN_IF_ERROR(addElements(i, operands[2], 4, false));
  i.vector = 4;
  return addElements(i, operands[3], 4, false);
}

//===----------------------------------------------------------------------===//
// Barriers and warps
//===----------------------------------------------------------------------===//

Status Decoder::decodeBarrier(Instruction &i) {
  Modifiers words(statement->mnemonic);
  const std::vector<Operand> &operands = statement->operands;
  if (words.take("warp")) {
    words.take("sync");
    CLEAVE_RETURN_IF_ERROR(expectTaken(words));
    CLEAVE_RETURN_IF_ERROR(expectOperands(1, 1));
    i.kind = Kind::WarpBarrier;
    return addRead(i, operands[0], 4);
  }
  words.take("cta");
  i.aligned = words.take("aligned") || words.name == "bar";
  size_t next = 0;
  i.kind = Kind::Barrier;
  if (words.take("red")) {
    i.kind = Kind::BarrierReduce;
    int which = words.takeAny({"and", "or", "popc"});
    Type type = words.takeType();
    if (which < 0 || (which == 2 ? type != Type::U32 : type != Type::Pred))
      return error("expects a reduction");
    static constexpr ReduceMode modes[] = {ReduceMode::And, ReduceMode::Or,
                                           ReduceMode::Count};
    i.mode = uint8_t(modes[which]);
    CLEAVE_RETURN_IF_ERROR(expectOperands(3, 4));
    CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[next++], which == 2 ? 4 : 0));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands.back(), 0));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[next++], 4));
    if (operands.size() == 4)
      CLEAVE_RETURN_IF_ERROR(addRead(i, operands[next], 4));
    return expectTaken(words);
  }
  int which = words.takeAny({"sync", "arrive"});
  if (which < 0)
    return error("expects sync, arrive or red");
  i.mode = uint8_t(which);
  CLEAVE_RETURN_IF_ERROR(expectTaken(words));
  CLEAVE_RETURN_IF_ERROR(expectOperands(which == 1 ? 2 : 1, 2));
  for (const Operand &operand : operands)
    CLEAVE_RETURN_IF_ERROR(addRead(i, operand, 4));
  return Status();
}

Status Decoder::decodeWarp(Instruction &i) {
  Modifiers words(statement->mnemonic);
  const std::vector<Operand> &operands = statement->operands;
  words.take("sync");
  int mode = -1;
  // What is written: a register and perhaps a predicate.
  auto addResult = [&](unsigned width) {
    bool isPair = operands[0].form == Operand::Pair;
    Status status =
        addWritten(i, isPair ? operands[0].elements[0] : operands[0], width);
    if (!status.ok())
      return status;
    if (isPair)
      return addWritten(i, operands[0].elements[1], 0);
    pushOperand(i, getSink(0), true);
    return Status();
  };
  if (words.name == "shfl") {
    i.kind = Kind::Shuffle;
    mode = words.takeAny({"up", "down", "bfly", "idx"});
    i.type = words.takeType();
    CLEAVE_RETURN_IF_ERROR(expectOperands(5, 5));
    CLEAVE_RETURN_IF_ERROR(addResult(4));
    for (size_t n = 1; n < 5; ++n)
      CLEAVE_RETURN_IF_ERROR(addRead(i, operands[n], 4));
  } else if (words.name == "vote") {
    i.kind = Kind::Vote;
    mode = words.takeAny({"all", "any", "uni", "ballot"});
    i.type = words.takeType();
    CLEAVE_RETURN_IF_ERROR(expectOperands(3, 3));
    CLEAVE_RETURN_IF_ERROR(
        addWritten(i, operands[0], VoteMode(mode) == VoteMode::Ballot ? 4 : 0));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[1], 0));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[2], 4));
  } else if (words.name == "match") {
    i.kind = Kind::Match;
    mode = words.takeAny({"any", "all"});
    i.type = words.takeType();
    i.width = uint8_t(getWidth(i.type));
    CLEAVE_RETURN_IF_ERROR(expectOperands(3, 3));
    CLEAVE_RETURN_IF_ERROR(addResult(4));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[1], i.width));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[2], 4));
  } else if (words.name == "redux") {
    i.kind = Kind::Reduce;
    mode = words.takeAny({"add", "min", "max", "and", "or", "xor"});
    i.type = words.takeType();
    CLEAVE_RETURN_IF_ERROR(expectOperands(3, 3));
    CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[0], 4));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[1], 4));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[2], 4));
  } else if (words.name == "elect") {
    i.kind = Kind::Elect;
    mode = 0;
    CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
    CLEAVE_RETURN_IF_ERROR(addResult(4));
    CLEAVE_RETURN_IF_ERROR(addRead(i, operands[1], 4));
  } else {
    i.kind = Kind::ActiveMask;
    mode = 0;
    words.takeType();
    CLEAVE_RETURN_IF_ERROR(expectOperands(1, 1));
    CLEAVE_RETURN_IF_ERROR(addWritten(i, operands[0], 4));
  }
  if (mode < 0)
    return error("expects a mode");
  i.mode = uint8_t(mode);
  return expectTaken(words);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

Status Decoder::decodeBranch(Instruction &i) {
  const std::vector<Operand> &operands = statement->operands;
  size_t number = function.code.size();
  if (!statement->mnemonic.starts_with("brx")) {
    CLEAVE_RETURN_IF_ERROR(expectOperands(1, 1));
    i.kind = Kind::Branch;
    fixups.push_back({number, operands[0].word, scope, -1});
    return Status();
  }
  CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
  i.kind = Kind::BranchIndex;
  CLEAVE_RETURN_IF_ERROR(addRead(i, operands[0], 4));
  for (int s = scope; s >= 0; s = scopes[size_t(s)].parent) {
    const auto &targets = scopes[size_t(s)].targets;
    auto found = targets.find(operands[1].word);
    if (found == targets.end())
      continue;
    i.table.resize(found->second.size());
    for (size_t n = 0; n < found->second.size(); ++n)
      fixups.push_back({number, found->second[n], scope, int(n)});
    return Status();
  }
  return error("unknown targets \"" + std::string(operands[1].word) + "\"");
}

/// The arguments' and results' places in the caller's parameter space.
Status Decoder::decodeCall(Instruction &i) {
  i.kind = Kind::Call;
  const std::vector<Operand> &operands = statement->operands;
  size_t next = 0;
  std::vector<Operand> results, arguments;
  if (!operands.empty() && operands[0].form == Operand::List)
    results = operands[next++].elements;
  if (next >= operands.size() || operands[next].form != Operand::Word)
    return error("expects a function");
  std::string_view name = operands[next++].word;
  if (next < operands.size() && operands[next].form == Operand::List)
    arguments = operands[next++].elements;
  if (next != operands.size())
    return error("calls through pointers are not supported");
  for (size_t n = 0; n < module.functions.size(); ++n)
    if (module.functions[n].name == name)
      i.target = uint32_t(n);
  if (i.target == none)
    return error("unknown function \"" + std::string(name) + "\"");
  const Function &callee = module.functions[i.target];
  if (arguments.size() != callee.parameters.size() ||
      results.size() != callee.results.size())
    return error("does not match the parameters of \"" + std::string(name) +
                 "\"");
  arguments.insert(arguments.end(), results.begin(), results.end());
  for (const Operand &operand : arguments) {
    const Symbol *symbol = findSymbol(operand.word);
    if (!symbol || symbol->space != Space::Param)
      return error("expects a variable in .param, got \"" +
                   std::string(operand.word) + "\"");
    i.table.push_back(uint32_t(symbol->offset));
  }
  return Status();
}

/// What has no operands that matter.
bool Decoder::decodeSimple(Instruction &i) {
  std::string_view name = Modifiers(statement->mnemonic).name;
  static constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"ret", Kind::Return},         {"exit", Kind::Exit},
      {"trap", Kind::Trap},          {"brkpt", Kind::Trap},
      {"membar", Kind::Nothing},     {"fence", Kind::Nothing},
      {"prefetch", Kind::Nothing},   {"prefetchu", Kind::Nothing},
      {"discard", Kind::Nothing},    {"applypriority", Kind::Nothing},
      {"nanosleep", Kind::Nothing},  {"griddepcontrol", Kind::Nothing},
      {"setmaxnreg", Kind::Nothing}, {"pmevent", Kind::Nothing},
  };
  for (auto [known, kind] : kinds)
    if (name == known) {
      i.kind = kind;
      return true;
    }
  return false;
}

Status Decoder::decodeOne(Instruction &i) {
  if (decodeSimple(i))
    return Status();
  std::string_view name = Modifiers(statement->mnemonic).name;
  if (name == "mov")
    return decodeMove(i);
  if (name == "cvt")
    return decodeConvert(i);
  if (name == "cvta")
    return decodeCvta(i);
  if (name == "ld" || name == "ldu")
    return decodeLoad(i);
  if (name == "st")
    return decodeStore(i);
  if (name == "atom" || name == "red")
    return decodeAtomic(i, name == "atom");
  if (name == "cp")
    return decodeCopy(i);
  if (name == "ldmatrix" || name == "stmatrix")
    return decodeMatrix(i, name == "ldmatrix");
  if (name == "mma")
    return decodeMultiply(i);
  if (name == "bar" || name == "barrier")
    return decodeBarrier(i);
  if (name == "shfl" || name == "vote" || name == "match" || name == "redux" ||
      name == "elect" || name == "activemask")
    return decodeWarp(i);
  if (name == "bra" || name == "brx")
    return decodeBranch(i);
  if (name == "call")
    return decodeCall(i);
  if (name == "isspacep") {
    CLEAVE_RETURN_IF_ERROR(expectOperands(2, 2));
    Modifiers words(statement->mnemonic);
    CLEAVE_RETURN_IF_ERROR(takeSpace(words, i));
    i.kind = Kind::IsSpace;
    CLEAVE_RETURN_IF_ERROR(addWritten(i, statement->operands[0], 0));
    CLEAVE_RETURN_IF_ERROR(addRead(i, statement->operands[1], 8));
    return expectTaken(words);
  }
  if (name == "createpolicy") {
    // A hint without meaning here, but a value.
    i.kind = Kind::Compute;
    i.compute = table.find("mov.b64")->compute;
    CLEAVE_RETURN_IF_ERROR(expectOperands(1, 4));
    CLEAVE_RETURN_IF_ERROR(addWritten(i, statement->operands[0], 8));
    pushOperand(i, getConstant(8, 0, Base::Zero), false);
    return Status();
  }
  return decodeTable(i);
}

Status Decoder::decode(const Statement &decoded) {
  statement = &decoded;
  Instruction i;
  i.line = decoded.line;
  if (!decoded.guard.empty()) {
    Register found;
    if (!findRegister(decoded.guard, found) || found.type != Type::Pred)
      return error("expects a predicate, got \"" + std::string(decoded.guard) +
                   "\"");
    i.guard = found.offset;
    i.guardNegated = decoded.guardNegated;
  }
  CLEAVE_RETURN_IF_ERROR(decodeOne(i));
  function.code.push_back(std::move(i));
  return Status();
}

Status Decoder::findLabel(const Fixup &fixup, uint32_t &target) const {
  for (int s = fixup.scope; s >= 0; s = scopes[size_t(s)].parent) {
    const auto &labels = scopes[size_t(s)].labels;
    if (auto found = labels.find(fixup.label); found != labels.end()) {
      target = found->second;
      return Status();
    }
  }
  return makeError(function.code[fixup.instruction].line,
                   "unknown label \"" + std::string(fixup.label) + "\"");
}

Status Decoder::finish() {
  // The end of the text is one of the function, too.
  Instruction end;
  end.kind = Kind::Return;
  end.line = function.code.empty() ? function.line : function.code.back().line;
  function.code.push_back(end);
  for (const Fixup &fixup : fixups) {
    Instruction &i = function.code[fixup.instruction];
    CLEAVE_RETURN_IF_ERROR(findLabel(
        fixup, fixup.slot < 0 ? i.target : i.table[size_t(fixup.slot)]));
  }
  analyzeControlFlow(function);
  return Status();
}
