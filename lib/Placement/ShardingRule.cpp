//===- ShardingRule.cpp - How the placements of an op hang together -------===//
#include "cleave/Placement/ShardingRule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

static StringRef getName(Reduction reduction) {
  return reduction == Reduction::Sum ? "sum" : "max";
}

static bool contains(const TensorFactors &tensor, Factor factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// True if some result is a reduction over `factor`.
static bool isReduced(const ShardingRule &rule, Factor factor) {
  return rule.factors[factor].reduction &&
         llvm::any_of(rule.results, [&](const TensorFactors &result) {
           return !contains(result, factor);
         });
}

//===----------------------------------------------------------------------===//
// The rule itself
//===----------------------------------------------------------------------===//

llvm::Error ShardingRule::verify() const {
  for (const FactorInfo &factor : factors)
    if (factor.size < 1)
      return llvm::createStringError(Twine("expects factor \"") + factor.name +
                                     "\" to have a size of at least 1, got " +
                                     Twine(factor.size));
  for (const TensorFactors &tensor :
       llvm::concat<const TensorFactors>(operands, results)) {
    llvm::SmallVector<bool, 8> seen(factors.size());
    for (const DimFactors &dim : tensor)
      for (Factor factor : dim) {
        if (factor >= factors.size())
          return llvm::createStringError(Twine("no factor number ") +
                                         Twine(factor));
        if (seen[factor])
          return llvm::createStringError(Twine("expects factor \"") +
                                         factors[factor].name +
                                         "\" at most once in a tensor");
        seen[factor] = true;
      }
  }
  for (auto [index, factor] : llvm::enumerate(factors)) {
    if (factor.reduction || !factor.blocked.empty())
      continue;
    for (auto [number, result] : llvm::enumerate(results))
      if (!contains(result, index))
        return llvm::createStringError(
            Twine("expects factor \"") + factor.name + "\", which result " +
            Twine(number) + " lacks, to be reduced or blocked");
  }
  auto verifyOperands = [&](ArrayRef<unsigned> list,
                            StringRef what) -> llvm::Error {
    if (list.empty())
      return llvm::createStringError(Twine("expects operands to ") + what);
    for (auto [index, operand] : llvm::enumerate(list)) {
      if (operand >= operands.size())
        return llvm::createStringError(Twine("no operand ") + Twine(operand) +
                                       " to " + what);
      if (index && list[index - 1] >= operand)
        return llvm::createStringError(Twine("expects the operands to ") +
                                       what + " in ascending order");
    }
    return llvm::Error::success();
  };
  for (const PassGroup &pass : passes)
    if (llvm::Error error = verifyOperands(pass.operands, "pass"))
      return error;
  if (addends.empty())
    return llvm::Error::success();
  if (llvm::Error error = verifyOperands(addends, "add"))
    return error;
  for (unsigned operand : addends)
    for (Factor factor = 0; factor < factors.size(); ++factor)
      if (isReduced(*this, factor) && contains(operands[operand], factor))
        return llvm::createStringError(
            Twine("expects operand ") + Twine(operand) +
            ", which is added outside of the reduction, not to have the "
            "reduced factor \"" +
            factors[factor].name + "\"");
  return llvm::Error::success();
}

std::optional<Factor> ShardingRule::getFactor(StringRef name) const {
  for (auto [index, factor] : llvm::enumerate(factors))
    if (factor.name == name)
      return static_cast<Factor>(index);
  return std::nullopt;
}

llvm::SmallVector<int64_t, 4>
ShardingRule::getShape(const TensorFactors &tensor) const {
  llvm::SmallVector<int64_t, 4> shape;
  for (const DimFactors &dim : tensor) {
    shape.push_back(1);
    for (Factor factor : dim)
      shape.back() *= factors[factor].size;
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// Between factors and placements
//===----------------------------------------------------------------------===//

llvm::Error cleave::checkFactorAxes(const Mesh &mesh, const ShardingRule &rule,
                                    const FactorAxes &factorAxes) {
  if (factorAxes.size() != rule.factors.size())
    return llvm::createStringError(Twine("expects axes for ") +
                                   Twine(rule.factors.size()) +
                                   " factors, got " + Twine(factorAxes.size()));
  llvm::SmallVector<const FactorInfo *, 8> owner(mesh.getNumAxes());
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, factorAxes)) {
    if (!axes.empty() && !factor.blocked.empty())
      return llvm::createStringError(
          Twine("factor \"") + factor.name + "\" cannot be split by " +
          mesh.toString(axes) + ": " + factor.blocked);
    for (Axis axis : axes) {
      if (axis >= mesh.getNumAxes())
        return llvm::createStringError(Twine("expects axes of a mesh with ") +
                                       Twine(mesh.getNumAxes()) +
                                       " axes, got axis number " + Twine(axis));
      if (owner[axis])
        return llvm::createStringError(
            Twine("expects axis \"") + mesh.getName(axis) +
            "\" to split one factor, got \"" + owner[axis]->name + "\" and \"" +
            factor.name + "\"");
      owner[axis] = &factor;
    }
    if (factor.size % mesh.getSize(axes))
      return llvm::createStringError(
          Twine("expects factor \"") + factor.name + "\" (size " +
          Twine(factor.size) + ") to be divisible by " + mesh.toString(axes) +
          " (size " + Twine(mesh.getSize(axes)) + ")");
  }
  for (const TensorFactors &tensor :
       llvm::concat<const TensorFactors>(rule.operands, rule.results))
    for (const DimFactors &dim : tensor)
      for (unsigned minor = 1; minor < dim.size(); ++minor) {
        Factor major = dim[minor - 1];
        if (mesh.getSize(factorAxes[dim[minor]]) > 1 &&
            mesh.getSize(factorAxes[major]) != rule.factors[major].size)
          return llvm::createStringError(
              Twine("expects factor \"") + rule.factors[major].name +
              "\" (size " + Twine(rule.factors[major].size) +
              ") to be split down to 1 by " + mesh.toString(factorAxes[major]) +
              ", since factor \"" + rule.factors[dim[minor]].name +
              "\" beside it is split by " +
              mesh.toString(factorAxes[dim[minor]]));
      }
  return llvm::Error::success();
}

/// Takes axes off the front of `axes` that fit in a factor of `size`: each
/// while what is left of the factor divides.
static AxisList takeAxes(const Mesh &mesh, ArrayRef<Axis> &axes, int64_t size) {
  AxisList taken;
  while (!axes.empty() && size % mesh.getSize(axes.front()) == 0) {
    size /= mesh.getSize(axes.front());
    taken.push_back(axes.front());
    axes = axes.drop_front();
  }
  return taken;
}

namespace {

/// Finds the axes of each factor from the placements of an op, and fails where
/// two of them disagree.
class FactorReader {
public:
  FactorReader(const Mesh &mesh, const ShardingRule &rule)
      : mesh(mesh), rule(rule), axes(rule.factors.size()),
        source(rule.factors.size()) {}

  /// Reads the dims of one factor, which leave no choice.
  llvm::Error readSingle(const TensorFactors &tensor,
                         const Placement &placement, const Twine &name) {
    for (auto [index, dim] : llvm::enumerate(tensor)) {
      const AxisList &found = placement.dims[index];
      if (dim.empty() && !found.empty())
        return llvm::createStringError(Twine("expects ") + name + " dim " +
                                       Twine(index) + " to be whole, got " +
                                       mesh.toString(found));
      if (dim.size() != 1)
        continue;
      if (llvm::Error error = read(dim[0], found, name, index))
        return error;
    }
    return llvm::Error::success();
  }

  /// Reads the compound dims: factors that are known take their axes, others
  /// what fits in them.
  llvm::Error readCompound(const TensorFactors &tensor,
                           const Placement &placement, const Twine &name) {
    for (auto [index, dim] : llvm::enumerate(tensor)) {
      if (dim.size() < 2)
        continue;
      ArrayRef<Axis> rest = placement.dims[index];
      for (Factor factor : dim) {
        AxisList part;
        if (source[factor].empty())
          part = takeAxes(mesh, rest, rule.factors[factor].size);
        else {
          part.assign(rest.take_front(axes[factor].size()).begin(),
                      rest.take_front(axes[factor].size()).end());
          rest = rest.drop_front(part.size());
        }
        if (llvm::Error error = read(factor, part, name, index))
          return error;
      }
      if (!rest.empty())
        return llvm::createStringError(
            Twine("expects ") + name + " dim " + Twine(index) +
            " to be split by axes that its factors have, got also " +
            mesh.toString(rest));
    }
    return llvm::Error::success();
  }

  const FactorAxes &getAxes() const { return axes; }

private:
  llvm::Error read(Factor factor, const AxisList &found, const Twine &name,
                   unsigned dim) {
    std::string here = (name + " dim " + Twine(dim)).str();
    if (source[factor].empty()) {
      axes[factor] = found;
      source[factor] = here;
    } else if (axes[factor] != found)
      return llvm::createStringError(
          Twine("expects ") + here + " to be split by " +
          mesh.toString(axes[factor]) + " over factor \"" +
          rule.factors[factor].name + "\", as " + source[factor] + " is, got " +
          mesh.toString(found));
    return llvm::Error::success();
  }

  const Mesh &mesh;
  const ShardingRule &rule;
  FactorAxes axes;
  /// Where a factor's axes were read; empty until then.
  llvm::SmallVector<std::string, 8> source;
};

} // namespace

llvm::Expected<FactorAxes> cleave::getFactorAxes(const Mesh &mesh,
                                                 const ShardingRule &rule,
                                                 const TensorFactors &tensor,
                                                 const Placement &placement) {
  if (tensor.size() != placement.dims.size())
    return llvm::createStringError(
        Twine("expects a placement for a tensor of rank ") +
        Twine(tensor.size()) + ", got " + placement.toString(mesh));
  FactorReader reader(mesh, rule);
  if (llvm::Error error = reader.readSingle(tensor, placement, "tensor"))
    return error;
  if (llvm::Error error = reader.readCompound(tensor, placement, "tensor"))
    return error;
  return reader.getAxes();
}

Placement cleave::getPlacement(const TensorFactors &tensor,
                               const FactorAxes &factorAxes) {
  Placement placement = Placement::getReplicated(tensor.size());
  for (auto [axes, dim] : llvm::zip_equal(placement.dims, tensor))
    for (Factor factor : dim)
      llvm::append_range(axes, factorAxes[factor]);
  return placement;
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

/// The factor that `axis` splits.
static std::optional<Factor> getFactorOf(const FactorAxes &factorAxes,
                                         Axis axis) {
  for (auto [factor, axes] : llvm::enumerate(factorAxes))
    if (llvm::is_contained(axes, axis))
      return static_cast<Factor>(factor);
  return std::nullopt;
}

static const PassGroup *findPass(const ShardingRule &rule,
                                 ArrayRef<unsigned> operands) {
  auto *pass = llvm::find_if(rule.passes, [&](const PassGroup &pass) {
    return ArrayRef(pass.operands) == operands;
  });
  return pass == rule.passes.end() ? nullptr : pass;
}

/// Parts 2 to 4 of checkRule along one axis.
static llvm::Error checkAxis(const Mesh &mesh, const ShardingRule &rule,
                             std::optional<Factor> factor, Axis axis,
                             ArrayRef<Placement> operands,
                             ArrayRef<Placement> results) {
  std::string quoted = ("axis \"" + mesh.getName(axis) + "\"").str();
  llvm::SmallVector<unsigned, 4> partial;
  for (auto [index, operand] : llvm::enumerate(operands))
    if (operand.isPartialOver(axis))
      partial.push_back(index);

  // What makes results partial along this axis: the reduction and why.
  std::optional<Reduction> reduction;
  std::string why;
  if (factor) {
    why = ", which splits factor \"" + rule.factors[*factor].name + "\"";
    bool reduced = isReduced(rule, *factor);
    if (reduced)
      reduction = rule.factors[*factor].reduction;
    for (unsigned operand = 0; operand < operands.size(); ++operand) {
      bool want = reduced && llvm::is_contained(rule.addends, operand);
      if (want != llvm::is_contained(partial, operand))
        return llvm::createStringError(
            Twine("expects operand ") + Twine(operand) +
            (want ? " to be partial over " : " not to be partial over ") +
            quoted + why + (want ? ": each rank adds it" : ""));
    }
  } else if (!partial.empty()) {
    const PassGroup *pass = findPass(rule, partial);
    std::string list = llvm::join(
        llvm::map_range(partial, [](unsigned i) { return std::to_string(i); }),
        ", ");
    if (!pass)
      return llvm::createStringError(
          Twine("the op does not let operands partial over ") + quoted +
          " pass if they are just {" + list + "}");
    reduction = pass->reduction;
    why = ", as operands {" + list + "} are";
  }
  for (unsigned operand : partial)
    if (operands[operand].reduction != *reduction)
      return llvm::createStringError(
          Twine("expects operand ") + Twine(operand) + " partial over " +
          quoted + " by " + getName(*reduction) + ", got " +
          getName(operands[operand].reduction));

  for (auto [index, result] : llvm::enumerate(results)) {
    bool want =
        reduction && !(factor && contains(rule.results[index], *factor));
    if (want != result.isPartialOver(axis))
      return llvm::createStringError(
          Twine("expects result ") + Twine(index) +
          (want ? " to be partial over " : " not to be partial over ") +
          quoted + why);
    if (want && result.reduction != *reduction)
      return llvm::createStringError(
          Twine("expects result ") + Twine(index) + " partial over " + quoted +
          " by " + getName(*reduction) + ", got " + getName(result.reduction));
  }
  return llvm::Error::success();
}

/// As many placements as tensors, each with as many dims.
static llvm::Error checkRanks(ArrayRef<TensorFactors> tensors,
                              ArrayRef<Placement> placements, StringRef kind) {
  if (tensors.size() != placements.size())
    return llvm::createStringError(Twine("expects ") + Twine(tensors.size()) +
                                   " placements of " + kind + "s, got " +
                                   Twine(placements.size()));
  for (auto [index, tensor, placement] : llvm::enumerate(tensors, placements))
    if (tensor.size() != placement.dims.size())
      return llvm::createStringError(
          Twine("expects ") + kind + " " + Twine(index) + " to have " +
          Twine(tensor.size()) + " dims, got " + Twine(placement.dims.size()));
  return llvm::Error::success();
}

llvm::Error cleave::checkRule(const Mesh &mesh, const ShardingRule &rule,
                              ArrayRef<Placement> operands,
                              ArrayRef<Placement> results) {
  if (llvm::Error error = checkRanks(rule.operands, operands, "operand"))
    return error;
  if (llvm::Error error = checkRanks(rule.results, results, "result"))
    return error;

  FactorReader reader(mesh, rule);
  auto readAll = [&](auto method) -> llvm::Error {
    for (auto [index, tensor] : llvm::enumerate(rule.operands))
      if (llvm::Error error = (reader.*method)(
              tensor, operands[index], Twine("operand ") + Twine(index)))
        return error;
    for (auto [index, tensor] : llvm::enumerate(rule.results))
      if (llvm::Error error = (reader.*method)(tensor, results[index],
                                               Twine("result ") + Twine(index)))
        return error;
    return llvm::Error::success();
  };
  if (llvm::Error error = readAll(&FactorReader::readSingle))
    return error;
  if (llvm::Error error = readAll(&FactorReader::readCompound))
    return error;
  if (llvm::Error error = checkFactorAxes(mesh, rule, reader.getAxes()))
    return error;

  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (llvm::Error error =
            checkAxis(mesh, rule, getFactorOf(reader.getAxes(), axis), axis,
                      operands, results))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

llvm::Expected<RulePlacements>
cleave::inferPlacements(const Mesh &mesh, const ShardingRule &rule,
                        const FactorAxes &factorAxes,
                        ArrayRef<Placement> operands) {
  if (llvm::Error error = checkRanks(rule.operands, operands, "operand"))
    return error;
  if (llvm::Error error = checkFactorAxes(mesh, rule, factorAxes))
    return error;

  RulePlacements answer;
  for (const TensorFactors &tensor : rule.operands)
    answer.operands.push_back(getPlacement(tensor, factorAxes));
  for (const TensorFactors &tensor : rule.results)
    answer.results.push_back(getPlacement(tensor, factorAxes));

  auto makePartial = [&](Placement &placement, Axis axis,
                         Reduction reduction) -> llvm::Error {
    if (placement.isPartial() && placement.reduction != reduction)
      return llvm::createStringError(
          "the op would give a value that is partial by sum and by max");
    placement.partial.push_back(axis);
    placement.reduction = reduction;
    return llvm::Error::success();
  };
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis) {
    std::optional<Factor> factor = getFactorOf(factorAxes, axis);
    ArrayRef<unsigned> partial;
    Reduction reduction = Reduction::Sum;
    if (factor) {
      if (!isReduced(rule, *factor))
        continue;
      reduction = *rule.factors[*factor].reduction;
      partial = rule.addends;
      for (unsigned operand : partial)
        if (!operands[operand].isPartialOver(axis) ||
            operands[operand].reduction != reduction)
          return llvm::createStringError(
              Twine("factor \"") + rule.factors[*factor].name +
              "\" cannot be split by axis \"" + mesh.getName(axis) +
              "\": operand " + Twine(operand) +
              " is added outside of the reduction and is not partial");
    } else {
      auto *pass = llvm::find_if(rule.passes, [&](const PassGroup &pass) {
        return llvm::all_of(pass.operands, [&](unsigned operand) {
          return operands[operand].isPartialOver(axis) &&
                 operands[operand].reduction == pass.reduction;
        });
      });
      if (pass == rule.passes.end())
        continue;
      partial = pass->operands;
      reduction = pass->reduction;
    }
    for (unsigned operand : partial)
      if (llvm::Error error =
              makePartial(answer.operands[operand], axis, reduction))
        return error;
    for (auto [placement, tensor] :
         llvm::zip_equal(answer.results, rule.results))
      if (!factor || !contains(tensor, *factor))
        if (llvm::Error error = makePartial(placement, axis, reduction))
          return error;
  }
  return answer;
}
