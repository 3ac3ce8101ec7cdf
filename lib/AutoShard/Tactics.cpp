//===- Tactics.cpp - What a person says of placements ---------------------===//
#include "cleave/AutoShard/Tactics.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

using namespace cleave;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static constexpr std::pair<llvm::StringLiteral, Keeps> kinds[] = {
    {"parameters", Keeps::Parameters},
    {"gradients", Keeps::Gradients},
    {"optimizer", Keeps::Optimizer},
    {"activations", Keeps::Activations}};

static std::string joinKinds() {
  std::string all;
  for (const auto &[name, kind] : kinds)
    all += (all.empty() ? "" : ", ") + name.str();
  return all;
}

namespace {
/// Reads one line, word by word.
class LineReader {
public:
  LineReader(llvm::StringRef line, Tactic &tactic)
      : rest(line.ltrim()), tactic(tactic) {}

  llvm::Error read() {
    while (true) {
      if (take("layers")) {
        if (llvm::Error error = readLayers())
          return error;
      } else if (rest.starts_with("\"")) {
        if (llvm::Error error = readPattern())
          return error;
      } else {
        break;
      }
      if (!take(":"))
        return fail("\":\" after what the tactic is for");
    }
    if (llvm::Error error = readTactic())
      return error;
    return rest.empty() ? llvm::Error::success() : fail("the end of the line");
  }

private:
  llvm::Error fail(const llvm::Twine &legal) {
    return llvm::createStringError(
        tactic.place + ": expects " + legal + ", got " +
        (rest.empty() ? "the end of the line" : "\"" + rest + "\""));
  }

  bool take(llvm::StringRef word) {
    llvm::StringRef next = rest;
    if (!next.consume_front(word) ||
        (llvm::isAlpha(word.back()) && !next.empty() &&
         (llvm::isAlnum(next.front()) || next.front() == '_')))
      return false;
    rest = next.ltrim();
    return true;
  }

  std::string takeWord() {
    llvm::StringRef word =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(word.size()).ltrim();
    return word.str();
  }

  /// A text in quotes.
  llvm::Error readText(std::string &text, const llvm::Twine &what) {
    size_t end = rest.starts_with("\"") ? rest.find('"', 1) : rest.npos;
    if (end == rest.npos || end == 1)
      return fail(what + " in quotes");
    text = rest.substr(1, end - 1).str();
    rest = rest.drop_front(end + 1).ltrim();
    return llvm::Error::success();
  }

  llvm::Error readLayers() {
    int64_t first = 0;
    if (rest.consumeInteger(10, first) || first < 0)
      return fail("a layer's number, from 0");
    int64_t last = first;
    rest = rest.ltrim();
    if (take("-")) {
      llvm::StringRef text = rest;
      if (rest.consumeInteger(10, last) || last < first) {
        rest = text;
        return fail("a layer's number, from " + llvm::Twine(first));
      }
      rest = rest.ltrim();
    }
    tactic.layers = {first, last};
    return llvm::Error::success();
  }

  llvm::Error readPattern() {
    std::string pattern;
    if (llvm::Error error = readText(pattern, "names of ops"))
      return error;
    if (auto glob = llvm::GlobPattern::create(pattern); !glob)
      return llvm::createStringError(tactic.place + ": \"" + pattern +
                                     "\": " + toString(glob.takeError()));
    tactic.patterns.push_back(std::move(pattern));
    return llvm::Error::success();
  }

  llvm::Error readAxes() {
    if (!take("over"))
      return fail("\"over\" and axes of the mesh");
    do {
      tactic.axes.push_back(takeWord());
      if (tactic.axes.back().empty())
        return fail("an axis of the mesh");
    } while (take(","));
    return llvm::Error::success();
  }

  llvm::Error readTactic() {
    tactic.forbids = take("never");
    if (take("split")) {
      if (!tactic.forbids && take("nothing")) {
        tactic.verb = Tactic::Verb::SplitNothingElse;
        return take("else") ? llvm::Error::success() : fail("\"else\"");
      }
      tactic.verb = Tactic::Verb::Split;
      if (llvm::Error error = readText(tactic.dim, "a dim's name"))
        return error;
      return readAxes();
    }
    if (take("keep")) {
      tactic.verb = Tactic::Verb::Keep;
      for (const auto &[name, kind] : kinds)
        if (take(name)) {
          tactic.keeps = kind;
          return readAxes();
        }
      return fail("one of " + joinKinds());
    }
    if (!tactic.forbids && take("pin")) {
      tactic.verb = Tactic::Verb::Pin;
      if (llvm::Error error = readPattern())
        return error;
      if (!take("to"))
        return fail("\"to\" and a placement");
      return readText(tactic.placement, "a placement");
    }
    return fail(tactic.forbids ? "split or keep"
                               : "split, keep, pin, never or layers");
  }

  llvm::StringRef rest;
  Tactic &tactic;
};
} // namespace

/// Without its comment.
static llvm::StringRef getCode(llvm::StringRef line) {
  bool isQuoted = false;
  for (auto [at, c] : llvm::enumerate(line)) {
    isQuoted ^= c == '"';
    if (c == '#' && !isQuoted)
      return line.take_front(at).trim();
  }
  return line.trim();
}

llvm::Expected<std::vector<Tactic>> cleave::parseTactics(llvm::StringRef text,
                                                         llvm::StringRef file) {
  std::vector<Tactic> tactics;
  for (unsigned number = 1; !text.empty(); ++number) {
    auto [line, rest] = text.split('\n');
    text = rest;
    llvm::StringRef code = getCode(line);
    if (code.empty())
      continue;
    Tactic tactic;
    tactic.text = code.str();
    tactic.line = number;
    tactic.place = (file + ":" + llvm::Twine(number)).str();
    if (llvm::Error error = LineReader(code, tactic).read())
      return error;
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

llvm::Expected<std::vector<Tactic>> cleave::loadTactics(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = loadText(path);
  if (!file)
    return file.takeError();
  return parseTactics((*file)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

namespace {
class Applier {
public:
  Applier(ShardingProblem &problem, bool allowsIdle)
      : problem(problem), allowsIdle(allowsIdle), used(problem.ops.size()) {}

  llvm::Expected<TacticEffect> apply(const Tactic &given);

private:
  using Test = llvm::function_ref<bool(const Strategy &)>;
  using AxisTest = llvm::function_ref<bool(const Strategy &, Axis)>;
  using OpTest = llvm::function_ref<bool(const PlacedOp &)>;
  using SplitTest =
      llvm::function_ref<bool(const PlacedOp &, const Strategy &, Axis)>;

  llvm::Expected<AxisList> readAxes() const;
  llvm::Expected<uint32_t> readDim() const;
  bool isInScope(const PlacedOp &op) const;
  bool isCalledSo(const PlacedOp &op) const;
  llvm::Error hold(const AxisList &axes, OpTest isMeant, SplitTest isSplit);
  llvm::Error split(const AxisList &axes);
  llvm::Error keep(const AxisList &axes);
  llvm::Error pin();
  void splitNothingElse();

  /// Leaves an op the strategies that pass; false, and nothing is done, if none
  /// does.
  bool narrow(size_t op, Test passes);
  void wish(size_t op, const AxisList &axes, AxisTest passes);
  llvm::Error demand(size_t op, const llvm::Twine &what, Test passes);
  llvm::Error fail(const llvm::Twine &message) const {
    return llvm::createStringError(tactic->place + ": " + message);
  }

  ShardingProblem &problem;
  bool allowsIdle;
  std::vector<AxisList> used;     ///< by op: axes that tactics have decided
  const Tactic *tactic = nullptr; ///< at hand
  TacticEffect effect;            ///< of it
};
} // namespace

llvm::Expected<AxisList> Applier::readAxes() const {
  AxisList axes;
  std::vector<std::string> legal;
  for (const MeshAxis &axis : problem.mesh.getAxes())
    legal.push_back(axis.name);
  for (const std::string &name : tactic->axes) {
    auto at = llvm::find(legal, name);
    if (at == legal.end())
      return fail("the mesh has no axis \"" + name + "\"; it has " +
                  llvm::join(legal, ", "));
    auto axis = Axis(at - legal.begin());
    // One rank has all of it.
    if (problem.mesh.getSize(axis) > 1)
      axes.push_back(axis);
  }
  return axes;
}

llvm::Expected<uint32_t> Applier::readDim() const {
  auto at = llvm::find(problem.dims, tactic->dim);
  if (at == problem.dims.end())
    return fail("no tensor has a dim \"" + tactic->dim + "\"; there are " +
                llvm::join(problem.dims, ", "));
  return uint32_t(1) << (at - problem.dims.begin());
}

bool Applier::isCalledSo(const PlacedOp &op) const {
  return llvm::all_of(tactic->patterns, [&](const std::string &pattern) {
    return llvm::cantFail(llvm::GlobPattern::create(pattern)).match(op.label);
  });
}

bool Applier::isInScope(const PlacedOp &op) const {
  return (!tactic->layers || (op.layer >= tactic->layers->first &&
                              op.layer <= tactic->layers->second)) &&
         isCalledSo(op);
}

bool Applier::narrow(size_t number, Test passes) {
  PlacedOp &op = problem.ops[number];
  std::vector<size_t> left;
  for (auto [strategy, each] : llvm::enumerate(op.strategies))
    if (passes(each))
      left.push_back(strategy);
  if (left.empty())
    return false;
  if (left.size() == op.strategies.size())
    return true;
  auto keepOnly = [&](auto &list) {
    std::vector<std::decay_t<decltype(list[0])>> kept;
    for (size_t strategy : left)
      kept.push_back(list[strategy]);
    list = std::move(kept);
  };
  keepOnly(op.strategies);
  keepOnly(op.seconds);
  op.heldBy = tactic->place + ", " + tactic->text;
  return true;
}

/// What an op does if it can: along each axis that passes.
void Applier::wish(size_t number, const AxisList &axes, AxisTest passes) {
  bool holds = false, isLeft = false;
  for (Axis axis : axes) {
    bool isPossible = llvm::any_of(
        problem.ops[number].strategies,
        [&](const Strategy &strategy) { return passes(strategy, axis); });
    if (!isPossible || !narrow(number, [&](const Strategy &strategy) {
          return passes(strategy, axis) ||
                 (tactic->verb == Tactic::Verb::Split &&
                  strategy.addsSums(axis));
        })) {
      isLeft = true;
      continue;
    }
    holds = true;
    if (!llvm::is_contained(used[number], axis))
      used[number].push_back(axis);
  }
  effect.ops += holds;
  effect.left += isLeft;
  if (isLeft && effect.left == 1)
    effect.firstLeft = problem.ops[number].name;
}

/// What it has to do.
llvm::Error Applier::demand(size_t number, const llvm::Twine &what,
                            Test passes) {
  ++effect.ops;
  if (narrow(number, passes))
    return llvm::Error::success();
  const PlacedOp &op = problem.ops[number];
  return fail(op.name + " " + what +
              (op.heldBy.empty() ? "" : " after " + op.heldBy));
}

/// Splits the ops that are meant, or forbids them to be split.
llvm::Error Applier::hold(const AxisList &axes, OpTest isMeant,
                          SplitTest isSplit) {
  if (axes.empty())
    return llvm::Error::success();
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (!isInScope(op) || !isMeant(op))
      continue;
    auto splitsIt = [&, &op = op](const Strategy &strategy, Axis axis) {
      return isSplit(op, strategy, axis);
    };
    if (!tactic->forbids) {
      wish(number, axes, splitsIt);
    } else if (llvm::Error error =
                   demand(number, "cannot do without it",
                          [&](const Strategy &strategy) {
                            return llvm::none_of(axes, [&](Axis axis) {
                              return splitsIt(strategy, axis);
                            });
                          })) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Applier::split(const AxisList &axes) {
  llvm::Expected<uint32_t> dim = readDim();
  if (!dim)
    return dim.takeError();
  return hold(
      axes,
      [&](const PlacedOp &op) {
        return llvm::any_of(op.dims,
                            [&](uint32_t dims) { return (dims & *dim) != 0; });
      },
      [&](const PlacedOp &op, const Strategy &strategy, Axis axis) {
        return (op.getSplitDims(strategy, axis) & *dim) != 0;
      });
}

llvm::Error Applier::keep(const AxisList &axes) {
  return hold(
      axes, [&](const PlacedOp &op) { return op.keeps == tactic->keeps; },
      [](const PlacedOp &, const Strategy &strategy, Axis axis) {
        return strategy.getKept().isSplitBy(axis);
      });
}

llvm::Error Applier::pin() {
  llvm::Expected<Placement> parsed =
      Placement::parse(problem.mesh, tactic->placement);
  if (!parsed)
    return fail(llvm::toString(parsed.takeError()));
  const Placement placement = dropSingleRankAxes(problem.mesh, *parsed);
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    // An op that computes, or that updates state; its gradients are called as
    // it is, and have other results.
    bool computes = op.keeps == Keeps::None || op.keeps == Keeps::Optimizer;
    if (!computes || op.phase == "backward" || op.results.empty() ||
        !isInScope(op))
      continue;
    if (llvm::Error error =
            demand(number, "cannot make its result in that placement",
                   [&](const Strategy &strategy) {
                     return strategy.placements.results.front() == placement;
                   }))
      return error;
    used[number].clear();
    for (unsigned axis = 0; axis != problem.mesh.getNumAxes(); ++axis)
      used[number].push_back(Axis(axis));
  }
  return llvm::Error::success();
}

void Applier::splitNothingElse() {
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (!isInScope(op))
      continue;
    auto countOthers = [&, &own = used[number]](const Strategy &strategy) {
      size_t others = 0;
      for (const AxisList &axes : strategy.axes)
        for (Axis axis : axes)
          others += !llvm::is_contained(own, axis);
      return others;
    };
    size_t least = countOthers(op.strategies[0]);
    for (const Strategy &strategy : op.strategies)
      least = std::min(least, countOthers(strategy));
    narrow(number, [&](const Strategy &strategy) {
      return countOthers(strategy) == least;
    });
    ++effect.ops;
  }
}

llvm::Expected<TacticEffect> Applier::apply(const Tactic &given) {
  tactic = &given;
  effect = {};
  llvm::Expected<AxisList> axes = readAxes();
  if (!axes)
    return axes.takeError();
  llvm::Error error = llvm::Error::success();
  switch (given.verb) {
  case Tactic::Verb::Split:
    error = split(*axes);
    break;
  case Tactic::Verb::Keep:
    error = keep(*axes);
    break;
  case Tactic::Verb::Pin:
    error = pin();
    break;
  case Tactic::Verb::SplitNothingElse:
    splitNothingElse();
    break;
  }
  if (error)
    return error;
  bool isIdle = !given.axes.empty() && axes->empty();
  if (effect.ops == 0 && !isIdle && !allowsIdle)
    return fail(effect.left == 0
                    ? "is for no op"
                    : llvm::formatv("no op can keep to it: {0} of them, {1} "
                                    "the first",
                                    effect.left, effect.firstLeft)
                          .str());
  return effect;
}

llvm::Expected<std::vector<TacticEffect>>
cleave::applyTactics(ShardingProblem &problem, llvm::ArrayRef<Tactic> tactics,
                     bool allowsIdle) {
  std::vector<TacticEffect> effects;
  Applier applier(problem, allowsIdle);
  for (const Tactic &tactic : tactics) {
    llvm::Expected<TacticEffect> effect = applier.apply(tactic);
    if (!effect)
      return effect.takeError();
    effects.push_back(std::move(*effect));
  }
  return effects;
}
