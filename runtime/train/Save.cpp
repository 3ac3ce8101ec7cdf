//===- Save.cpp -----------------------------------------------------------===//
#include "runtime/train/Save.h"
#include "runtime/base/Quote.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/train/Weights.h"
#include <algorithm>
#include <map>

using namespace cleave::runtime;
namespace fb = cleave::program;

std::vector<const fb::State *>
cleave::runtime::getSavedStates(const Program &program) {
  std::vector<const fb::State *> saved;
  for (size_t i = 0; i < getSize(program->states()); ++i) {
    const fb::State *state = program->states()->Get(flatbuffers::uoffset_t(i));
    if (!isFromCheckpoint(*state))
      continue;
    auto isSameBox = [&](const fb::State *other) {
      return toView(other->source()) == toView(state->source()) &&
             std::ranges::equal(toSpan(other->view()), toSpan(state->view())) &&
             std::ranges::equal(toSpan(other->starts()),
                                toSpan(state->starts())) &&
             std::ranges::equal(toSpan(other->logical()),
                                toSpan(state->logical()));
    };
    auto same = std::find_if(saved.begin(), saved.end(), isSameBox);
    if (same == saved.end())
      saved.push_back(state);
    else if ((*same)->dtype() != fb::DType::F32 &&
             state->dtype() == fb::DType::F32)
      *same = state;
  }
  return saved;
}

namespace {

/// The boxes that make up one tensor.
struct SavedTensor {
  std::string_view name;
  std::span<const uint64_t> shape;
  std::vector<const fb::State *> parts;
};

/// Size of each dim of a state's box in its view.
std::vector<uint64_t> getBoxSizes(const fb::State &state) {
  auto drop = toSpan(state.drop());
  auto logical = toSpan(state.logical());
  std::vector<uint64_t> sizes;
  for (size_t v = 0, d = 0; v < getSize(state.view()); ++v)
    sizes.push_back(std::ranges::find(drop, v) != drop.end() ? 1
                                                             : logical[d++]);
  return sizes;
}

/// Whether two boxes of the same view share an element.
bool overlap(const fb::State &a, const fb::State &b) {
  if (!std::ranges::equal(toSpan(a.view()), toSpan(b.view())))
    return false; // told by the number of elements
  std::vector<uint64_t> sizesA = getBoxSizes(a), sizesB = getBoxSizes(b);
  auto startsA = toSpan(a.starts()), startsB = toSpan(b.starts());
  for (size_t d = 0; d < sizesA.size(); ++d)
    if (startsA[d] + sizesA[d] <= startsB[d] ||
        startsB[d] + sizesB[d] <= startsA[d])
      return false;
  return true;
}

Status checkCovered(const SavedTensor &tensor) {
  auto fail = [&](const std::string &how) {
    return Status::error("checkpoint tensor " + quote(tensor.name) +
                         " cannot be saved: " + how);
  };
  uint64_t expected = 1, covered = 0;
  for (uint64_t size : tensor.shape)
    expected *= size;
  for (size_t i = 0; i < tensor.parts.size(); ++i) {
    const fb::State &part = *tensor.parts[i];
    if (!std::ranges::equal(toSpan(part.source_shape()), tensor.shape))
      return fail("the program's states give it two shapes");
    uint64_t elements = 1;
    for (uint64_t size : toSpan(part.logical()))
      elements *= size;
    covered += elements;
    for (size_t j = 0; j < i; ++j)
      if (overlap(part, *tensor.parts[j]))
        return fail("states " + quote(toView(part.name())) + " and " +
                    quote(toView(tensor.parts[j]->name())) + " overlap in it");
  }
  if (covered != expected)
    return fail("the program's states hold " + std::to_string(covered) +
                " of its " + std::to_string(expected) + " elements");
  return {};
}

} // namespace

Status cleave::runtime::makeCheckpointLayout(const Program &program,
                                             SafetensorsLayout &layout) {
  std::vector<SavedTensor> tensors;
  std::map<std::string_view, size_t> byName;
  for (const fb::State *state : getSavedStates(program)) {
    std::string_view source = toView(state->source());
    auto [it, isNew] = byName.emplace(source, tensors.size());
    if (isNew)
      tensors.push_back({source, toSpan(state->source_shape()), {}});
    tensors[it->second].parts.push_back(state);
  }
  if (tensors.empty())
    return Status::error("the program has no parameters to save");
  SafetensorsLayout result;
  for (const SavedTensor &tensor : tensors) {
    CLEAVE_RETURN_IF_ERROR(checkCovered(tensor));
    result.add(std::string(tensor.name), "F32",
               {tensor.shape.begin(), tensor.shape.end()});
  }
  layout = std::move(result);
  return {};
}

Status cleave::runtime::writeBox(const StateBox &box, fb::DType dtype,
                                 std::span<const std::byte> local,
                                 uint64_t begin, OutputFile &file) {
  Status status;
  std::vector<float> values;
  // Runs of bounded length, so that a conversion's buffer is.
  constexpr uint64_t piece = 1 << 20;
  for (uint64_t i = 0; i < box.getSize() && status.ok(); i += piece)
    box.forEachRun(
        i, std::min(box.getSize(), i + piece),
        [&](uint64_t first, uint64_t source, uint64_t stride, uint64_t count) {
          if (!status.ok())
            return;
          const float *data;
          if (dtype == fb::DType::F32) {
            data = reinterpret_cast<const float *>(local.data()) + first;
          } else {
            auto *in = reinterpret_cast<const uint16_t *>(local.data()) + first;
            values.resize(count);
            for (uint64_t k = 0; k < count; ++k)
              values[k] = cpu::fromBf16(in[k]);
            data = values.data();
          }
          if (stride == 1) {
            status = file.write(begin + source * 4, data, count * 4);
            return;
          }
          for (uint64_t k = 0; k < count && status.ok(); ++k)
            status = file.write(begin + (source + k * stride) * 4, data + k, 4);
        });
  return status;
}

Status cleave::runtime::openShared(Communicator &communicator,
                                   const std::string &path, uint64_t size,
                                   OutputFile &file) {
  bool isFirst = communicator.getRank() == 0;
  OutputFile result;
  Status status;
  if (isFirst)
    status = OutputFile::create(path, size, result);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  std::string temporary = result.getTemporaryPath();
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(temporary));
  if (!isFirst)
    status = OutputFile::join(temporary, result);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  file = std::move(result);
  return {};
}

Status cleave::runtime::commitShared(Communicator &communicator,
                                     const Status &mine, OutputFile &file) {
  bool isFirst = communicator.getRank() == 0;
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(mine.ok() && !isFirst ? file.sync() : mine));
  return communicator.agree(isFirst ? file.commit() : Status());
}

Status cleave::runtime::prepareSave(const Program &program,
                                    const std::string &folder) {
  SafetensorsLayout layout;
  CLEAVE_RETURN_IF_ERROR(makeCheckpointLayout(program, layout));
  CLEAVE_RETURN_IF_ERROR(createFolder(folder));
  OutputFile probe; // removed without having had its name
  return OutputFile::create(folder + "/model.safetensors", 0, probe);
}

Status cleave::runtime::saveCheckpoint(Executor &executor,
                                       const std::string &folder) {
  const Program &program = executor.getProgram();
  const Mesh &mesh = program.getMesh();
  Communicator &communicator = executor.getCommunicator();
  int rank = communicator.getRank();

  // 1. Rank 0 makes both files, under temporary names.
  SafetensorsLayout layout;
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(makeCheckpointLayout(program, layout)));
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(rank == 0 ? createFolder(folder) : Status()));
  OutputFile weights, config;
  std::string_view text = toView(program->model());
  CLEAVE_RETURN_IF_ERROR(openShared(communicator, folder + "/model.safetensors",
                                    layout.getFileSize(), weights));
  Status status;
  if (rank == 0) {
    std::string header = layout.getHeader();
    status = weights.write(0, header.data(), header.size());
    if (status.ok())
      status = OutputFile::create(folder + "/config.json", text.size(), config);
    if (status.ok())
      status = config.write(0, text.data(), text.size());
  }

  // 2. Each rank writes its parts.
  std::map<std::string, uint64_t, std::less<>> begins;
  for (const TensorInfo &tensor : layout.getTensors())
    begins[tensor.name] = tensor.begin;
  for (const fb::State *state : getSavedStates(program))
    if (status.ok() && isWriter(state->dims(), mesh, rank))
      status = writeBox(StateBox(*state, mesh, rank), state->dtype(),
                        executor.getBytes(*state),
                        begins.find(toView(state->source()))->second, weights);

  // 3. The weights get their name last: where they are, all is.
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(rank == 0 ? config.commit() : Status()));
  return commitShared(communicator, {}, weights);
}
