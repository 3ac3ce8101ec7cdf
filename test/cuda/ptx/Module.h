//===- Module.h - PTX, decoded --------------------------------------------===//
//
// What the parser makes of a text and the interpreter runs. A function's
// registers lie in one file of bytes, 32 lanes side by side for each, so that
// an operand is an offset into that file. Immediates, addresses of symbols and
// special registers lie there, too: they are written when a warp starts, and
// no instruction has to know where its operands come from.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_MODULE_H
#define CLEAVE_TEST_CUDA_PTX_MODULE_H

#include "runtime/base/Status.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::ptx {

using runtime::Status;

constexpr unsigned warpSize = 32;
constexpr uint32_t allLanes = ~uint32_t(0);
constexpr uint32_t none = ~uint32_t(0);

/// Registers start at multiples of this; an offset over it is a register's
/// number.
constexpr uint32_t registerAlignment = 64;

/// The windows of generic addresses that are not those of global memory.
constexpr uint64_t sharedWindow = 0x00fe'0000'0000'0000;
constexpr uint64_t localWindow = 0x00fd'0000'0000'0000;
constexpr uint64_t paramWindow = 0x00fc'0000'0000'0000;
constexpr uint64_t windowBytes = uint64_t(1) << 40;
/// Shared memory starts here, so that a null pointer into it is found.
constexpr uint64_t sharedStart = 1024;
/// Local memory likewise; the address of a frame's first byte is a multiple of
/// this.
constexpr uint64_t localStart = 256;

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F64,
  TF32,
};

/// By its name without the dot; None where it is no type.
Type parseType(std::string_view name);
/// Bytes of one element; 0 for a predicate.
unsigned getWidth(Type type);
bool isSigned(Type type);
bool isFloat(Type type);

enum class Space : uint8_t { Generic, Global, Shared, Const, Local, Param };

enum class Rounding : uint8_t {
  Nearest,         ///< ties to even
  NearestTiesAway, ///< ties away from zero
  Zero,
  Down,
  Up,
};

enum class Atomic : uint8_t {
  Add,
  Min,
  Max,
  Increment,
  Decrement,
  And,
  Or,
  Xor,
  Exchange,
  CompareExchange,
};

/// How the interpreter runs an instruction.
enum class Kind : uint8_t {
  Compute, ///< lane by lane, by `compute`
  Convert,
  Branch,
  BranchIndex,
  Call,
  Return,
  Exit,
  Trap,
  Load,
  Store,
  Atomic,
  LoadMatrix,
  StoreMatrix,
  CopyAsync,
  CommitGroup,
  WaitGroup,
  Barrier,
  BarrierReduce,
  WarpBarrier,
  Shuffle,
  Vote,
  Match,
  Reduce,
  ActiveMask,
  Elect,
  Multiply, ///< of matrices
  IsSpace,
  Clock,
  Nothing, ///< what only orders or hints
};

enum class ShuffleMode : uint8_t { Up, Down, Butterfly, Index };
enum class VoteMode : uint8_t { All, Any, Uniform, Ballot };
enum class MatchMode : uint8_t { Any, All };
enum class ReduceMode : uint8_t { Add, Min, Max, And, Or, Xor, Count };
enum class BarrierMode : uint8_t { Sync, Arrive };

struct Instruction;

/// Computes all 32 lanes; those of `mask` are written.
using Compute = void (*)(std::byte *registers, const Instruction &instruction,
                         uint32_t mask);

struct Instruction {
  Kind kind = Kind::Nothing;
  Compute compute = nullptr;
  uint32_t line = 0;
  /// The predicate under which it is done.
  uint32_t guard = none;
  bool guardNegated = false;

  /// Registers: first those that are written, then those that are read.
  std::array<uint32_t, 16> operands = {};
  uint8_t written = 0, count = 0;

  /// What it does with types and memory.
  Type type = Type::None, sourceType = Type::None;
  uint8_t width = 0;         ///< bytes of an element
  uint8_t registerWidth = 0; ///< of the register of an element
  uint8_t sourceWidth = 0;   ///< of the source's register, or of an address
  uint8_t vector = 1;        ///< elements
  Space space = Space::Generic;
  Rounding rounding = Rounding::Nearest;
  uint8_t mode = 0;      ///< one of the enums above
  bool flush = false;    ///< .ftz
  bool saturate = false; ///< .sat
  bool relu = false;
  bool finite = false;    ///< .satfinite
  bool integral = false;  ///< .rni, .rzi, ...: to an integral value
  bool strong = false;    ///< volatile, relaxed, ...: may race with its like
  bool transpose = false; ///< ldmatrix .trans
  bool aligned = true;    ///< barriers: the whole warp does it
  /// Whether a lane that reads what nothing wrote has not been ruled out, and
  /// whether what it writes is looked at by such an instruction.
  bool checksReads = false, tracksWrites = false;
  /// Passes on what nothing wrote, as a move does.
  bool passesOn = false;
  /// A move of several registers into one, of which LLVM leaves out those that
  /// nobody will look at: unwritten only where all of them are.
  bool packs = false;

  int64_t offset = 0;     ///< of an address; or a number of its own
  uint32_t target = none; ///< of a branch; or a function's number
  /// Where lanes that a branch separates meet: their paths' first common
  /// instruction; `none` where they meet at the end of the function.
  uint32_t meeting = none;
  /// Of brx.idx, or a call's variables in the caller's parameter space.
  std::vector<uint32_t> table;
};

/// What an address is counted from. Shared memory has three parts, one behind
/// the other: the kernel's own variables, the module's, and what the launch
/// adds.
enum class Base : uint8_t {
  Zero,
  Frame, ///< of local memory
  SharedKernel,
  SharedModule,
  SharedDynamic,
};

/// A variable or parameter in memory.
struct Variable {
  std::string name;
  Space space;
  size_t bytes = 0, alignment = 1;
  Base base = Base::Zero;
  uint64_t offset = 0; ///< from its base, or in parameter space
};

/// A register that is written when a warp starts.
struct Constant {
  uint32_t offset;
  uint8_t width;
  uint64_t value;
  Base base = Base::Zero;
};

enum class Special : uint8_t {
  ThreadX,
  ThreadY,
  ThreadZ,
  BlockDimX,
  BlockDimY,
  BlockDimZ,
  BlockX,
  BlockY,
  BlockZ,
  GridX,
  GridY,
  GridZ,
  Lane,
  Warp,
  Warps,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  Multiprocessor,
  DynamicShared,
  TotalShared,
  Zero,
  One,
};

struct SpecialRegister {
  uint32_t offset;
  uint8_t width;
  Special special;
};

struct Function {
  std::string name;
  uint32_t line = 0;
  bool isKernel = false, isDefined = false;
  /// In order; each at `offset` of the bytes that a launch passes.
  std::vector<Variable> parameters;
  /// The result of a called function, after the parameters; or none.
  std::vector<Variable> results;
  /// Bytes of the parameters alone, and of all of parameter space.
  size_t parameterBytes = 0, parameterSpaceBytes = 0;
  size_t localBytes = 0, sharedBytes = 0;
  uint32_t registerBytes = 0;
  std::vector<Instruction> code;
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  /// Registers that may be read where nothing wrote them.
  std::vector<uint32_t> suspects;
  std::array<uint32_t, 3> requiredThreads = {};
  uint32_t maxThreads = 0; ///< 0 where there is no limit
};

class Module {
public:
  /// Reads a whole text. An error names the line and what is wrong there.
  static Status parse(std::string_view text, Module &module);

  /// Null where there is none.
  const Function *findKernel(std::string_view name) const;
  std::vector<std::string> getKernels() const;

  /// A line of the text, without spaces around it.
  std::string getLine(uint32_t line) const;

  std::vector<Function> functions;
  /// Of module scope. Global and constant ones live as long as the module does,
  /// and their addresses are those of their bytes in this process.
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<std::byte[]>> storage;
  size_t sharedBytes = 0;
  size_t dynamicSharedAlignment = 16;

private:
  std::vector<std::string> lines;
};

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_MODULE_H
