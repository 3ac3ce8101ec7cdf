//===- VerifyValues.cpp - States and outputs ------------------------------===//
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <cmath>
#include <unordered_set>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// What a state and an output have in common.
struct Placed {
  fb::DType dtype;
  std::span<const uint64_t> shape, logical;
  const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims;
  std::span<const uint8_t> partial;
  const fb::Operand *operand;
};

std::string format(std::span<const uint64_t> list) {
  std::string text = "[";
  for (uint64_t value : list)
    text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "]";
}

/// Shapes, placement and the arena's range. Messages follow "<label> ".
Status verifyPlaced(const Stage &stage, const Placed &value,
                    const std::string &label) {
  const fb::Program &program = stage.getProgram();
  auto bad = [&](const std::string &how) {
    return Status::error(label + " " + how);
  };
  if (value.dtype > fb::DType::MAX)
    return bad("has element type " + std::to_string(int(value.dtype)) +
               ", expects 0 to " + std::to_string(int(fb::DType::MAX)));
  if (value.logical.size() != value.shape.size() ||
      getSize(value.dims) != value.shape.size())
    return bad("has shape " + format(value.shape) + ", logical shape " +
               format(value.logical) + " and a placement of " +
               std::to_string(getSize(value.dims)) +
               " dims, expects as many of each");
  // Stages hold different values, not parts of one.
  uint32_t used =
      program.stage_axis() < 0 ? 0 : uint32_t(1) << program.stage_axis();
  auto takeAxis = [&](uint8_t axis) {
    bool fresh = axis < getSize(program.axes()) && !(used >> axis & 1);
    if (fresh)
      used |= uint32_t(1) << axis;
    return fresh;
  };
  std::vector<uint64_t> local;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    if (value.logical[d] < 1 || value.logical[d] > value.shape[d])
      return bad("has logical shape " + format(value.logical) +
                 " in the shape " + format(value.shape) +
                 ", expects 1 to the size of each dim");
    uint64_t shards = 1;
    for (uint8_t axis :
         toSpan(value.dims->Get(flatbuffers::uoffset_t(d))->axes())) {
      if (!takeAxis(axis))
        return bad("has dim " + std::to_string(d) + " split by axis " +
                   std::to_string(axis) +
                   ", expects each mesh axis once, but none of the stages");
      shards *= program.axes()->Get(axis)->size();
    }
    if (value.shape[d] % shards != 0)
      return bad("has dim " + std::to_string(d) + " (size " +
                 std::to_string(value.shape[d]) +
                 "), expects a multiple of its " + std::to_string(shards) +
                 " shards");
    local.push_back(value.shape[d] / shards);
  }
  for (uint8_t axis : value.partial)
    if (!takeAxis(axis))
      return bad("is partial over axis " + std::to_string(axis) +
                 ", expects each mesh axis once, but none of the stages");
  if (!value.partial.empty() && value.dtype == fb::DType::I32)
    return bad("is partial, expects an element type that is a float");
  local.push_back(getBytes(value.dtype));
  auto bytes = multiplyAll(local);
  if (!value.operand)
    return bad("has no operand");
  if (!bytes || value.operand->bytes() != *bytes)
    return bad("has " + std::to_string(value.operand->bytes()) +
               " bytes on a rank, expects " +
               (bytes ? std::to_string(*bytes) : "fewer than 2^64") +
               " for the shape " + format(value.shape));
  auto whole = multiplyAll(value.shape);
  if (!whole || *whole > limits::arenaBytes)
    return bad("has shape " + format(value.shape) + ", expects at most " +
               std::to_string(limits::arenaBytes) + " elements");
  return verifyPlaces(stage, *value.operand, label + " is");
}

/// The box of the checkpoint tensor that a state is.
Status verifySource(const fb::State &state, const std::string &label) {
  auto bad = [&](const std::string &how) {
    return Status::error(label + " " + how);
  };
  auto source = toSpan(state.source_shape()), view = toSpan(state.view()),
       starts = toSpan(state.starts()), logical = toSpan(state.logical());
  auto drop = toSpan(state.drop());
  auto elements = multiplyAll(source);
  if (!elements || *elements > limits::arenaBytes ||
      multiplyAll(view) != elements)
    return bad("is a part of the checkpoint tensor " + format(source) +
               " seen as " + format(view) +
               ", expects as many elements in both");
  if (starts.size() != view.size())
    return bad("starts at " + format(starts) + " of the view " + format(view) +
               ", expects as many dims in both");
  std::vector<bool> dropped(view.size());
  for (uint8_t dim : drop) {
    if (dim >= view.size() || dropped[dim])
      return bad("drops dim " + std::to_string(dim) + " of the view " +
                 format(view) + ", expects each of its dims at most once");
    dropped[dim] = true;
  }
  if (logical.size() != view.size() - drop.size())
    return bad("has logical shape " + format(logical) + " and drops " +
               std::to_string(drop.size()) + " dims of the view " +
               format(view) + ", expects as many dims in both");
  for (size_t v = 0, d = 0; v < view.size(); ++v) {
    uint64_t size = dropped[v] ? 1 : logical[d++];
    if (size > view[v] || starts[v] > view[v] - size)
      return bad("is the box at " + format(starts) + " of shape " +
                 format(logical) + ", expects one inside the view " +
                 format(view));
  }
  return {};
}

bool isRole(std::string_view role) {
  return role == "parameter" || role == "moment1" || role == "moment2" ||
         role == "constant" || role == "copy";
}

/// A copy is of a parameter that has the same elements where it has them.
Status verifyCopy(const Stage &stage, const fb::State &state,
                  const std::string &label) {
  std::string_view of = toView(state.of());
  if ((toView(state.role()) == "copy") == of.empty())
    return Status::error(
        label + (of.empty() ? " is a copy of nothing"
                            : " is of " + quote(of) + ", but is no copy"));
  if (of.empty())
    return {};
  const fb::State *parameter = stage.findState(of, "parameter");
  if (!parameter)
    return Status::error(label + " is a copy of parameter " + quote(of) +
                         ", which does not exist");
  auto isSame = [](auto a, auto b) { return std::ranges::equal(a, b); };
  bool fits = state.dtype() == fb::DType::BF16 &&
              parameter->dtype() == fb::DType::F32 &&
              isSame(toSpan(state.shape()), toSpan(parameter->shape())) &&
              isSame(toSpan(state.logical()), toSpan(parameter->logical()));
  for (size_t d = 0; fits && d < getSize(state.dims()); ++d) {
    auto at = flatbuffers::uoffset_t(d);
    fits = isSame(toSpan(state.dims()->Get(at)->axes()),
                  toSpan(parameter->dims()->Get(at)->axes()));
  }
  return fits ? Status()
              : Status::error(label + " is a copy of " + quote(of) +
                              ", expects its shape and placement, and bf16 "
                              "where that is f32");
}

Status verifyInit(const fb::State &state, const std::string &label) {
  auto bad = [&](const std::string &how) {
    return Status::error(label + " " + how);
  };
  if (state.init() > fb::InitKind::MAX)
    return bad("has initialization " + std::to_string(int(state.init())) +
               ", expects 0 to " + std::to_string(int(fb::InitKind::MAX)));
  if (!std::isfinite(state.init_scale()))
    return bad("has an initialization scale that is not a number");
  bool rope = state.init() == fb::InitKind::RopeCos ||
              state.init() == fb::InitKind::RopeSin;
  if (rope && getSize(state.init_table()) == 0)
    return bad("has no frequencies in init_table");
  for (float frequency : toSpan(state.init_table()))
    if (!std::isfinite(frequency))
      return bad("has a frequency that is not a number");
  if (state.init() != fb::InitKind::Zeros && state.dtype() == fb::DType::I32)
    return bad("is of integers, expects to start as zeros");
  return {};
}

Status verifyState(const Stage &stage, const fb::State &state, size_t index) {
  std::string label = "state " + std::to_string(index);
  if (toView(state.name()).empty())
    return Status::error(label + " has no name");
  label += " " + quote(toView(state.name()));
  if (!isRole(toView(state.role())))
    return Status::error(label + " has role " + quote(toView(state.role())) +
                         ", expects parameter, moment1, moment2, constant or "
                         "copy");
  Placed placed{state.dtype(),
                toSpan(state.shape()),
                toSpan(state.logical()),
                state.dims(),
                {},
                state.operand()};
  CLEAVE_RETURN_IF_ERROR(verifyPlaced(stage, placed, label));
  if (state.operand()->places() != 0)
    return Status::error(label + " has " +
                         std::to_string(state.operand()->places()) +
                         " places, expects 0: it is of no micro-batch");
  if (!toView(state.source()).empty())
    CLEAVE_RETURN_IF_ERROR(verifySource(state, label));
  CLEAVE_RETURN_IF_ERROR(verifyCopy(stage, state, label));
  return verifyInit(state, label);
}

} // namespace

Status cleave::runtime::verifyStates(const Stage &stage) {
  std::unordered_set<std::string> names;
  std::vector<const fb::State *> byOffset;
  for (size_t i = 0; i < getSize(stage->states()); ++i) {
    const fb::State *state = stage->states()->Get(flatbuffers::uoffset_t(i));
    CLEAVE_RETURN_IF_ERROR(verifyState(stage, *state, i));
    if (!names
             .insert(std::string(toView(state->role())) + ":" +
                     std::string(toView(state->name())))
             .second)
      return Status::error("state " + std::to_string(i) + " is a second " +
                           quote(toView(state->name())) + " of role " +
                           quote(toView(state->role())));
    byOffset.push_back(state);
  }
  std::sort(byOffset.begin(), byOffset.end(),
            [](const fb::State *a, const fb::State *b) {
              return a->operand()->offset() < b->operand()->offset();
            });
  for (size_t i = 1; i < byOffset.size(); ++i) {
    const fb::Operand &before = *byOffset[i - 1]->operand();
    if (before.offset() + before.bytes() > byOffset[i]->operand()->offset())
      return Status::error("states " + quote(toView(byOffset[i - 1]->name())) +
                           " and " + quote(toView(byOffset[i]->name())) +
                           " overlap in the arena");
  }
  return {};
}

Status cleave::runtime::verifyOutputs(const Stage &stage) {
  std::unordered_set<std::string_view> states, names;
  for (size_t i = 0; i < getSize(stage->states()); ++i)
    states.insert(
        toView(stage->states()->Get(flatbuffers::uoffset_t(i))->name()));
  for (size_t i = 0; i < getSize(stage->outputs()); ++i) {
    const fb::Output *output = stage->outputs()->Get(flatbuffers::uoffset_t(i));
    std::string label = "output " + std::to_string(i);
    std::string_view name = toView(output->name());
    if (name.empty() || !names.insert(name).second)
      return Status::error(label + " is named " + quote(name) +
                           ", expects a name of its own");
    label += " " + quote(name);
    Placed placed{output->dtype(),           toSpan(output->shape()),
                  toSpan(output->logical()), output->dims(),
                  toSpan(output->partial()), output->operand()};
    CLEAVE_RETURN_IF_ERROR(verifyPlaced(stage, placed, label));
    std::string_view state = toView(output->state());
    if (!state.empty() && !states.contains(state))
      return Status::error(label + " has the layout of state " + quote(state) +
                           ", which does not exist");
  }
  return {};
}
