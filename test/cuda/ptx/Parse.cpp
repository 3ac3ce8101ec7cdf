//===- Parse.cpp - The directives of a module -----------------------------===//
#include "Decode.h"
#include <algorithm>
#include <cstring>

using namespace cleave;
using namespace cleave::ptx;

namespace {

uint64_t alignUp(uint64_t x, uint64_t alignment) {
  return (x + alignment - 1) / alignment * alignment;
}

class Parser {
public:
  Parser(Tokens &tokens, Module &module) : tokens(tokens), module(module) {}

  Status parse();

private:
  /// `.align 4 .b8 name[16] = {...}`
  struct Declaration {
    std::string_view name;
    Type type = Type::None;
    uint64_t elements = 1;
    bool isArray = false, isUnsized = false;
    uint64_t alignment = 0;
    uint32_t line = 0;

    size_t getBytes() const { return size_t(elements) * getWidth(type); }
  };

  Status parseDeclaration(Declaration &declaration);
  Status parseInitializer(const Declaration &declaration, std::byte *bytes);
  Status parseGlobal(Space space, bool isExternal);
  Status parseParameters(Decoder &decoder, Function &function,
                         std::vector<Variable> &list);
  Status parseFunction(bool isKernel);
  Status parseBounds(Function &function);
  Status parseBody(Decoder &decoder, Function &function);
  Status parseLocal(Decoder &decoder, Function &function, Space space);
  Status parseRegisters(Decoder &decoder);
  Status parseTargets(Decoder &decoder, std::string_view name);
  void skipLine();
  Status skipBraces();

  Tokens &tokens;
  Module &module;
  std::map<std::string, Symbol, std::less<>> globals;
};

} // namespace

static bool parseSpace(std::string_view word, Space &space) {
  static constexpr std::pair<std::string_view, Space> spaces[] = {
      {".global", Space::Global}, {".shared", Space::Shared},
      {".const", Space::Const},   {".local", Space::Local},
      {".param", Space::Param},
  };
  for (auto [name, known] : spaces)
    if (word == name) {
      space = known;
      return true;
    }
  return false;
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

Status Parser::parseDeclaration(Declaration &declaration) {
  declaration = Declaration();
  declaration.line = tokens.peek().line;
  bool isPointer = false; // whose alignment is that of what it points to
  while (tokens.peek().text.starts_with(".")) {
    std::string_view word = tokens.next().text.substr(1);
    uint64_t pointed;
    isPointer |= word == "ptr";
    if (word == "align")
      CLEAVE_RETURN_IF_ERROR(
          parseCount(tokens, isPointer ? pointed : declaration.alignment));
    else if (Type type = parseType(word); type != Type::None)
      declaration.type = type;
    else if (word == "v2" || word == "v4")
      declaration.elements = uint64_t(word[1] - '0');
    else if (Space space; word != "ptr" && word != "unified" &&
                          word != "managed" &&
                          !parseSpace("." + std::string(word), space))
      return makeError(declaration.line,
                       "unknown directive \"." + std::string(word) + "\"");
  }
  if (getWidth(declaration.type) == 0 || !tokens.peek().isWord)
    return tokens.error("expects a type and a name");
  declaration.name = tokens.next().text;
  while (tokens.take("[")) {
    declaration.isArray = true;
    if (tokens.take("]")) {
      declaration.isUnsized = true;
      declaration.elements = 0;
      continue;
    }
    uint64_t count;
    CLEAVE_RETURN_IF_ERROR(parseCount(tokens, count));
    declaration.elements *= count;
    CLEAVE_RETURN_IF_ERROR(tokens.expect("]"));
  }
  if (declaration.alignment == 0)
    declaration.alignment = getWidth(declaration.type);
  return Status();
}

/// Numbers, addresses of what came before, and nested lists of them, which are
/// laid out one after the other.
Status Parser::parseInitializer(const Declaration &declaration,
                                std::byte *bytes) {
  unsigned width = getWidth(declaration.type);
  uint64_t next = 0;
  int depth = 0;
  do {
    if (tokens.take("{")) {
      ++depth;
      continue;
    }
    if (tokens.take("}")) {
      --depth;
      continue;
    }
    if (tokens.take(","))
      continue;
    bool isGeneric = tokens.take("generic");
    if (isGeneric)
      CLEAVE_RETURN_IF_ERROR(tokens.expect("("));
    bool isMinus = tokens.take("-");
    std::string_view word = tokens.peek().text;
    uint64_t bits = 0;
    if (auto symbol = globals.find(word); symbol != globals.end())
      bits = symbol->second.offset;
    else if (!parseNumber(word, isMinus, declaration.type, bits))
      return tokens.error("expects a number or a symbol");
    tokens.next();
    if (tokens.take("+")) {
      uint64_t offset;
      CLEAVE_RETURN_IF_ERROR(parseCount(tokens, offset));
      bits += offset;
    }
    if (isGeneric)
      CLEAVE_RETURN_IF_ERROR(tokens.expect(")"));
    if (next == declaration.elements)
      return tokens.error("expects at most " + std::to_string(next) +
                          " elements");
    std::memcpy(bytes + next++ * width, &bits, width);
  } while (depth > 0);
  return Status();
}

Status Parser::parseGlobal(Space space, bool isExternal) {
  Declaration declaration;
  CLEAVE_RETURN_IF_ERROR(parseDeclaration(declaration));
  Variable variable;
  variable.name = declaration.name;
  variable.space = space;
  variable.bytes = declaration.getBytes();
  variable.alignment = declaration.alignment;
  if (space == Space::Shared) {
    variable.base = declaration.isUnsized || isExternal ? Base::SharedDynamic
                                                        : Base::SharedModule;
    if (variable.base == Base::SharedDynamic) {
      module.dynamicSharedAlignment =
          std::max(module.dynamicSharedAlignment, variable.alignment);
    } else {
      variable.offset = alignUp(module.sharedBytes, variable.alignment);
      module.sharedBytes = variable.offset + variable.bytes;
    }
  } else if (isExternal) {
    return makeError(declaration.line, "\"" + variable.name +
                                           "\" is defined elsewhere, which is "
                                           "not supported");
  } else {
    // Aligned by hand, for any alignment.
    module.storage.push_back(
        std::make_unique<std::byte[]>(variable.bytes + variable.alignment));
    std::byte *raw = module.storage.back().get();
    variable.offset =
        alignUp(reinterpret_cast<uint64_t>(raw), variable.alignment);
    if (tokens.take("="))
      CLEAVE_RETURN_IF_ERROR(parseInitializer(
          declaration, reinterpret_cast<std::byte *>(variable.offset)));
  }
  globals[variable.name] = {space, variable.base, variable.offset};
  module.variables.push_back(variable);
  return tokens.expect(";");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Status Parser::parseParameters(Decoder &decoder, Function &function,
                               std::vector<Variable> &list) {
  CLEAVE_RETURN_IF_ERROR(tokens.expect("("));
  while (!tokens.take(")")) {
    if (!list.empty())
      CLEAVE_RETURN_IF_ERROR(tokens.expect(","));
    Declaration declaration;
    CLEAVE_RETURN_IF_ERROR(parseDeclaration(declaration));
    Variable variable;
    variable.name = declaration.name;
    variable.space = Space::Param;
    variable.bytes = declaration.getBytes();
    variable.alignment = declaration.alignment;
    variable.offset = alignUp(function.parameterSpaceBytes, variable.alignment);
    function.parameterSpaceBytes = variable.offset + variable.bytes;
    CLEAVE_RETURN_IF_ERROR(decoder.declareSymbol(
        declaration.name, {Space::Param, Base::Zero, variable.offset},
        declaration.line));
    list.push_back(std::move(variable));
  }
  return Status();
}

Status Parser::parseBounds(Function &function) {
  while (!tokens.is("{") && !tokens.is(";")) {
    std::string_view word = tokens.next().text;
    if (word == ".noreturn")
      continue;
    if (word == ".pragma" || word == ".abi_preserve") {
      tokens.next();
      tokens.take(";");
      continue;
    }
    std::array<uint64_t, 3> counts = {1, 1, 1};
    size_t next = 0;
    while (tokens.peek().isWord && !tokens.peek().text.starts_with(".")) {
      if (next == 3)
        return tokens.error("expects at most 3 numbers");
      CLEAVE_RETURN_IF_ERROR(parseCount(tokens, counts[next++]));
      tokens.take(",");
    }
    if (word == ".maxntid")
      function.maxThreads = uint32_t(counts[0] * counts[1] * counts[2]);
    else if (word == ".reqntid")
      for (size_t d = 0; d < 3; ++d)
        function.requiredThreads[d] = uint32_t(counts[d]);
    else if (word != ".minnctapersm" && word != ".maxnctapersm" &&
             word != ".maxnreg" && word != ".reqnctapercluster" &&
             word != ".maxclusterrank" && word != ".explicitcluster")
      return tokens.error("unknown directive \"" + std::string(word) + "\"");
  }
  return Status();
}

Status Parser::parseFunction(bool isKernel) {
  Function function;
  function.line = tokens.peek().line;
  function.isKernel = isKernel;
  Decoder decoder(module, function, globals);
  // Results lie behind the parameters, whose offsets are what callers know.
  size_t resultsAt = tokens.getPosition();
  bool hasResults = tokens.is("(");
  if (hasResults) {
    while (!tokens.take(")"))
      tokens.next();
  }
  function.name = tokens.next().text;
  if (tokens.is("("))
    CLEAVE_RETURN_IF_ERROR(
        parseParameters(decoder, function, function.parameters));
  function.parameterBytes = function.parameterSpaceBytes;
  if (hasResults) {
    size_t next = tokens.getPosition();
    tokens.setPosition(resultsAt);
    CLEAVE_RETURN_IF_ERROR(
        parseParameters(decoder, function, function.results));
    tokens.setPosition(next);
  }
  CLEAVE_RETURN_IF_ERROR(parseBounds(function));
  auto known = std::find_if(
      module.functions.begin(), module.functions.end(),
      [&](const Function &other) { return other.name == function.name; });
  if (known != module.functions.end() && known->isDefined && tokens.is("{"))
    return makeError(function.line,
                     "\"" + function.name + "\" is defined twice");
  // A function may call itself.
  size_t index = size_t(known - module.functions.begin());
  if (known == module.functions.end()) {
    module.functions.emplace_back();
    module.functions.back().name = function.name;
    module.functions.back().parameters = function.parameters;
    module.functions.back().results = function.results;
    module.functions.back().line = function.line;
  }
  if (tokens.take(";"))
    return Status();
  CLEAVE_RETURN_IF_ERROR(tokens.expect("{"));
  function.isDefined = true;
  CLEAVE_RETURN_IF_ERROR(parseBody(decoder, function));
  CLEAVE_RETURN_IF_ERROR(decoder.finish());
  module.functions[index] = std::move(function);
  return Status();
}

Status Parser::parseRegisters(Decoder &decoder) {
  uint32_t line = tokens.peek().line;
  Type type = parseType(tokens.next().text.substr(1));
  if (type == Type::None)
    return tokens.error("expects a type of registers before");
  do {
    std::string_view name = tokens.next().text;
    uint64_t count = 1;
    bool isRange = tokens.take("<");
    if (isRange) {
      CLEAVE_RETURN_IF_ERROR(parseCount(tokens, count));
      CLEAVE_RETURN_IF_ERROR(tokens.expect(">"));
    }
    CLEAVE_RETURN_IF_ERROR(
        decoder.declareRegisters(name, type, uint32_t(count), isRange, line));
  } while (tokens.take(","));
  return tokens.expect(";");
}

Status Parser::parseLocal(Decoder &decoder, Function &function, Space space) {
  Declaration declaration;
  CLEAVE_RETURN_IF_ERROR(parseDeclaration(declaration));
  size_t alignment = declaration.alignment, bytes = declaration.getBytes();
  Symbol symbol = {space, Base::Zero, 0};
  auto place = [&](size_t &total) {
    symbol.offset = alignUp(total, alignment);
    total = symbol.offset + bytes;
  };
  switch (space) {
  case Space::Local:
    symbol.base = Base::Frame;
    place(function.localBytes);
    break;
  case Space::Param:
    place(function.parameterSpaceBytes);
    break;
  case Space::Shared:
    symbol.base = function.isKernel ? Base::SharedKernel : Base::SharedModule;
    place(function.isKernel ? function.sharedBytes : module.sharedBytes);
    break;
  default:
    return makeError(declaration.line,
                     "expects a variable in .local, .shared or .param");
  }
  CLEAVE_RETURN_IF_ERROR(
      decoder.declareSymbol(declaration.name, symbol, declaration.line));
  return tokens.expect(";");
}

Status Parser::parseTargets(Decoder &decoder, std::string_view name) {
  std::vector<std::string_view> labels;
  do
    labels.push_back(tokens.next().text);
  while (tokens.take(","));
  decoder.declareTargets(name, std::move(labels));
  return tokens.expect(";");
}

void Parser::skipLine() {
  uint32_t line = tokens.peek().line;
  while (!tokens.peek().text.empty() && tokens.peek().line == line)
    tokens.next();
}

Status Parser::skipBraces() {
  while (!tokens.is("{") && !tokens.peek().text.empty())
    tokens.next();
  CLEAVE_RETURN_IF_ERROR(tokens.expect("{"));
  for (int depth = 1; depth > 0;) {
    if (tokens.peek().text.empty())
      return tokens.error("expects \"}\"");
    std::string_view word = tokens.next().text;
    depth += word == "{" ? 1 : word == "}" ? -1 : 0;
  }
  return Status();
}

Status Parser::parseBody(Decoder &decoder, Function &function) {
  for (int depth = 1;;) {
    Token token = tokens.peek();
    Space space;
    if (token.text.empty())
      return tokens.error("expects \"}\"");
    if (tokens.take("{")) {
      decoder.openScope();
      ++depth;
    } else if (tokens.take("}")) {
      if (--depth == 0)
        return Status();
      CLEAVE_RETURN_IF_ERROR(decoder.closeScope(token.line));
    } else if (tokens.take(".reg")) {
      CLEAVE_RETURN_IF_ERROR(parseRegisters(decoder));
    } else if (token.text == ".loc" || token.text == ".file") {
      skipLine();
    } else if (tokens.take(".pragma")) {
      tokens.next();
      CLEAVE_RETURN_IF_ERROR(tokens.expect(";"));
    } else if (parseSpace(token.text, space)) {
      tokens.next();
      CLEAVE_RETURN_IF_ERROR(parseLocal(decoder, function, space));
    } else if (token.isWord && tokens.peek(1).text == ":") {
      tokens.next();
      tokens.next();
      if (tokens.take(".branchtargets"))
        CLEAVE_RETURN_IF_ERROR(parseTargets(decoder, token.text));
      else
        CLEAVE_RETURN_IF_ERROR(decoder.declareLabel(token.text, token.line));
    } else {
      Statement statement;
      CLEAVE_RETURN_IF_ERROR(parseStatement(tokens, statement));
      CLEAVE_RETURN_IF_ERROR(decoder.decode(statement));
    }
  }
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

Status Parser::parse() {
  bool isExternal = false;
  while (!tokens.peek().text.empty()) {
    Token token = tokens.peek();
    Space space;
    if (token.text == ".version" || token.text == ".target" ||
        token.text == ".address_size" || token.text == ".file" ||
        token.text == ".loc") {
      skipLine();
      continue;
    }
    tokens.next();
    if (token.text == ".extern") {
      isExternal = true;
      continue;
    }
    if (token.text == ".visible" || token.text == ".weak" ||
        token.text == ".common")
      continue;
    if (token.text == ".entry" || token.text == ".func")
      CLEAVE_RETURN_IF_ERROR(parseFunction(token.text == ".entry"));
    else if (parseSpace(token.text, space))
      CLEAVE_RETURN_IF_ERROR(parseGlobal(space, isExternal));
    else if (token.text == ".section")
      CLEAVE_RETURN_IF_ERROR(skipBraces());
    else if (token.text != ";")
      return makeError(token.line,
                       "unknown directive \"" + std::string(token.text) + "\"");
    isExternal = false;
  }
  return Status();
}

Status Module::parse(std::string_view text, Module &module) {
  Module result;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    result.lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  Tokens tokens;
  CLEAVE_RETURN_IF_ERROR(Tokens::read(text, tokens));
  CLEAVE_RETURN_IF_ERROR(Parser(tokens, result).parse());
  module = std::move(result);
  return Status();
}

const Function *Module::findKernel(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name && function.isKernel && function.isDefined)
      return &function;
  return nullptr;
}

std::vector<std::string> Module::getKernels() const {
  std::vector<std::string> names;
  for (const Function &function : functions)
    if (function.isKernel && function.isDefined)
      names.push_back(function.name);
  return names;
}

std::string Module::getLine(uint32_t line) const {
  if (line == 0 || line > lines.size())
    return "";
  std::string text = lines[line - 1];
  text = text.substr(0, text.find("//"));
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos)
    return "";
  text = text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}
